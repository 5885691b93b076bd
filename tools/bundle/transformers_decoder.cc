#include <onnx/onnx_pb.h>

#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ops/base/status.h"
#include "tools/bundle/init_parts.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {

// Moves the keys and values of the source from a decoder's first step into the encoder. optimum
// exports a decoder as two graphs: the first step computes cross-attention's keys and values from
// the encoder's result and gives them as outputs ("present.0.encoder.key"), later steps read them.
// The server steps one graph, so the encoder must give them.
//
// Joiner copies the nodes that these outputs need (Needed) from the first step into the encoder's
// ONNX graph, with a prefix before their names, and connects the encoder's result, its mask, and,
// if the nodes read the number of rows from the tokens, tokens of any value (AddTokens).

namespace {

// past_key_values.0.encoder.key, present.0.encoder.value
bool IsCross(const std::string& name) {
  return absl::StrContains(name, ".encoder.") &&
         (absl::EndsWith(name, ".key") || absl::EndsWith(name, ".value"));
}

constexpr char kHidden[] = "encoder_hidden_states";

// Nodes of the first step that its cross results need, by the name of their first output.
std::set<std::string> Needed(const onnx::GraphProto& step) {
  std::map<std::string, const onnx::NodeProto*> makers;
  for (const onnx::NodeProto& node : step.node()) {
    for (const std::string& output : node.output()) {
      makers[output] = &node;
    }
  }
  std::set<std::string> needed;
  std::vector<std::string> open;
  for (const onnx::ValueInfoProto& output : step.output()) {
    if (IsCross(output.name())) {
      open.push_back(output.name());
    }
  }
  while (!open.empty()) {
    const auto maker = makers.find(open.back());
    open.pop_back();
    if (maker != makers.end() && needed.insert(maker->second->output(0)).second) {
      open.insert(open.end(), maker->second->input().begin(), maker->second->input().end());
    }
  }
  return needed;
}

class Joiner {
 public:
  Joiner(const onnx::GraphProto& step, bool keeps_hidden, onnx::GraphProto& encoder)
      : step_(step), keeps_hidden_(keeps_hidden), encoder_(encoder) {}

