#include "ops/import/ir_layers.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr AttributeKind kInt = AttributeKind::kInt;
constexpr AttributeKind kFloat = AttributeKind::kFloat;
constexpr AttributeKind kBool = AttributeKind::kBool;
constexpr AttributeKind kEnum = AttributeKind::kEnum;
constexpr AttributeKind kText = AttributeKind::kText;
constexpr AttributeKind kInts = AttributeKind::kInts;
constexpr AttributeKind kFloats = AttributeKind::kFloats;
constexpr AttributeKind kEnums = AttributeKind::kEnums;

using Rules = std::vector<AttributeRule>;

Rules operator+(Rules first, const Rules& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Fallbacks are the defaults of OpenVINO's opsets, given where they differ between frameworks or
// where the first document's nets leave the attribute out.
std::vector<LayerType> MakeTable() {
  const Rules none;
  const Rules broadcast = {{"auto_broadcast", kEnum}};
  const Rules reduce = {{"keep_dims", kBool}};
  const Rules softmax = {{"axis", kInt, "1"}};
  const Rules cell = {{"hidden_size", kInt},
                      {"activations", kEnums},
                      {"activations_alpha", kFloats},
                      {"activations_beta", kFloats},
                      {"clip", kFloat}};
  const Rules lstm = cell + Rules{{"input_forget", kBool, nullptr, "false"},
                                  {"weights_format", kEnum, nullptr, "fico"}};
  const Rules gru = cell + Rules{{"linear_before_reset", kBool}};
  const Rules depth = {{"block_size", kInt}, {"mode", kEnum}};
  const Rules direction = {{"direction", kEnum}};
  const Rules variable = {{"variable_id", AttributeKind::kDropped},
                          {"variable_type", AttributeKind::kDropped},
                          {"variable_shape", AttributeKind::kDropped}};
  const Rules masks = {{"begin_mask", kInts},
                       {"end_mask", kInts},
                       {"new_axis_mask", kInts},
                       {"shrink_axis_mask", kInts},
                       {"ellipsis_mask", kInts}};
  const Rules convert = {{"destination_type", kEnum},
                         {"no_clamp", kBool, nullptr, "false"},
                         {"use_rounding", kBool, nullptr, "false"}};
  const Rules windows = {
      {"strides", kInts}, {"pads_begin", kInts}, {"pads_end", kInts}, {"auto_pad", kEnum}};
  const Rules convolution = windows + Rules{{"dilations", kInts}};
  const Rules backprop = convolution + Rules{{"output_padding", kInts}};
  const Rules pool = convolution + Rules{{"kernel", kInts}, {"rounding_type", kEnum}};
  const Rules bag = {{"reduction", kEnum}};
  // The reader itself interprets type, shape and place of these.
  const Rules declared = {{"element_type", AttributeKind::kDropped},
                          {"shape", AttributeKind::kDropped}};
  const Rules constant =
      declared + Rules{{"offset", AttributeKind::kDropped}, {"size", AttributeKind::kDropped}};

  return {
      // Structure.
      {"Parameter", declared},
      {"Constant", constant},
      {"Result", none},
      {"If", none},
      {"Loop", none},
      {"Assign", variable, true},
      {"Identity", none, true},
      {"ReadValue", variable, true},
      // Elementwise, one input.
      {"Abs", none},
      {"Acos", none},
      {"Acosh", none},
      {"Asin", none},
      {"Asinh", none},
      {"Atan", none},
      {"Atanh", none},
      {"BitwiseNot", none},
      {"Ceiling", none},
      {"Clamp", {{"min", kFloat}, {"max", kFloat}}},
      {"Convert", convert},
      {"Cos", none},
      {"Cosh", none},
      {"Elu", {{"alpha", kFloat}}},
      {"Erf", none},
      {"Exp", none},
      {"Floor", none},
      {"Gelu", {{"approximation_mode", kEnum}}},
      {"HSigmoid", none},
      {"HSwish", none},
      {"IsFinite", none},
      {"IsInf", {{"detect_negative", kBool}, {"detect_positive", kBool}}},
      {"IsNaN", none},
      {"Log", none},
      {"LogicalNot", none},
      {"Mish", none},
      {"Negative", none},
      {"ReLU", none},
      {"Round", {{"mode", kEnum}}},
      {"Sigmoid", none},
      {"Sign", none},
      {"Sin", none},
      {"Sinh", none},
      {"SoftPlus", none},
      {"SoftSign", none},
      {"Sqrt", none},
      {"Tan", none},
      {"Tanh", none},
      // Elementwise, several inputs.
      {"Add", broadcast},
      {"BitwiseAnd", broadcast},
      {"BitwiseOr", broadcast},
      {"BitwiseXor", broadcast},
      {"ConvertLike", none},
      {"Divide", broadcast + Rules{{"m_pythondiv", kBool, nullptr, "true"}}},
      {"Equal", broadcast},
      {"FloorMod", broadcast},
      {"Greater", broadcast},
      {"GreaterEqual", broadcast},
      {"HardSigmoid", none},
      {"Less", broadcast},
      {"LessEqual", broadcast},
      {"LogicalAnd", broadcast},
      {"LogicalOr", broadcast},
      {"LogicalXor", broadcast},
      {"Maximum", broadcast},
      {"Minimum", broadcast},
      {"Mod", broadcast},
      {"Multiply", broadcast},
      {"NotEqual", broadcast},
      {"PReLU", none},
      {"Power", broadcast},
      {"Select", broadcast},
      {"Selu", none},
      {"SquaredDifference", broadcast},
      {"Subtract", broadcast},
      {"Swish", none},
      // Reductions and what is normalised over an axis.
      {"BatchNormInference", {{"epsilon", kFloat}}},
      {"CumSum", {{"exclusive", kBool}, {"reverse", kBool}}},
      {"GroupNormalization", {{"num_groups", kInt}, {"epsilon", kFloat}}},
      {"LogSoftmax", softmax},
      {"ReduceL1", reduce},
      {"ReduceL2", reduce},
      {"ReduceLogicalAnd", reduce},
      {"ReduceLogicalOr", reduce},
      {"MVN",
       {{"eps", kFloat},
        {"eps_mode", kEnum},
        {"normalize_variance", kBool, "true"},
        {"across_channels", kBool}}},
      {"NormalizeL2", {{"eps", kFloat}, {"eps_mode", kEnum}}},
      {"ReduceMax", reduce},
      {"ReduceMean", reduce},
      {"ReduceMin", reduce},
      {"ReduceProd", reduce},
      {"ReduceSum", reduce},
      {"SoftMax", softmax},
      {"Unique", {{"sorted", kBool}, {"index_element_type", kEnum}, {"count_element_type", kEnum}}},
      {"TopK",
       {{"axis", kInt},
        {"mode", kEnum},
        {"sort", kEnum},
        {"index_element_type", kEnum, "i32"},
        {"stable", kBool}}},
      // Windows.
      {"AvgPool", pool + Rules{{"exclude-pad", kBool}}},
      {"Convolution", convolution},
      {"ConvolutionBackpropData", backprop},
      {"GroupConvolution", convolution},
      {"GroupConvolutionBackpropData", backprop},
      {"MaxPool", pool + Rules{{"index_element_type", kEnum}, {"axis", kInt}}},
      // Movement.
      {"Broadcast", {{"mode", kEnum}}},
      {"Concat", {{"axis", kInt}}},
      {"DepthToSpace", depth},
      {"Eye", {{"output_type", kEnum}}},
      {"Gather", {{"batch_dims", kInt}}},
      {"GatherElements", {{"axis", kInt}}},
      {"GatherND", {{"batch_dims", kInt}}},
      {"NonZero", {{"output_type", kEnum}}},
      {"OneHot", {{"axis", kInt}, {"negative_indices_mode", kEnum}}},
      {"Pad", {{"pad_mode", kEnum}}},
      {"Range", {{"output_type", kEnum}}},
      {"Reshape", {{"special_zero", kBool, "true"}}},
      {"Reverse", {{"mode", kEnum}}},
      {"ReverseSequence", {{"batch_axis", kInt}, {"seq_axis", kInt}}},
      {"ScatterElementsUpdate", {{"reduction", kEnum}, {"use_init_val", kBool}}},
      {"ScatterNDUpdate", {{"reduction", kEnum}}},
      {"ScatterUpdate", none},
      {"ShapeOf", {{"output_type", kEnum}}},
      {"ShuffleChannels", {{"axis", kInt}, {"group", kInt}}},
      {"Slice", none},
      {"SpaceToDepth", depth},
      {"Split", {{"num_splits", kInt}}},
      {"Squeeze", {{"allow_axis_skip", kBool}}},
      {"StridedSlice", masks},
      {"Tile", none},
      {"Transpose", none},
      {"Unsqueeze", none},
      {"VariadicSplit", none},
      // Products, cells and sequences.
      {"Einsum", {{"equation", kText}}},
      {"FakeQuantize", {{"levels", kInt}, {"auto_broadcast", kEnum}}},
      {"GRUCell", gru},
      {"GRUSequence", gru + direction, true},
      {"LSTMCell", lstm},
      {"LSTMSequence", lstm + direction, true},
      {"MatMul", {{"transpose_a", kBool}, {"transpose_b", kBool}}},
      {"ScaledDotProductAttention", {{"causal", kBool}}, true},
      {"RNNCell", cell},
      {"RNNSequence", cell + direction, true},
      // Segments and beams.
      {"EmbeddingBagOffsets", bag},
      {"EmbeddingBagOffsetsSum", none},
      {"EmbeddingBagPacked", bag},
      {"EmbeddingBagPackedSum", none},
      {"EmbeddingSegmentsSum", none},
      {"GatherTree", none},
  };
}

const std::vector<LayerType>& Table() {
  static const auto* const table = new std::vector<LayerType>(MakeTable());
  return *table;
}

using Index = absl::flat_hash_map<std::string, const LayerType*>;

const Index& ByName() {
  static const auto* const index = [] {
    auto* result = new Index;
    for (const LayerType& type : Table()) {
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
  for (const LayerType& type : Table()) {
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

}  // namespace beamwright::ops
