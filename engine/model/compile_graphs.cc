// A bundle's encoder and decoder graphs with their configuration become parts of a model.
//
// CompileEncoder:
// 1. FindEncoderInputs: which Parameter is the source, which its length or mask, and which are
//    further inputs. Every other Parameter is an error: no input is filled by accident.
// 2. Extents that the bundle states (SetSourceShape), ids in the place of one-hot vectors
//    (TakeIds), and states of an encoder that reads chunks (PrepareStreaming).
// 3. Model::Compile runs the passes and proves whether rows and unequal lengths are separable
//    (encoder.proof).
// 4. FindLengthAxis, and the sizes of tables: a token beyond the encoder's table, or a source
//    longer than its positions, is refused before it is encoded, not by a failing Gather.
// 5. SelfCheck decodes random sources alone and together; where bits differ, sources are encoded
//    one by one.
//
// CompileDecoder: ops::CompileDecoder finds the step (ops/decoder/decoder_form.cc); then
// FindDecoderInputs finds which encoder result or constant each input starts from, and SelfCheck
// compares rows alone and together.
//
// Errors name the field of model.textproto and list the names that the graph has.
#include "engine/model/compile_graphs.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/model/compile_streaming.h"
#include "engine/model/model_inputs.h"
#include "engine/status/fault.h"
#include "ops/base/check.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/inference.h"
#include "ops/graph/trace.h"
#include "ops/loop/operators.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::engine {
namespace {

// Whether the input is a state of an encoder that is run chunk by chunk.
bool IsStateInput(const v1::EncoderConfig& config, const std::string& name) {
  const auto& states = config.streaming().states();
  return std::any_of(states.begin(), states.end(),
                     [&name](const auto& state) { return state.input() == name; });
}

// Every Parameter that takes neither the source nor its length must be listed: a request that lacks
// one is refused, so nothing is taken for an input by accident. `names`: of all Parameters.
absl::Status FindFurtherInputs(const ops::Graph& graph, const v1::EncoderConfig& config,
                               const std::vector<std::string>& names, EncoderPart& encoder) {
  status::Faults faults;
  for (int i = 0; i < config.further_inputs_size(); ++i) {
    const v1::FurtherInputConfig& listed = config.further_inputs(i);
    const auto at = std::find(names.begin(), names.end(), listed.input());
    const std::string field = absl::StrCat("encoder.further_inputs[", i, "].input");
    if (at == names.end()) {
      faults.Add(field, "the encoder has no input '", listed.input(), "'; it has '",
                 absl::StrJoin(names, "', '"), "'");
      continue;
    }
    FurtherInput further;
    further.name = listed.input();
    further.input = static_cast<int>(at - names.begin());
    further.has_constant = listed.has_constant();
    further.constant = listed.constant();
    const int node = graph.parameters[static_cast<size_t>(further.input)];
    const ops::ValueInfo& info = graph.node(node).outputs[0];
    if (!info.shape.has_rank() || info.shape.rank() == 0) {
      faults.Add(field, "'", listed.input(), "' ", info.shape.ToString(),
                 " has no axis that counts rows; export the encoder with one, for example [rows] ",
                 "or [rows, width], or with the value as a constant of the graph");
    }
    encoder.further_inputs.push_back(std::move(further));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const auto index = static_cast<int>(i);
    const bool is_used =
        index == encoder.input || index == encoder.length_input || IsStateInput(config, names[i]) ||
        std::any_of(encoder.further_inputs.begin(), encoder.further_inputs.end(),
                    [index](const FurtherInput& further) { return further.input == index; });
    if (!is_used) {
      if (config.has_streaming()) {
        faults.Add("encoder.streaming.states", "'", names[i],
                   "' is read by the encoder, and nothing says what fills it; list it as a state");
        continue;
      }
      faults.Add("encoder.further_inputs", "'", names[i],
                 "' is read by the encoder, and nothing says what fills it; list it as `",
                 "further_inputs { input: \"", names[i], "\" }`, and requests bring it");
    }
  }
  return status::OkOrInvalid(faults);
}

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
    } else if (config.input().empty() ? !IsStateInput(config, names.back())
                                      : config.input() == names.back()) {
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
                   "' is encoder.input, too; the length needs another input");
  }
  if (sources.size() != 1 && config.input().empty()) {
    return Invalid("encoder.input: is not set, and ",
                   sources.empty() ? "none is left but the length" : "there are several", "; ",
                   known);
  }
  if (sources.size() != 1) {
    return Invalid("encoder.input: the encoder has no single input '", config.input(), "'; ",
                   known);
  }
  encoder.input = sources[0];
  return FindFurtherInputs(graph, config, names, encoder);
}

