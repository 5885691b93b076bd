// How rows are followed through a graph. The nodes are visited once, in topological order, and each
// output gets one of four kinds (RowInfo in ops/graph/operator.h):
//
//   fixed    the same whatever the rows hold: constants, weights, what is computed from them
//   rows     along one axis, the r-th stretch of `factor` elements belongs to row r alone
//   extent   integers that follow from the number of rows alone, as ShapeOf computes them
//   mixed    rows cannot be separated any more; `why_` keeps the reason at the node where it begins
//
// An operator's own rule (Operator::rows) decides for a plain node, RowExtents looks closer where
// extents are known (a Reshape that keeps the rows apart), and an axis of rows that the file fixes
// to a number makes the value mixed. Loops and branches are followed by another RowFollower:
//
//   a loop over something else   its body, entered with the rows of its inputs. States are assumed
//                                to keep the rows that they start with, and WhyLoopMixes checks
//                                afterwards that they do: an induction over the iterations.
//   a loop along the rows        a sequence: iteration i may see row i and the state alone.
//   items apart                  the body runs for each item by itself, so it is not looked into.
//   an If                        a fixed condition, and the same kinds from both branches.
//
// Mixed is the safe answer: it costs speed (rows one at a time), never a wrong result.
#include "ops/compile/row_follower.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/graph/body_maps.h"
#include "ops/kernels/attention.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

constexpr RowInfo kFixedRow{Kind::kFixed};
constexpr RowInfo kMixedRow{Kind::kMixed};
constexpr RowInfo kRowsFirst{Kind::kRows, 0, 1};

bool IsMixed(const RowInfo& info) { return info.kind == Kind::kMixed; }
bool IsExtent(const RowInfo& info) { return info.kind == Kind::kExtent; }

// The parameters of a branch as the If's inputs have them.
template <typename T>
std::vector<T> InputsOf(const Branch& branch, const std::vector<T>& inputs) {
  std::vector<T> parameters;
  for (const int input : branch.inputs) {
    parameters.push_back(inputs[static_cast<size_t>(input)]);
  }
  return parameters;
}

}  // namespace

RowFollower::RowFollower(const Graph& graph, const GraphInfo& info, const Extents& extents,
                         RowExtents row_extents, const std::vector<RowInfo>& parameters,
                         const RowContext& context)
    : graph_(graph),
      info_(info),
      extents_(extents),
      row_extents_(std::move(row_extents)),
      context_(context),
      rows_(graph.nodes.size()),
      why_(graph.nodes.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    rows_[i].assign(graph.nodes[i].outputs.size(), kFixedRow);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    rows_[static_cast<size_t>(graph.parameters[i])][0] = parameters[i];
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    Follow(index);
    for (size_t output = 0; output < rows_[i].size(); ++output) {
      row_extents_.Note(extents_.of({index, static_cast<int>(output)}), rows_[i][output]);
    }
  }
}

ValueId RowFollower::ResultValue(int index) const {
  return graph_.node(graph_.results[static_cast<size_t>(index)]).inputs[0];
}

// The reason at the earliest node on the way to `id` that has one: later nodes are mixed because
// they read it.
std::string RowFollower::WhyMixed(ValueId id) const {
  std::vector<bool> on_the_way(graph_.nodes.size(), false);
  on_the_way[static_cast<size_t>(id.node)] = true;
  std::string why = absl::StrCat("its ", context_.what, " cannot be separated");
  for (int i = id.node; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    if (!on_the_way[at]) {
      continue;
    }
    why = why_[at].empty() ? why : why_[at];
    for (const ValueId input : graph_.node(i).inputs) {
      if (input.present() && IsMixed(of(input))) {
        on_the_way[static_cast<size_t>(input.node)] = true;
      }
    }
  }
  return why;
}

void RowFollower::Mix(int index, std::string why) {
  std::vector<RowInfo>& rows = rows_[static_cast<size_t>(index)];
  std::fill(rows.begin(), rows.end(), kMixedRow);
  why_[static_cast<size_t>(index)] = std::move(why);
}

