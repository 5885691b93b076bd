// Loops that count, made loops that slice (loop induction variable to slice).
//
//   before: Loop(trip count = number of steps; x)       body: Gather(x, iteration, axis 1)
//   after:  Loop(x sliced on axis 1)                    body: the sliced Parameter
//
// 1. RunsOnceAStep: the loop makes one iteration for each step, by its trip count, or by a
//    condition that holds until the last step (HowLong: constant truths, LogicalAnd, "iteration <
//    number of steps").
// 2. SlicePicks: each Gather that picks by the iteration's number from an invariant input becomes a
//    sliced Parameter, if that axis has one element for each step. Slices of everything in front of
//    it are ignored (WithoutWholeSlices).
// 3. WithoutIdleInputs: the trip count, the condition and inputs that nothing reads any more are
//    removed. The condition, if it is read otherwise, is an invariant that stays true.
//
// What is known of the surrounding graph comes from LoopSurroundings; without proof the loop stays
// as it is.
#include <algorithm>
#include <limits>
#include <vector>

#include "ops/compile/program.h"
#include "ops/decoder/target_loop.h"
#include "ops/graph/rewrite.h"

namespace beamwright::ops {

bool KeepsCounts(const Node& node) {
  const DType type = node.outputs[0].dtype;
  return node.op == "Convert" &&
         (type == DType::kI64 || type == DType::kI32 || type == DType::kF32 || type == DType::kF64);
}

const Tensor* StepCounts::Known(ValueId id) const {
  const Tensor& known =
      info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  return known.has_value() ? &known : nullptr;
}

// The only element of a value known at load.
std::optional<int64_t> StepCounts::KnownInt(ValueId id) const {
  const Tensor* const known = Known(id);
  const absl::StatusOr<std::vector<int64_t>> ints =
      known != nullptr && known->num_elements() == 1 ? ToInt64(*known) : std::vector<int64_t>();
  return ints.ok() && ints->size() == 1 ? std::optional(ints->front()) : std::nullopt;
}

// The one place that a node picks from a list: Gather(list, place), or a Slice of one element,
// which starts there.
std::optional<int64_t> StepCounts::PickedPlace(const Node& pick) const {
  if (pick.op == "Gather") {
    return KnownInt(pick.inputs[1]);
  }
  const ValueInfo& picked = pick.outputs[0];
  const bool is_one = picked.shape.is_static() && NumElements(picked.shape.dims()) == 1;
  return is_one ? KnownInt(pick.inputs[1]) : std::nullopt;
}

// The node that gives a value apart from its type.
const Node& StepCounts::Untyped(ValueId id) const {
  const Node* node = &graph_.node(id.node);
  while (KeepsCounts(*node)) {
    node = &graph_.node(node->inputs[0].node);
  }
  return *node;
}

bool StepCounts::AreCountedBy(ValueId id) const {
  const Node* pick = &graph_.node(id.node);
  // One element stays what it is in another shape.
  while (pick->op == "Squeeze" || pick->op == "Unsqueeze" || pick->op == "Reshape" ||
         KeepsCounts(*pick)) {
    pick = &graph_.node(pick->inputs[0].node);
  }
  const std::optional<int64_t> axis =
      pick->op == "Gather" || pick->op == "Slice" ? PickedPlace(*pick) : std::nullopt;
  const Node* const shape_of = axis.has_value() ? &Untyped(pick->inputs[0]) : nullptr;
  if (shape_of == nullptr || shape_of->op != "ShapeOf") {
    return false;
  }
  const ValueId measured = shape_of->inputs[0];
  const PartialShape& shape = graph_.info(measured).shape;
  return runs_along_(measured, *axis < 0 && shape.has_rank() ? *axis + shape.rank() : *axis);
}

bool StepCounts::LetBegin(ValueId id) const {
  if (const Tensor* const known = Known(id)) {
    return known->dtype() == DType::kBool && known->num_elements() == 1 && known->data<bool>()[0];
  }
  const Node& node = graph_.node(id.node);
  const auto is_zero = [&](ValueId number) {
    const Tensor* const known = Known(number);
    return known != nullptr && known->num_elements() == 1 &&
           ToFloat32(*known).value_or(std::vector<float>{1})[0] == 0;
  };
  if (node.op == "LogicalAnd") {
    return LetBegin(node.inputs[0]) && LetBegin(node.inputs[1]);
  }
  return (node.op == "Less" && is_zero(node.inputs[0]) && AreCountedBy(node.inputs[1])) ||
         (node.op == "Greater" && is_zero(node.inputs[1]) && AreCountedBy(node.inputs[0]));
}

namespace {

bool IsTrue(const Tensor* value) {
  return value != nullptr && value->dtype() == DType::kBool && value->num_elements() == 1 &&
         value->data<bool>()[0];
}

class Slicer {
 public:
  Slicer(const Node& node, const GraphInfo& info, const LoopSurroundings& surroundings)
      : node_(node), loop_(*node.loop), info_(info), around_(surroundings), rules_(loop_.inputs) {}

