// From the nodes of an ONNX graph, body or function to nodes of a Graph (TranslateOnnxGraph):
//
// 1. Initializers are named, and read when a node first asks for them (OnnxScope::Find). A body's
//    scope has its outer one behind it: a known value from there becomes a Constant of the body,
//    another one a Parameter that the loop captures.
// 2. Nodes are put in order, whatever the file's order is (onnx_order.h).
// 3. Each node is translated: a call of a function by its nodes in a scope that sees the function's
//    inputs alone (Call), an operator by its line in the tables of onnx_*.cc (Operator).
// 4. Its outputs get their names, with the types that the file declares (Name).
//
// A fault of one node does not end the translation: values of which nothing is known take the place
// of its outputs (PassOver), and nodes that read them are not judged. So one message lists up to 20
// faults. `check` also keeps nodes of unknown operators (Unknown).
#include "ops/import/onnx_graph.h"

#include <algorithm>

#include "ops/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_order.h"

namespace beamwright::ops {
namespace {

using Names = absl::flat_hash_set<std::string>;
using Infos = absl::flat_hash_map<std::string, const onnx::TypeProto*>;

Infos DeclaredTypes(const onnx::GraphProto& graph) {
  Infos infos;
  for (const onnx::ValueInfoProto& value : graph.value_info()) {
    infos[value.name()] = &value.type();
  }
  for (const onnx::ValueInfoProto& value : graph.output()) {
    infos[value.name()] = &value.type();
  }
  return infos;
}

class NodeTranslation {
 public:
  // declared: null in functions, whose values have no names outside.
  NodeTranslation(const OnnxPlace& place, const Infos* declared)
      : place_(place), scope_(place.scope), builder_(scope_.builder()), declared_(declared) {}

  absl::Status Run(const OnnxNodes& nodes, const std::vector<int>& order) {
    for (const int index : order) {
      const absl::Status status = Translate(nodes[index], index);
      if (!status.ok()) {
        const absl::Status annotated = Annotate(status, Describe(nodes[index], index));
        if (!CanGoOn(annotated)) {
          builder_.Fail(annotated);
          return annotated;
        }
        place_.import.faults.push_back(annotated);
        BW_RETURN_IF_ERROR(PassOver(nodes[index]));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Whether other nodes are looked at in spite of a fault, so that one message names all of them.
  bool CanGoOn(const absl::Status& status) const {
    constexpr size_t kMostFaults = 20;
    return (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) &&
           builder_.depth() == 0 && place_.function_depth == 0 && !place_.import.keep_unknown &&
           place_.import.faults.size() + 1 < kMostFaults;
  }

  // Puts values that nothing is known of where a node's would be; those who read them are not
  // judged.
  absl::Status PassOver(const onnx::NodeProto& node) {
    builder_.Forgive();
    builder_.BecomeLenient();
    std::vector<ValueId> inputs;
    for (const std::string& name : node.input()) {
      inputs.push_back(name.empty() ? ValueId() : scope_.Find(name).value_or(ValueId()));
    }
    builder_.Forgive();
    BW_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                        Unknown(node, std::move(inputs), /*is_hidden=*/true));
    const absl::Status named = Name(node, outputs);
    builder_.Forgive();
    builder_.TakeInferenceFault().IgnoreError();
    return named;
  }

  // The values of the inputs are looked up first; functions of the file go before operators of the
  // same name.
  absl::Status Translate(const onnx::NodeProto& node, int index) {
    BW_RETURN_IF_ERROR(CheckSizes(node));
    if (++place_.import.num_nodes > OnnxImport::kMaxNodes) {
      return Invalid("more than ", OnnxImport::kMaxNodes,
                     " nodes, each counted with what it becomes here, and once a call if a "
                     "function holds it");
    }
    builder_.set_name(node.name().empty() ? absl::StrCat(node.op_type(), "_", index) : node.name());
    builder_.set_file_operator(TypeName(node));
    std::vector<ValueId> inputs;
    for (const std::string& name : node.input()) {
      const std::optional<ValueId> value = name.empty() ? ValueId() : scope_.Find(name);
      BW_RETURN_IF_ERROR(builder_.status());
      if (!value.has_value()) {
        return Invalid("input ", Quote(name), " is not defined");
      }
      inputs.push_back(*value);
    }
    std::vector<ValueId> outputs;
    const auto function =
        place_.import.functions.find({std::string(Domain(node.domain())), node.op_type()});
    if (function != place_.import.functions.end()) {
      BW_ASSIGN_OR_RETURN(outputs, Call(node, function->second, inputs));
    } else {
      BW_ASSIGN_OR_RETURN(outputs, Operator(node, std::move(inputs)));
    }
    return Name(node, outputs);
  }

  static absl::Status CheckSizes(const onnx::NodeProto& node) {
    constexpr int kMaxPorts = 4096;
    constexpr int kMaxAttributes = 256;
    if (std::max(node.input_size(), node.output_size()) > kMaxPorts ||
        node.attribute_size() > kMaxAttributes) {
      return Invalid("has ", node.input_size(), " inputs, ", node.output_size(), " outputs and ",
                     node.attribute_size(), " attributes; at most ", kMaxPorts, ", ", kMaxPorts,
                     " and ", kMaxAttributes, " are allowed");
    }
    Names names;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!names.insert(attribute.name()).second) {
        return Invalid("attribute ", Quote(attribute.name()), " is given twice");
      }
    }
    return absl::OkStatus();
  }

