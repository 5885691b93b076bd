// Before: layers over the whole target of a training graph. After: one loop whose body is a step.
//
//   tokens[B, T] -> Embedding -> Loop(cell, states) -> attention(memory) -> MatMul -> logits
//
//   tokens -> Loop(slice t: Embedding, cell, attention, MatMul; states carried; memory invariant)
//          -> logits, concatenated over t
//
// The steps, in the order of TargetJoiner::Run:
//   1. FindTimes: how each value depends on the target's time axis, by Operator::rows with time
//      steps in the place of rows. A loop that counts to the target's length and picks by its
//      counter is rewritten to slice instead (SliceWhatIsPicked).
//   2. FindMoves: backwards from the results, every node that depends on time moves into the body.
//      What a state starts from stays outside.
//   3. AddToken, then MoveNode and InlineLoop in topological order: copies of the nodes, whose
//      inputs from outside become invariants (or constants), and bodies of loops, whose states
//      become states of the new loop. A node with a mixed time is refused, with its name and the
//      reason.
//   4. Build: the outputs are joined over time, and what nothing reads any more is dropped.
#include "ops/decoder/target_loop.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/program.h"
#include "ops/graph/rewrite.h"
#include "ops/kernels/movement.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

absl::Status CannotMove(const Node& node, absl::string_view why) {
  return absl::UnimplementedError(
      absl::StrCat(Describe(node), " cannot be moved into the decoder's step: ", why));
}

class TargetJoiner {
 public:
  TargetJoiner(const Graph& graph, const GraphInfo& info, const OperatorSet& operators)
      : graph_(graph), info_(info), operators_(operators) {}

