#include "server/engine/model/compile_graphs.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/decoder/one_hot.h"
#include "ops/graph/trace.h"
#include "server/engine/model/decoder_inputs.h"
#include "server/engine/model/self_check.h"

namespace beamwright::engine {
namespace {

// Which of the encoder's Parameters takes the source, and which its length.
absl::Status FindEncoderInputs(const ops::Graph& graph, const v1::EncoderConfig& config,
                               EncoderPart& encoder) {
  const bool has_length = config.length_kind() != v1::LENGTH_INPUT_NONE;
  std::vector<std::string> names;
  std::vector<int> sources;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const auto index = static_cast<int>(i);
    names.push_back(PortName(graph, graph.parameters[i]));
    if (has_length && names.back() == config.length_input()) {
      encoder.length_input = index;
    } else if (config.input().empty() || config.input() == names.back()) {
      sources.push_back(index);
    }
  }
  const std::string known = absl::StrCat("it has '", absl::StrJoin(names, "', '"), "'");
  if (has_length && encoder.length_input < 0) {
    return Invalid("encoder.length_input: the encoder has no input '", config.length_input(), "'; ",
                   known);
  }
  if (has_length && config.input() == config.length_input()) {
    return Invalid("encoder.length_input: '", config.length_input(),
                   "' is encoder.input, too; the length needs an input of its own");
  }
  if (sources.size() != 1 && config.input().empty()) {
    return Invalid("encoder.input: is not set, and ",
                   sources.empty() ? "none is left beside the length" : "there are several", "; ",
                   known);
  }
  if (sources.size() != 1) {
    return Invalid("encoder.input: the encoder has no single input '", config.input(), "'; ",
                   known);
  }
  encoder.input = sources[0];
  if (names.size() != (has_length ? 2u : 1u)) {
    return absl::UnimplementedError(
        absl::StrCat("the encoder has ", names.size(),
                     " inputs; supported are the source and its length; ", known));
  }
  return absl::OkStatus();
}

// An export with an example of several sources may have fixed their number.
absl::Status CheckFixedRows(const EncoderPart& encoder) {
  const ops::PartialShape& shape = encoder.source_info().shape;
  const int64_t rows = shape.rank() > 0 ? shape.dim(0) : 1;
  if (rows == 1 || rows == ops::PartialShape::kDynamic) {
    return absl::OkStatus();
  }
  const std::string name = PortName(encoder.model->graph(), encoder.source_node());
  return Invalid(
      "'", name, "' ", shape.ToString(), " is for ", rows,
      " sources at a time alone: the export fixed axis 0. Export it again with that axis "
      "dynamic (PyTorch: dynamic_axes={'",
      name, "': {0: 'rows', ...}}), or with an example of one source");
}

// Which axis of the source counts as its length. What a request could not vary is not guessed:
// every source would have the same length, and with it the same limit of its answer.
absl::Status FindLengthAxis(const v1::EncoderConfig& config, EncoderPart& encoder) {
  const ops::PartialShape& shape = encoder.source_info().shape;
  const std::string name = PortName(encoder.model->graph(), encoder.source_node());
  if (config.length_axis() > 0) {
    encoder.length_axis = config.length_axis();
    return !shape.has_rank() || encoder.length_axis < shape.rank()
               ? absl::OkStatus()
               : Invalid("encoder.length_axis: ", config.length_axis(), " is not an axis of '",
                         name, "' ", shape.ToString(), "; allowed are 1 to ", shape.rank() - 1);
  }
  encoder.length_axis = ops::FindLengthAxis(shape);
  if (encoder.length_axis == 0) {
    return Invalid("encoder.length_axis: is not set, and '", name, "' ", shape.ToString(),
                   " leaves open which axis counts as the source's length; pictures [rows, "
                   "channels, height, width] are usually read along axis 3");
  }
  return absl::OkStatus();
}

// A token beyond the table would fail every request that has it.
absl::Status CheckSourceTable(const model::TextCodec& source, EncoderPart& encoder) {
  const ops::Graph& graph = encoder.model->graph();
  const int node = graph.parameters[static_cast<size_t>(encoder.input)];
  encoder.table_rows = ops::LookedUpRows(graph, node);
  if (encoder.table_rows >= 0 && source.size() > encoder.table_rows) {
    return Invalid("source: there are ", source.size(), " tokens; the encoder looks '",
                   PortName(graph, node), "' up in a table of ", encoder.table_rows);
  }
  return absl::OkStatus();
}

ops::DecoderPorts PortsOf(const v1::DecoderConfig& config) {
  ops::DecoderPorts ports;
  ports.loop = config.loop();
  ports.token_input = config.token_input();
  for (const v1::StateConfig& state : config.states()) {
    ports.states.push_back({state.input(), state.output()});
  }
  for (const v1::MemoryConfig& memory : config.memory()) {
    ports.memory.push_back(memory.input());
  }
  ports.logits_output = config.logits_output();
  ports.attention_output = config.attention_output();
  return ports;
}

}  // namespace