  // Outputs become known to later nodes by their names, and what the file declares of them is
  // compared with what was inferred.
  absl::Status Name(const onnx::NodeProto& node, const std::vector<ValueId>& outputs) {
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string& name = node.output(i);
      const ValueId value = outputs[static_cast<size_t>(i)];
      if (name.empty()) {
        continue;
      }
      if (!value.present()) {
        return absl::UnimplementedError(
            absl::StrCat("output ", i, " (", Quote(name), ") is not computed here"));
      }
      scope_.Define(name, value);
      if (declared_ == nullptr) {
        continue;
      }
      builder_.AddName(value, name);
      if (const auto type = declared_->find(name); type != declared_->end()) {
        const absl::StatusOr<ValueInfo> info = OnnxValueInfo(*type->second);
        if (!info.ok()) {
          return Annotate(info.status(), absl::StrCat("declaration of ", Quote(name)));
        }
        builder_.DeclareOutput(value, *info, name);
        BW_RETURN_IF_ERROR(builder_.status());
      }
    }
    return absl::OkStatus();
  }

  // Numbers of inputs and outputs are checked against the table before a translator runs, so
  // translators read inputs without asking.
  absl::StatusOr<std::vector<ValueId>> Operator(const onnx::NodeProto& node,
                                                std::vector<ValueId> inputs) {
    const OnnxOperator* op = FindOnnxOperator(Domain(node.domain()), node.op_type());
    const int version =
        op == nullptr ? 0 : op->VersionAt(OpsetOf(place_.opsets, Domain(node.domain())));
    if (version == 0) {
      return Unknown(node, std::move(inputs), /*is_hidden=*/false);
    }
    const int count = node.input_size();
    if (count < op->least_inputs || (op->most_inputs != kAnyNumber && count > op->most_inputs)) {
      return Invalid("has ", count, " inputs; ", op->name, " takes ", op->least_inputs,
                     op->most_inputs == kAnyNumber         ? " or more"
                     : op->most_inputs == op->least_inputs ? ""
                                                           : absl::StrCat(" to ", op->most_inputs));
    }
    for (int i = 0; i < op->least_inputs; ++i) {
      if (!inputs[static_cast<size_t>(i)].present()) {
        return Invalid("input ", i, " must not be left out");
      }
    }
    if (op->most_outputs != kAnyNumber && node.output_size() > op->most_outputs) {
      return Invalid("has ", node.output_size(), " outputs; ", op->name, " has at most ",
                     op->most_outputs);
    }
    const size_t nodes_before = builder_.graph().nodes.size();
    // By the name of the operator that it becomes, or by a function of its family.
    OnnxNode translated(place_, *op, node, version, inputs);
    if (op->translate == nullptr) {
      translated.Out(0, builder_.Add(op->becomes, inputs));
    } else {
      op->translate(translated);
    }
    // Where a fault was passed over, or unknown operators are kept, inputs may be unknown: what
    // fails because of that is no fault of this node.
    const absl::Status inference = builder_.TakeInferenceFault();
    const bool goes_on = place_.import.keep_unknown || !place_.import.faults.empty();
    if (goes_on && AnyUnknown(inputs)) {
      if (!builder_.ok()) {
        builder_.Forgive();
        return Unknown(node, std::move(inputs), /*is_hidden=*/true);
      }
    } else if (!place_.import.faults.empty()) {
      BW_RETURN_IF_ERROR(inference);
    }
    BW_RETURN_IF_ERROR(builder_.status());
    BW_RETURN_IF_ERROR(translated.CheckAllRead());
    place_.import.num_nodes += static_cast<int64_t>(builder_.graph().nodes.size() - nodes_before);
    std::vector<ValueId> outputs;
    for (int i = 0; i < node.output_size(); ++i) {
      outputs.push_back(translated.output(i));
    }
    return outputs;
  }