// What is known at load is the same for all rows.
void RowFollower::Follow(int index) {
  const Node& node = graph_.node(index);
  if (node.op == "Parameter" || node.outputs.empty() || info_.IsKnown(index)) {
    return;
  }
  std::vector<RowInfo> inputs;
  for (const ValueId id : node.inputs) {
    inputs.push_back(id.present() ? of(id) : kFixedRow);
  }
  if (node.loop != nullptr) {
    FollowLoop(index, inputs);
  } else if (node.branches != nullptr) {
    FollowBranches(index, inputs);
  } else {
    NoteScale(node, inputs);
    FollowOperator(index, inputs);
  }
}

void RowFollower::NoteScale(const Node& node, const std::vector<RowInfo>& inputs) const {
  const int64_t axis = node.attributes.Int("item_axis", 0).value_or(0);
  if (context_.scales != nullptr && axis < 0) {
    (*context_.scales)[static_cast<size_t>(-1 - axis)] = inputs[0];
  }
}

bool RowFollower::CountsPositions(int index, const std::vector<RowInfo>& inputs) const {
  const Node& node = graph_.node(index);
  if (node.op != "Range" || inputs.size() != 3 || inputs[0].kind != Kind::kFixed ||
      inputs[2].kind != Kind::kFixed) {
    return false;
  }
  const auto& shape = extents_.of({index, 0}).shape;
  return shape.has_value() && shape->size() == 1 && row_extents_.IsNumberOfRows(shape->front());
}

// Attention over the positions of one sequence, where positions are the rows: queries, keys and
// values count them on their axes of positions, and nothing else joins them.
bool RowFollower::AttendsToPositions(const Node& node, const std::vector<RowInfo>& inputs) const {
  if (node.op != kAttentionName || inputs.size() != 3 || node.outputs.size() != 1) {
    return false;
  }
  const bool is_transposed = node.attributes.Bool("transpose_b", false).value_or(false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PartialShape& shape = graph_.info(node.inputs[i]).shape;
    const int from_right = i == 1 && !is_transposed ? 1 : 2;
    if (!shape.has_rank() || shape.rank() < 3 ||
        shape.rank() != graph_.info(node.inputs[0]).shape.rank() ||
        inputs[i] != RowInfo{Kind::kRows, shape.rank() - from_right, 1}) {
      return false;
    }
  }
  return true;
}

// Sequences first, where they are looked for; then the operator's rule, then what extents know
// beyond it, and last the two reasons for which an answer of the rule is not taken.
void RowFollower::FollowOperator(int index, const std::vector<RowInfo>& inputs) {
  const Node& node = graph_.node(index);
  if (context_.sequences != nullptr && CountsPositions(index, inputs)) {
    rows_[static_cast<size_t>(index)][0] = kRowsFirst;
    return;
  }
  if (context_.sequences != nullptr && AttendsToPositions(node, inputs)) {
    rows_[static_cast<size_t>(index)][0] = inputs[0];
    context_.sequences->push_back({index, 1});
    return;
  }
  const Operator* op = context_.operators.Find(node.op);
  const bool fixed = std::all_of(inputs.begin(), inputs.end(),
                                 [](const RowInfo& rows) { return rows.kind == Kind::kFixed; });
  RowInfo found = fixed ? kFixedRow : kMixedRow;
  if (!fixed && op != nullptr && op->rows != nullptr) {
    found = op->rows(node, inputs, info_.InputsOf(graph_, node));
  }
  // Which of a bag's items belong to which row is a matter of computed numbers there; a step's rule
  // leaves that to the check at load, a proof does not.
  if (found.kind == Kind::kRows && absl::StartsWith(node.op, "Embedding") &&
      std::any_of(inputs.begin(), inputs.end(), IsExtent)) {
    found = kMixedRow;
  }
  if (node.outputs.size() == 1) {
    std::vector<const ValueExtents*> known;
    for (const ValueId id : node.inputs) {
      known.push_back(id.present() ? &extents_.of(id) : nullptr);
    }
    found = row_extents_.LookCloser(node, inputs, known, extents_.of({index, 0}), found);
  }
  if (found.kind == Kind::kRows && IsDeclared(index, found.axis)) {
    Mix(index,
        absl::StrCat("the file declares a number of ", context_.what, " for ", Describe(node)));
    return;
  }
  if (IsMixed(found)) {
    Mix(index, std::any_of(inputs.begin(), inputs.end(), IsMixed)
                   ? ""
                   : absl::StrCat(context_.what, " of ", Describe(node), " cannot be separated"));
    return;
  }
  rows_[static_cast<size_t>(index)].assign(node.outputs.size(), found);
}

