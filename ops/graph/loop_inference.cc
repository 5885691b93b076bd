// Types and shapes of a Loop, from its inputs and its body. InferGraph calls these functions in
// this order:
//
// 1. FirstStateShapes: a state has the shape of its initial value in the first iteration.
// 2. PrepareBody: the Parameters of the body get type and shape: a sliced input without its part of
//    the axis (SliceShape), an invariant as it is and with its value if that is known, the number
//    of the iteration, states as in `states`.
// 3. The body is inferred. Where states may change their shape, WidenStates compares each state
//    with what the body carries on: an extent that differs becomes dynamic, and steps 2 and 3 are
//    repeated until no state changes. This fixed point is reached, since shapes only widen.
// 4. SettleRules counts axes from the front, now that ranks are known.
// 5. InferLoopOutputs: the number of iterations if it is known (StaticTrips: trip count,
//    conditions, parts of sliced inputs), and the outputs: the last value of a state, or parts
//    stacked or concatenated (OutputShape).
//
//   x [rows, time, 8] sliced on axis 1, part 1, axis dropped  ->  body sees [rows, 8]
//   h [rows, 16] carried, body gives [rows, 16]               ->  h stays [rows, 16]
//   output stacked on axis 1                                  ->  [rows, time, 16]
//
// Where items run apart (Items::kApart) the body sees one item: shapes without the first axis
// (SeenShape). An If has two bodies and no states: PrepareBranch, and InferBranchOutputs, which
// keeps what both branches allow.
#include <algorithm>

#include "ops/base/status.h"
#include "ops/graph/body_maps.h"
#include "ops/graph/inference_parts.h"

namespace beamwright::ops {
namespace {

// The shape without its first axis, the batch.
absl::StatusOr<PartialShape> ItemShape(const PartialShape& shape) {
  if (!shape.has_rank()) {
    return PartialShape();
  }
  if (shape.rank() == 0) {
    return Invalid("is a scalar and has no batch axis");
  }
  return PartialShape(Shape(shape.dims().begin() + 1, shape.dims().end()));
}

// The shape of an input as the body sees it: one item's where items run apart.
absl::StatusOr<PartialShape> SeenShape(const Node& node, const LoopInput& input,
                                       absl::Span<const InputInfo> inputs) {
  const PartialShape& shape = inputs[static_cast<size_t>(input.input)].shape;
  const bool apart =
      node.loop->items == Loop::Items::kApart && input.kind != LoopInput::Kind::kInvariant;
  absl::StatusOr<PartialShape> seen = apart ? ItemShape(shape) : shape;
  if (!seen.ok()) {
    return Annotate(seen.status(), Where(*node.loop, input));
  }
  return seen;
}

// Shape of one part of a sliced input.
absl::StatusOr<PartialShape> SliceShape(const LoopInput& input, const PartialShape& shape) {
  if (!shape.has_rank()) {
    return PartialShape();
  }
  BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(input.axis, shape.rank()));
  if (shape.dim(axis) != PartialShape::kDynamic) {
    BW_RETURN_IF_ERROR(ResolveSlice(input, shape.dim(axis)).status());
  }
  Shape dims = shape.dims();
  if (input.drop_axis) {
    dims.erase(dims.begin() + axis);
  } else {
    dims[static_cast<size_t>(axis)] = input.part_size;
  }
  return PartialShape(dims);
}

// Number of parts of the sliced inputs, kDynamic if it is not known. All must agree.
absl::StatusOr<int64_t> StaticParts(const Node& node, absl::Span<const InputInfo> inputs) {
  int64_t parts = PartialShape::kDynamic;
  for (const LoopInput& input : node.loop->inputs) {
    if (input.kind != LoopInput::Kind::kSliced) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const PartialShape shape, SeenShape(node, input, inputs));
    if (!shape.has_rank()) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(input.axis, shape.rank()));
    if (shape.dim(axis) == PartialShape::kDynamic) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const SliceRange range, ResolveSlice(input, shape.dim(axis)));
    if (parts != PartialShape::kDynamic && parts != range.count) {
      return Invalid(Where(*node.loop, input), " has ", range.count,
                     " parts, another sliced input ", parts);
    }
    parts = range.count;
  }
  return parts;
}

bool IsIndexType(DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }

