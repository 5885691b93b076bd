#include "ops/loop/model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/compile/elementwise_chains.h"
#include "ops/compile/extents.h"
#include "ops/compile/hoist_inputs.h"
#include "ops/compile/item_scales.h"
#include "ops/compile/joined_layers.h"
#include "ops/compile/layer_transposes.h"
#include "ops/compile/opened_batch.h"
#include "ops/compile/own_lengths.h"
#include "ops/compile/part_axes.h"
#include "ops/compile/scaled_products.h"
#include "ops/compile/shape_folding.h"
#include "ops/graph/rewrite.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

// The passes over a whole graph whose shapes are folded, in their order. Each takes graph and info
// as InferGraph leaves them, leaves them so, and keeps the bits of every result; its header has the
// graph before and after. A new one is a file in ops/compile and a line here.
using Pass = absl::Status (*)(Graph& graph, GraphInfo& info, const OperatorSet& operators);
constexpr Pass kPasses[] = {
    &HoistInputProducts,   // loop-invariant code motion: X * W^T of a cell, once for all time steps
    &DropPartAxes,         // no Squeeze and Unsqueeze of slices and parts
    &DropLayerTransposes,  // states of layers where they are
    &JoinScaledProducts,   // an integer product with its conversions, scales and sums
    &JoinLayers,           // attention, norms and biases, one operator each
    &JoinElementwise,      // functions of elements one after another: an ElementwiseChain
};

}  // namespace

absl::Status CheckParameter(const Graph& graph, int parameter_node, const Tensor& tensor) {
  const ValueInfo& declared = graph.node(parameter_node).outputs[0];
  if (tensor.dtype() == declared.dtype && declared.shape.Accepts(tensor.shape())) {
    return absl::OkStatus();
  }
  return Invalid("input '", PortName(graph, parameter_node), "' is ", Name(tensor.dtype()),
                 ToString(tensor.shape()), "; the model takes ", Name(declared.dtype),
                 declared.shape.ToString());
}

absl::StatusOr<std::unique_ptr<Model>> Model::Compile(Graph graph, Precision weights) {
  return Compile(std::move(graph), weights, nullptr, nullptr);
}

absl::StatusOr<std::unique_ptr<Model>> Model::Compile(Graph graph, Precision weights,
                                                      const RowInputs& rows, RowProof& proof) {
  return Compile(std::move(graph), weights, &rows, &proof);
}

absl::StatusOr<std::unique_ptr<Model>> Model::Compile(Graph graph, Precision weights,
                                                      const RowInputs* rows, RowProof* proof) {
  const OperatorSet& operators = Operators(weights);
  std::unique_ptr<Model> model(new Model());
  const bool is_for_one = proof != nullptr && IsForOneRow(graph);
  const Graph as_exported = is_for_one ? graph : Graph();
  model->graph_ = std::move(graph);
  if (rows != nullptr && rows->mask >= 0 && rows->length_axis > 0) {
    constexpr int64_t kLength = 0;
    const std::vector<int>& parameters = model->graph_.parameters;
    ShareExtent(rows->length_axis, kLength,
                model->graph_.node(parameters[static_cast<size_t>(rows->source)]));
    ShareExtent(1, kLength, model->graph_.node(parameters[static_cast<size_t>(rows->mask)]));
  }
  BW_ASSIGN_OR_RETURN(GraphInfo info, InferGraph(model->graph_, operators));
  BW_RETURN_IF_ERROR(proof == nullptr ? FoldShapes(model->graph_, info, operators)
                                      : FoldShapesOfSources(model->graph_, info, operators));
  if (proof != nullptr) {
    *proof = TakeScalesByItem(info, operators, *rows, model->graph_);
  }
  if (is_for_one && !proof->separable) {
    const std::string why = OpenBatch(as_exported, operators, *rows, model->graph_, info, *proof);
    if (!why.empty()) {
      absl::StrAppend(&proof->reason, ", and it can't be opened to more: ", why);
    }
  }
  if (proof != nullptr && proof->separable && rows->length_axis > 0) {
    proof->lengths = GiveRowsLengths(*rows, operators, model->graph_, info);
  }
  for (const Pass pass : kPasses) {
    BW_RETURN_IF_ERROR(pass(model->graph_, info, operators));
  }
  DropLargeConstants(model->graph_);
  const std::vector<bool> all(model->graph_.nodes.size(), true);
  BW_ASSIGN_OR_RETURN(model->program_, Program::Compile(model->graph_, info, operators, all));
  Program* const program = &model->program_;
  Program::DropUnread(model->graph_, {&program, 1});
  return model;
}

absl::Status Model::Run(const ExecutionContext& context, absl::Span<const Tensor> inputs,
                        std::vector<Tensor>& outputs) const {
  Workspace workspace;
  return Run(context, inputs, workspace, outputs);
}

absl::Status Model::Run(const ExecutionContext& context, absl::Span<const Tensor> inputs,
                        Workspace& workspace, std::vector<Tensor>& outputs) const {
  if (inputs.size() != graph_.parameters.size()) {
    return Invalid("got ", inputs.size(), " inputs; the model takes ", graph_.parameters.size());
  }
  Slots& slots = workspace.slots;
  if (slots.empty()) {
    slots = program_.MakeSlots();
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    BW_RETURN_IF_ERROR(CheckParameter(graph_, graph_.parameters[i], inputs[i]));
    slots[SlotOf({graph_.parameters[i], 0})] = inputs[i];
  }
  outputs.resize(graph_.results.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId value = graph_.node(graph_.results[i]).inputs[0];
    Tensor old = std::exchange(outputs[i], Tensor());
    if (program_.Computes(program_.slot(value))) {
      slots[SlotOf(value)] = std::move(old);
    }
  }
  const absl::Status status = program_.Run(context, slots);
  for (size_t i = 0; status.ok() && i < outputs.size(); ++i) {
    outputs[i] = slots[SlotOf(graph_.node(graph_.results[i]).inputs[0])];
  }
  // The slots keep only memory without another owner.
  program_.ReleaseViews(slots);
  for (const int result : graph_.results) {
    const ValueId value = graph_.node(result).inputs[0];
    if (program_.Computes(program_.slot(value))) {
      slots[SlotOf(value)] = Tensor();
    }
  }
  for (const int parameter : graph_.parameters) {
    slots[SlotOf({parameter, 0})] = Tensor();
  }
  return status;
}

}  // namespace beamwright::ops
