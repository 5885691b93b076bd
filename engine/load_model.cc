// From a bundle's folder to a model that serves: LoadModel reads the files and compiles their
// graphs. While it does, digests of files are computed on other threads; if one differs, that is
// the error, whatever else failed. TryModel then runs the bundle's golden requests and compares
// their answers, and warms the model up.
#include "engine/load_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/proto_text.h"
#include "engine/model/compile_graphs.h"
#include "engine/model/parts.h"
#include "engine/request/prepared_source.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::engine {

// Replays a bundle's golden.jsonl at load: requests with the answers that the bundle's author got.
// A model that answers otherwise is not served.
//
// 1. ReadGoldens reads at most max_requests lines, spread over the file: source, options, expected
//    hypotheses, and the numerics class in which they were found.
// 2. DecodeAll decodes all in an engine of one thread.
// 3. Difference compares the first hypothesis. In the same numerics class its tokens and score must
//    be equal. In another, other tokens are accepted if the first and the second expected scores
//    are closer than a margin, since rounding may exchange them.

namespace {

// Scores of hypotheses that lie nearer to each other than this may change places when sums are
// rounded otherwise: in f32, and where weights have fewer bits.
constexpr double kMargin = 1e-3;
constexpr double kReducedMargin = 0.1;

struct Golden {
  int line = 0;
  v1::Source source;
  v1::DecodeOptions options;
  v1::Decoded expected;  // hypotheses only
  std::string numerics;
  absl::StatusOr<v1::Decoded> answer;
};

absl::StatusOr<std::vector<Golden>> ReadGoldens(const std::string& content, int max_requests) {
  BW_ASSIGN_OR_RETURN(std::vector<bundle::RequestLine> lines,
                      bundle::ReadRequestLines(content, max_requests));
  std::vector<Golden> goldens;
  for (bundle::RequestLine& line : lines) {
    Golden& golden = goldens.emplace_back();
    golden.line = line.number;
    absl::Status status = bundle::ReadField(line.fields, "hypotheses", true, golden.expected);
    if (status.ok() && golden.expected.hypotheses().empty()) {
      status = Invalid("field 'hypotheses': is empty");
    }
    BW_RETURN_IF_ERROR(Annotate(status, absl::StrCat("line ", line.number)));
    const auto numerics = line.fields.fields().find("numerics");
    if (numerics != line.fields.fields().end()) {
      golden.numerics = numerics->second.string_value();
    }
    golden.source = std::move(line.source);
    golden.options = std::move(line.options);
  }
  return goldens;
}

void DecodeAll(const std::shared_ptr<const DecodeModel>& model, Engine& engine,
               std::vector<Golden>& goldens) {
  absl::BlockingCounter left(static_cast<int>(goldens.size()));
  for (Golden& golden : goldens) {
    engine.Decode(model, golden.source, golden.options, {},
                  [&golden, &left](absl::StatusOr<v1::Decoded> decoded) {
                    golden.answer = std::move(decoded);
                    left.DecrementCount();
                  });
  }
  left.Wait();
}

std::string Tokens(const v1::Hypothesis& hypothesis) {
  return absl::StrCat("[", absl::StrJoin(hypothesis.tokens(), " "), "]");
}

// What is wrong with the answer; empty: nothing.
std::string Difference(const Golden& golden, const std::string& numerics) {
  if (!golden.answer.ok()) {
    return std::string(golden.answer.status().message());
  }
  if (golden.answer->hypotheses().empty()) {
    return "no hypothesis";
  }
  const v1::Hypothesis& want = golden.expected.hypotheses(0);
  const v1::Hypothesis& got = golden.answer->hypotheses(0);
  const bool same_class = !golden.numerics.empty() && golden.numerics == numerics;
  if (Tokens(got) == Tokens(want)) {
    return same_class && got.score() != want.score()
               ? absl::StrCat("score ", got.score(), ", expected ", want.score(),
                              " in the same numerics class")
               : "";
  }
  const double margin = absl::StartsWith(numerics, "f32") ? kMargin : kReducedMargin;
  // Without a second hypothesis the scores of the two answers decide.
  const double second =
      golden.expected.hypotheses_size() > 1 ? golden.expected.hypotheses(1).score() : got.score();
  if (!same_class && std::abs(want.score() - second) < margin) {
    return "";
  }
  return absl::StrCat("tokens ", Tokens(got), ", expected ", Tokens(want));
}

}  // namespace

