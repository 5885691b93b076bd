// The types of layers that an IR file may have, with their attributes. Most follow from the
// registry of operators: an operator's name and the names of its attributes there, with the kind of
// value by the attribute's name (MakeKinds), which is the same in all operators. Exceptions lists
// what differs: attributes that the reader itself uses, that have one neutral value, or whose
// default differs from the operator's.
//
// Operators that only ONNX has, or that passes make, may not be named by an IR file (MayBeInFiles).
// Sequences (LSTMSequence and the like) have the attributes of their cell.
//
// An attribute with its neutral value is dropped; an unknown one stays in the node as text, and the
// operator refuses it by name.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/graph/rewrite.h"
#include "ops/import/graph_file.h"
#include "ops/import/ir_graph.h"
#include "ops/import/recurrent_sequence.h"
#include "ops/kernels/attention.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/state_update.h"

namespace beamwright::ops {
namespace {

// The kind of value of an attribute, by its name. Attributes of the registry that are not listed
// here are set by importers and passes only: a file's value stays a text, which its operator
// refuses.
absl::flat_hash_map<absl::string_view, AttributeKind> MakeKinds() {
  absl::flat_hash_map<absl::string_view, AttributeKind> kinds;
  const auto add = [&](AttributeKind kind, std::initializer_list<absl::string_view> names) {
    for (const absl::string_view name : names) {
      kinds.emplace(name, kind);
    }
  };
  add(AttributeKind::kInt, {"axis", "batch_axis", "batch_dims", "block_size", "group",
                            "hidden_size", "levels", "num_groups", "num_splits", "seq_axis"});
  add(AttributeKind::kFloat, {"alpha", "clip", "eps", "epsilon", "max", "min"});
  add(AttributeKind::kBool,
      {"across_channels", "allow_axis_skip", "detect_negative", "detect_positive", "exclude-pad",
       "exclusive", "keep_dims", "linear_before_reset", "normalize_variance", "reverse", "sorted",
       "special_zero", "stable", "transpose_a", "transpose_b", "use_init_val"});
  add(AttributeKind::kEnum,
      {"approximation_mode", "auto_broadcast", "auto_pad", "count_element_type", "destination_type",
       "eps_mode", "index_element_type", "mode", "negative_indices_mode", "output_type", "pad_mode",
       "reduction", "rounding_type", "sort"});
  add(AttributeKind::kText, {"equation"});
  add(AttributeKind::kInts,
      {"begin_mask", "dilations", "ellipsis_mask", "end_mask", "kernel", "new_axis_mask",
       "output_padding", "pads_begin", "pads_end", "shrink_axis_mask", "strides"});
  add(AttributeKind::kFloats, {"activations_alpha", "activations_beta"});
  add(AttributeKind::kEnums, {"activations"});
  return kinds;
}

// Operators of the registry that no IR file may name: those that ONNX has and OpenVINO has not, and
// those that passes make.
constexpr absl::string_view kOfOnnx[] = {
    "ArgMax",        "ArgMin",           "BitCast",
    "CumProd",       "DequantizeLinear", "DynamicQuantizeLinear",
    "MatMulInteger", "QLinearMatMul",    "QuantizeLinear"};
constexpr absl::string_view kOfPasses[] = {
    kAddedNormName,        kAttentionName,        kBiasedProductName,
    kConvolutionChainName, kElementwiseChainName, kFirstRowName,
    kGuardedSoftPlusName,  kRelativeShiftName,    kScaledIntegerProductName,
    kStableSoftPlusName,   kStateUpdateName};

bool MayBeInFiles(absl::string_view op) {
  const auto is = [op](absl::string_view other) { return other == op; };
  return std::none_of(std::begin(kOfOnnx), std::end(kOfOnnx), is) &&
         std::none_of(std::begin(kOfPasses), std::end(kOfPasses), is);
}

// What differs from the registry. Fallbacks are the defaults of OpenVINO's opsets, given where they
// differ between frameworks or where the first document's nets leave the attribute out. What has a
// neutral value, or is dropped, may be an attribute that the operator does not read.
std::vector<LayerType> Exceptions() {
  constexpr AttributeKind kBool = AttributeKind::kBool;
  constexpr AttributeKind kEnum = AttributeKind::kEnum;
  constexpr AttributeKind kDropped = AttributeKind::kDropped;
  const std::vector<AttributeRule> variable = {
      {"variable_id", kDropped}, {"variable_type", kDropped}, {"variable_shape", kDropped}};
  const std::vector<AttributeRule> softmax = {{"axis", AttributeKind::kInt, "1"}};
  const std::vector<AttributeRule> lstm = {{"input_forget", kBool, nullptr, "false"},
                                           {"weights_format", kEnum, nullptr, "fico"}};
  const std::vector<AttributeRule> direction = {{"direction", kEnum}};
  return {
      // The reader itself interprets type, shape and place of these.
      {"Parameter", {{"element_type", kDropped}, {"shape", kDropped}}},
      {"Constant",
       {{"element_type", kDropped}, {"shape", kDropped}, {"offset", kDropped}, {"size", kDropped}}},
      {"Result", {}},
      {"If", {}},
      {"Loop", {}},
      {"Assign", variable, true},
      {"Identity", {}, true},
      {"ReadValue", variable, true},
      {"Convert",
       {{"no_clamp", kBool, nullptr, "false"}, {"use_rounding", kBool, nullptr, "false"}}},
      {"Divide", {{"m_pythondiv", kBool, nullptr, "true"}}},
      {"LSTMCell", lstm},
      {"LogSoftmax", softmax},
      {"MVN", {{"normalize_variance", kBool, "true"}}},
      {"Reshape", {{"special_zero", kBool, "true"}}},
      {"SoftMax", softmax},
      {"TopK", {{"index_element_type", kEnum, "i32"}}},
      // Sequences: the attributes of their cell, and a direction.
      {"GRUSequence", direction, true},
      {"LSTMSequence", direction, true},
      {"RNNSequence", direction, true},
      {"ScaledDotProductAttention", {{"causal", kBool}}, true},
  };
}

// Adds the attributes that the registry gives `from`, but for those that `type` has. Names of the
// registry are literals, which end with a zero.
void AddRegistered(const Operator& from,
                   const absl::flat_hash_map<absl::string_view, AttributeKind>& kinds,
                   LayerType& type) {
  for (const absl::string_view name : from.attributes) {
    const auto kind = kinds.find(name);
    const bool has = std::any_of(type.attributes.begin(), type.attributes.end(),
                                 [name](const AttributeRule& rule) { return rule.name == name; });
    if (kind != kinds.end() && !has) {
      type.attributes.push_back({name.data(), kind->second});
    }
  }
}

// The registry's operators and their attributes, with the exceptions.
std::vector<LayerType> MakeTable() {
  const auto kinds = MakeKinds();
  std::vector<LayerType> table = Exceptions();
  const size_t exceptions = table.size();
  for (const Operator& op : KnownOperatorSet().all()) {
    if (!MayBeInFiles(op.name)) {
      continue;
    }
    const auto end = table.begin() + static_cast<int64_t>(exceptions);
    auto type = std::find_if(table.begin(), end,
                             [&op](const LayerType& known) { return known.op == op.name; });
    if (type == end) {
      table.push_back({op.name.data(), {}});
      type = table.end() - 1;
    }
    AddRegistered(op, kinds, *type);
  }
  for (LayerType& type : table) {
    const absl::string_view name(type.op);
    if (type.composite && absl::EndsWith(name, "Sequence")) {
      const std::string cell = absl::StrCat(absl::StripSuffix(name, "Sequence"), "Cell");
      const auto of = std::find_if(table.begin(), table.end(),
                                   [&cell](const LayerType& known) { return known.op == cell; });
      type.attributes.insert(type.attributes.end(), of->attributes.begin(), of->attributes.end());
    }
  }
  return table;
}

const std::vector<LayerType>& LayerTable() {
  static const auto* const table = new std::vector<LayerType>(MakeTable());
  return *table;
}

using Index = absl::flat_hash_map<std::string, const LayerType*>;

const Index& ByName() {
  static const auto* const index = [] {
    auto* result = new Index;
    for (const LayerType& type : LayerTable()) {
      result->emplace(absl::AsciiStrToLower(type.op), &type);
    }
    // The other name in files.
    result->emplace("const", result->at("constant"));
    result->emplace("tensoriterator", result->at("loop"));
    return result;
  }();
  return *index;
}

const AttributeRule* FindRule(const LayerType* type, absl::string_view name) {
  if (type != nullptr) {
    for (const AttributeRule& rule : type->attributes) {
      if (name == rule.name) {
        return &rule;
      }
    }
  }
  return nullptr;
}

absl::Status SetAttribute(const AttributeRule* rule, absl::string_view name, absl::string_view text,
                          Attributes& attributes) {
  if (rule == nullptr) {
    attributes.Set(std::string(name), std::string(text));
    return absl::OkStatus();
  }
  if (rule->kind == AttributeKind::kDropped) {
    return absl::OkStatus();
  }
  absl::StatusOr<AttributeValue> value = ParseAttribute(rule->kind, text);
  if (!value.ok()) {
    return Annotate(value.status(), absl::StrCat("attribute '", name, "'"));
  }
  if (rule->neutral != nullptr && *value == *ParseAttribute(rule->kind, rule->neutral)) {
    return absl::OkStatus();
  }
  attributes.Set(std::string(name), *std::move(value));
  return absl::OkStatus();
}

}  // namespace

const LayerType* FindLayerType(absl::string_view type) {
  const auto it = ByName().find(absl::AsciiStrToLower(type));
  return it == ByName().end() ? nullptr : it->second;
}

std::vector<absl::string_view> KnownOperators() {
  std::vector<absl::string_view> names;
  for (const LayerType& type : LayerTable()) {
    if (!type.composite) {
      names.push_back(type.op);
    }
  }
  return names;
}

absl::StatusOr<Attributes> ReadAttributes(const LayerType* type, const IrLayer& layer) {
  constexpr size_t kMaxAttributes = 256;
  Attributes attributes;
  size_t count = 0;
  for (const pugi::xml_attribute xml : layer.xml.child("data").attributes()) {
    if (++count > kMaxAttributes) {
      return Invalid("more than ", kMaxAttributes, " attributes");
    }
    if (attributes.Has(xml.name())) {
      return Invalid("attribute '", xml.name(), "' is given twice");
    }
    BW_RETURN_IF_ERROR(
        SetAttribute(FindRule(type, xml.name()), xml.name(), xml.value(), attributes));
  }
  if (type != nullptr) {
    for (const AttributeRule& rule : type->attributes) {
      if (rule.fallback != nullptr && !attributes.Has(rule.name)) {
        BW_RETURN_IF_ERROR(SetAttribute(&rule, rule.name, rule.fallback, attributes));
      }
    }
  }
  return attributes;
}

// Two of OpenVINO's composite layers, as basic operators.
//
// AppendSequence: LSTMSequence, GRUSequence and RNNSequence become a RecurrentSequence
// (recurrent_sequence.h), which builds a loop with a cell. A bidirectional layer that lists
// activations for two directions must list the same for both: OpenVINO applies the first half to
// both, and only then does the file have one meaning.
//
// AppendAttention: ScaledDotProductAttention(query, key, value[, mask[, scale]]) becomes
//
//   SoftMax(scale query key^T + mask) value
//
// with the scale 1 / sqrt(width), if none is given; a boolean mask selects, any other mask is
// added; `causal` hides keys after the query's position. A pass later finds this pattern and runs
// it as one kernel, so that graphs of both importers take the same way.

namespace {

using Cell = RecurrentSequence::Cell;

constexpr const char* kNames[] = {"LSTMSequence", "GRUSequence", "RNNSequence"};

absl::StatusOr<RecurrentSequence::Direction> ReadDirection(const Attributes& attributes) {
  BW_ASSIGN_OR_RETURN(const std::string text, attributes.String("direction", "forward"));
  if (text == "forward") {
    return RecurrentSequence::Direction::kForward;
  }
  if (text == "reverse") {
    return RecurrentSequence::Direction::kReverse;
  }
  if (text == "bidirectional") {
    return RecurrentSequence::Direction::kBidirectional;
  }
  return Invalid("attribute direction: '", text, "' must be forward, reverse or bidirectional");
}

// A bidirectional layer may list what each direction applies. OpenVINO applies the first half to
// both, so only halves that agree have one meaning.
template <typename T>
absl::Status KeepOneDirection(absl::string_view attribute, std::vector<T>& list) {
  const auto middle = list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2);
  if (list.size() % 2 != 0 || !std::equal(list.begin(), middle, middle, list.end())) {
    return Invalid(
        "attribute ", attribute,
        ": the list is for two directions, which must be given the same; export the layer "
        "as one of direction forward and one of direction reverse");
  }
  list.erase(middle, list.end());
  return absl::OkStatus();
}

absl::Status ShareActivations(RecurrentSequence::Cell cell,
                              RecurrentSequence::Activations& activations) {
  if (activations.names.size() != 2 * NumActivations(cell)) {
    return absl::OkStatus();
  }
  BW_RETURN_IF_ERROR(KeepOneDirection("activations", activations.names));
  BW_RETURN_IF_ERROR(KeepOneDirection("activations_alpha", activations.alpha));
  return KeepOneDirection("activations_beta", activations.beta);
}

absl::Status ReadAttributes(const Attributes& attributes, RecurrentSequence& sequence) {
  BW_ASSIGN_OR_RETURN(sequence.direction, ReadDirection(attributes));
  BW_ASSIGN_OR_RETURN(sequence.hidden_size, attributes.Int("hidden_size", 0));
  BW_ASSIGN_OR_RETURN(sequence.clip, attributes.Float("clip", 0));
  BW_ASSIGN_OR_RETURN(sequence.linear_before_reset, attributes.Bool("linear_before_reset", false));
  RecurrentSequence::Activations activations;
  BW_ASSIGN_OR_RETURN(activations.names, attributes.Strings("activations", {}));
  BW_ASSIGN_OR_RETURN(activations.alpha, attributes.Floats("activations_alpha", {}));
  BW_ASSIGN_OR_RETURN(activations.beta, attributes.Floats("activations_beta", {}));
  const bool given =
      !activations.names.empty() || !activations.alpha.empty() || !activations.beta.empty();
  if (given) {
    // One list serves both directions.
    const bool both = sequence.direction == RecurrentSequence::Direction::kBidirectional;
    if (both) {
      BW_RETURN_IF_ERROR(ShareActivations(sequence.cell, activations));
    }
    sequence.activations.assign(both ? 2 : 1, activations);
  }
  return absl::OkStatus();
}

Attributes With(const char* name, AttributeValue value) {
  Attributes attributes;
  attributes.Set(name, std::move(value));
  return attributes;
}

class AttentionLowering {
 public:
  AttentionLowering(const Node& node, Graph& graph)
      : node_(node), graph_(graph), add_(graph, node.name) {}