// The trip count: known, and then negative for no bound.
struct KnownCount {
  bool known = true;
  int64_t value = -1;
};
absl::StatusOr<KnownCount> ReadTripCount(const Loop& loop, absl::Span<const InputInfo> inputs) {
  if (loop.trip_count_input < 0) {
    return KnownCount{};
  }
  const InputInfo& input = inputs[static_cast<size_t>(loop.trip_count_input)];
  if (!IsIndexType(input.dtype) || !MayHaveOneElement(input.shape)) {
    return Invalid("the trip count is ", Name(input.dtype), input.shape.ToString(),
                   "; it must be one i64 or i32");
  }
  if (input.value == nullptr) {
    return KnownCount{false, 0};
  }
  BW_ASSIGN_OR_RETURN(const std::vector<int64_t> value, ToInt64(*input.value));
  return KnownCount{true, value[0]};
}

// Number of iterations if it is known at load, else kDynamic.
absl::StatusOr<int64_t> StaticTrips(const Node& node, const GraphInfo& body_info,
                                    absl::Span<const InputInfo> inputs) {
  const Loop& loop = *node.loop;
  KnownCondition begins{true, true};
  if (loop.condition_input >= 0) {
    BW_ASSIGN_OR_RETURN(
        begins, ReadCondition("the condition", inputs[static_cast<size_t>(loop.condition_input)]));
  }
  KnownCondition goes_on{true, true};
  if (loop.condition_result >= 0) {
    const Node& result =
        loop.body.node(loop.body.results[static_cast<size_t>(loop.condition_result)]);
    BW_ASSIGN_OR_RETURN(
        goes_on, ReadCondition("the body's condition", body_info.InputsOf(loop.body, result)[0]));
  }
  BW_ASSIGN_OR_RETURN(const KnownCount limit, ReadTripCount(loop, inputs));
  BW_ASSIGN_OR_RETURN(const int64_t parts, StaticParts(node, inputs));
  if (limit.known && parts >= 0 && limit.value > parts) {
    return Invalid("the trip count is ", limit.value, ", sliced inputs have ", parts, " parts");
  }
  if (begins.known && !begins.value) {
    return 0;
  }
  if (!begins.known || !limit.known) {
    return PartialShape::kDynamic;
  }
  const bool once = loop.trip_count_input < 0 && loop.condition_result < 0 &&
                    std::none_of(loop.inputs.begin(), loop.inputs.end(), [](const LoopInput& rule) {
                      return rule.kind == LoopInput::Kind::kSliced;
                    });
  const int64_t trips = limit.value >= 0 ? limit.value : once ? 1 : parts;
  const bool runs_on = goes_on.known && goes_on.value;
  return trips == 0 || runs_on ? trips : PartialShape::kDynamic;
}

absl::StatusOr<PartialShape> OutputShape(const LoopOutput& output, const PartialShape& part,
                                         int64_t trips) {
  if (output.kind == LoopOutput::Kind::kLastValue || !part.has_rank()) {
    return part;
  }
  // Larger tensors are impossible, and arithmetic on larger extents could overflow.
  constexpr int64_t kMost = int64_t{1} << 48;
  if (trips > kMost / output.part_size) {
    return Invalid(trips, " iterations give more than 2^48 elements");
  }
  Shape dims = part.dims();
  const bool stacked = output.kind == LoopOutput::Kind::kStacked || dims.empty();
  BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(output.axis, static_cast<int>(dims.size()) +
                                                                     (stacked ? 1 : 0)));
  if (stacked) {
    dims.insert(dims.begin() + axis, trips);
    return PartialShape(dims);
  }
  int64_t& dim = dims[static_cast<size_t>(axis)];
  if (dim != PartialShape::kDynamic && dim != output.part_size) {
    return Invalid("each part has ", dim, " elements on axis ", axis, ", the rule says ",
                   output.part_size);
  }
  dim = trips == PartialShape::kDynamic ? trips : trips * output.part_size;
  return PartialShape(dims);
}