absl::Status ReplayGolden(const std::shared_ptr<const DecodeModel>& model,
                          const std::string& content, int max_requests,
                          const Interruption* interruption) {
  absl::StatusOr<std::vector<Golden>> goldens = ReadGoldens(content, max_requests);
  if (!goldens.ok()) {
    return Annotate(goldens.status(), "golden.jsonl");
  }
  EngineOptions options;
  options.num_threads = 1;
  options.interruption = interruption;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Start(options));
  DecodeAll(model, *engine, *goldens);
  int num_wrong = 0;
  std::string first;
  for (const Golden& golden : *goldens) {
    const std::string difference = Difference(golden, model->numerics());
    if (!difference.empty() && ++num_wrong == 1) {
      first = absl::StrCat("line ", golden.line, ": ", difference);
    }
  }
  return num_wrong == 0 ? absl::OkStatus()
                        : absl::FailedPreconditionError(absl::StrCat(
                              "golden.jsonl: ", first, " (", num_wrong, " of ", goldens->size(),
                              " requests are answered otherwise than the bundle says)"));
}

// Tries a model before it is served, in an engine that exists only for this: WarmUp.
//
// 1. Requests of warmup.jsonl in the bundle; if one fails, the model is refused.
// 2. DecodeMadeUp: a source is made up from the shapes of the model's inputs (MakeUpSource): ones,
//    or ids 0. Several lengths are tried, as a model may need more than the shortest. If nothing
//    about the source was guessed (is_certain) and no length can be decoded, the model is refused:
//    it would fail for every request.
// 3. TryOtherLengths: an export may have fixed the length of its example. If one length decodes and
//    three others do not, the model is refused, with a hint how to export it.
// 4. The source is decoded 1, 2, 4, ... times at once up to max_rows, so that buffers exist before
//    the first request comes. How these calls end does not matter.

