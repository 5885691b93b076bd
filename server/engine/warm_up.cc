#include "server/engine/warm_up.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "server/engine/engine.h"
#include "server/engine/parts.h"
#include "server/engine/request_lines.h"

namespace beamwright::engine {
namespace {

// Of made-up sources and their answers.
constexpr int64_t kSourceLength = 5;
constexpr int kTargetLength = 4;

// An input that is larger is not made up.
constexpr int64_t kMostElements = 1 << 20;

// Zeros for an input of a graph, without its first axis; open extents get the source's length.
// Without content if it is too large, and so refused.
v1::Tensor Zeros(const ops::ValueInfo& info) {
  v1::Tensor zeros;
  zeros.set_dtype(std::string(ops::Name(info.dtype)));
  for (int axis = 1; axis < info.shape.rank(); ++axis) {
    const int64_t dim = info.shape.dim(axis);
    zeros.add_shape(dim == ops::PartialShape::kDynamic ? kSourceLength : dim);
  }
  const auto count =
      ops::CheckedNumElements({zeros.shape().data(), static_cast<size_t>(zeros.shape_size())});
  if (count.ok() && *count <= kMostElements) {
    zeros.mutable_data()->assign(static_cast<size_t>(*count * ops::SizeOf(info.dtype)), '\0');
  }
  return zeros;
}

v1::Source MakeUpSource(const DecodeModel& model) {
  const DecodeModel::Parts& parts = model.parts();
  v1::Source source;
  if (parts.encoder == nullptr) {
    v1::DecoderInputs& inputs = *source.mutable_decoder_inputs();
    for (const DecoderInput& input : parts.inputs) {
      auto& map = input.is_state ? *inputs.mutable_states() : *inputs.mutable_memory();
      map[input.name] = Zeros(parts.decoder.node(input.node).outputs[0]);
    }
    inputs.set_source_length(kSourceLength);
    return source;
  }
  const ops::Graph& graph = parts.encoder->graph();
  const ops::ValueInfo& info =
      graph.node(graph.parameters[static_cast<size_t>(parts.encoder_input)]).outputs[0];
  if (!ops::IsInteger(info.dtype)) {
    *source.mutable_features() = Zeros(info);
    return source;
  }
  const int64_t length = info.shape.rank() > 1 && info.shape.dim(1) != ops::PartialShape::kDynamic
                             ? info.shape.dim(1)
                             : kSourceLength;
  for (int64_t i = 0; i < std::min(length, kMostElements); ++i) {
    source.mutable_ids()->add_ids(0);
  }
  return source;
}

void DecodeTogether(Engine& engine, const std::shared_ptr<const DecodeModel>& model,
                    const v1::Source& source, const v1::DecodeOptions& options, int count,
                    absl::Time deadline) {
  CallOptions call;
  call.deadline = deadline;
  absl::BlockingCounter left(count);
  for (int i = 0; i < count; ++i) {
    engine.Decode(model, source, options, call,
                  [&left](const absl::StatusOr<v1::Decoded>&) { left.DecrementCount(); });
  }
  left.Wait();
}

void DecodeMadeUp(Engine& engine, const std::shared_ptr<const DecodeModel>& model,
                  const WarmUpOptions& options) {
  const absl::Time end = absl::Now() + options.most;
  const v1::Source source = MakeUpSource(*model);
  v1::DecodeOptions decode;
  decode.set_max_length(kTargetLength);
  DecodeTogether(engine, model, source, decode, 1, end);  // a beam as the model has it
  decode.set_beam_size(1);
  decode.set_n_best(1);
  for (int rows = 1; rows <= options.max_rows && absl::Now() < end; rows *= 2) {
    DecodeTogether(engine, model, source, decode, rows, end);
  }
}

}  // namespace

absl::Status WarmUp(const std::shared_ptr<const DecodeModel>& model, const std::string& content,
                    const WarmUpOptions& options) {
  absl::StatusOr<std::vector<RequestLine>> lines =
      ReadRequestLines(content, std::numeric_limits<int>::max());
  if (!lines.ok()) {
    return Annotate(lines.status(), "warmup.jsonl");
  }
  EngineOptions engine_options;
  engine_options.num_threads = 1;
  engine_options.forecast_deadlines = false;
  engine_options.max_rows = std::max(options.max_rows, engine_options.max_rows);
  engine_options.max_queue = std::max(options.max_rows, engine_options.max_queue);
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Start(engine_options));
  for (const RequestLine& line : *lines) {
    const absl::StatusOr<v1::Decoded> decoded =
        engine->DecodeAndWait(model, line.source, line.options);
    if (!decoded.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("warmup.jsonl: line ", line.number, ": ", decoded.status().message()));
    }
  }
  if (options.max_rows > 0) {
    DecodeMadeUp(*engine, model, options);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