// Extent of the batch where items run apart or are held, kDynamic if it is not known. All inputs
// that have it must agree.
absl::StatusOr<int64_t> BatchExtent(const Node& node, absl::Span<const InputInfo> inputs) {
  const Loop& loop = *node.loop;
  int64_t batch = PartialShape::kDynamic;
  const auto merge = [&](const std::string& where, const PartialShape& shape) {
    if (!shape.has_rank() || shape.rank() == 0 || shape.dim(0) < 0) {
      return absl::OkStatus();
    }
    if (batch >= 0 && shape.dim(0) != batch) {
      return Invalid(where, " has ", shape.dim(0), " batch items, another input ", batch);
    }
    batch = shape.dim(0);
    return absl::OkStatus();
  };
  if (loop.lengths_input >= 0) {
    const InputInfo& lengths = inputs[static_cast<size_t>(loop.lengths_input)];
    if (!IsIndexType(lengths.dtype) || (lengths.shape.has_rank() && lengths.shape.rank() != 1)) {
      return Invalid("lengths (input ", loop.lengths_input, ") are ", Name(lengths.dtype),
                     lengths.shape.ToString(), "; they must be i64 or i32, one for each item");
    }
    BW_RETURN_IF_ERROR(merge("lengths", lengths.shape));
  }
  for (const LoopInput& input : loop.inputs) {
    const bool has_batch =
        input.kind == LoopInput::Kind::kCarried ||
        (input.kind == LoopInput::Kind::kSliced && loop.items == Loop::Items::kApart);
    if (has_batch) {
      BW_RETURN_IF_ERROR(merge(Where(loop, input), inputs[static_cast<size_t>(input.input)].shape));
    }
  }
  return batch;
}

}  // namespace

absl::Status PrepareBranch(const Branch& branch, absl::Span<const InputInfo> inputs, Graph& body,
                           std::vector<Tensor>& constants) {
  constants.assign(body.parameters.size(), Tensor());
  for (size_t i = 0; i < branch.inputs.size(); ++i) {
    const InputInfo& outside = inputs[static_cast<size_t>(branch.inputs[i])];
    const Node& parameter = body.node(body.parameters[i]);
    BW_RETURN_IF_ERROR(
        SetParameter(absl::StrCat("input ", branch.inputs[i], " (", Describe(parameter), ")"), body,
                     i, outside.dtype, outside.shape));
    if (outside.value != nullptr) {
      constants[i] = *outside.value;
    }
  }
  return absl::OkStatus();
}

absl::Status InferBranchOutputs(const Branch* then_branch, const Branch* else_branch,
                                std::vector<ValueInfo>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueInfo* infos[2] = {nullptr, nullptr};
    size_t count = 0;
    for (const Branch* branch : {then_branch, else_branch}) {
      if (branch != nullptr) {
        infos[count++] = &ResultInfo(branch->body, branch->results[i]);
      }
    }
    const ValueInfo& first = *infos[0];
    const ValueInfo& second = count == 2 ? *infos[1] : first;
    if (first.dtype != second.dtype) {
      return Invalid("output ", i, " is ", Name(first.dtype), " from the then branch and ",
                     Name(second.dtype), " from the else branch");
    }
    outputs[i].dtype = first.dtype;
    outputs[i].shape = JoinShapes(first.shape, second.shape);
  }
  return absl::OkStatus();
}

absl::StatusOr<StateShapes> FirstStateShapes(const Node& node, absl::Span<const InputInfo> inputs) {
  StateShapes states;
  for (const LoopInput& rule : node.loop->inputs) {
    states.emplace_back();
    if (rule.kind == LoopInput::Kind::kCarried) {
      BW_ASSIGN_OR_RETURN(states.back(), SeenShape(node, rule, inputs));
    }
  }
  return states;
}

bool WidenStates(const Loop& loop, const Graph& body, StateShapes& states) {
  bool widened = false;
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    if (loop.inputs[i].kind != LoopInput::Kind::kCarried) {
      continue;
    }
    PartialShape both = JoinShapes(states[i], ResultInfo(body, loop.inputs[i].back_edge).shape);
    widened |= both != states[i];
    states[i] = std::move(both);
  }
  return widened;
}

