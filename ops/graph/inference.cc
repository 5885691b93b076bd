// Inference goes over the nodes once, in topological order (Inference::Run):
//
//   1. CheckInputs: a node reads earlier nodes alone.
//   2. InferOutputs: the operator says types and shapes, with what is known of its inputs. Loops
//      and branches infer their bodies by another Inference (InferLoop, InferIf). A Loop whose
//      states change shape repeats that, with the extents that differ unknown, until nothing does.
//   3. MergeInfo: what the file declares is joined with what was inferred; a contradiction is an
//      error of the file.
//   4. FoldPicked, Fold: what depends on constants alone is computed now, by the operator's own
//      kernel. InferenceBudget bounds time and memory, so no file makes a load expensive.
//
// After a fault the rest is inferred as far as it does not depend on the faulty node, so that one
// error names up to 20 faults. FaultsBesideUnknown passes over operators that are not known.
#include "ops/graph/inference.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/graph/body_maps.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference_parts.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

// Unknown operators: errors, or passed over with all that hangs on them.
enum class Unknown { kRefused, kPassedOver };

// What Run gives where nothing is wrong with what can be judged, and something cannot be.
bool IsPassedOver(const absl::Status& status) { return absl::IsCancelled(status); }

class Inference {
 public:
  Inference(Graph& graph, const OperatorSet& operators, int depth, InferenceBudget& budget,
            Unknown unknown = Unknown::kRefused)
      : graph_(graph), operators_(operators), depth_(depth), budget_(budget), unknown_(unknown) {}

  absl::StatusOr<GraphInfo> Run(const std::vector<Tensor>& parameter_values) {
    if (depth_ > kMaxLoopDepth) {
      return Invalid("loops and branches are nested more than ", kMaxLoopDepth, " deep");
    }
    const size_t count = graph_.nodes.size();
    MakeRoom();
    for (size_t i = 0; i < parameter_values.size(); ++i) {
      info_.constants[static_cast<size_t>(graph_.parameters[i])][0] = parameter_values[i];
    }
    std::vector<absl::Status> faults;
    bool is_partial = false;  // there are values of which nothing is known
    for (size_t i = 0; i < count && faults.size() < kMostFaults; ++i) {
      const auto index = static_cast<int>(i);
      const absl::Status structure = CheckInputs(index);
      if (!structure.ok()) {
        return Annotate(structure, Describe(graph_.node(index)));
      }
      if (is_partial && ReadsUnknown(index)) {
        ForgetTooLarge(index);
        continue;
      }
      const absl::Status status = InferNode(index);
      if (!status.ok()) {
        is_partial = true;
        ForgetTooLarge(index);
      }
      if (!status.ok() && !IsPassedOver(status)) {
        faults.push_back(Annotate(status, Describe(graph_.node(index))));
        if (!CanGoOn(status)) {
          break;
        }
      }
    }
    BW_RETURN_IF_ERROR(JoinErrors(faults));
    if (is_partial) {
      return absl::CancelledError();
    }
    return std::move(info_);
  }

  // Infers the next node that has not been.
  absl::Status InferNext() {
    MakeRoom();
    const int index = next_++;
    BW_RETURN_IF_ERROR(CheckInputs(index));
    return InferNode(index);
  }
  bool AllInferred() const { return static_cast<size_t>(next_) == graph_.nodes.size(); }
  const GraphInfo& info() const { return info_; }

 private:
  // The most faults that one message names.
  static constexpr size_t kMostFaults = 20;

  static bool CanGoOn(const absl::Status& status) {
    return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
  }

