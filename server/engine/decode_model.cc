#include "server/engine/decode_model.h"

#include "absl/strings/str_join.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "server/engine/auto_precision.h"
#include "server/engine/compile_fusion.h"
#include "server/engine/decode_options.h"
#include "server/engine/decoder_inputs.h"
#include "server/engine/parked_drivers.h"
#include "server/engine/parts.h"
#include "server/engine/token_lists.h"

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

absl::Status CheckTarget(const DecodeModel::Parts& parts) {
  if (parts.target->begin_id() < 0) {
    return Invalid("target.begin_token: the first step needs a token to read");
  }
  if (parts.target->end_ids().empty()) {
    return Invalid("target.end_tokens: at least one token must end a hypothesis");
  }
  return absl::OkStatus();
}

// An input without its batch axis, -1 for an extent that the request chooses.
v1::TensorDescription DescribeInput(const std::string& name, const ops::ValueInfo& info) {
  v1::TensorDescription description;
  description.set_name(name);
  const absl::string_view dtype = ops::Name(info.dtype);
  description.set_dtype(dtype.data(), dtype.size());
  for (int axis = 1; axis < info.shape.rank(); ++axis) {
    description.add_shape(info.shape.dim(axis));
  }
  return description;
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

namespace {

void Tighten(const CompileOptions& options, v1::LimitsConfig& limits) {
  const auto lower = [](int own, int other) {
    return own == 0 || other == 0 ? std::max(own, other) : std::min(own, other);
  };
  limits.set_max_source_length(lower(limits.max_source_length(), options.max_source_length));
  limits.set_max_target_length(lower(limits.max_target_length(), options.max_target_length));
  limits.set_max_beam_size(lower(limits.max_beam_size(), options.max_beam_size));
}

}  // namespace

DecodeModel::DecodeModel(std::unique_ptr<const Parts> parts)
    : parts_(std::move(parts)), parked_drivers_(std::make_unique<ParkedDrivers>()) {}
DecodeModel::~DecodeModel() = default;

absl::StatusOr<std::shared_ptr<const DecodeModel>> DecodeModel::Compile(
    model::Bundle bundle, const CompileOptions& options) {
  const v1::Precision precision = options.precision.value_or(bundle.config.precision());
  if (precision == v1::PRECISION_AUTO) {
    return CompileAuto(std::move(bundle), options);
  }
  auto parts = std::make_unique<Parts>();
  parts->name = bundle.name;
  parts->version = bundle.version;
  parts->config = bundle.config;
  Tighten(options, *parts->config.mutable_limits());
  parts->options = options;
  parts->source = bundle.source;
  parts->target = bundle.target;
  BW_ASSIGN_OR_RETURN(parts->precision, ResolvePrecision(precision));
  parts->numerics =
      absl::StrCat(parts->precision.name, ";", InstructionSet(), ";", BEAMWRIGHT_NUMERICS_BUILD);
  BW_RETURN_IF_ERROR(CheckTarget(*parts));
  for (const v1::TokenListConfig& list : bundle.config.token_lists()) {
    auto trie = ReadTokenList(bundle.token_lists[list.name()], *parts->target);
    if (!trie.ok()) {
      return Annotate(trie.status(), list.file());
    }
    parts->token_lists[list.name()] = *std::move(trie);
  }
  if (bundle.encoder.has_value()) {
    absl::Status status = CompileEncoder(*std::move(bundle.encoder), *parts);
    if (!status.ok()) {
      return Annotate(status, bundle.config.encoder().graph());
    }
  }
  absl::Status status = CompileDecoder(std::move(bundle.decoder), *parts);
  if (!status.ok()) {
    return Annotate(status, bundle.config.decoder().graph());
  }
  BW_RETURN_IF_ERROR(CompileFusion(bundle, *parts));
  BW_RETURN_IF_ERROR(SelfCheck(*parts));
  std::shared_ptr<const DecodeModel> model(new DecodeModel(std::move(parts)));
  BW_RETURN_IF_ERROR(CheckDefaultOptions(*model));
  return model;
}

const std::string& DecodeModel::name() const { return parts_->name; }
const std::string& DecodeModel::version() const { return parts_->version; }
const v1::ModelConfig& DecodeModel::config() const { return parts_->config; }
const model::TextCodec& DecodeModel::source() const { return *parts_->source; }
const model::TextCodec& DecodeModel::target() const { return *parts_->target; }
int DecodeModel::target_vocabulary_size() const { return parts_->vocabulary_size; }
const std::string& DecodeModel::numerics() const { return parts_->numerics; }
std::string DecodeModel::precision_note() const {
  const auto& note = parts_->options.precision_note;
  return note == nullptr ? "" : *note;
}
const ops::TokenTables& DecodeModel::token_tables() const { return parts_->token_tables; }

bool DecodeModel::has_encoder() const { return parts_->encoder != nullptr; }
bool DecodeModel::encodes_together() const { return has_encoder() && encodes_apart().empty(); }

std::string DecodeModel::encodes_apart() const {
  for (int member = 0; has_encoder() && member < parts_->num_members(); ++member) {
    const std::string& why = parts_->decoder_parts(member).encoder_apart;
    if (!why.empty()) {
      return member == 0 ? why : absl::StrCat("ensemble.members[", member - 1, "]: ", why);
    }
  }
  return "";
}

v1::ModelDescription DecodeModel::Describe() const {
  v1::ModelDescription description;
  description.mutable_summary()->set_name(parts_->name);
  description.mutable_summary()->set_version(parts_->version);
  description.mutable_summary()->set_description(parts_->config.description());
  description.mutable_summary()->set_ready(true);
  *description.mutable_config() = parts_->config;
  description.set_numerics(parts_->numerics);
  description.set_source_vocabulary_size(parts_->source->size());
  description.set_target_vocabulary_size(parts_->vocabulary_size);
  if (parts_->encoder == nullptr) {
    for (const DecoderInput& input : parts_->inputs) {
      v1::TensorDescription& tensor =
          *(input.is_state ? description.add_states() : description.add_memory());
      tensor = DescribeInput(input.name, parts_->decoder.node(input.node).outputs[0]);
      tensor.set_has_default(input.has_constant);
    }
  } else {
    const ops::Graph& graph = parts_->encoder->graph();
    const ops::Node& node =
        graph.node(graph.parameters[static_cast<size_t>(parts_->encoder_input)]);
    *description.mutable_encoder_input() = DescribeInput(node.name, node.outputs[0]);
    description.mutable_encoder_batching()->set_together(encodes_together());
    description.mutable_encoder_batching()->set_reason(encodes_apart());
  }
  return description;
}

}  // namespace beamwright::engine