// Refuses an export that fixed the number of sources to that of its example.
absl::Status CheckFixedRows(const EncoderPart& encoder, int parameter) {
  const ops::PartialShape& shape = encoder.info_of(parameter).shape;
  const int64_t rows = shape.rank() > 0 ? shape.dim(0) : 1;
  if (rows == 1 || rows == ops::PartialShape::kDynamic) {
    return absl::OkStatus();
  }
  const ops::Graph& graph = encoder.model->graph();
  const std::string name = PortName(graph, graph.parameters[static_cast<size_t>(parameter)]);
  return Invalid(
      "'", name, "' ", shape.ToString(), " is for ", rows,
      " sources at a time alone: the export fixed axis 0. Export it again with that axis "
      "dynamic (PyTorch: dynamic_axes={'",
      name, "': {0: 'rows', ...}}), or with an example of one source");
}

// The axis that counts the source's length: of the bundle, else by the source's shape; 0: unknown.
int LengthAxisOf(const v1::EncoderConfig& config, const ops::PartialShape& source) {
  return config.length_axis() > 0 ? config.length_axis() : ops::FindLengthAxis(source);
}

// Sets the axis that counts the source's length. An axis that requests cannot vary is not guessed:
// every source would have the same length, and with it the same limit of its answer.
absl::Status FindLengthAxis(const v1::EncoderConfig& config, EncoderPart& encoder) {
  const ops::PartialShape& shape = encoder.source_info().shape;
  const std::string name = PortName(encoder.model->graph(), encoder.source_node());
  encoder.length_axis = LengthAxisOf(config, shape);
  if (config.length_axis() > 0) {
    return !shape.has_rank() || encoder.length_axis < shape.rank()
               ? absl::OkStatus()
               : Invalid("encoder.length_axis: ", config.length_axis(), " is not an axis of '",
                         name, "' ", shape.ToString(), "; allowed are 1 to ", shape.rank() - 1);
  }
  if (encoder.length_axis == 0) {
    return Invalid("encoder.length_axis: is not set, and '", name, "' ", shape.ToString(),
                   " leaves open which axis counts as the source's length; pictures [rows, "
                   "channels, height, width] are usually read along axis 3. Where the export left "
                   "their height open, say it by `shape: [3, 48, -1]`, with which the length is "
                   "known as well");
  }
  return absl::OkStatus();
}

// Gives the source the extents that the bundle says, where the export left them open.
absl::Status SetSourceShape(const v1::EncoderConfig& config, int input, ops::Graph& graph) {
  if (config.shape().empty()) {
    return absl::OkStatus();
  }
  const int node = graph.parameters[static_cast<size_t>(input)];
  ops::PartialShape& shape = graph.node(node).outputs[0].shape;
  const std::string name = PortName(graph, node);
  if (shape.has_rank() && shape.rank() != config.shape_size() + 1) {
    return Invalid("encoder.shape: has ", config.shape_size(), " numbers; '", name, "' ",
                   shape.ToString(), " has ", shape.rank() - 1, " extents behind that of the rows");
  }
  ops::Shape dims = shape.has_rank() ? shape.dims() : ops::Shape(1, ops::PartialShape::kDynamic);
  dims.resize(static_cast<size_t>(config.shape_size()) + 1, ops::PartialShape::kDynamic);
  for (int i = 0; i < config.shape_size(); ++i) {
    int64_t& dim = dims[static_cast<size_t>(i) + 1];
    if (config.shape(i) != -1 && dim != ops::PartialShape::kDynamic && dim != config.shape(i)) {
      return Invalid("encoder.shape[", i, "]: is ", config.shape(i), "; the graph fixes it: '",
                     name, "' ", shape.ToString());
    }
    dim = config.shape(i) == -1 ? dim : config.shape(i);
  }
  shape = ops::PartialShape(std::move(dims));
  return absl::OkStatus();
}

