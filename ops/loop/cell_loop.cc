// Runs a loop whose body is one LSTM or GRU cell without the machinery of loops.
//
// 1. Find, at load, accepts a loop if one node of the body computes something (OnlyNode), and is a
//    cell with fused steps; if one input is sliced, and it is the cell's first; if each state of
//    the cell is carried to itself; and if all outputs are the cell's.
// 2. Run, after the first iteration, which the usual loop runs: each iteration calls the cell's
//    Step on the matrices. States go to one of two buffers in turn, so that a step reads one and
//    writes the other. Outputs that are collected are copied.
#include "ops/loop/cell_loop.h"

#include <algorithm>
#include <array>
#include <utility>

namespace beamwright::ops {
namespace {

constexpr size_t kMostStates = 2;  // H and C

// The one node that computes something; -1: there are several, or none.
int OnlyNode(const Graph& graph, const GraphInfo& info) {
  int only = -1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    const std::string& op = graph.nodes[i].op;
    if (op == "Parameter" || op == "Result" || info.IsKnown(index)) {
      continue;
    }
    if (only >= 0) {
      return -1;
    }
    only = index;
  }
  return only;
}

// Which output of node `cell` a result is; -1: something else.
int OutputOf(const Graph& graph, int cell, int result) {
  const ValueId value = graph.node(graph.results[static_cast<size_t>(result)]).inputs[0];
  return value.node == cell ? value.output : -1;
}

}  // namespace

std::optional<CellLoop> CellLoop::Find(const Loop& loop, const GraphInfo& body,
                                       const OperatorSet& operators) {
  const Graph& graph = loop.body;
  const int index = OnlyNode(graph, body);
  if (index < 0 || loop.condition_result >= 0 || loop.states_may_change_shape) {
    return std::nullopt;
  }
  const Node& node = graph.node(index);
  if (node.op != "LSTMCell" && node.op != "GRUCell") {
    return std::nullopt;
  }
  const auto parameter_of = [&](const LoopInput& rule) {
    return ValueId{graph.parameters[static_cast<size_t>(rule.body_parameter)], 0};
  };
  CellLoop found;
  found.states_.assign(node.outputs.size(), kMostStates);
  size_t num_states = 0;
  int num_sliced = 0;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kIteration) {
      return std::nullopt;
    }
    if (rule.kind == LoopInput::Kind::kSliced) {
      if (++num_sliced > 1 || node.inputs[0] != parameter_of(rule)) {
        return std::nullopt;
      }
    } else if (rule.kind == LoopInput::Kind::kCarried) {
      const int output = OutputOf(graph, index, rule.back_edge);
      if (output < 0 || node.inputs[static_cast<size_t>(output) + 1] != parameter_of(rule) ||
          found.states_[static_cast<size_t>(output)] != kMostStates) {
        return std::nullopt;
      }
      found.states_[static_cast<size_t>(output)] = num_states++;
    }
  }
  if (num_sliced != 1 || num_states != found.states_.size() || num_states > kMostStates) {
    return std::nullopt;
  }
  for (const LoopOutput& rule : loop.outputs) {
    const int output = OutputOf(graph, index, rule.body_result);
    if (output < 0) {
      return std::nullopt;
    }
    found.collected_.push_back(rule.kind == LoopOutput::Kind::kLastValue ? -1 : output);
  }
  const std::vector<InputInfo> inputs = body.InputsOf(graph, node);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      operators.Find(node.op)->make({node, inputs, operators});
  const auto* const steps = kernel.ok() ? dynamic_cast<const CellSteps*>(kernel->get()) : nullptr;
  if (steps == nullptr || !steps->IsFused()) {
    return std::nullopt;
  }
  const auto bias = static_cast<size_t>(steps->bias_input());
  if (bias < node.inputs.size() && node.inputs[bias].present()) {
    if (inputs[bias].value == nullptr) {
      return std::nullopt;
    }
    found.bias_ = *inputs[bias].value;
  }
  found.kernel_ = *std::move(kernel);
  found.steps_ = steps;
  return found;
}

bool CellLoop::Fits(const Slicer& slicer, absl::Span<const Tensor> states) const {
  return slicer.Rows(0, states[0].dim(0)).data != nullptr;
}

absl::Status CellLoop::Run(const ExecutionContext& context, const Slicer& slicer, int64_t trips,
                           const std::function<absl::Status(int64_t)>& check,
                           absl::Span<Tensor> states, absl::Span<Collector> collectors,
                           absl::Span<Tensor> outputs) const {
  const size_t count = states_.size();
  const int64_t rows = states[0].dim(0);
  std::array<std::array<Tensor, kMostStates>, 2> memory;  // by iteration in turn, and state
  std::array<const float*, kMostStates> now{};
  for (size_t i = 0; i < count; ++i) {
    const Tensor& state = states[states_[i]];
    now[i] = state.data<float>();
    for (auto& turn : memory) {
      turn[i] = Tensor(DType::kF32, state.shape());
    }
  }
  const float* const bias = bias_.has_value() ? bias_.data<float>() : nullptr;
  for (int64_t iteration = 1; iteration < trips; ++iteration) {
    BW_RETURN_IF_ERROR(check(iteration));
    std::array<float*, kMostStates> next{};
    for (size_t i = 0; i < count; ++i) {
      next[i] = memory[static_cast<size_t>(iteration % 2)][i].mutable_data<float>();
    }
    steps_->Step(context, slicer.Rows(iteration, rows), bias, {now.data(), count},
                 {next.data(), count});
    for (size_t i = 0; i < collected_.size(); ++i) {
      if (collected_[i] >= 0) {
        collectors[i].AddLike(next[static_cast<size_t>(collected_[i])], outputs[i]);
      }
    }
    std::copy_n(next.begin(), count, now.begin());
  }
  for (size_t i = 0; trips > 1 && i < count; ++i) {
    states[states_[i]] = memory[static_cast<size_t>((trips - 1) % 2)][i];
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
