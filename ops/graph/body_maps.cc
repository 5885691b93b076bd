// Checks the rules that connect a Loop or an If with its bodies, before any pass relies on them:
// every parameter of a body is fed exactly once, every output is written exactly once, and all
// numbers are in range (CheckLoopMaps, CheckBranchMaps).
//
// CheckItems: a loop whose batch items have separate lengths (each reads a sequence of its length)
// slices whole axes, one element at a time, and has neither a trip count nor a condition. Where
// items are held at the end of their length, all slices go in one direction and last values are
// states.
//
// ResolveSlice by example, for an axis of 10 elements:
//
//   start 0, end -1, stride 1, part_size 2     parts [0, 1] [2, 3] .. [8, 9]     first 0, step 2,
//   count 5 start -1, end 0, stride -1, part_size 2    parts [8, 9] [6, 7] .. [0, 1]     first 8,
//   step -2, count 5 start 1, end -2, stride 1, part_size 3     the range of 8 elements does not
//   divide into parts of 3
#include "ops/graph/body_maps.h"

#include <algorithm>
#include <vector>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

absl::StatusOr<int64_t> ResolveIndex(absl::string_view what, int64_t value, int64_t extent) {
  const int64_t resolved = value < 0 ? value + extent : value;
  if (resolved < 0 || resolved >= extent) {
    return Invalid(what, " ", value, " is outside [", -extent, ", ", extent - 1, "], the axis has ",
                   extent, " elements");
  }
  return resolved;
}

}  // namespace

// The parts of an axis of this extent, in their order: numbers below 0 count from the end, `end` is
// part of the range, and the range is a whole number of parts. A backward slice begins with the
// last part.
absl::StatusOr<SliceRange> ResolveSlice(const LoopInput& input, int64_t extent) {
  if (input.stride == 0) {
    return Invalid("stride is 0");
  }
  if (input.part_size < 1) {
    return Invalid("part_size ", input.part_size, " is not positive");
  }
  if (extent == 0) {
    if (input.may_be_empty) {
      return SliceRange{0, 1, 1, 0};
    }
    return Invalid("the sliced axis is empty");
  }
  BW_ASSIGN_OR_RETURN(const int64_t start, ResolveIndex("start", input.start, extent));
  BW_ASSIGN_OR_RETURN(const int64_t end, ResolveIndex("end", input.end, extent));
  const bool forward = input.stride > 0;
  if (forward ? start > end : start < end) {
    return Invalid("start ", input.start, " (element ", start, ") lies ",
                   forward ? "behind" : "before", " end ", input.end, " (element ", end,
                   ") although stride is ", input.stride);
  }
  const int64_t length = (forward ? end - start : start - end) + 1;
  if (length % input.part_size != 0) {
    return Invalid("the range of ", length, " elements does not divide into parts of ",
                   input.part_size);
  }
  SliceRange range;
  range.part_size = input.part_size;
  range.count = length / input.part_size;
  range.step = forward ? input.part_size : -input.part_size;
  range.first = forward ? start : start - input.part_size + 1;
  return range;
}