// Whether the extent of an axis that counts rows is a number, which any number of them contradicts.
bool RowFollower::IsDeclared(int index, int axis) const {
  const auto& shape = extents_.of({index, 0}).shape;
  const auto at = static_cast<size_t>(axis);
  return shape.has_value() && (at >= shape->size() || (*shape)[at].is_number());
}

// The kind of a loop's input as the body sees it. A slice along another axis than that of the rows
// leaves them, on an axis less if the sliced one is dropped.
RowInfo RowFollower::Entering(const Node& node, const LoopInput& rule,
                              const std::vector<RowInfo>& inputs) const {
  if (rule.kind == LoopInput::Kind::kIteration) {
    return kFixedRow;
  }
  RowInfo rows = inputs[static_cast<size_t>(rule.input)];
  if (rule.kind != LoopInput::Kind::kSliced || rows.kind == Kind::kFixed) {
    return rows;
  }
  // How many parts there are must not follow from the number of rows.
  const PartialShape& shape = graph_.info(node.inputs[static_cast<size_t>(rule.input)]).shape;
  if (rows.kind != Kind::kRows || !shape.has_rank()) {
    return kMixedRow;
  }
  const absl::StatusOr<int> axis = NormalizeAxis(rule.axis, shape.rank());
  if (!axis.ok() || *axis == rows.axis) {
    return kMixedRow;
  }
  rows.axis -= rule.drop_axis && *axis < rows.axis ? 1 : 0;
  return rows;
}

// The kind of a loop's output, from that of the body's result: stacked parts have an axis more, and
// parts joined along the rows' axis mix them.
RowInfo RowFollower::Leaving(const LoopOutput& rule, const RowInfo& rows, int rank) {
  if (rule.kind == LoopOutput::Kind::kLastValue || rows.kind != Kind::kRows) {
    return rows;
  }
  const bool stacked = rule.kind == LoopOutput::Kind::kStacked;
  if (rank <= 0) {
    return kMixedRow;
  }
  const absl::StatusOr<int> axis = NormalizeAxis(rule.axis, rank + (stacked ? 1 : 0));
  if (!axis.ok() || (!stacked && *axis == rows.axis)) {
    return kMixedRow;
  }
  return {Kind::kRows, rows.axis + (stacked && *axis <= rows.axis ? 1 : 0), rows.factor};
}

