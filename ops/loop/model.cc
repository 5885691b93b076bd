// A compiled graph that is run once for each request, such as an encoder.
//
// 1. Compile infers types and shapes, runs the passes of encoders (EncoderPasses), and makes a
//    program of kernels. With `rows` it also tries to prove that sources can be computed as rows of
//    one batch (RowProof).
// 2. Run puts the inputs into slots, lets results reuse the memory of the outputs it is given, runs
//    the program, and takes the results out. A workspace keeps the slots' memory for the next run,
//    but no values of a request: views, results and inputs are released, since others own or may
//    change their memory.
#include "ops/loop/model.h"

#include <optional>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/graph/rewrite.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {

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
  PassContext context =
      proof == nullptr ? PassContext{operators} : SourcesContext(model->graph_, operators);
  std::optional<EncoderRows> encoder;
  if (proof != nullptr) {
    encoder.emplace(EncoderRows{*rows, *proof, is_for_one ? &as_exported : nullptr});
    context.encoder = &*encoder;
  }
  BW_RETURN_IF_ERROR(RunPasses(EncoderPasses(), model->graph_, info, context).status());
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