namespace {

bool InRange(int index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

bool IsConnected(const Node& node, int input) {
  return InRange(input, node.inputs.size()) && node.inputs[static_cast<size_t>(input)].present();
}

// Marks the body's Parameter as fed, and checks what feeds it: a value outside, and for a state the
// result that becomes the next one.
absl::Status CheckInputRule(const Node& node, const LoopInput& input, std::vector<bool>& fed) {
  const Loop& loop = *node.loop;
  if (!InRange(input.body_parameter, loop.body.parameters.size())) {
    return Invalid("input rule names body parameter ", input.body_parameter, "; the body has ",
                   loop.body.parameters.size());
  }
  if (fed[static_cast<size_t>(input.body_parameter)]) {
    return Invalid(Where(loop, input), " is fed twice");
  }
  fed[static_cast<size_t>(input.body_parameter)] = true;
  if (input.kind == LoopInput::Kind::kIteration) {
    return absl::OkStatus();
  }
  if (!IsConnected(node, input.input)) {
    return Invalid(Where(loop, input), " has no value outside the loop");
  }
  if (input.kind == LoopInput::Kind::kCarried &&
      !InRange(input.back_edge, loop.body.results.size())) {
    return Invalid(Where(loop, input), ": back edge from body result ", input.back_edge,
                   "; the body has ", loop.body.results.size());
  }
  return absl::OkStatus();
}

// Checks the rules of a loop whose batch items have separate lengths.
absl::Status CheckItems(const Node& node) {
  const Loop& loop = *node.loop;
  if (loop.items == Loop::Items::kTogether) {
    return loop.lengths_input < 0
               ? absl::OkStatus()
               : Invalid("lengths (input ", loop.lengths_input, ") need items of their own");
  }
  if (loop.lengths_input >= 0 && !IsConnected(node, loop.lengths_input)) {
    return Invalid("lengths are input ", loop.lengths_input, ", which has no value");
  }
  if (loop.trip_count_input >= 0 || loop.condition_input >= 0 || loop.condition_result >= 0 ||
      loop.states_may_change_shape) {
    return Invalid(
        "a loop over items of their own length has no trip count, no condition, and states of one "
        "shape");
  }
  const LoopInput* first = nullptr;
  for (const LoopInput& input : loop.inputs) {
    if (input.kind != LoopInput::Kind::kSliced) {
      continue;
    }
    const bool forward = input.start == 0 && input.end == -1 && input.stride == 1;
    const bool backward = input.start == -1 && input.end == 0 && input.stride == -1;
    if (input.part_size != 1 || !(forward || backward)) {
      return Invalid(Where(loop, input),
                     ": items of their own length are sliced over the whole axis, one element at a "
                     "time");
    }
    first = first == nullptr ? &input : first;
    if (loop.items == Loop::Items::kHeld && input.stride != first->stride) {
      return Invalid(Where(loop, input), " is read in another direction than ",
                     Where(loop, *first));
    }
  }
  if (first == nullptr) {
    return Invalid("a loop over items of their own length slices nothing");
  }
  for (const LoopOutput& output : loop.outputs) {
    if (loop.items == Loop::Items::kHeld && output.kind == LoopOutput::Kind::kLastValue &&
        FindState(loop, output.body_result) == nullptr) {
      return Invalid("output ", output.output, ": a last value under lengths must be a state");
    }
  }
  return absl::OkStatus();
}

// Branches have an input for each Parameter and a result for each output of the If, by position.
absl::Status CheckBranch(const Node& node, const Branch& branch) {
  if (branch.inputs.size() != branch.body.parameters.size()) {
    return Invalid("has ", branch.inputs.size(), " inputs for ", branch.body.parameters.size(),
                   " Parameters");
  }
  for (size_t i = 0; i < branch.inputs.size(); ++i) {
    if (!IsConnected(node, branch.inputs[i])) {
      return Invalid("nothing feeds ", Describe(branch.body.node(branch.body.parameters[i])));
    }
  }
  if (branch.results.size() != node.outputs.size()) {
    return Invalid("gives ", branch.results.size(), " of ", node.outputs.size(), " outputs");
  }
  for (size_t i = 0; i < branch.results.size(); ++i) {
    if (!InRange(branch.results[i], branch.body.results.size())) {
      return Invalid("output ", i, " is result ", branch.results[i], "; the branch has ",
                     branch.body.results.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string Where(const Loop& loop, const LoopInput& input) {
  const Node& parameter =
      loop.body.node(loop.body.parameters[static_cast<size_t>(input.body_parameter)]);
  return absl::StrCat("input port ", input.external_id, " (body ", Describe(parameter), ")");
}

const LoopInput* FindState(const Loop& loop, int body_result) {
  const auto it = std::find_if(loop.inputs.begin(), loop.inputs.end(), [&](const LoopInput& rule) {
    return rule.kind == LoopInput::Kind::kCarried && rule.back_edge == body_result;
  });
  return it == loop.inputs.end() ? nullptr : &*it;
}

// In the order of a loop's run: what enters, what leaves, what ends it, and then rules of items.
absl::Status CheckLoopMaps(const Node& node) {
  if (node.loop == nullptr) {
    return Invalid("has no body");
  }
  const Loop& loop = *node.loop;
  std::vector<bool> fed(loop.body.parameters.size(), false);
  for (const LoopInput& input : loop.inputs) {
    BW_RETURN_IF_ERROR(CheckInputRule(node, input, fed));
  }
  for (size_t i = 0; i < fed.size(); ++i) {
    if (!fed[i]) {
      return Invalid("nothing feeds body ", Describe(loop.body.node(loop.body.parameters[i])));
    }
  }
  std::vector<bool> written(node.outputs.size(), false);
  for (const LoopOutput& output : loop.outputs) {
    if (!InRange(output.body_result, loop.body.results.size()) ||
        !InRange(output.output, node.outputs.size())) {
      return Invalid("output rule maps body result ", output.body_result, " to output ",
                     output.output, "; the body has ", loop.body.results.size(),
                     " results, the loop ", node.outputs.size(), " outputs");
    }
    if (written[static_cast<size_t>(output.output)]) {
      return Invalid("two rules write output ", output.output);
    }
    written[static_cast<size_t>(output.output)] = true;
  }
  if (const auto it = std::find(written.begin(), written.end(), false); it != written.end()) {
    return Invalid("no rule writes output ", it - written.begin());
  }
  if (loop.condition_result >= 0 && !InRange(loop.condition_result, loop.body.results.size())) {
    return Invalid("execution condition is body result ", loop.condition_result);
  }
  for (const int input : {loop.trip_count_input, loop.condition_input}) {
    if (input >= 0 && !IsConnected(node, input)) {
      return Invalid("trip count or condition is input ", input, ", which has no value");
    }
  }
  return CheckItems(node);
}

absl::Status CheckBranchMaps(const Node& node) {
  if (node.branches == nullptr) {
    return Invalid("has no branches");
  }
  if (!IsConnected(node, node.branches->condition_input)) {
    return Invalid("the condition is input ", node.branches->condition_input,
                   ", which has no value");
  }
  const absl::Status status = CheckBranch(node, node.branches->then_branch);
  if (!status.ok()) {
    return Annotate(status, "then branch");
  }
  return Annotate(CheckBranch(node, node.branches->else_branch), "else branch");
}

}  // namespace beamwright::ops