  absl::StatusOr<Graph> Run(int token_parameter, int time_axis, const std::vector<int>& results) {
    token_parameter_ = token_parameter;
    time_axis_ = time_axis;
    FindTimes(token_parameter, time_axis);
    const std::vector<bool> moves = FindMoves(results);
    AddToken(token_parameter, time_axis);
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      if (moves[static_cast<size_t>(i)] && i != token_parameter) {
        BW_RETURN_IF_ERROR(graph_.node(i).op == "Loop" ? InlineLoop(i) : MoveNode(i));
      }
    }
    return Build(results);
  }

 private:
  const RowInfo& TimeOf(ValueId id) const {
    return times_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  }
  // A node of the graph; a loop that counts its steps in the form that slices instead.
  const Node& NodeAt(int index) const {
    const auto found = sliced_.find(index);
    return found == sliced_.end() ? graph_.node(index) : found->second;
  }

  bool RunsAlong(ValueId id, int64_t axis) const {
    const RowInfo& time = TimeOf(id);
    return time.kind == Kind::kRows && time.axis == axis && time.factor == 1;
  }

  // Remembers a loop's sliced form, if it has one.
  void SliceLoop(int index) {
    const auto runs = [this](ValueId id, int64_t axis) { return RunsAlong(id, axis); };
    const StepCounts steps(graph_, info_, runs);
    const auto counts = [&](ValueId id) { return steps.AreCountedBy(id); };
    const auto lets_begin = [&](ValueId id) { return steps.LetBegin(id); };
    const auto known = [&](ValueId id) { return steps.Known(id); };
    std::optional<Node> sliced =
        SliceWhatIsPicked(graph_.node(index), *info_.bodies[static_cast<size_t>(index)][0],
                          {counts, runs, lets_begin, known});
    if (sliced.has_value()) {
      sliced_.emplace(index, *std::move(sliced));
    }
  }

  bool DependsOnTime(int node) const {
    const std::vector<RowInfo>& times = times_[static_cast<size_t>(node)];
    return std::any_of(times.begin(), times.end(),
                       [](const RowInfo& time) { return time.kind != Kind::kFixed; });
  }

  // Nodes that the results depend on step by step. What a loop's states start from stays outside,
  // even if it is made to the target's measures.
  std::vector<bool> FindMoves(const std::vector<int>& results) const {
    std::vector<bool> moves(graph_.nodes.size(), false);
    const auto mark = [&](ValueId id) {
      if (id.present() && DependsOnTime(id.node)) {
        moves[static_cast<size_t>(id.node)] = true;
      }
    };
    for (const int result : results) {
      mark(graph_.node(result).inputs[0]);
    }
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = NodeAt(static_cast<int>(i));
      if (!moves[i]) {
        continue;
      }
      if (node.op != "Loop") {
        std::for_each(node.inputs.begin(), node.inputs.end(), mark);
        continue;
      }
      for (const LoopInput& rule : node.loop->inputs) {
        if (rule.input >= 0 && rule.kind != LoopInput::Kind::kCarried) {
          mark(node.inputs[static_cast<size_t>(rule.input)]);
        }
      }
    }
    return moves;
  }

  // How every value depends on the time axis of the target.
  void FindTimes(int token_parameter, int time_axis) {
    times_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      times_[i].assign(node.outputs.size(), RowInfo{Kind::kFixed});
      if (static_cast<int>(i) == token_parameter) {
        times_[i][0] = {Kind::kRows, time_axis, 1};
        continue;
      }
      if (node.op == "Parameter" || node.op == "Result" || info_.IsKnown(static_cast<int>(i))) {
        continue;
      }
      std::vector<RowInfo> inputs;
      for (const ValueId id : node.inputs) {
        inputs.push_back(id.present() ? TimeOf(id) : RowInfo{Kind::kFixed});
      }
      const bool fixed = std::all_of(inputs.begin(), inputs.end(),
                                     [](const RowInfo& time) { return time.kind == Kind::kFixed; });
      if (fixed) {
        continue;
      }
      const Operator* op = operators_.Find(node.op);
      if (node.op == "Loop") {
        SliceLoop(static_cast<int>(i));
        times_[i] = LoopTimes(NodeAt(static_cast<int>(i)), inputs);
      } else if (op != nullptr && op->rows != nullptr) {
        times_[i].assign(node.outputs.size(), op->rows(node, inputs, info_.InputsOf(graph_, node)));
      } else {
        times_[i].assign(node.outputs.size(), RowInfo{Kind::kMixed});
      }
    }
  }

  // Why a loop does not run over the target, one step at a time; empty: it does.
  static std::string WhyNotOverTarget(const Node& node, absl::Span<const RowInfo> inputs) {
    const Loop& loop = *node.loop;
    if (loop.items != Loop::Items::kTogether) {
      return "it has sequence lengths";
    }
    if (loop.trip_count_input >= 0 || loop.condition_input >= 0 || loop.condition_result >= 0) {
      return "it is not known to run once for each target token: that is known of a loop as 'for t "
             "in range(tokens.size(1))' is exported, which picks its token by [:, t]";
    }
    for (const LoopInput& rule : loop.inputs) {
      if (rule.kind == LoopInput::Kind::kIteration) {
        continue;
      }
      const RowInfo& time = inputs[static_cast<size_t>(rule.input)];
      if (rule.kind == LoopInput::Kind::kSliced) {
        if (time.kind != Kind::kRows || time.axis != rule.axis || time.factor != 1) {
          return "it slices something that is not the target's time axis";
        }
        if (rule.start != 0 || rule.end != -1 || rule.stride != 1 || rule.part_size != 1) {
          return "it takes the target otherwise than forwards, step by step, from start to end";
        }
      } else if (time.kind == Kind::kRows || time.kind == Kind::kMixed) {
        return "a state or an invariant input of it depends on the target";
      }
    }
    return "";
  }

  static std::vector<RowInfo> LoopTimes(const Node& node, absl::Span<const RowInfo> inputs) {
    std::vector<RowInfo> times(node.outputs.size(), RowInfo{Kind::kMixed});
    if (WhyNotOverTarget(node, inputs).empty()) {
      for (const LoopOutput& rule : node.loop->outputs) {
        const bool joined = rule.kind != LoopOutput::Kind::kLastValue;
        if (joined && !rule.reversed && rule.part_size == 1) {
          times[static_cast<size_t>(rule.output)] = {Kind::kRows, static_cast<int>(rule.axis), 1};
        }
      }
    }
    return times;
  }

  // A node of the body. Its outputs' declared shapes are forgotten: one step is shorter.
  ValueId Append(Node node) {
    for (ValueInfo& output : node.outputs) {
      output.shape = PartialShape();
    }
    body_.nodes.push_back(std::move(node));
    return {static_cast<int>(body_.nodes.size()) - 1, 0};
  }

  ValueId AppendConstant(const Node& like, Tensor value) {
    Node node;
    node.op = "Constant";
    node.name = like.name;
    node.outputs.resize(1);
    node.constant = std::move(value);
    return Append(std::move(node));
  }

  ValueId AppendParameter(const std::string& name, const ValueInfo& info) {
    Node node;
    node.op = "Parameter";
    node.name = name;
    node.outputs = {info};
    const ValueId id{static_cast<int>(body_.nodes.size()), 0};
    body_.parameters.push_back(id.node);
    body_.nodes.push_back(std::move(node));
    return id;
  }

  int AppendResult(const std::string& name, ValueId value) {
    Node node;
    node.op = "Result";
    node.name = name;
    node.inputs = {value};
    body_.results.push_back(static_cast<int>(body_.nodes.size()));
    body_.nodes.push_back(std::move(node));
    return static_cast<int>(body_.results.size()) - 1;
  }

  // Input of the new loop that reads a value from outside.
  LoopInput& AddLoopInput(LoopInput::Kind kind, ValueId outside, ValueId parameter) {
    LoopInput rule;
    rule.kind = kind;
    rule.input = static_cast<int>(outside_.size());
    rule.external_id = rule.input;
    const auto at = std::find(body_.parameters.begin(), body_.parameters.end(), parameter.node);
    rule.body_parameter = static_cast<int>(at - body_.parameters.begin());
    outside_.push_back(outside);
    rules_.push_back(rule);
    return rules_.back();
  }

  void AddToken(int token_parameter, int time_axis) {
    const Node& token = graph_.node(token_parameter);
    ValueInfo info = token.outputs[0];
    if (info.shape.has_rank()) {
      Shape dims = info.shape.dims();
      dims[static_cast<size_t>(time_axis)] = 1;
      info.shape = PartialShape(std::move(dims));
    }
    const ValueId parameter = AppendParameter(token.name, info);
    LoopInput& rule = AddLoopInput(LoopInput::Kind::kSliced, {token_parameter, 0}, parameter);
    rule.axis = time_axis;
    moved_[{token_parameter, 0}] = parameter;
  }

  // The value inside the body of a value of the graph.
  //
  // Known values are copied into the body, which so needs nothing from outside for them; others are
  // invariant inputs of the new loop. Each is moved once.
  ValueId Inside(ValueId id) {
    if (!id.present()) {
      return id;
    }
    const auto [it, is_new] = moved_.try_emplace(id);
    if (is_new) {
      const Tensor& known =
          info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
      const Node& node = graph_.node(id.node);
      if (known.has_value()) {
        it->second = AppendConstant(node, known);
      } else {
        const ValueId parameter = AppendParameter(node.name, graph_.info(id));
        AddLoopInput(LoopInput::Kind::kInvariant, id, parameter);
        moved_[id] = parameter;
      }
    }
    return moved_.at(id);
  }

  absl::Status MoveNode(int index) {
    const Node& node = graph_.node(index);
    for (const RowInfo& time : times_[static_cast<size_t>(index)]) {
      if (time.kind == Kind::kMixed) {
        return CannotMove(node,
                          node.op == "DynamicQuantizeLinear"
                              ? "its scale is taken over all time steps, later ones included; "
                                "give the f32 file and let the bundle say `precision: "
                                "PRECISION_INT8`, or quantise a step graph"
                              : "it does not work time step by time step");
      }
    }
    Node copy = node;
    for (ValueId& input : copy.inputs) {
      input = Inside(input);
    }
    const ValueId moved = Append(std::move(copy));
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      moved_[{index, static_cast<int>(output)}] = {moved.node, static_cast<int>(output)};
    }
    return absl::OkStatus();
  }

  ValueId AppendNode(const char* op, const Node& like, std::vector<ValueId> inputs) {
    Node node;
    node.op = op;
    node.name = like.name;
    node.inputs = std::move(inputs);
    node.outputs.resize(1);
    return Append(std::move(node));
  }

  ValueId AppendAxisNode(const char* op, const Node& like, ValueId value, int64_t axis) {
    const ValueId axes = AppendConstant(like, Tensor::Of<int64_t>({1}, std::vector<int64_t>{axis}));
    return AppendNode(op, like, {value, axes});
  }

  // The number of the step, in the form that the Parameter of an inlined body has it. It is a state
  // that counts: rows of several requests are at different steps, those of one at the same.
  ValueId StepNumber(const Node& parameter) {
    Node named;
    named.name = parameter.name;
    if (!step_number_.present()) {
      ValueInfo info;
      info.dtype = DType::kI64;
      info.shape = PartialShape({PartialShape::kDynamic});
      const ValueId counter = AppendParameter(parameter.name, info);
      counter_start_ = static_cast<int>(outside_.size());
      const ValueId one = AppendConstant(named, Tensor::Scalar<int64_t>(1));
      const ValueId next = AppendNode("Add", named, {counter, one});
      AddLoopInput(LoopInput::Kind::kCarried, {token_parameter_, 0}, counter);
      rules_.back().back_edge = AppendResult(parameter.name, next);
      step_number_ = AppendNode(kFirstRowName, named, {counter});
    }
    const ValueInfo& wanted = parameter.outputs[0];
    ValueId number = step_number_;
    if (wanted.dtype == DType::kI32) {
      number = AppendNode("Convert", named, {number});
      body_.node(number.node).attributes.Set("destination_type", std::string("i32"));
    }
    const bool is_list = wanted.shape.has_rank() && wanted.shape.rank() == 1;
    return is_list ? AppendAxisNode("Unsqueeze", named, number, 0) : number;
  }

  // Where the step's number starts: zeros, as many as the target has rows.
  ValueId CounterStart(int token, Graph& joined) const {
    NodeAppender add(joined, graph_.node(token_parameter_).name);
    const PartialShape& shape = graph_.node(token_parameter_).outputs[0].shape;
    if (shape.has_rank() && shape.rank() == 1) {
      return add.Ints({0});
    }
    const ValueId rows = add.Add(
        "Gather", {add.Add("ShapeOf", {{token, 0}}), add.Ints({1 - time_axis_}), add.Int(0)});
    return add.Add("Broadcast", {add.Int(0), rows});
  }

  // The body of a loop over the target becomes part of the step, its states states of the new loop.
  //
  // 1. The old loop's inputs become values of the new body: states get Parameters, slices and
  //    invariants are the values inside.
  // 2. Nodes of the old body are copied, their inputs mapped.
  // 3. Back edges and outputs are connected. A part that the old loop stacked along a new axis gets
  //    that axis by Unsqueeze, so that the new loop can concatenate.
  absl::Status InlineLoop(int index) {
    const Node& node = NodeAt(index);
    const Loop& loop = *node.loop;
    std::vector<RowInfo> times;
    for (const ValueId id : node.inputs) {
      times.push_back(id.present() ? TimeOf(id) : RowInfo{Kind::kFixed});
    }
    const std::string why = WhyNotOverTarget(node, times);
    if (!why.empty()) {
      return CannotMove(node, why);
    }
    // By node of the old body.
    std::vector<int> inlined(loop.body.nodes.size(), -1);
    std::vector<ValueId> parameters(loop.body.nodes.size());
    std::vector<std::pair<size_t, int>> edges;  // rule of the new loop, Result of the old body
    for (const LoopInput& rule : loop.inputs) {
      const int parameter = loop.body.parameters[static_cast<size_t>(rule.body_parameter)];
      if (rule.kind == LoopInput::Kind::kIteration) {
        parameters[static_cast<size_t>(parameter)] = StepNumber(loop.body.node(parameter));
        continue;
      }
      const ValueId outside = node.inputs[static_cast<size_t>(rule.input)];
      ValueId& value = parameters[static_cast<size_t>(parameter)];
      if (rule.kind == LoopInput::Kind::kCarried) {
        value =
            AppendParameter(loop.body.node(parameter).name, loop.body.node(parameter).outputs[0]);
        AddLoopInput(rule.kind, outside, value);
        edges.emplace_back(rules_.size() - 1, rule.back_edge);
      } else {
        value = Inside(outside);
        if (rule.drop_axis) {
          value = AppendAxisNode("Squeeze", node, value, rule.axis);
        }
      }
    }
    const auto mapped = [&](ValueId id) {
      if (!id.present() || loop.body.node(id.node).op == "Parameter") {
        return id.present() ? parameters[static_cast<size_t>(id.node)] : id;
      }
      return ValueId{inlined[static_cast<size_t>(id.node)], id.output};
    };
    for (size_t i = 0; i < loop.body.nodes.size(); ++i) {
      Node copy = loop.body.nodes[i];
      if (copy.op == "Parameter" || copy.op == "Result") {
        continue;
      }
      for (ValueId& input : copy.inputs) {
        input = mapped(input);
      }
      inlined[i] = Append(std::move(copy)).node;
    }
    const auto result_value = [&](int result) {
      return mapped(loop.body.node(loop.body.results[static_cast<size_t>(result)]).inputs[0]);
    };
    for (const auto& [rule, result] : edges) {
      const Node& source = loop.body.node(loop.body.results[static_cast<size_t>(result)]);
      rules_[rule].back_edge = AppendResult(source.name, result_value(result));
    }
    for (const LoopOutput& rule : loop.outputs) {
      ValueId value = result_value(rule.body_result);
      if (rule.kind == LoopOutput::Kind::kStacked) {
        value = AppendAxisNode("Unsqueeze", node, value, rule.axis);
      }
      moved_[{index, rule.output}] = value;
    }
    return absl::OkStatus();
  }

  // The body and its rules become the node `target`. Outside stays what it reads there, with all
  // Parameters; the numbers of nodes change, so inputs are mapped by `moved`.
  absl::StatusOr<Graph> Build(const std::vector<int>& results) {
    Node loop_node;
    loop_node.op = "Loop";
    loop_node.name = "target";
    auto loop = std::make_shared<Loop>();
    for (const int result : results) {
      const ValueId value = graph_.node(result).inputs[0];
      const RowInfo time = TimeOf(value);
      if (time.kind != Kind::kRows || time.factor != 1) {
        return CannotMove(graph_.node(value.node), "its result has no value for each time step");
      }
      LoopOutput rule;
      rule.kind = LoopOutput::Kind::kConcatenated;
      rule.output = static_cast<int>(loop->outputs.size());
      rule.body_result = AppendResult(graph_.node(result).name, moved_.at(value));
      rule.axis = time.axis;
      loop->outputs.push_back(rule);
      loop_node.outputs.push_back(graph_.info(value));
    }
    loop->body = std::move(body_);
    loop->inputs = std::move(rules_);
    loop_node.loop = std::move(loop);

    // What the loop reads from outside, with all Parameters, in the old order.
    std::vector<bool> keep = AncestorsOf(graph_, outside_);
    for (const int parameter : graph_.parameters) {
      keep[static_cast<size_t>(parameter)] = true;
    }
    std::vector<int> moved;
    Graph joined = KeepNodes(graph_, keep, &moved);
    for (const ValueId id : outside_) {
      loop_node.inputs.push_back({moved[static_cast<size_t>(id.node)], id.output});
    }
    if (counter_start_ >= 0) {
      loop_node.inputs[static_cast<size_t>(counter_start_)] =
          CounterStart(moved[static_cast<size_t>(token_parameter_)], joined);
    }
    joined.nodes.push_back(std::move(loop_node));
    const int loop_index = static_cast<int>(joined.nodes.size()) - 1;
    for (size_t i = 0; i < results.size(); ++i) {
      Node result = graph_.node(results[i]);
      result.inputs = {{loop_index, static_cast<int>(i)}};
      joined.results.push_back(static_cast<int>(joined.nodes.size()));
      joined.nodes.push_back(std::move(result));
    }
    return joined;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const OperatorSet& operators_;
  std::vector<std::vector<RowInfo>> times_;  // by node and output
  std::map<int, Node> sliced_;               // loops that count, as they would slice
  Graph body_;                               // of the new loop
  std::vector<LoopInput> rules_;
  std::vector<ValueId> outside_;  // inputs of the new loop, as values of the graph
  int token_parameter_ = -1;
  int time_axis_ = 1;
  ValueId step_number_;     // absent: no body reads it
  int counter_start_ = -1;  // place in outside_ of what it starts from, which Build makes
  struct Less {
    bool operator()(ValueId a, ValueId b) const {
      return std::pair(a.node, a.output) < std::pair(b.node, b.output);
    }
  };
  std::map<ValueId, ValueId, Less> moved_;  // values of the graph inside the body
};

}  // namespace

absl::StatusOr<Graph> JoinTargetLoop(const Graph& graph, const GraphInfo& info,
                                     const OperatorSet& operators, int token_parameter,
                                     int time_axis, const std::vector<int>& results) {
  return TargetJoiner(graph, info, operators).Run(token_parameter, time_axis, results);
}

}  // namespace beamwright::ops