// Refuses a vocabulary larger than the encoder's table: a token beyond it would fail its requests.
absl::Status CheckSourceTable(const bundle::TextCodec& source, EncoderPart& encoder) {
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
    ports.states.push_back({state.input(), state.output(),
                            state.has_encoder_output() ? std::nanf("") : state.constant()});
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
                                                            DecodeModel::Parts& model) {
  const ops::ExecutionContext& context = model.options.context;
  auto encoder = std::make_unique<EncoderPart>();
  ops::TakeAndGiveF32(graph);
  BW_RETURN_IF_ERROR(FindEncoderInputs(graph, config, *encoder));
  BW_RETURN_IF_ERROR(SetSourceShape(config, encoder->input, graph));
  // An encoder that reads tokens as one-hot vectors is rewritten to read ids.
  const int source = graph.parameters[static_cast<size_t>(encoder->input)];
  if (model.source->size() > 0 && ops::OneHotTokens(graph, source) == model.source->size()) {
    ops::TakeIds(graph, source);
  }
  encoder->length_kind = config.length_kind();
  if (config.has_streaming()) {
    BW_RETURN_IF_ERROR(PrepareStreaming(config, graph, *encoder));
  }
  ops::RowInputs rows{encoder->input, -1};
  if (config.length_kind() == v1::LENGTH_INPUT_LENGTHS && encoder->length_axis == 1) {
    rows.lengths = encoder->length_input;
  } else if (config.length_kind() != v1::LENGTH_INPUT_LENGTHS) {
    rows.mask = encoder->length_input;
  }
  int64_t longest = 0;
  if (!config.has_streaming()) {
    const int parameter = graph.parameters[static_cast<size_t>(encoder->input)];
    rows.length_axis = LengthAxisOf(config, graph.node(parameter).outputs[0].shape);
    longest = LongestSource(graph, encoder->input, rows.length_axis);
  }
  BW_ASSIGN_OR_RETURN(encoder->model, ops::Model::Compile(std::move(graph), model.precision.encoder,
                                                          rows, encoder->proof));
  BW_RETURN_IF_ERROR(CheckFixedRows(*encoder, encoder->input));
  if (encoder->streaming.has_value()) {
    BW_RETURN_IF_ERROR(CheckStreaming(context, *encoder));
    return encoder;
  }
  for (FurtherInput& further : encoder->further_inputs) {
    BW_RETURN_IF_ERROR(CheckFixedRows(*encoder, further.input));
    const ops::Graph& compiled = encoder->model->graph();
    const int node = compiled.parameters[static_cast<size_t>(further.input)];
    if (ops::IsInteger(encoder->info_of(further.input).dtype)) {
      further.table_rows = ops::LookedUpRows(compiled, node);
    }
  }
  BW_RETURN_IF_ERROR(FindLengthAxis(config, *encoder));
  if (encoder->length_axis != rows.length_axis) {
    encoder->proof.lengths.holds = false;
  }
  BW_RETURN_IF_ERROR(CheckSourceTable(*model.source, *encoder));
  BW_RETURN_IF_ERROR(SelfCheck(context, *encoder, model.source->size()));
  const int64_t allowed = model.config.limits().max_source_length();
  if (longest >= encoder->trial_length && (allowed == 0 || longest < allowed) &&
      encoder->length_axis == rows.length_axis &&
      FailsOn(context, *encoder, longest + 1, model.source->size())) {
    model.config.mutable_limits()->set_max_source_length(static_cast<int32_t>(longest));
  }
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
  options.context = model.options.context;
  auto decoder = std::make_unique<DecoderPart>();
  BW_RETURN_IF_ERROR(ops::CompileDecoder(std::move(graph), PortsOf(config), options, *decoder));
  decoder->encoder = std::move(encoder);
  BW_RETURN_IF_ERROR(FindDecoderInputs(config, *decoder));
  SelfCheck(options.context, *decoder, model.source->size());
  FindMostSteps(options.context, *decoder, model.source->size());
  return decoder;
}

namespace {

using ops::Graph;
using ops::Node;
using ops::PartialShape;

constexpr int64_t kShortest = 8;
constexpr int64_t kLongest = 8192;
// Positions of a source of floats that an encoder may join to one of its table.
constexpr int64_t kMostJoined = 16;

// The extents of the constants that the graph gathers from or slices, in ascending order.
std::set<int64_t> TableExtents(const Graph& graph) {
  std::set<int64_t> extents;
  for (const Node& node : graph.nodes) {
    if (node.op != "Gather" && node.op != "Slice" && node.op != "StridedSlice") {
      continue;
    }
    const Node* table = &graph.node(node.inputs[0].node);
    if (table->op == "Convert") {
      table = &graph.node(table->inputs[0].node);
    }
    if (table->op != "Constant" || !table->constant.has_value()) {
      continue;
    }
    for (const int64_t extent : table->constant.shape()) {
      if (extent >= kShortest && extent <= kLongest) {
        extents.insert(extent);
      }
    }
  }
  return extents;
}

// Whether inference takes the graph with one source of this length.
bool Takes(Graph graph, int parameter, int length_axis, int64_t length) {
  Node& source = graph.node(graph.parameters[static_cast<size_t>(parameter)]);
  ops::Shape dims = source.outputs[0].shape.dims();
  dims[0] = dims[0] == PartialShape::kDynamic ? 1 : dims[0];
  dims[static_cast<size_t>(length_axis)] = length;
  source.outputs[0].shape = PartialShape(std::move(dims));
  return ops::InferGraph(graph, ops::Operators()).ok();
}

}  // namespace