  bool AnyUnknown(const std::vector<ValueId>& inputs) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
      return input.present() && builder_.info(input).dtype == DType::kUndefined;
    });
  }

  // A node of a type that is not known, or, hidden, one whose translation needs what another fault
  // keeps from being known.
  absl::StatusOr<std::vector<ValueId>> Unknown(const onnx::NodeProto& proto,
                                               std::vector<ValueId> inputs, bool is_hidden) {
    if (!place_.import.keep_unknown && place_.import.faults.empty()) {
      return absl::UnimplementedError("operator is not supported");
    }
    static const auto* const unknown = new OnnxOperator{"unknown", {}};
    Node node;
    node.op = TypeName(proto);
    node.inputs = inputs;
    node.attributes = OnnxNode(place_, *unknown, proto, 0, inputs).PlainAttributes();
    if (is_hidden) {
      node.attributes.Set(kHiddenOperator, true);
    } else if (KnownOperatorSet().Find(node.op) != nullptr) {
      // Another operator has that name here, or this one in a later opset.
      absl::StrAppend(&node.op, " of opset ", OpsetOf(place_.opsets, Domain(proto.domain())));
      node.attributes.Set(kFileOperator, node.op);
    }
    node.outputs.resize(static_cast<size_t>(std::max(1, proto.output_size())));
    const ValueId first = builder_.Add(std::move(node));
    builder_.TakeInferenceFault().IgnoreError();  // that it is not known
    std::vector<ValueId> outputs;
    for (int i = 0; i < proto.output_size(); ++i) {
      outputs.push_back({first.node, i});
    }
    return outputs;
  }

  // A function's nodes are translated anew for each call, in place; that multiplies what a file can
  // ask for, so copies are counted (AddCopied) and the depth is bounded.
  absl::StatusOr<std::vector<ValueId>> Call(const onnx::NodeProto& node,
                                            const OnnxFunction& function,
                                            const std::vector<ValueId>& inputs) {
    const onnx::FunctionProto& proto = *function.proto;
    BW_RETURN_IF_ERROR(AddCopied(function.copied_bytes, place_.import));
    if (place_.function_depth == OnnxImport::kMaxFunctionDepth) {
      return Invalid("functions are nested more than ", OnnxImport::kMaxFunctionDepth, " deep");
    }
    if (node.input_size() > proto.input_size() || node.output_size() > proto.output_size()) {
      return Invalid("has ", node.input_size(), " inputs and ", node.output_size(),
                     " outputs; the function has ", proto.input_size(), " and ",
                     proto.output_size());
    }
    // The call's attributes over the function's defaults.
    OnnxAttributes attributes;
    for (const onnx::AttributeProto& attribute : function.defaults) {
      attributes[attribute.name()] = &attribute;
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      const bool known = attributes.contains(attribute.name()) ||
                         std::find(proto.attribute().begin(), proto.attribute().end(),
                                   attribute.name()) != proto.attribute().end();
      if (!known) {
        return Invalid("attribute ", Quote(attribute.name()), " is not one of the function's");
      }
      const onnx::AttributeProto* value =
          FindOnnxAttribute(node, attribute.name(), place_.attributes);
      if (value != nullptr) {
        attributes[attribute.name()] = value;
      }
    }
    // A scope without an outer one: the body sees nothing but its inputs.
    OnnxScope scope(builder_, place_.import.tensors, nullptr);
    Names given;
    for (int i = 0; i < proto.input_size(); ++i) {
      if (!given.insert(proto.input(i)).second) {
        return Invalid("function input ", Quote(proto.input(i)), " occurs twice");
      }
      scope.Define(proto.input(i),
                   i < node.input_size() ? inputs[static_cast<size_t>(i)] : ValueId());
    }
    const std::vector<std::string> names(proto.output().begin(), proto.output().end());
    BW_ASSIGN_OR_RETURN(const std::vector<int> order, OrderOnnxNodes(proto.node(), given, names));
    const OnnxPlace place{place_.import, function.opsets, scope, &attributes,
                          place_.function_depth + 1};
    const absl::Status status = NodeTranslation(place, nullptr).Run(proto.node(), order);
    if (!status.ok()) {
      return Annotate(status, "function");
    }
    std::vector<ValueId> outputs;
    for (int i = 0; i < node.output_size(); ++i) {
      const std::optional<ValueId> value = scope.Find(proto.output(i));
      if (!value.has_value()) {
        return Invalid("function output ", Quote(proto.output(i)), " is not defined");
      }
      outputs.push_back(*value);
    }
    return outputs;
  }

  const OnnxPlace& place_;
  OnnxScope& scope_;
  OnnxBuilder& builder_;
  const Infos* declared_;
};

}  // namespace