  std::optional<Node> Run() {
    if (loop_.items != Loop::Items::kTogether || !RunsOnceAStep() || !SlicePicks()) {
      return std::nullopt;
    }
    return WithoutIdleInputs();
  }

 private:
  ValueId Input(int index) const { return node_.inputs[static_cast<size_t>(index)]; }
  // The input rule of a Parameter of the body; null for other nodes.
  const LoopInput* RuleOf(int node) const {
    const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const LoopInput& rule) {
      return loop_.body.parameters[static_cast<size_t>(rule.body_parameter)] == node;
    });
    return found == rules_.end() ? nullptr : &*found;
  }
  bool IsIteration(ValueId id) const {
    const LoopInput* const rule = RuleOf(id.node);
    return rule != nullptr && rule->kind == LoopInput::Kind::kIteration;
  }

  // The value behind conversions of its type.
  ValueId Untyped(ValueId id) const {
    while (KeepsCounts(loop_.body.node(id.node))) {
      id = loop_.body.node(id.node).inputs[0];
    }
    return id;
  }

  // Whether `sum` is `number` + 1.
  bool IsNext(ValueId sum, ValueId number) const {
    const Node& add = loop_.body.node(sum.node);
    return add.op == "Add" &&
           ((add.inputs[0] == number && Integers(add.inputs[1]) == std::vector<int64_t>{1}) ||
            (add.inputs[1] == number && Integers(add.inputs[0]) == std::vector<int64_t>{1}));
  }

  // Integers of the body that are known; empty if they are not.
  std::vector<int64_t> Integers(ValueId id) const {
    const Tensor& value =
        info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
    return value.has_value() ? ToInt64(value).value_or(std::vector<int64_t>())
                             : std::vector<int64_t>();
  }

  // The value behind slices of everything, as "x[:, t]" slices the first axis.
  ValueId WithoutWholeSlices(ValueId id) const {
    for (;;) {
      const Node& node = loop_.body.node(id.node);
      if (node.op != "Slice" || node.inputs.size() < 4) {
        return id;
      }
      const auto all = [&](size_t input, auto test) {
        const std::vector<int64_t> values = Integers(node.inputs[input]);
        return !values.empty() && std::all_of(values.begin(), values.end(), test);
      };
      constexpr int64_t kEnd = std::numeric_limits<int32_t>::max();  // more than any extent
      const bool whole = all(1, [](int64_t start) { return start == 0; }) &&
                         all(2, [](int64_t end) { return end >= kEnd; }) &&
                         all(3, [](int64_t step) { return step == 1; });
      if (!whole) {
        return id;
      }
      id = node.inputs[0];
    }
  }

  // How long a condition of the body holds.
  enum class Holds { kUnknown, kAlways, kUntilLastStep };