// Empty if the rows stay apart in all iterations: how often the loop runs has nothing to do with
// them, items that are held or leave are rows, states give back what they got, and no result is
// mixed.
std::string RowFollower::WhyLoopMixes(const Node& node, const std::vector<RowInfo>& inputs,
                                      const std::vector<RowInfo>& entering,
                                      const RowFollower& body) const {
  const Loop& loop = *node.loop;
  const auto is_fixed = [&](int input) {
    return input < 0 || inputs[static_cast<size_t>(input)].kind == Kind::kFixed;
  };
  if (!is_fixed(loop.trip_count_input) || !is_fixed(loop.condition_input) ||
      (loop.condition_result >= 0 && body.result(loop.condition_result).kind != Kind::kFixed)) {
    return absl::StrCat("how often ", Describe(node), " runs may follow from all ", context_.what,
                        " together");
  }
  const bool held = loop.items == Loop::Items::kHeld;
  const bool leave = node.attributes.Bool(kItemsLeave, false).value_or(true);
  if (held &&
      (loop.lengths_input < 0 || inputs[static_cast<size_t>(loop.lengths_input)] != kRowsFirst)) {
    return absl::StrCat("the lengths of ", Describe(node), " are not one for each row");
  }
  for (const LoopInput& rule : loop.inputs) {
    const RowInfo& rows = entering[static_cast<size_t>(rule.body_parameter)];
    const bool has_items =
        rule.kind == LoopInput::Kind::kCarried || rule.kind == LoopInput::Kind::kSliced;
    if (leave && rule.kind == LoopInput::Kind::kInvariant && rows.kind != Kind::kFixed) {
      return absl::StrCat("an invariant of ", Describe(node), " differs from row to row");
    }
    if (held && has_items && rows != kRowsFirst) {
      return absl::StrCat("states or slices of ", Describe(node), " do not count rows first");
    }
    if (rule.kind == LoopInput::Kind::kCarried && body.result(rule.back_edge) != rows) {
      const ValueId value = body.ResultValue(rule.back_edge);
      return absl::StrCat("in the body of ", Describe(node), ": ",
                          IsMixed(body.of(value))
                              ? body.WhyMixed(value)
                              : absl::StrCat("a state does not keep its ", context_.what));
    }
  }
  for (const LoopOutput& rule : loop.outputs) {
    const RowInfo& rows = body.result(rule.body_result);
    if (held && rows != kRowsFirst) {
      return absl::StrCat("a result of ", Describe(node), " does not count rows first");
    }
    if (IsMixed(rows)) {
      return absl::StrCat("in the body of ", Describe(node), ": ",
                          body.WhyMixed(body.ResultValue(rule.body_result)));
    }
  }
  return "";
}

void RowFollower::FollowLoop(int index, const std::vector<RowInfo>& inputs) {
  const Node& node = graph_.node(index);
  const Loop& loop = *node.loop;
  if (std::any_of(inputs.begin(), inputs.end(), IsMixed)) {
    return Mix(index, "");
  }
  if (loop.items == Loop::Items::kApart) {
    return FollowItemsApart(index, inputs);
  }
  if (context_.sequences != nullptr && RunsAlongRows(node, inputs)) {
    return FollowSequence(index, inputs);
  }
  const auto& bodies = info_.bodies[static_cast<size_t>(index)];
  const Extents* const extents = extents_.body(index);
  if (bodies.empty() || bodies[0] == nullptr || extents == nullptr) {
    return Mix(index, absl::StrCat("nothing is known of the body of ", Describe(node)));
  }
  std::vector<RowInfo> entering(loop.body.parameters.size(), kFixedRow);
  for (const LoopInput& rule : loop.inputs) {
    const RowInfo rows = Entering(node, rule, inputs);
    if (IsMixed(rows)) {
      return Mix(index, absl::StrCat("how often ", Describe(node), " runs, or what it slices, ",
                                     "may follow from all ", context_.what, " together"));
    }
    entering[static_cast<size_t>(rule.body_parameter)] = rows;
  }
  // States are taken to keep the rows that they start with, which is checked afterwards: so it
  // holds from iteration to iteration.
  const RowFollower body(loop.body, *bodies[0], *extents, row_extents_, entering, Inside());
  if (std::string why = WhyLoopMixes(node, inputs, entering, body); !why.empty()) {
    return Mix(index, std::move(why));
  }
  for (const LoopOutput& rule : loop.outputs) {
    const PartialShape& shape = loop.body.info(body.ResultValue(rule.body_result)).shape;
    const RowInfo rows = Leaving(rule, body.result(rule.body_result), shape.rank());
    if (IsMixed(rows)) {
      return Mix(index,
                 absl::StrCat("outputs of ", Describe(node), " join parts of all ", context_.what));
    }
    rows_[static_cast<size_t>(index)][static_cast<size_t>(rule.output)] = rows;
  }
}