  // Behind a fault a value is what the file declares it to be; ONNX files mostly declare nothing.
  bool ReadsUnknown(int index) const {
    const std::vector<ValueId>& inputs = graph_.node(index).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) {
      return id.present() && graph_.info(id).dtype == DType::kUndefined;
    });
  }

  // What was not inferred is as the file declares it, perhaps too large for those who compute with
  // extents.
  void ForgetTooLarge(int index) {
    Node& node = graph_.node(index);
    if (!CheckExtents(node).ok()) {
      node.outputs.assign(node.outputs.size(), ValueInfo());
    }
  }

  // What is known of nodes grows with the graph, which importers infer while they build it.
  void MakeRoom() {
    const size_t known = info_.constants.size();
    info_.constants.resize(graph_.nodes.size());
    info_.bodies.resize(graph_.nodes.size());
    for (size_t i = known; i < graph_.nodes.size(); ++i) {
      info_.constants[i].resize(graph_.nodes[i].outputs.size());
    }
  }

  absl::Status CheckInputs(int index) const {
    const Node& node = graph_.node(index);
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      const ValueId id = node.inputs[port];
      if (!id.present()) {
        continue;
      }
      if (id.node >= index || id.output < 0 ||
          static_cast<size_t>(id.output) >= graph_.node(id.node).outputs.size()) {
        return Invalid("input ", port, " reads output ", id.output, " of node ", id.node,
                       ", which is not computed before it");
      }
    }
    return absl::OkStatus();
  }

  // Parameters, Constants and Results by themselves; then the operator, with the file's declaration
  // put aside so that it cannot pass for an inference, and joined to it afterwards. Loops and
  // branches are not folded here: their bodies were, node by node.
  absl::Status InferNode(int index) {
    ForgetIdle();  // of the nodes before
    Node& node = graph_.node(index);
    if (node.op == "Parameter") {
      return CheckExtents(node);
    }
    if (node.op == "Constant" && !node.constant.has_value()) {
      return absl::OkStatus();  // dropped (DropLargeConstants): its type and shape stand there
    }
    if (node.op == "Constant") {
      node.outputs[0].dtype = node.constant.dtype();
      node.outputs[0].shape = PartialShape(node.constant.shape());
      info_.constants[static_cast<size_t>(index)][0] = node.constant;
      budget_.AddConstant(node.constant);
      return absl::OkStatus();
    }
    if (node.op == "Result") {
      return node.inputs.size() == 1 && node.inputs[0].present()
                 ? absl::OkStatus()
                 : Invalid("needs exactly one input");
    }
    const std::vector<InputInfo> inputs = info_.InputsOf(graph_, node);
    const std::vector<ValueInfo> declared = node.outputs;
    for (ValueInfo& output : node.outputs) {
      output.dtype = DType::kUndefined;
      output.shape = PartialShape();
    }
    const Operator* const op = operators_.Find(node.op);
    if (const absl::Status status = InferOutputs(index, op, inputs); !status.ok()) {
      node.outputs = declared;
      return status;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const absl::Status status =
          MergeInfo(absl::StrCat("output ", i), declared[i], node.outputs[i]);
      if (!status.ok()) {
        node.outputs.assign(declared.size(), ValueInfo());
        return status;
      }
    }
    BW_RETURN_IF_ERROR(CheckExtents(node));
    if (node.loop != nullptr || node.branches != nullptr) {
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(FoldPicked(index, inputs, *op));
    return info_.IsKnown(index) ? absl::OkStatus() : Fold(index, inputs, *op);
  }

  // Types and shapes of a node's outputs as its operator infers them.
  absl::Status InferOutputs(int index, const Operator* op, const std::vector<InputInfo>& inputs) {
    Node& node = graph_.node(index);
    if (node.op == "Loop") {
      return InferLoop(index, inputs);
    }
    if (node.op == "If") {
      return InferIf(index, inputs);
    }
    if (op == nullptr) {
      return unknown_ == Unknown::kPassedOver
                 ? absl::CancelledError()
                 : absl::UnimplementedError("operator is not supported");
    }
    BW_RETURN_IF_ERROR(CheckAttributes(node, *op));
    return op->infer(node, inputs, node.outputs);
  }

  // No tensor can be larger, and operators may add and multiply extents without fear.
  static absl::Status CheckExtents(const Node& node) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Shape known = node.outputs[i].shape.dims();
      std::replace(known.begin(), known.end(), PartialShape::kDynamic, int64_t{1});
      const absl::Status status = CheckedNumElements(known).status();
      if (!status.ok()) {
        return Annotate(status, absl::StrCat("output ", i));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckAttributes(const Node& node, const Operator& op) {
    for (const auto& [name, value] : node.attributes.values()) {
      if (name != kFileOperator &&
          std::find(op.attributes.begin(), op.attributes.end(), name) == op.attributes.end()) {
        return absl::UnimplementedError(
            absl::StrCat("attribute '", name, "' is not supported; known are: ",
                         op.attributes.empty() ? "none" : absl::StrJoin(op.attributes, ", ")));
      }
    }
    return absl::OkStatus();
  }

  // The body's Parameters get the types of what enters; shapes of states are those at the start. If
  // the body gives a state another shape and the loop allows that, the extents that differ become
  // unknown (WidenStates) and the body is inferred anew; every pass makes one more extent unknown,
  // so this ends. The budget counts the repetitions.
  absl::Status InferLoop(int index, absl::Span<const InputInfo> inputs) {
    Node& node = graph_.node(index);
    BW_RETURN_IF_ERROR(CheckLoopMaps(node));
    BW_ASSIGN_OR_RETURN(StateShapes states, FirstStateShapes(node, inputs));
    const InferenceBudget::Held before = budget_.held();
    while (true) {
      auto loop = std::make_shared<Loop>(*node.loop);
      std::vector<Tensor> constants;
      BW_RETURN_IF_ERROR(PrepareBody(node, inputs, states, loop->body, constants));
      BW_ASSIGN_OR_RETURN(auto body, InferBody("body", loop->body, constants));
      if (loop->states_may_change_shape && WidenStates(*loop, loop->body, states)) {
        BW_RETURN_IF_ERROR(budget_.AddRepeated(loop->body.nodes.size()));
        budget_.Release(before);
        continue;
      }
      BW_RETURN_IF_ERROR(SettleRules(node, inputs, *loop));
      node.loop = std::move(loop);
      BW_RETURN_IF_ERROR(InferLoopOutputs(node, *body, inputs, node.outputs));
      info_.bodies[static_cast<size_t>(index)] = {std::move(body)};
      return absl::OkStatus();
    }
  }

  // Both branches, or the one that is taken, where the condition is known. The outputs are what the
  // branches agree on.
  absl::Status InferIf(int index, absl::Span<const InputInfo> inputs) {
    Node& node = graph_.node(index);
    BW_RETURN_IF_ERROR(CheckBranchMaps(node));
    auto branches = std::make_shared<If>(*node.branches);
    BW_ASSIGN_OR_RETURN(
        const KnownCondition condition,
        ReadCondition("the condition", inputs[static_cast<size_t>(branches->condition_input)]));
    std::vector<std::shared_ptr<const GraphInfo>> bodies(2);
    const Branch* taken[2] = {nullptr, nullptr};
    for (size_t i = 0; i < 2; ++i) {
      const bool is_then = i == 0;
      if (condition.known && condition.value != is_then) {
        continue;
      }
      Branch& branch = is_then ? branches->then_branch : branches->else_branch;
      const char* const what = is_then ? "then branch" : "else branch";
      std::vector<Tensor> constants;
      const absl::Status status = PrepareBranch(branch, inputs, branch.body, constants);
      if (!status.ok()) {
        return Annotate(status, what);
      }
      BW_ASSIGN_OR_RETURN(bodies[i], InferBody(what, branch.body, constants));
      taken[i] = &branch;
    }
    BW_RETURN_IF_ERROR(InferBranchOutputs(taken[0], taken[1], node.outputs));
    info_.bodies[static_cast<size_t>(index)] = std::move(bodies);
    node.branches = std::move(branches);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const GraphInfo>> InferBody(absl::string_view what, Graph& body,
                                                             const std::vector<Tensor>& constants) {
    BW_RETURN_IF_ERROR(budget_.AddBody());
    absl::StatusOr<GraphInfo> info =
        Inference(body, operators_, depth_ + 1, budget_, unknown_).Run(constants);
    if (!info.ok()) {
      return Annotate(info.status(), what);
    }
    return std::make_shared<const GraphInfo>(*std::move(info));
  }

  // The extents of what a ShapeOf is asked for, -1 where they are not known; no value for other
  // nodes, or without a rank.
  Tensor PartialExtents(ValueId id) const {
    if (!id.present() || graph_.node(id.node).op != "ShapeOf") {
      return Tensor();
    }
    const PartialShape& shape = graph_.info(graph_.node(id.node).inputs[0]).shape;
    const absl::StatusOr<Tensor> extents =
        shape.has_rank()
            ? Convert(Tensor::Of<int64_t>({shape.rank()}, shape.dims()), graph_.info(id).dtype)
            : Tensor();
    return extents.value_or(Tensor());
  }

  // Operators that pick elements of a shape: what they pick may be known where the whole is not.
  // Conditions on one extent hang on it, for example whether a squeeze has something to do.
  absl::Status FoldPicked(int index, std::vector<InputInfo> inputs, const Operator& op) {
    const Node& node = graph_.node(index);
    const bool picks = node.op == "Gather" || node.op == "Slice" || node.op == "StridedSlice";
    if (!picks || inputs[0].value != nullptr) {
      return absl::OkStatus();
    }
    const Tensor extents = PartialExtents(node.inputs[0]);
    inputs[0].value = &extents;
    if (!extents.has_value() || extents.dtype() != node.outputs[0].dtype) {
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(Fold(index, inputs, op));
    Tensor& picked = info_.constants[static_cast<size_t>(index)][0];
    if (picked.has_value()) {
      BW_ASSIGN_OR_RETURN(const std::vector<int64_t> elements, ToInt64(picked));
      if (std::any_of(elements.begin(), elements.end(), [](int64_t e) { return e < 0; })) {
        picked = Tensor();
      }
    }
    return absl::OkStatus();
  }

  // Computes at load what depends on constants alone.
  absl::Status Fold(int index, absl::Span<const InputInfo> inputs, const Operator& op) {
    const Node& node = graph_.node(index);
    std::vector<const Tensor*> values;
    const Tensor absent;
    for (const InputInfo& input : inputs) {
      if (input.dtype != DType::kUndefined && input.value == nullptr) {
        return absl::OkStatus();
      }
      values.push_back(input.value == nullptr ? &absent : input.value);
    }
    for (const ValueInfo& output : node.outputs) {
      if (!output.shape.is_static()) {
        return absl::OkStatus();
      }
    }
    if (!budget_.MayFold(node, values, node.outputs)) {
      return absl::OkStatus();
    }
    // A kernel that runs once need not pack its weights.
    std::vector<InputInfo> unknown(inputs.begin(), inputs.end());
    for (InputInfo& input : unknown) {
      input.value = nullptr;
    }
    BW_ASSIGN_OR_RETURN(const std::shared_ptr<const Kernel> kernel,
                        op.make(KernelRequest{node, unknown, operators_}));
    std::vector<Tensor>& results = info_.constants[static_cast<size_t>(index)];
    const TensorLimit limit(InferenceBudget::MaxFoldedBytes(values));
    absl::Status status = kernel->Run(ExecutionContext(), values, absl::MakeSpan(results));
    if (absl::IsResourceExhausted(status)) {
      // Its intermediate results are too large at load; a run reports the error.
      results.assign(results.size(), Tensor());
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(status);
    return DeferResults(kernel, values, results);
  }

  Graph& graph_;
  const OperatorSet& operators_;
  int depth_;
  InferenceBudget& budget_;
  const Unknown unknown_;
  int next_ = 0;  // of InferNext
  GraphInfo info_;
};

}  // namespace

bool GraphInfo::IsKnown(int node) const {
  const std::vector<Tensor>& outputs = constants[static_cast<size_t>(node)];
  return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(),
                                         [](const Tensor& output) { return output.has_value(); });
}

std::vector<InputInfo> GraphInfo::InputsOf(const Graph& graph, const Node& node) const {
  std::vector<InputInfo> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) {
    InputInfo input;
    if (id.present()) {
      input.dtype = graph.info(id).dtype;
      input.shape = graph.info(id).shape;
      const Tensor& value = constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
      input.value = value.has_value() ? &value : nullptr;
    }
    inputs.push_back(input);
  }
  return inputs;
}

absl::StatusOr<GraphInfo> InferGraph(Graph& graph, const OperatorSet& operators) {
  InferenceBudget budget;
  return Inference(graph, operators, 0, budget).Run({});
}

absl::Status FaultsBesideUnknown(Graph graph, const OperatorSet& operators) {
  InferenceBudget budget;
  const absl::Status status =
      Inference(graph, operators, 0, budget, Unknown::kPassedOver).Run({}).status();
  return IsPassedOver(status) ? absl::OkStatus() : status;
}

// In a graph of the node alone, with a Parameter for each of its inputs.
absl::StatusOr<std::vector<ValueInfo>> InferNodeOutputs(const Node& node,
                                                        absl::Span<const InputInfo> inputs,
                                                        const OperatorSet& operators) {
  Graph graph;
  std::vector<Tensor> values;
  Node alone = node;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == DType::kUndefined) {
      continue;
    }
    Node parameter;
    parameter.op = "Parameter";
    parameter.outputs.resize(1);
    parameter.outputs[0].dtype = inputs[i].dtype;
    parameter.outputs[0].shape = inputs[i].shape;
    alone.inputs[i] = {static_cast<int>(graph.nodes.size()), 0};
    graph.parameters.push_back(alone.inputs[i].node);
    graph.nodes.push_back(std::move(parameter));
    values.push_back(inputs[i].value == nullptr ? Tensor() : *inputs[i].value);
  }
  graph.nodes.push_back(std::move(alone));
  InferenceBudget budget;
  BW_RETURN_IF_ERROR(Inference(graph, operators, 0, budget).Run(values).status());
  return graph.nodes.back().outputs;
}