  absl::StatusOr<ValueId> Run() {
    const ValueId query = node_.inputs[0];
    const ValueId key = node_.inputs[1];
    BW_ASSIGN_OR_RETURN(const bool is_causal, node_.attributes.Bool("causal", false));
    ValueId scores = add_.Add("MatMul", {query, key}, With("transpose_b", true));
    scores = add_.Add("Multiply", {scores, Scale()});
    if (is_causal) {
      scores = add_.Add("Select", {Earlier(), scores, Like(kLowest)});
    } else if (HasMask()) {
      BW_ASSIGN_OR_RETURN(scores, Masked(scores));
    }
    const ValueId shares = add_.Add("SoftMax", {scores}, With("axis", int64_t{-1}));
    const ValueId read = add_.Add("MatMul", {shares, node_.inputs[2]});
    graph_.node(read.node).outputs = node_.outputs;
    return read;
  }

 private:
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();

  // A scalar of the queries' type.
  ValueId Like(float number) {
    const absl::StatusOr<Tensor> typed =
        Convert(Tensor::Scalar(number), graph_.info(node_.inputs[0]).dtype);
    if (typed.ok()) {
      return add_.Constant(*typed);
    }
    return add_.Add("ConvertLike", {add_.Constant(Tensor::Scalar(number)), node_.inputs[0]});
  }