bool RowFollower::RunsAlongRows(const Node& node, const std::vector<RowInfo>& inputs) const {
  const std::vector<LoopInput>& rules = node.loop->inputs;
  return std::any_of(rules.begin(), rules.end(), [&](const LoopInput& rule) {
    return rule.kind == LoopInput::Kind::kSliced && SlicesRows(node, rule, inputs);
  });
}

bool RowFollower::SlicesRows(const Node& node, const LoopInput& rule,
                             const std::vector<RowInfo>& inputs) const {
  const RowInfo& rows = inputs[static_cast<size_t>(rule.input)];
  const PartialShape& shape = graph_.info(node.inputs[static_cast<size_t>(rule.input)]).shape;
  if (rows.kind != Kind::kRows || !shape.has_rank()) {
    return false;
  }
  const absl::StatusOr<int> axis = NormalizeAxis(rule.axis, shape.rank());
  return axis.ok() && *axis == rows.axis;
}

// Empty if iteration i reads slice i alone, whatever the loop does: one slice a row of every sliced
// input, in one direction, no other input that differs, and outputs in the order of the rows.
std::string RowFollower::WhyNoSequence(const Node& node, const std::vector<RowInfo>& inputs) const {
  const Loop& loop = *node.loop;
  if (loop.items != Loop::Items::kTogether) {
    return absl::StrCat(Describe(node), " has lengths of its own");
  }
  if (loop.trip_count_input >= 0 || loop.condition_input >= 0 || loop.condition_result >= 0 ||
      loop.states_may_change_shape) {
    return absl::StrCat("it is not ", context_.what, " alone that say how often ", Describe(node),
                        " runs");
  }
  const LoopInput* sliced = nullptr;
  const auto factor_of = [&](const LoopInput& rule) {
    return inputs[static_cast<size_t>(rule.input)].factor;
  };
  bool counts = false;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kIteration) {
      counts = true;
      continue;
    }
    const RowInfo& rows = inputs[static_cast<size_t>(rule.input)];
    if (rule.kind != LoopInput::Kind::kSliced) {
      if (rows.kind != Kind::kFixed) {
        return absl::StrCat("each iteration of ", Describe(node), " sees all ", context_.what);
      }
      continue;
    }
    if (!SlicesRows(node, rule, inputs) || !TakesEveryElement(rule) ||
        (sliced != nullptr &&
         (sliced->stride != rule.stride || factor_of(*sliced) != factor_of(rule)))) {
      return absl::StrCat("iterations of ", Describe(node), " are not one for each of the ",
                          context_.what);
    }
    sliced = &rule;
  }
  const bool is_backward = sliced->stride < 0;
  if (counts && is_backward) {
    return absl::StrCat(Describe(node), " counts ", context_.what, " from their end");
  }
  for (const LoopOutput& rule : loop.outputs) {
    if (rule.kind == LoopOutput::Kind::kLastValue) {
      if (FindState(loop, rule.body_result) == nullptr) {
        return absl::StrCat("a last value of ", Describe(node), " is no state");
      }
    } else if (rule.part_size != 1 || rule.reversed != is_backward || AxisOf(loop, rule) < 0) {
      return absl::StrCat("an output of ", Describe(node), " is not in the order of the ",
                          context_.what);
    }
  }
  return "";
}

int RowFollower::AxisOf(const Loop& loop, const LoopOutput& rule) {
  const int result = loop.body.results[static_cast<size_t>(rule.body_result)];
  const PartialShape& part = loop.body.info(loop.body.node(result).inputs[0]).shape;
  if (!part.has_rank() || part.rank() == 0) {
    return -1;
  }
  const bool stacked = rule.kind == LoopOutput::Kind::kStacked;
  return NormalizeAxis(rule.axis, part.rank() + (stacked ? 1 : 0)).value_or(-1);
}