class StepwiseInference::Impl {
 public:
  Impl(Graph& inferred, const OperatorSet& known, Impl* outside)
      : graph(inferred),
        operators(known),
        depth(outside == nullptr ? 0 : outside->depth + 1),
        budget(outside == nullptr ? own_budget : outside->budget),
        before(budget.held()),
        inference(inferred, known, depth, budget) {}
  ~Impl() { budget.Release(before); }

  Graph& graph;
  const OperatorSet& operators;
  const int depth;
  InferenceBudget own_budget;  // used by the outermost graph only
  InferenceBudget& budget;
  const InferenceBudget::Held before;
  Inference inference;
};

StepwiseInference::StepwiseInference(Graph& graph, const OperatorSet& operators)
    : impl_(std::make_unique<Impl>(graph, operators, nullptr)) {}

StepwiseInference::StepwiseInference(Graph& graph, StepwiseInference& outside)
    : impl_(std::make_unique<Impl>(graph, outside.impl_->operators, outside.impl_.get())) {}

StepwiseInference::~StepwiseInference() = default;

absl::Status StepwiseInference::InferAppended() {
  while (!impl_->inference.AllInferred()) {
    BW_RETURN_IF_ERROR(impl_->inference.InferNext());
  }
  return absl::OkStatus();
}

absl::Status StepwiseInference::Declare(ValueId value, const ValueInfo& declared) {
  ValueInfo& known = impl_->graph.node(value.node).outputs[static_cast<size_t>(value.output)];
  return MergeInfo("value", declared, known);
}

const GraphInfo& StepwiseInference::info() const { return impl_->inference.info(); }

}  // namespace beamwright::ops
