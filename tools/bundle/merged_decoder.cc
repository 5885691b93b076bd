// Splits a decoder that Optimum exported as one file with both steps, the first and the later ones,
// chosen by an If over "use_cache_branch" (SplitMerged).
//
// 1. Choice finds the If, BranchOf its branches.
// 2. WithBranch makes a model of each: the branch's nodes take the place of the If, an Identity
//    renames its outputs where names differ, and inputs and constants that are not read are dropped
//    (AddRead, KeepRead). The later step does not return the keys and values of the source, as they
//    do not change.
#include "tools/bundle/merged_decoder.h"

#include <onnx/onnx_pb.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace beamwright::tools {
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