// The body may do anything with a state and a slice: it sees nothing else.
void RowFollower::FollowSequence(int index, const std::vector<RowInfo>& inputs) {
  const Node& node = graph_.node(index);
  if (std::string why = WhyNoSequence(node, inputs); !why.empty()) {
    return Mix(index, std::move(why));
  }
  const std::vector<LoopInput>& rules = node.loop->inputs;
  const auto sliced = std::find_if(rules.begin(), rules.end(), [](const LoopInput& rule) {
    return rule.kind == LoopInput::Kind::kSliced;
  });
  const int64_t factor = inputs[static_cast<size_t>(sliced->input)].factor;
  for (const LoopOutput& rule : node.loop->outputs) {
    rows_[static_cast<size_t>(index)][static_cast<size_t>(rule.output)] =
        rule.kind == LoopOutput::Kind::kLastValue
            ? kFixedRow
            : RowInfo{Kind::kRows, AxisOf(*node.loop, rule), factor};
  }
  context_.sequences->push_back({index, factor});
}

// Each item runs alone: whatever the body does, it sees no other.
void RowFollower::FollowItemsApart(int index, const std::vector<RowInfo>& inputs) {
  const Node& node = graph_.node(index);
  const Loop& loop = *node.loop;
  bool fits =
      loop.lengths_input < 0 || inputs[static_cast<size_t>(loop.lengths_input)] == kRowsFirst;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kIteration) {
      continue;
    }
    const RowInfo& rows = inputs[static_cast<size_t>(rule.input)];
    fits = fits && (rule.kind == LoopInput::Kind::kInvariant ? rows.kind == Kind::kFixed
                                                             : rows == kRowsFirst);
  }
  if (!fits) {
    return Mix(index, absl::StrCat("items of ", Describe(node), " are not ", context_.what));
  }
  std::vector<RowInfo>& rows = rows_[static_cast<size_t>(index)];
  std::fill(rows.begin(), rows.end(), kRowsFirst);
}

// Which branch runs must not hang on rows; both are followed, and must agree.
void RowFollower::FollowBranches(int index, const std::vector<RowInfo>& inputs) {
  const Node& node = graph_.node(index);
  const If& branches = *node.branches;
  if (std::any_of(inputs.begin(), inputs.end(), IsMixed)) {
    return Mix(index, "");
  }
  if (inputs[static_cast<size_t>(branches.condition_input)].kind != Kind::kFixed) {
    return Mix(index, absl::StrCat("which branch ", Describe(node), " takes may follow from all ",
                                   context_.what, " together"));
  }
  std::vector<ValueExtents> known;
  for (const ValueId id : node.inputs) {
    known.push_back(id.present() ? extents_.of(id) : ValueExtents());
  }
  std::optional<std::vector<RowInfo>> found;
  const auto& bodies = info_.bodies[static_cast<size_t>(index)];
  for (size_t i = 0; i < bodies.size(); ++i) {
    if (bodies[i] == nullptr) {
      continue;  // never taken
    }
    const Branch& branch = i == 0 ? branches.then_branch : branches.else_branch;
    const Extents extents = Extents::Find(branch.body, *bodies[i], context_.operators,
                                          context_.symbols, InputsOf(branch, known));
    const RowFollower body(branch.body, *bodies[i], extents, row_extents_, InputsOf(branch, inputs),
                           Inside());
    std::vector<RowInfo> results;
    for (const int result : branch.results) {
      results.push_back(body.result(result));
      if (IsMixed(results.back())) {
        return Mix(index, absl::StrCat("in a branch of ", Describe(node), ": ",
                                       body.WhyMixed(body.ResultValue(result))));
      }
    }
    if (found.has_value() && *found != results) {
      return Mix(index, absl::StrCat("the branches of ", Describe(node), " differ in their ",
                                     context_.what));
    }
    found = std::move(results);
  }
  if (!found.has_value()) {
    return Mix(index, absl::StrCat("nothing is known of the branches of ", Describe(node)));
  }
  rows_[static_cast<size_t>(index)] = *std::move(found);
}

}  // namespace beamwright::ops
