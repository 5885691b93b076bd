#include "server/engine/compile_graphs.h"

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "server/engine/decoder_inputs.h"

namespace beamwright::engine {
namespace {

// Which of the encoder's Parameters takes the source, and which its length.
absl::Status FindEncoderInputs(const ops::Graph& graph, DecodeModel::Parts& parts) {
  const v1::EncoderConfig& config = parts.config.encoder();
  const bool has_length = config.length_kind() != v1::LENGTH_INPUT_NONE;
  std::vector<std::string> names;
  std::vector<int> sources;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const auto index = static_cast<int>(i);
    names.push_back(PortName(graph, graph.parameters[i]));
    if (has_length && names.back() == config.length_input()) {
      parts.encoder_length_input = index;
    } else if (config.input().empty() || config.input() == names.back()) {
      sources.push_back(index);
    }
  }
  const std::string known = absl::StrCat("it has '", absl::StrJoin(names, "', '"), "'");
  if (has_length && parts.encoder_length_input < 0) {
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
  parts.encoder_input = sources[0];
  if (names.size() != (has_length ? 2u : 1u)) {
    return absl::UnimplementedError(
        absl::StrCat("the encoder has ", names.size(),
                     " inputs; supported are the source and its length; ", known));
  }
  return absl::OkStatus();
}

// A token beyond the table would fail every request that has it.
absl::Status CheckSourceTable(DecodeModel::Parts& parts) {
  const ops::Graph& graph = parts.encoder->graph();
  const int node = graph.parameters[static_cast<size_t>(parts.encoder_input)];
  parts.source_table = ops::LookedUpRows(graph, node);
  if (parts.source_table >= 0 && parts.source->size() > parts.source_table) {
    return Invalid("source: there are ", parts.source->size(), " tokens; the encoder looks '",
                   PortName(graph, node), "' up in a table of ", parts.source_table);
  }
  return absl::OkStatus();
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

absl::Status CompileEncoder(ops::Graph graph, DecodeModel::Parts& parts) {
  BW_RETURN_IF_ERROR(FindEncoderInputs(graph, parts));
  ops::RowInputs rows{parts.encoder_input, -1};
  if (parts.config.encoder().length_kind() == v1::LENGTH_INPUT_LENGTHS) {
    rows.lengths = parts.encoder_length_input;
  }
  BW_ASSIGN_OR_RETURN(parts.encoder, ops::Model::Compile(std::move(graph), parts.precision.encoder,
                                                         rows, parts.encoder_proof));
  return CheckSourceTable(parts);
}

namespace {

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

absl::Status CompileDecoder(ops::Graph graph, DecodeModel::Parts& parts) {
  const v1::DecoderConfig& config = parts.config.decoder();
  ops::DecoderOptions options;
  options.steps = parts.precision.steps;
  options.projection = parts.precision.projection;
  options.score_kind = KindOf(config.logits_kind());
  options.num_tokens = parts.target->size();
  options.begin_token = parts.target->begin_id();
  options.token_table_share = parts.options.token_table_share;
  BW_RETURN_IF_ERROR(ops::CompileDecoder(std::move(graph), PortsOf(config), options, parts));
  return FindDecoderInputs(parts);
}

}  // namespace beamwright::engine