  absl::Status Run() {
    BW_RETURN_IF_ERROR(NamePorts());
    const std::set<std::string> needed = Needed(step_);
    if (needed.empty()) {
      return Invalid("it has no results such as present.0.encoder.key");
    }
    std::set<std::string> read;
    for (const onnx::NodeProto& node : step_.node()) {
      if (node.output_size() == 0 || needed.count(node.output(0)) == 0) {
        continue;
      }
      onnx::NodeProto& copy = *encoder_.add_node();
      copy = node;
      copy.set_name(absl::StrCat(kPrefix, node.name()));
      for (std::string& input : *copy.mutable_input()) {
        read.insert(input);
        input = NameOf(input);
      }
      for (std::string& output : *copy.mutable_output()) {
        output = NameOf(output);
      }
    }
    for (const onnx::TensorProto& tensor : step_.initializer()) {
      if (read.count(tensor.name()) > 0) {
        onnx::TensorProto& copy = *encoder_.add_initializer();
        copy = tensor;
        copy.set_name(NameOf(tensor.name()));
      }
    }
    for (const onnx::ValueInfoProto& input : step_.input()) {
      if (read.count(input.name()) > 0 && names_.count(input.name()) == 0) {
        return Invalid("its keys and values of the source need its input '", input.name(), "'");
      }
    }
    const onnx::ValueInfoProto hidden = encoder_.output(0);
    encoder_.clear_output();
    if (keeps_hidden_) {
      onnx::NodeProto& same = *encoder_.add_node();
      same.set_op_type("Identity");
      same.set_name(kHidden);
      same.add_input(hidden.name());
      same.add_output(kHidden);
      *encoder_.add_output() = hidden;
      encoder_.mutable_output(0)->set_name(kHidden);
    }
    for (const onnx::ValueInfoProto& output : step_.output()) {
      if (IsCross(output.name())) {
        *encoder_.add_output() = output;
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr absl::string_view kPrefix = "first_step/";

  // Maps the inputs of the first step to values of the encoder.
  absl::Status NamePorts() {
    if (encoder_.output_size() != 1) {
      return Invalid("the encoder has ", encoder_.output_size(), " results, not one");
    }
    names_[kHidden] = encoder_.output(0).name();
    for (const onnx::ValueInfoProto& input : encoder_.input()) {
      if (absl::StrContains(input.name(), "mask")) {
        names_["encoder_attention_mask"] = input.name();
      }
    }
    for (const onnx::ValueInfoProto& input : step_.input()) {
      if (input.name() == "input_ids") {
        names_[input.name()] = AddTokens(input.type().tensor_type().elem_type());
      }
    }
    return absl::OkStatus();
  }

  // Tokens [rows, 1] of any value: only their number is read.
  std::string AddTokens(int type) {
    const auto add = [this](const char* op, const std::vector<std::string>& inputs) {
      onnx::NodeProto& node = *encoder_.add_node();
      node.set_op_type(op);
      node.set_name(absl::StrCat(kPrefix, "tokens/", op));
      node.add_output(node.name());
      for (const std::string& input : inputs) {
        node.add_input(input);
      }
      return &node;
    };
    const auto list = [this](int64_t number) {
      onnx::TensorProto& tensor = *encoder_.add_initializer();
      tensor.set_name(absl::StrCat(kPrefix, "tokens/", number));
      tensor.set_data_type(onnx::TensorProto::INT64);
      tensor.add_dims(1);
      tensor.add_int64_data(number);
      return tensor.name();
    };
    const auto with_axis = [](onnx::NodeProto* node) {
      onnx::AttributeProto& axis = *node->add_attribute();
      axis.set_name("axis");
      axis.set_type(onnx::AttributeProto::INT);
      axis.set_i(0);
      return node->output(0);
    };
    const std::string shape = add("Shape", {encoder_.output(0).name()})->output(0);
    const std::string rows = with_axis(add("Gather", {shape, list(0)}));
    const std::string extents = with_axis(add("Concat", {rows, list(1)}));
    onnx::NodeProto* const tokens = add("ConstantOfShape", {extents});
    onnx::AttributeProto& value = *tokens->add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(type);
    value.mutable_t()->add_dims(1);
    if (type == onnx::TensorProto::INT64) {
      value.mutable_t()->add_int64_data(0);
    } else {
      value.mutable_t()->add_int32_data(0);
    }
    return tokens->output(0);
  }

  std::string NameOf(const std::string& name) const {
    const auto port = names_.find(name);
    if (port != names_.end()) {
      return port->second;
    }
    return name.empty() || IsCross(name) ? name : absl::StrCat(kPrefix, name);
  }

  const onnx::GraphProto& step_;
  const bool keeps_hidden_;
  onnx::GraphProto& encoder_;
  std::map<std::string, std::string> names_;
};

}  // namespace

bool LacksCrossMemory(const ops::Graph& step, const ops::Graph& encoder) {
  const ops::Ports given = ops::OutputPorts(encoder);
  const ops::Ports lacking = ops::Where(ops::InputPorts(step), [&](const ops::Port& input) {
    return IsCross(input.name) && ops::Where(given, [&](const ops::Port& output) {
                                    return ops::NameStem(output.name) == ops::NameStem(input.name);
                                  }).empty();
  });
  return !lacking.empty();
}

absl::StatusOr<std::string> AddCrossMemory(const std::string& encoder,
                                           const std::string& first_step, const ops::Graph& step) {
  onnx::ModelProto joined;
  onnx::ModelProto first;
  if (!joined.ParseFromString(encoder) || !first.ParseFromString(first_step)) {
    return Invalid("the encoder or the first step is no ONNX file");
  }
  const bool keeps_hidden = ops::FindPort(ops::InputPorts(step), kHidden) != nullptr;
  BW_RETURN_IF_ERROR(Joiner(first.graph(), keeps_hidden, *joined.mutable_graph()).Run());
  return joined.SerializeAsString();
}

// Splits a decoder that Optimum exported as one file with both steps, the first and the later ones,
// chosen by an If over "use_cache_branch" (SplitMerged).
//
// 1. Choice finds the If, BranchOf its branches.
// 2. WithBranch makes a model of each: the branch's nodes take the place of the If, an Identity
//    renames its outputs where names differ, and inputs and constants that are not read are dropped
//    (AddRead, KeepRead). The later step does not return the keys and values of the source, as they
//    do not change.

namespace {

constexpr char kCondition[] = "use_cache_branch";

// The If that holds both steps; null: not found.
const onnx::NodeProto* Choice(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "If" && node.input_size() == 1 && node.input(0) == kCondition) {
      return &node;
    }
  }
  return nullptr;
}

const onnx::GraphProto* BranchOf(const onnx::NodeProto& choice, absl::string_view name) {
  for (const onnx::AttributeProto& attribute : choice.attribute()) {
    if (attribute.name() == name) {
      return &attribute.g();
    }
  }
  return nullptr;
}

// What nodes, those of graphs inside them among them, read.
void AddRead(const onnx::GraphProto& graph, std::set<std::string>& read) {
  for (const onnx::NodeProto& node : graph.node()) {
    read.insert(node.input().begin(), node.input().end());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      AddRead(attribute.g(), read);
    }
  }
  for (const onnx::ValueInfoProto& output : graph.output()) {
    read.insert(output.name());
  }
}

// Drops what is not read.
template <typename Field>
void KeepRead(const std::set<std::string>& read, Field& field) {
  Field kept;
  for (auto& each : field) {
    if (read.count(each.name()) > 0) {
      *kept.Add() = std::move(each);
    }
  }
  field = std::move(kept);
}

// The file with a branch's nodes in the place of the If. is_step: the keys and values of the source
// go in and stay.
std::string WithBranch(onnx::ModelProto model, const onnx::NodeProto& choice,
                       const onnx::GraphProto& branch, bool is_step) {
  onnx::GraphProto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.output_size() != choice.output_size() || node.op_type() != "If" ||
        node.output(0) != choice.output(0)) {
      *nodes.Add() = node;
      continue;
    }
    for (const onnx::NodeProto& inside : branch.node()) {
      *nodes.Add() = inside;
    }
    for (int i = 0; i < choice.output_size(); ++i) {
      if (branch.output(i).name() != choice.output(i)) {
        onnx::NodeProto& same = *nodes.Add();
        same.set_op_type("Identity");
        same.add_input(branch.output(i).name());
        same.add_output(choice.output(i));
      }
    }
  }
  *graph.mutable_node() = std::move(nodes);
  graph.mutable_initializer()->MergeFrom(branch.initializer());
  if (is_step) {
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> outputs;
    for (const onnx::ValueInfoProto& output : graph.output()) {
      if (!absl::StrContains(output.name(), ".encoder.")) {
        *outputs.Add() = output;
      }
    }
    *graph.mutable_output() = std::move(outputs);
  }
  std::set<std::string> read;
  AddRead(graph, read);
  KeepRead(read, *graph.mutable_input());
  KeepRead(read, *graph.mutable_initializer());
  return model.SerializeAsString();
}

}  // namespace

std::optional<MergedDecoder> SplitMerged(const std::string& merged) {
  onnx::ModelProto model;
  if (!model.ParseFromString(merged)) {
    return std::nullopt;
  }
  const onnx::NodeProto* const found = Choice(model.graph());
  if (found == nullptr) {
    return std::nullopt;
  }
  const onnx::NodeProto choice = *found;
  const onnx::GraphProto* const step = BranchOf(choice, "then_branch");
  const onnx::GraphProto* const first = BranchOf(choice, "else_branch");
  if (step == nullptr || first == nullptr || step->output_size() != choice.output_size() ||
      first->output_size() != choice.output_size()) {
    return std::nullopt;
  }
  // Of the graph without the If only what the branches share is copied.
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (node.op_type() == "If" && node.output(0) == choice.output(0)) {
      node.clear_attribute();
    }
  }
  return MergedDecoder{WithBranch(model, choice, *step, true),
                       WithBranch(model, choice, *first, false)};
}

}  // namespace beamwright::tools