ops::ScoreKind KindOf(v1::LogitsKind kind) {
  switch (kind) {
    case v1::LOGITS_KIND_LOG_PROBS:
      return ops::ScoreKind::kLogProbs;
    case v1::LOGITS_KIND_PROBS:
      return ops::ScoreKind::kProbabilities;
    default:
      return ops::ScoreKind::kLogits;
  }
}

absl::StatusOr<std::unique_ptr<EncoderPart>> CompileEncoder(ops::Graph graph,
                                                            const v1::EncoderConfig& config,
                                                            const DecodeModel::Parts& model) {
  auto encoder = std::make_unique<EncoderPart>();
  BW_RETURN_IF_ERROR(FindEncoderInputs(graph, config, *encoder));
  // Text comes as ids; an encoder that takes them one-hot gets them so.
  const int source = graph.parameters[static_cast<size_t>(encoder->input)];
  if (model.source->size() > 0 && ops::OneHotTokens(graph, source) == model.source->size()) {
    ops::TakeIds(graph, source);
  }
  encoder->length_kind = config.length_kind();
  ops::RowInputs rows{encoder->input, -1};
  if (config.length_kind() == v1::LENGTH_INPUT_LENGTHS) {
    rows.lengths = encoder->length_input;
  }
  BW_ASSIGN_OR_RETURN(encoder->model, ops::Model::Compile(std::move(graph), model.precision.encoder,
                                                          rows, encoder->proof));
  BW_RETURN_IF_ERROR(CheckFixedRows(*encoder));
  BW_RETURN_IF_ERROR(FindLengthAxis(config, *encoder));
  BW_RETURN_IF_ERROR(CheckSourceTable(*model.source, *encoder));
  BW_RETURN_IF_ERROR(SelfCheck(*encoder, model.source->size()));
  return encoder;
}

absl::StatusOr<std::unique_ptr<DecoderPart>> CompileDecoder(
    ops::Graph graph, const v1::DecoderConfig& config, const DecodeModel::Parts& model,
    std::shared_ptr<const EncoderPart> encoder) {
  ops::DecoderOptions options;
  options.steps = model.precision.steps;
  options.projection = model.precision.projection;
  options.score_kind = KindOf(config.logits_kind());
  options.num_tokens = model.target->size();
  options.begin_token = model.target->begin_id();
  options.token_table_share = model.options.token_table_share;
  auto decoder = std::make_unique<DecoderPart>();
  BW_RETURN_IF_ERROR(ops::CompileDecoder(std::move(graph), PortsOf(config), options, *decoder));
  decoder->encoder = std::move(encoder);
  BW_RETURN_IF_ERROR(FindDecoderInputs(config, *decoder));
  SelfCheck(*decoder, model.source->size());
  return decoder;
}

}  // namespace beamwright::engine