// In this order: values of this graph, initializers that were not read yet, the outer graph. What
// comes from outside is brought in once, and known here by its name from then on.
std::optional<ValueId> OnnxScope::Find(const std::string& name) {
  const auto known = values_.find(name);
  if (known != values_.end()) {
    return known->second;
  }
  const auto initializer = initializers_.find(name);
  if (initializer != initializers_.end()) {
    absl::StatusOr<Tensor> tensor = tensors_.Read(*initializer->second);
    if (!tensor.ok()) {
      builder_.Fail(Annotate(tensor.status(), absl::StrCat("initializer ", Quote(name))));
      return std::nullopt;
    }
    Node node;
    node.op = "Constant";
    node.name = name;
    node.constant = *std::move(tensor);
    node.outputs.resize(1);
    node.outputs[0].names = {name};
    const ValueId value = builder_.Add(std::move(node));
    Define(name, value);
    return value;
  }
  if (outer_ == nullptr) {
    return std::nullopt;
  }
  const std::optional<ValueId> outside = outer_->Find(name);
  if (!outside.has_value() || !outside->present()) {
    builder_.Fail(outer_->builder().status());
    return outside;
  }
  ValueId inside;
  if (const Tensor* tensor = outer_->builder().known(*outside); tensor != nullptr) {
    Node node;
    node.op = "Constant";
    node.name = name;
    node.constant = *tensor;
    node.outputs.resize(1);
    inside = builder_.Add(std::move(node));
  } else {
    ValueInfo info = outer_->builder().info(*outside);
    info.names = {name};
    captures_.push_back({*outside, static_cast<int>(builder_.graph().parameters.size())});
    inside = builder_.Parameter(name, std::move(info));
  }
  Define(name, inside);
  return inside;
}

const onnx::AttributeProto* FindOnnxAttribute(const onnx::NodeProto& node, absl::string_view name,
                                              const OnnxAttributes* call) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() != name) {
      continue;
    }
    if (attribute.ref_attr_name().empty()) {
      return &attribute;
    }
    if (call == nullptr) {
      return nullptr;
    }
    const auto found = call->find(attribute.ref_attr_name());
    return found == call->end() ? nullptr : found->second;
  }
  return nullptr;
}