int64_t LongestSource(const Graph& graph, int parameter, int length_axis) {
  const PartialShape& shape =
      graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].shape;
  if (!shape.has_rank() || shape.rank() <= length_axis || length_axis == 0 ||
      shape.dim(length_axis) != PartialShape::kDynamic) {
    return 0;
  }
  const auto takes = [&](int64_t length) { return Takes(graph, parameter, length_axis, length); };
  const bool is_float =
      ops::IsFloat(graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].dtype);
  const int64_t most_joined = is_float ? kMostJoined : 1;
  int64_t works = 0;  // windows may need more positions than the shortest
  const std::set<int64_t> extents = TableExtents(graph);
  for (int64_t length = kShortest; !extents.empty() && works == 0 && length <= kLongest;
       length *= 2) {
    works = takes(length) ? length : 0;
  }
  for (const int64_t extent : extents) {
    int64_t fails = std::max(extent, works) + 1;
    while (fails <= (extent + 1) * most_joined && takes(fails)) {
      works = fails;
      fails *= 2;
    }
    if (fails > (extent + 1) * most_joined) {
      continue;
    }
    while (fails - works > 1) {
      const int64_t middle = works + (fails - works) / 2;
      (takes(middle) ? works : fails) = middle;
    }
    // An encoder that wants multiples of a number takes longer sources again.
    for (const int64_t block : {1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 128, 256}) {
      if (takes((works / block + 1) * block)) {
        return 0;
      }
    }
    return works < kShortest ? 0 : works;
  }
  return 0;
}

namespace {

// Everything is added with its size, so that no two sequences of fields have the same bytes.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    BW_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void AddBytes(const void* bytes, size_t size) {
    const auto count = static_cast<uint64_t>(size);
    Update(&count, sizeof(count));
    Update(bytes, size);
  }
  void Add(absl::string_view text) { AddBytes(text.data(), text.size()); }
  void Add(const std::string& text) { Add(absl::string_view(text)); }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  void Add(Number number) {
    Update(&number, sizeof(number));
  }
  template <typename Element>
  void Add(const std::vector<Element>& elements) {
    Add(static_cast<uint64_t>(elements.size()));
    for (const Element& element : elements) {
      Add(element);
    }
  }
  std::string Get() {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned int size = 0;
    BW_CHECK(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                &size) == 1);
    digest.resize(size);
    return digest;
  }

 private:
  void Update(const void* bytes, size_t size) {
    BW_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1);
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void AddGraph(const ops::Graph& graph, Hash& hash) {
  hash.Add(static_cast<uint64_t>(graph.nodes.size()));
  for (const ops::Node& node : graph.nodes) {
    hash.Add(node.op);
    for (const auto& [name, value] : node.attributes.values()) {
      hash.Add(name);
      std::visit([&](const auto& own) { hash.Add(own); }, value);
    }
    for (const ops::ValueId input : node.inputs) {
      hash.Add(input.node);
      hash.Add(input.output);
    }
    if (node.constant.has_value()) {
      hash.Add(static_cast<int>(node.constant.dtype()));
      hash.Add(std::vector<int64_t>(node.constant.shape().begin(), node.constant.shape().end()));
      hash.AddBytes(node.constant.bytes(), static_cast<size_t>(node.constant.num_bytes()));
      ops::ForgetIdle();
    }
    ops::VisitBodies(node,
                     [&](const ops::Graph& body, absl::string_view) { AddGraph(body, hash); });
  }
  hash.Add(graph.parameters);
  hash.Add(graph.results);
}

}  // namespace

std::string Fingerprint(const ops::Graph& decoder, const v1::DecoderConfig& config,
                        const bundle::TextCodec& target) {
  Hash hash;
  AddGraph(decoder, hash);
  hash.Add(config.SerializeAsString());
  for (int32_t token = 0; token < target.size(); ++token) {
    hash.Add(target.TokenText(token));
  }
  hash.Add(target.begin_id());
  return hash.Get();
}

}  // namespace beamwright::engine