absl::Status PrepareBody(const Node& node, absl::Span<const InputInfo> inputs,
                         const StateShapes& states, Graph& body, std::vector<Tensor>& constants) {
  constants.assign(body.parameters.size(), Tensor());
  for (size_t i = 0; i < node.loop->inputs.size(); ++i) {
    const LoopInput& rule = node.loop->inputs[i];
    const auto parameter = static_cast<size_t>(rule.body_parameter);
    const std::string where = Where(*node.loop, rule);
    if (rule.kind == LoopInput::Kind::kIteration) {
      const ValueInfo& declared = body.node(body.parameters[parameter]).outputs[0];
      const bool is_vector = declared.shape.has_rank() && declared.shape.rank() == 1;
      BW_RETURN_IF_ERROR(SetParameter(where, body, parameter,
                                      declared.dtype == DType::kI32 ? DType::kI32 : DType::kI64,
                                      PartialShape(is_vector ? Shape{1} : Shape{})));
      continue;
    }
    const InputInfo& outside = inputs[static_cast<size_t>(rule.input)];
    PartialShape shape = states[i];
    if (rule.kind != LoopInput::Kind::kCarried) {
      BW_ASSIGN_OR_RETURN(shape, SeenShape(node, rule, inputs));
    }
    if (rule.kind == LoopInput::Kind::kSliced) {
      absl::StatusOr<PartialShape> slice = SliceShape(rule, shape);
      if (!slice.ok()) {
        return Annotate(slice.status(), where);
      }
      shape = *std::move(slice);
    } else if (rule.kind == LoopInput::Kind::kInvariant && outside.value != nullptr) {
      constants[parameter] = *outside.value;
    }
    BW_RETURN_IF_ERROR(SetParameter(where, body, parameter, outside.dtype, shape));
  }
  return absl::OkStatus();
}

absl::Status SettleRules(const Node& node, absl::Span<const InputInfo> inputs, Loop& loop) {
  for (LoopInput& rule : loop.inputs) {
    if (rule.kind != LoopInput::Kind::kSliced) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const PartialShape shape, SeenShape(node, rule, inputs));
    if (shape.has_rank()) {
      BW_ASSIGN_OR_RETURN(rule.axis, NormalizeAxis(rule.axis, shape.rank()));
    }
  }
  for (LoopOutput& rule : loop.outputs) {
    const PartialShape& part = ResultInfo(loop.body, rule.body_result).shape;
    if (rule.kind == LoopOutput::Kind::kLastValue || !part.has_rank()) {
      continue;
    }
    const bool stacked = rule.kind == LoopOutput::Kind::kStacked || part.rank() == 0;
    absl::StatusOr<int> axis = NormalizeAxis(rule.axis, part.rank() + (stacked ? 1 : 0));
    if (!axis.ok()) {
      return Annotate(axis.status(), absl::StrCat("output ", rule.output));
    }
    rule.axis = *axis;
    if (!stacked && rule.part_size == 1 && part.dim(*axis) > 1) {
      rule.part_size = part.dim(*axis);
    }
  }
  return absl::OkStatus();
}

absl::Status InferLoopOutputs(const Node& node, const GraphInfo& body_info,
                              absl::Span<const InputInfo> inputs, std::vector<ValueInfo>& outputs) {
  const Loop& loop = *node.loop;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kCarried) {
      ValueInfo next = ResultInfo(loop.body, rule.back_edge);
      const ValueInfo& first =
          loop.body.node(loop.body.parameters[static_cast<size_t>(rule.body_parameter)]).outputs[0];
      BW_RETURN_IF_ERROR(
          MergeInfo(absl::StrCat(Where(loop, rule), ": the value of its back edge"), first, next));
    }
  }
  const bool apart = loop.items == Loop::Items::kApart;
  BW_ASSIGN_OR_RETURN(const int64_t trips, StaticTrips(node, body_info, inputs));
  int64_t batch = PartialShape::kDynamic;
  if (loop.items != Loop::Items::kTogether) {
    BW_ASSIGN_OR_RETURN(batch, BatchExtent(node, inputs));
  }
  for (const LoopOutput& rule : loop.outputs) {
    const ValueInfo& part = ResultInfo(loop.body, rule.body_result);
    absl::StatusOr<PartialShape> shape = OutputShape(rule, part.shape, trips);
    if (!shape.ok()) {
      return Annotate(shape.status(), absl::StrCat("output ", rule.output));
    }
    ValueInfo& output = outputs[static_cast<size_t>(rule.output)];
    output.dtype = part.dtype;
    output.shape = *std::move(shape);
    // After no iteration the state is its initial value.
    const LoopInput* const state =
        rule.kind == LoopOutput::Kind::kLastValue ? FindState(loop, rule.body_result) : nullptr;
    if (state != nullptr && loop.states_may_change_shape) {
      output.shape = JoinShapes(output.shape, inputs[static_cast<size_t>(state->input)].shape);
    }
    if (apart && output.shape.has_rank()) {
      Shape dims = output.shape.dims();
      dims.insert(dims.begin(), batch);
      output.shape = PartialShape(std::move(dims));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