  // Axis -1 or -2 of an input, an i64 scalar.
  ValueId Extent(ValueId value, int64_t axis) {
    return add_.Pick(add_.Add("ShapeOf", {value}), axis, 0);
  }

  ValueId Scale() {
    if (node_.inputs.size() > 4) {
      return node_.inputs[4];
    }
    const PartialShape& shape = graph_.info(node_.inputs[0]).shape;
    const int64_t declared = shape.has_rank() && shape.rank() > 0 ? shape.dims().back() : -1;
    if (declared > 0) {
      return Like(static_cast<float>(1 / std::sqrt(static_cast<double>(declared))));
    }
    const ValueId width = add_.Add("ConvertLike", {Extent(node_.inputs[0], -1), node_.inputs[0]});
    return add_.Add("Power", {width, Like(-0.5F)});
  }

  // Whether a key stands no later than a query: [queries, keys].
  ValueId Earlier() {
    const auto counting = [&](ValueId count) {
      return add_.Add("Range", {add_.Int(0), count, add_.Int(1)},
                      With("output_type", std::string("i64")));
    };
    const ValueId queries = counting(Extent(node_.inputs[0], -2));
    return add_.Add("LessEqual", {counting(Extent(node_.inputs[1], -2)),
                                  add_.Add("Unsqueeze", {queries, add_.Ints({1})})});
  }

