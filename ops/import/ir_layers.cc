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
#include "ops/import/ir_layers.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/import/known_operators.h"
#include "ops/kernels/added_norm.h"
#include "ops/kernels/attention.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/relative_shift.h"
#include "ops/kernels/softplus.h"
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

}  // namespace beamwright::ops