int64_t OpsetOf(const OnnxOpsets& opsets, absl::string_view domain) {
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 0 : found->second;
}

absl::Status TranslateOnnxGraph(const onnx::GraphProto& graph, const OnnxPlace& place) {
  if (graph.sparse_initializer_size() > 0) {
    return absl::UnimplementedError("sparse initializers are not supported");
  }
  // 1.
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    place.scope.DefineLater(initializer);
  }
  // 2.
  BW_ASSIGN_OR_RETURN(const Names given, GivenNames(graph));
  const std::vector<std::string> outputs = OutputNames(graph);
  BW_ASSIGN_OR_RETURN(const std::vector<int> order, OrderOnnxNodes(graph.node(), given, outputs));
  // 3. and 4.
  const Infos declared = DeclaredTypes(graph);
  BW_RETURN_IF_ERROR(NodeTranslation(place, &declared).Run(graph.node(), order));
  OnnxBuilder& builder = place.scope.builder();
  for (const std::string& name : outputs) {
    const std::optional<ValueId> value = place.scope.Find(name);
    BW_RETURN_IF_ERROR(builder.status());
    if (!value.has_value()) {
      return Invalid("output ", Quote(name), " is not defined");
    }
    const std::vector<std::string>& names = builder.info(*value).names;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      builder.AddName(*value, name);
    }
    builder.Result(name, *value);
  }
  return builder.status();
}

// Of a subgraph; old files list initializers among the inputs.
int CountBodyInputs(const onnx::GraphProto& graph) {
  Names initializers;
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    initializers.insert(initializer.name());
  }
  return static_cast<int>(
      std::count_if(graph.input().begin(), graph.input().end(),
                    [&](const auto& input) { return !initializers.contains(input.name()); }));
}

// A subgraph of a Loop, an If or a Scan: a builder and a scope within those of the graph around it.
// `inputs` is what the outer node knows of the values that enter; the file's declarations are
// joined to that.
absl::StatusOr<OnnxBody> TranslateOnnxBody(const onnx::GraphProto& graph, const OnnxPlace& place,
                                           absl::Span<const ValueInfo> inputs) {
  OnnxBuilder& outside = place.scope.builder();
  if (outside.depth() == kMaxLoopDepth) {
    return Invalid("graphs are nested more than ", kMaxLoopDepth, " deep");
  }
  const int count = CountBodyInputs(graph);
  if (count != static_cast<int>(inputs.size())) {
    return Invalid("the body has ", count, " inputs; there must be ", inputs.size());
  }
  OnnxBuilder builder(&outside);
  OnnxScope scope(builder, place.import.tensors, &place.scope);
  Names initializers;
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    initializers.insert(initializer.name());
  }
  size_t next = 0;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (initializers.contains(input.name())) {
      continue;
    }
    absl::StatusOr<ValueInfo> declared = OnnxValueInfo(input.type());
    if (!declared.ok()) {
      return Annotate(declared.status(), absl::StrCat("body input ", Quote(input.name())));
    }
    ValueInfo info = inputs[next++];
    info.names = {input.name()};
    const ValueId value = builder.Parameter(input.name(), std::move(info));
    builder.Declare(value, *declared);
    if (!builder.ok()) {
      return Annotate(builder.status(), absl::StrCat("body input ", Quote(input.name())));
    }
    scope.Define(input.name(), value);
  }
  const OnnxPlace inside{place.import, place.opsets, scope, place.attributes, place.function_depth};
  const absl::Status status = TranslateOnnxGraph(graph, inside);
  if (!status.ok()) {
    return Annotate(status, "body");
  }
  OnnxBody body;
  body.num_inputs = count;
  body.captures = scope.captures();
  body.graph = builder.Take();
  body.graph.name = graph.name();
  return body;
}

}  // namespace beamwright::ops