  // Whether the layer has a mask. A scalar in its place means none, if a scale follows.
  bool HasMask() const {
    if (node_.inputs.size() < 4) {
      return false;
    }
    const PartialShape& shape = graph_.info(node_.inputs[3]).shape;
    return !(node_.inputs.size() > 4 && shape.has_rank() && shape.rank() == 0);
  }

  absl::StatusOr<ValueId> Masked(ValueId scores) {
    const DType type = graph_.info(node_.inputs[3]).dtype;
    if (type == DType::kUndefined) {
      return Invalid("attention_mask: its element type is not declared");
    }
    return type == DType::kBool ? add_.Add("Select", {node_.inputs[3], scores, Like(kLowest)})
                                : add_.Add("Add", {scores, node_.inputs[3]});
  }

  const Node& node_;
  Graph& graph_;
  NodeAppender add_;
};

}  // namespace

bool IsSequence(const std::string& op) {
  return std::find(std::begin(kNames), std::end(kNames), op) != std::end(kNames);
}

absl::StatusOr<std::vector<ValueId>> AppendSequence(const Node& node, Graph& graph) {
  RecurrentSequence sequence;
  sequence.cell = static_cast<Cell>(std::find(std::begin(kNames), std::end(kNames), node.op) -
                                    std::begin(kNames));
  BW_RETURN_IF_ERROR(ReadAttributes(node.attributes, sequence));
  const bool is_lstm = sequence.cell == Cell::kLstm;
  const size_t num_inputs = is_lstm ? 7 : 6;
  const bool has_peepholes = is_lstm && node.inputs.size() == num_inputs + 1;
  if (node.inputs.size() != num_inputs && !has_peepholes) {
    return Invalid("has ", node.inputs.size(), " inputs; it takes ", num_inputs,
                   is_lstm ? ", or 8 with peepholes" : "");
  }
  if (node.outputs.size() != (is_lstm ? 3u : 2u)) {
    return Invalid("has ", node.outputs.size(), " outputs; it has ", is_lstm ? 3 : 2);
  }
  size_t next = 0;
  sequence.x = node.inputs[next++];
  sequence.h0 = node.inputs[next++];
  if (is_lstm) {
    sequence.c0 = node.inputs[next++];
  }
  sequence.lengths = node.inputs[next++];
  sequence.w = node.inputs[next++];
  sequence.r = node.inputs[next++];
  sequence.b = node.inputs[next++];
  if (has_peepholes) {
    sequence.p = node.inputs[next];
  }
  BW_ASSIGN_OR_RETURN(const RecurrentOutputs outputs,
                      AppendRecurrentSequence(sequence, node.name, graph));
  std::vector<ValueId> values = {outputs.y, outputs.h};
  if (is_lstm) {
    values.push_back(outputs.c);
  }
  // The file's names and declarations.
  for (size_t i = 0; i < values.size(); ++i) {
    graph.node(values[i].node).outputs[static_cast<size_t>(values[i].output)] = node.outputs[i];
  }
  return values;
}

absl::StatusOr<ValueId> AppendAttention(const Node& node, Graph& graph) {
  if (node.inputs.size() == 6) {
    return absl::UnimplementedError("a sixth input, 'sink', is not supported");
  }
  if (node.inputs.size() < 3 || node.inputs.size() > 6 || node.outputs.size() != 1) {
    return Invalid("has ", node.inputs.size(), " inputs and ", node.outputs.size(),
                   " outputs; it takes 3 to 5, and has one");
  }
  return AttentionLowering(node, graph).Run();
}

}  // namespace beamwright::ops