  Holds HowLong(ValueId condition) const {
    const Node& node = loop_.body.node(condition.node);
    if (node.op == "Constant") {
      return IsTrue(&node.constant) ? Holds::kAlways : Holds::kUnknown;
    }
    if (node.op == "LogicalAnd") {
      const Holds first = HowLong(node.inputs[0]);
      const Holds second = HowLong(node.inputs[1]);
      return first == Holds::kUnknown || second == Holds::kUnknown ? Holds::kUnknown
             : first == Holds::kAlways                             ? second
                                                                   : Holds::kUntilLastStep;
    }
    if (node.op == "Less") {
      return HowLongBelow(Untyped(node.inputs[0]), Untyped(node.inputs[1]));
    }
    if (node.op == "Greater") {
      return HowLongBelow(Untyped(node.inputs[1]), Untyped(node.inputs[0]));
    }
    // A condition that the body returns unchanged.
    const LoopInput* const rule = RuleOf(condition.node);
    const bool is_handed_on =
        rule != nullptr &&
        (rule->kind == LoopInput::Kind::kInvariant ||
         (rule->kind == LoopInput::Kind::kCarried && rule->back_edge == loop_.condition_result));
    return is_handed_on && IsTrue(around_.known(Input(rule->input))) ? Holds::kAlways
                                                                     : Holds::kUnknown;
  }

  // number < count, the iteration's number or the next one's.
  Holds HowLongBelow(ValueId number, ValueId count) const {
    const LoopInput* const rule = RuleOf(count.node);
    if (rule == nullptr || rule->kind != LoopInput::Kind::kInvariant ||
        !around_.counts_steps(Input(rule->input))) {
      return Holds::kUnknown;
    }
    if (IsIteration(number)) {
      return Holds::kAlways;
    }
    const Node& sum = loop_.body.node(number.node);
    const bool is_next =
        sum.op == "Add" && ((IsIteration(sum.inputs[0]) && IsNext(number, sum.inputs[0])) ||
                            (IsIteration(sum.inputs[1]) && IsNext(number, sum.inputs[1])));
    return is_next ? Holds::kUntilLastStep : Holds::kUnknown;
  }

  // More iterations than any target has steps.
  bool IsUnbounded(const Tensor* count) const {
    if (count == nullptr || count->num_elements() != 1) {
      return false;
    }
    const int64_t number = ToInt64(*count).value_or(std::vector<int64_t>{0})[0];
    return number < 0 || number >= std::numeric_limits<int32_t>::max();
  }

  // Whether the loop makes one iteration for each step, by its trip count or its condition.
  bool RunsOnceAStep() const {
    const int trips = loop_.trip_count_input;
    const bool is_counted = trips >= 0 && around_.counts_steps(Input(trips));
    if (!is_counted && trips >= 0 && !IsUnbounded(around_.known(Input(trips)))) {
      return false;
    }
    if (loop_.condition_input >= 0 && !around_.lets_begin(Input(loop_.condition_input))) {
      return false;
    }
    if (loop_.condition_result < 0) {
      return is_counted;
    }
    const int result = loop_.body.results[static_cast<size_t>(loop_.condition_result)];
    const Holds holds = HowLong(loop_.body.node(result).inputs[0]);
    return holds == Holds::kUntilLastStep || (holds == Holds::kAlways && is_counted);
  }

