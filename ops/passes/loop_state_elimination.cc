// SimplifyStates: states of loops that nothing changes, or that count, are states no more.
//
//   before: Loop(state w, state i) { w' = w; i' = i + 1 }     a `while` as TensorFlow writes it
//   after:  Loop(invariant w, iteration number i)
//
// As states, weights are not known when the body is compiled, and neither they nor the number can
// be separated from what belongs to rows. Also in loops inside of bodies.
//
// Below: DropDeadOutputs, for outputs that nothing reads.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

bool IsOneNumber(const Tensor& tensor, int64_t number) {
  return tensor.has_value() && tensor.num_elements() == 1 && IsInteger(tensor.dtype()) &&
         ToInt64(tensor).value_or(std::vector<int64_t>{number + 1})[0] == number;
}

class StateSimplifier {
 public:
  // The graph with plainer states; nothing if it has none to simplify.
  static std::optional<Graph> Simplified(const Graph& graph, const GraphInfo& info) {
    const bool has_loops = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                       [](const Node& node) { return node.loop != nullptr; });
    return has_loops ? StateSimplifier(graph, info).Run() : std::nullopt;
  }

 private:
  StateSimplifier(const Graph& graph, const GraphInfo& info)
      : graph_(graph), info_(info), copy_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (graph_.nodes[i].loop != nullptr && Simplify(index)) {
        any = true;
      } else {
        copy_.Keep(index);
      }
    }
    return any ? std::optional(std::move(copy_).Finish()) : std::nullopt;
  }

  const Tensor& Known(ValueId id) const {
    return info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  }

  bool IsRead(ValueId value) const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
    });
  }

  // Outputs that give the last value of a state.
  static std::vector<int> LastValues(const Loop& loop, const LoopInput& state) {
    std::vector<int> outputs;
    for (const LoopOutput& rule : loop.outputs) {
      if (rule.kind == LoopOutput::Kind::kLastValue && rule.body_result == state.back_edge) {
        outputs.push_back(rule.output);
      }
    }
    return outputs;
  }

  // Whether a state starts with 0 and is one more in each iteration, and nothing reads it
  // afterwards.
  bool Counts(int index, const LoopInput& rule, const GraphInfo& inside) const {
    const Node& node = graph_.node(index);
    const Loop& loop = *node.loop;
    const ValueId state{loop.body.parameters[static_cast<size_t>(rule.body_parameter)], 0};
    const ValueInfo& info = loop.body.info(state);
    const int result = loop.body.results[static_cast<size_t>(rule.back_edge)];
    const Node& next = loop.body.node(loop.body.node(result).inputs[0].node);
    if (!info.shape.has_rank() || info.shape.rank() != 0 ||
        (info.dtype != DType::kI64 && info.dtype != DType::kI32) || next.op != "Add" ||
        !IsOneNumber(Known(node.inputs[static_cast<size_t>(rule.input)]), 0)) {
      return false;
    }
    const auto is_one = [&](ValueId id) {
      return IsOneNumber(
          inside.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)], 1);
    };
    if (!(next.inputs[0] == state && is_one(next.inputs[1])) &&
        !(next.inputs[1] == state && is_one(next.inputs[0]))) {
      return false;
    }
    const std::vector<int> outputs = LastValues(loop, rule);
    return std::none_of(outputs.begin(), outputs.end(), [&](int output) {
      return IsRead({index, output});
    });
  }

  bool Simplify(int index) {
    const Node& node = graph_.node(index);
    const auto& bodies = info_.bodies[static_cast<size_t>(index)];
    if (bodies.empty() || bodies[0] == nullptr || node.loop->items != Loop::Items::kTogether) {
      return false;
    }
    Loop loop = *node.loop;
    std::optional<Graph> body_inside = Simplified(loop.body, *bodies[0]);
    bool changed = body_inside.has_value();
    if (changed) {
      loop.body = *std::move(body_inside);
    }
    std::vector<int> dropped;  // outputs
    for (LoopInput& rule : loop.inputs) {
      if (rule.kind != LoopInput::Kind::kCarried || rule.back_edge == loop.condition_result) {
        continue;
      }
      const Graph& body = node.loop->body;
      const int result = body.results[static_cast<size_t>(rule.back_edge)];
      const ValueId state{body.parameters[static_cast<size_t>(rule.body_parameter)], 0};
      const bool stays = body.node(result).inputs[0] == state;
      if (!stays && !Counts(index, rule, *bodies[0])) {
        continue;
      }
      for (const int output : LastValues(*node.loop, rule)) {
        dropped.push_back(output);
        if (stays) {
          copy_.Replace({index, output}, copy_.Of(node.inputs[static_cast<size_t>(rule.input)]));
        }
      }
      rule.kind = stays ? LoopInput::Kind::kInvariant : LoopInput::Kind::kIteration;
      rule.input = stays ? rule.input : -1;
      rule.back_edge = -1;
      changed = true;
    }
    if (changed) {
      Put(index, std::move(loop), dropped);
    }
    return changed;
  }

  // Appends a loop that stands for node `index`, without some of its outputs.
  void Put(int index, Loop loop, const std::vector<int>& dropped) {
    Node node = copy_.Moved(index);
    std::vector<int> kept;
    std::vector<ValueInfo> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (std::find(dropped.begin(), dropped.end(), static_cast<int>(i)) == dropped.end()) {
        kept.push_back(static_cast<int>(i));
        outputs.push_back(node.outputs[i]);
      }
    }
    std::vector<LoopOutput> rules;
    for (LoopOutput rule : loop.outputs) {
      const auto place = std::find(kept.begin(), kept.end(), rule.output);
      if (place != kept.end()) {
        rule.output = static_cast<int>(place - kept.begin());
        rules.push_back(rule);
      }
    }
    loop.outputs = std::move(rules);
    node.outputs = std::move(outputs);
    node.loop = std::make_shared<const Loop>(std::move(loop));
    const ValueId value = AppendNode(copy_.to(), std::move(node));
    for (size_t i = 0; i < kept.size(); ++i) {
      copy_.Replace({index, kept[i]}, {value.node, static_cast<int>(i)});
    }
  }

  const Graph& graph_;
  const GraphInfo& info_;
  GraphCopy copy_;
};

}  // namespace

absl::StatusOr<bool> SimplifyStates(Graph& graph, GraphInfo& info, const PassContext& context) {
  return TakeChanged(StateSimplifier::Simplified(graph, info), graph, info, context);
}

// DropDeadOutputs: the second output of MaxPool goes where nothing reads it.
//
//   before: MaxPool -> values, indices    nothing reads the indices
//   after:  MaxPool -> values
//
// The indices, where each maximum is, count from the first row: files declare them whether they are
// read or not, and only where they are read do rows belong together.

absl::StatusOr<bool> DropDeadOutputs(Graph& graph, GraphInfo& info,
                                     const PassContext& /*context*/) {
  bool any = false;
  std::vector<bool> is_read(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId& input : node.inputs) {
      if (input.present() && input.output == 1) {
        is_read[static_cast<size_t>(input.node)] = true;
      }
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op == "MaxPool" && node.outputs.size() == 2 && !is_read[i]) {
      node.outputs.resize(1);
      any = true;
      if (!info.constants[i].empty()) {
        info.constants[i].resize(1);
      }
    }
  }
  return any;
}

}  // namespace beamwright::ops