namespace {

// Length of answers to made-up sources, in tokens.
constexpr int kTargetLength = 4;

// Inputs with more elements are not made up.
constexpr int64_t kMostElements = 1 << 20;

// What the model is tried with.
struct MadeUp {
  v1::Source source;
  // Nothing about it was guessed: a model that is sound decodes it.
  bool is_certain = true;
};

// Ones for an input of a graph, without its first axis; open extents get the source's length, which
// is certain of `length_axis` alone (-1: of none). Zeros would mask everything.
v1::Tensor Ones(const ops::ValueInfo& info, int64_t length, int length_axis, MadeUp& made) {
  v1::Tensor tensor;
  tensor.set_dtype(std::string(ops::Name(info.dtype)));
  made.is_certain = made.is_certain && info.shape.has_rank();
  for (int axis = 1; axis < info.shape.rank(); ++axis) {
    const int64_t dim = info.shape.dim(axis);
    const bool is_open = dim == ops::PartialShape::kDynamic;
    made.is_certain = made.is_certain && (!is_open || axis == length_axis);
    tensor.add_shape(is_open ? length : dim);
  }
  const ops::Shape shape(tensor.shape().begin(), tensor.shape().end());
  const auto count = ops::CheckedNumElements(shape);
  if (!count.ok() || *count > kMostElements) {
    made.is_certain = false;  // without content it is refused
    return tensor;
  }
  ops::Tensor ones(ops::DType::kF32, shape);
  std::fill_n(ones.mutable_data<float>(), *count, 1.0f);
  if (const auto converted = Convert(ones, info.dtype); converted.ok()) {
    tensor.set_data(converted->bytes(), static_cast<size_t>(converted->num_bytes()));
  } else {
    made.is_certain = false;
  }
  return tensor;
}

MadeUp MakeUpSource(const DecodeModel& model, int64_t most) {
  const DecodeModel::Parts& parts = model.parts();
  const int64_t length =
      std::max<int64_t>(std::min<int64_t>(most, MaxSourceLength(model)), MinSourceLength(model));
  MadeUp made;
  if (parts.encoder() == nullptr && parts.frames != nullptr) {
    const ops::ValueInfo frames = {
        ops::DType::kF32, ops::PartialShape({-1, -1, parts.frames->frame_width}), {}};
    v1::Tensor& features = *made.source.mutable_features();
    features = Ones(frames, length, 1, made);
    if (parts.frames->ctc.has_value() && parts.frames->ctc->kind == ops::ScoreKind::kLogProbs) {
      // Ones are no log-probabilities.
      const std::vector<float> values(features.data().size() / sizeof(float), -1);
      features.set_data(values.data(), values.size() * sizeof(float));
    }
    return made;
  }
  if (parts.encoder() == nullptr) {
    v1::DecoderInputs& inputs = *made.source.mutable_decoder_inputs();
    for (const DecoderInput& input : parts.decoder().inputs) {
      if (input.has_own_start && input.has_constant) {
        continue;
      }
      auto& map = input.is_state ? *inputs.mutable_states() : *inputs.mutable_memory();
      map[input.name] = Ones(parts.decoder().decoder.node(input.node).outputs[0], length,
                             input.is_state ? -1 : 1, made);
    }
    inputs.set_source_length(static_cast<int>(length));
    return made;
  }
  for (const auto& [encoder, input] : parts.wanted_inputs()) {
    if (!input->has_constant) {
      (*made.source.mutable_further_inputs())[input->name] =
          Ones(encoder->info_of(input->input), length, 1, made);
    }
  }
  const ops::ValueInfo& info = parts.encoder()->source_info();
  if (const auto& streaming = parts.encoder()->streaming; streaming.has_value()) {
    const ops::ValueInfo any = {
        ops::DType::kF32, ops::PartialShape({-1, -1, streaming->width}), {}};
    *made.source.mutable_features() = Ones(any, length, 1, made);
    return made;
  }
  if (!ops::IsInteger(info.dtype)) {
    *made.source.mutable_features() = Ones(info, length, parts.encoder()->length_axis, made);
    return made;
  }
  const int64_t num_ids = info.shape.rank() > 1 && info.shape.dim(1) != ops::PartialShape::kDynamic
                              ? info.shape.dim(1)
                              : length;
  for (int64_t i = 0; i < std::min(num_ids, kMostElements); ++i) {
    made.source.mutable_ids()->add_ids(0);
  }
  return made;
}

// Room for the answer that the defaults ask for at least.
int TargetLength(const v1::DecodeOptions& defaults, int source_length) {
  const double least =
      std::max<double>(defaults.min_length(), double{defaults.min_length_factor()} * source_length);
  return std::max(kTargetLength, static_cast<int>(std::min(least, 1e6)));
}

// Decodes the source `count` times at once. Returns how the last call ended.
absl::Status DecodeTogether(Engine& engine, const std::shared_ptr<const DecodeModel>& model,
                            const v1::Source& source, const v1::DecodeOptions& options, int count,
                            absl::Time deadline) {
  CallOptions call;
  call.deadline = deadline;
  absl::BlockingCounter left(count);
  std::vector<absl::Status> statuses(static_cast<size_t>(count));
  for (absl::Status& status : statuses) {
    engine.Decode(model, source, options, call,
                  [&left, &status](const absl::StatusOr<v1::Decoded>& decoded) {
                    status = decoded.status();
                    left.DecrementCount();
                  });
  }
  left.Wait();
  return statuses.back();
}

// Whether an error would occur for every caller: one that the inputs or the model cause.
bool FailsForAll(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsInvalidArgument(status);
}

// An export may have written the length of its example into the graph, and that may be the one that
// a made-up source has: then every other length fails, request by request.
absl::Status TryOtherLengths(Engine& engine, const std::shared_ptr<const DecodeModel>& model,
                             int64_t length, const v1::DecodeOptions& options,
                             absl::Time deadline) {
  const DecodeModel::Parts& parts = model->parts();
  if (parts.encoder() == nullptr || MaxSourceLength(*model) < 2 * length) {
    return absl::OkStatus();
  }
  const EncoderPart& encoder = *parts.encoder();
  const ops::PartialShape& shape = encoder.source_info().shape;
  if (!shape.has_rank() || shape.rank() <= encoder.length_axis ||
      shape.dim(encoder.length_axis) != ops::PartialShape::kDynamic) {
    return absl::OkStatus();  // the file says which length it takes
  }
  absl::Status first;
  for (const int64_t other : {length + 1, length + 2, 2 * length}) {
    const absl::Status status =
        DecodeTogether(engine, model, MakeUpSource(*model, other).source, options, 1, deadline);
    if (!FailsForAll(status)) {
      return absl::OkStatus();
    }
    first.Update(status);
  }
  return Invalid("a made-up source of ", length, " positions is decoded, and none of ", length + 1,
                 ", ", length + 2, " and ", 2 * length,
                 " is: the export wrote the length of its example's source into the graph. Export "
                 "it again with that length dynamic (PyTorch: with dynamo=True, if it has "
                 "nn.MultiheadAttention); the error of the others: ",
                 first.message());
}

absl::Status DecodeMadeUp(Engine& engine, const std::shared_ptr<const DecodeModel>& model,
                          const WarmUpOptions& options) {
  const absl::Time end = SteadyNow() + options.most;
  MadeUp made;
  int64_t length = 0;
  v1::DecodeOptions decode;
  absl::Status first = absl::InternalError("not tried");
  const EncoderPart* const encoder = model->parts().encoder();
  const int64_t longest = std::max<int64_t>(encoder == nullptr ? 0 : encoder->trial_length, 250);
  for (size_t i = 0; i < std::size(kTrialLengths) && FailsForAll(first); ++i) {
    length = kTrialLengths[i];
    if (length > longest) {
      break;
    }
    made = MakeUpSource(*model, length);
    if (!model->config().has_tags()) {  // whose answers are as long as the source
      decode.set_max_length(TargetLength(model->config().default_options(), kTrialLengths[i]));
    }
    first = DecodeTogether(engine, model, made.source, decode, 1, end);  // a beam as the model's
  }
  if (made.is_certain && FailsForAll(first)) {
    return Invalid("a made-up source can't be decoded: ", first.message());
  }
  if (made.is_certain && first.ok()) {
    BW_RETURN_IF_ERROR(TryOtherLengths(engine, model, length, decode, end));
  }
  decode.set_beam_size(1);
  decode.set_n_best(1);
  for (int rows = 1; rows <= options.max_rows && SteadyNow() < end; rows *= 2) {
    DecodeTogether(engine, model, made.source, decode, rows, end).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WarmUp(const std::shared_ptr<const DecodeModel>& model, const std::string& content,
                    const WarmUpOptions& options) {
  absl::StatusOr<std::vector<bundle::RequestLine>> lines =
      bundle::ReadRequestLines(content, std::numeric_limits<int>::max());
  if (!lines.ok()) {
    return Annotate(lines.status(), "warmup.jsonl");
  }
  EngineOptions engine_options;
  engine_options.num_threads = 1;
  engine_options.forecast_deadlines = false;
  engine_options.interruption = options.interruption;
  engine_options.max_rows = std::max(options.max_rows, engine_options.max_rows);
  engine_options.max_queue = std::max(options.max_rows, engine_options.max_queue);
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Start(engine_options));
  for (const bundle::RequestLine& line : *lines) {
    const absl::StatusOr<v1::Decoded> decoded =
        engine->DecodeAndWait(model, line.source, line.options);
    if (!decoded.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("warmup.jsonl: line ", line.number, ": ", decoded.status().message()));
    }
  }
  return options.max_rows > 0 ? DecodeMadeUp(*engine, model, options) : absl::OkStatus();
}

namespace {

void AddWarnings(const char* name, const ops::Graph& graph, std::vector<std::string>* warnings) {
  for (const std::string& warning : graph.warnings) {
    if (warnings != nullptr) {
      warnings->push_back(absl::StrCat(name, ": ", warning));
    }
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DecodeModel>> LoadModel(
    const std::string& folder, absl::Span<const std::string> allow_links,
    const CompileOptions& options, std::vector<std::string>* warnings) {
  ops::DeferredScope deferred;  // weights are packed one by one, files hashed meanwhile
  // If files are not what they were, whatever else goes wrong does so because of that.
  const auto fail = [&](const absl::Status& status) {
    const absl::Status read = deferred.Finish();
    return read.ok() ? status : Annotate(read, absl::StrCat("bundle '", folder, "'"));
  };
  absl::StatusOr<bundle::Bundle> loaded = bundle::LoadBundle(folder, allow_links);
  if (!loaded.ok()) {
    return fail(loaded.status());
  }
  bundle::Bundle bundle = *std::move(loaded);
  if (bundle.encoder.has_value()) {
    AddWarnings("encoder", *bundle.encoder, warnings);
  }
  AddWarnings("decoder", bundle.decoder, warnings);
  if (bundle.predictor.has_value()) {
    AddWarnings("predictor", *bundle.predictor, warnings);
  }
  if (bundle.joiner.has_value()) {
    AddWarnings("joiner", *bundle.joiner, warnings);
  }
  absl::StatusOr<std::shared_ptr<const DecodeModel>> compiled =
      DecodeModel::Compile(std::move(bundle), options);
  BW_RETURN_IF_ERROR(fail(Annotate(compiled.status(), absl::StrCat("bundle '", folder, "'"))));
  return compiled;
}

absl::Status TryModel(const std::shared_ptr<const DecodeModel>& model, const std::string& folder,
                      absl::Span<const std::string> allow_links, const TryOptions& options) {
  if (options.golden_requests > 0) {
    BW_ASSIGN_OR_RETURN(const std::string golden, bundle::ReadGolden(folder, allow_links));
    if (!golden.empty()) {
      BW_RETURN_IF_ERROR(
          ReplayGolden(model, golden, options.golden_requests, options.interruption));
    }
  }
  if (options.warm_up_rows > 0) {
    BW_ASSIGN_OR_RETURN(const std::string requests, bundle::ReadWarmUp(folder, allow_links));
    WarmUpOptions warm_up;
    warm_up.max_rows = options.warm_up_rows;
    warm_up.interruption = options.interruption;
    BW_RETURN_IF_ERROR(WarmUp(model, requests, warm_up));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