  // Replaces each Gather that picks by the iteration's number by a sliced Parameter. False if the
  // graph has no such Gather. Other readers of that number are kept.
  bool SlicePicks() {
    body_ = loop_.body;
    std::vector<LoopInput> slices;
    for (Node& pick : body_.nodes) {
      if (pick.op != "Gather" || pick.inputs.size() != 3 || !IsIteration(pick.inputs[1]) ||
          pick.attributes.Int("batch_dims", 0).value_or(1) != 0) {
        continue;
      }
      const ValueId picked = WithoutWholeSlices(pick.inputs[0]);
      const LoopInput* source = RuleOf(picked.node);
      const std::vector<int64_t> axes = Integers(pick.inputs[2]);
      // An iteration number of rank 1 would leave the axis in place.
      const PartialShape& number = body_.info(pick.inputs[1]).shape;
      if (source == nullptr || source->kind != LoopInput::Kind::kInvariant || axes.size() != 1 ||
          !number.has_rank() || number.rank() != 0) {
        continue;
      }
      const PartialShape& sequence = body_.info(picked).shape;
      const int64_t from_front = axes[0] >= 0          ? axes[0]
                                 : sequence.has_rank() ? axes[0] + sequence.rank()
                                                       : -1;
      if (from_front < 0 || !around_.runs_along(Input(source->input), from_front)) {
        continue;
      }
      LoopInput rule;
      rule.kind = LoopInput::Kind::kSliced;
      rule.input = source->input;
      rule.external_id = source->external_id;
      rule.axis = from_front;
      rule.drop_axis = true;
      rule.may_be_empty = true;
      rule.body_parameter = static_cast<int>(body_.parameters.size());
      body_.parameters.push_back(static_cast<int>(&pick - body_.nodes.data()));
      slices.push_back(rule);
      pick.op = "Parameter";
      pick.inputs.clear();
      pick.attributes = Attributes();
    }
    rules_.insert(rules_.end(), slices.begin(), slices.end());
    return !slices.empty();
  }

  // The node without inputs that nothing depends on any more: the iteration's number, the
  // condition, sequences that are only sliced.
  Node WithoutIdleInputs() {
    std::vector<ValueId> wanted;
    const auto want = [&](int result) {
      wanted.push_back({body_.results[static_cast<size_t>(result)], 0});
    };
    for (const LoopOutput& output : loop_.outputs) {
      want(output.body_result);
    }
    for (const LoopInput& rule : rules_) {
      if (rule.kind == LoopInput::Kind::kCarried && rule.back_edge != loop_.condition_result) {
        want(rule.back_edge);
      }
    }
    const std::vector<bool> keep = AncestorsOf(body_, wanted);
    std::vector<int> moved;
    auto loop = std::make_shared<Loop>(loop_);
    loop->body = KeepNodes(body_, keep, &moved);
    loop->trip_count_input = -1;
    loop->condition_input = -1;
    loop->condition_result = -1;
    const auto place = [&](const std::vector<int>& from, const std::vector<int>& to, int index) {
      const int node = moved[static_cast<size_t>(from[static_cast<size_t>(index)])];
      return static_cast<int>(std::find(to.begin(), to.end(), node) - to.begin());
    };
    loop->inputs.clear();
    for (LoopInput rule : rules_) {
      if (!keep[static_cast<size_t>(body_.parameters[static_cast<size_t>(rule.body_parameter)])]) {
        continue;
      }
      rule.body_parameter = place(body_.parameters, loop->body.parameters, rule.body_parameter);
      if (rule.kind == LoopInput::Kind::kCarried && rule.back_edge == loop_.condition_result) {
        rule.kind = LoopInput::Kind::kInvariant;  // the condition, which stays true
        rule.back_edge = -1;
      } else if (rule.kind == LoopInput::Kind::kCarried) {
        rule.back_edge = place(body_.results, loop->body.results, rule.back_edge);
      }
      loop->inputs.push_back(rule);
    }
    for (LoopOutput& rule : loop->outputs) {
      rule.body_result = place(body_.results, loop->body.results, rule.body_result);
    }
    Node result = node_;
    result.loop = std::move(loop);
    return result;
  }

  const Node& node_;
  const Loop& loop_;
  const GraphInfo& info_;
  const LoopSurroundings& around_;
  Graph body_;
  std::vector<LoopInput> rules_;
};

}  // namespace

std::optional<Node> SliceWhatIsPicked(const Node& node, const GraphInfo& body,
                                      const LoopSurroundings& surroundings) {
  return Slicer(node, body, surroundings).Run();
}

}  // namespace beamwright::ops
