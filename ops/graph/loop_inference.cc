#include "ops/graph/loop_inference.h"

#include "ops/base/status.h"
#include "ops/graph/slicing.h"

namespace beamwright::ops {
namespace {

bool InRange(int index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

// "input port 0 (body Parameter 'x')"
std::string Where(const Loop& loop, const LoopInput& input) {
  const Node& parameter =
      loop.body.node(loop.body.parameters[static_cast<size_t>(input.body_parameter)]);
  return absl::StrCat("input port ", input.external_id, " (body ", Describe(parameter), ")");
}

absl::Status CheckInputMap(const Node& node, const LoopInput& input, std::vector<bool>& fed) {
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
  if (!InRange(input.input, node.inputs.size()) ||
      !node.inputs[static_cast<size_t>(input.input)].present()) {
    return Invalid(Where(loop, input), " has no value outside the loop");
  }
  if (input.kind == LoopInput::Kind::kCarried &&
      !InRange(input.back_edge, loop.body.results.size())) {
    return Invalid(Where(loop, input), ": back edge from body result ", input.back_edge,
                   "; the body has ", loop.body.results.size());
  }
  return absl::OkStatus();
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

// Number of iterations where the sliced inputs tell it; kDynamic else. All must agree.
absl::StatusOr<int64_t> StaticTripCount(const Node& node, absl::Span<const InputInfo> inputs) {
  int64_t trips = PartialShape::kDynamic;
  for (const LoopInput& input : node.loop->inputs) {
    if (input.kind != LoopInput::Kind::kSliced) {
      continue;
    }
    const PartialShape& shape = inputs[static_cast<size_t>(input.input)].shape;
    if (!shape.has_rank()) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(input.axis, shape.rank()));
    if (shape.dim(axis) == PartialShape::kDynamic) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const SliceRange range, ResolveSlice(input, shape.dim(axis)));
    if (trips != PartialShape::kDynamic && trips != range.count) {
      return Invalid(Where(*node.loop, input), " has ", range.count,
                     " parts, another sliced input ", trips);
    }
    trips = range.count;
  }
  return node.loop->condition_result >= 0 || node.loop->trip_count_input >= 0
             ? PartialShape::kDynamic
             : trips;
}

absl::StatusOr<PartialShape> OutputShape(const LoopOutput& output, const PartialShape& part,
                                         int64_t trips) {
  if (output.kind == LoopOutput::Kind::kLastValue || !part.has_rank()) {
    return part;
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

}  // namespace

absl::Status CheckLoopMaps(const Node& node) {
  if (node.loop == nullptr) {
    return Invalid("has no body");
  }
  const Loop& loop = *node.loop;
  std::vector<bool> fed(loop.body.parameters.size(), false);
  for (const LoopInput& input : loop.inputs) {
    BW_RETURN_IF_ERROR(CheckInputMap(node, input, fed));
  }
  for (size_t i = 0; i < fed.size(); ++i) {
    if (!fed[i]) {
      return Invalid("nothing feeds body ", Describe(loop.body.node(loop.body.parameters[i])));
    }
  }
  for (const LoopOutput& output : loop.outputs) {
    if (!InRange(output.body_result, loop.body.results.size()) ||
        !InRange(output.output, node.outputs.size())) {
      return Invalid("output rule maps body result ", output.body_result, " to output ",
                     output.output, "; the body has ", loop.body.results.size(),
                     " results, the loop ", node.outputs.size(), " outputs");
    }
  }
  if (loop.condition_result >= 0 && !InRange(loop.condition_result, loop.body.results.size())) {
    return Invalid("execution condition is body result ", loop.condition_result);
  }
  return absl::OkStatus();
}

absl::Status MergeInfo(absl::string_view what, const ValueInfo& declared, ValueInfo& inferred) {
  if (inferred.dtype == DType::kUndefined) {
    inferred.dtype = declared.dtype;
  } else if (declared.dtype != DType::kUndefined && declared.dtype != inferred.dtype) {
    return Invalid(what, " is declared ", Name(declared.dtype), " but is ", Name(inferred.dtype));
  }
  if (!declared.shape.has_rank()) {
    return absl::OkStatus();
  }
  if (!inferred.shape.has_rank()) {
    inferred.shape = declared.shape;
    return absl::OkStatus();
  }
  const auto conflict = [&] {
    return Invalid(what, " is declared ", declared.shape.ToString(), " but is ",
                   inferred.shape.ToString());
  };
  if (declared.shape.rank() != inferred.shape.rank()) {
    return conflict();
  }
  Shape merged = inferred.shape.dims();
  for (size_t axis = 0; axis < merged.size(); ++axis) {
    const int64_t dim = declared.shape.dims()[axis];
    if (dim == PartialShape::kDynamic) {
      continue;
    }
    if (merged[axis] != PartialShape::kDynamic && merged[axis] != dim) {
      return conflict();
    }
    merged[axis] = dim;
  }
  inferred.shape = PartialShape(merged);
  return absl::OkStatus();
}

absl::Status PrepareBody(const Node& node, absl::Span<const InputInfo> inputs, Graph& body,
                         std::vector<Tensor>& constants) {
  constants.assign(body.parameters.size(), Tensor());
  for (const LoopInput& rule : node.loop->inputs) {
    const auto parameter = static_cast<size_t>(rule.body_parameter);
    ValueInfo& declared = body.node(body.parameters[parameter]).outputs[0];
    ValueInfo given;
    given.names = declared.names;
    if (rule.kind == LoopInput::Kind::kIteration) {
      given.dtype = declared.dtype == DType::kI32 ? DType::kI32 : DType::kI64;
    } else {
      const InputInfo& outside = inputs[static_cast<size_t>(rule.input)];
      given.dtype = outside.dtype;
      given.shape = outside.shape;
      if (rule.kind == LoopInput::Kind::kSliced) {
        absl::StatusOr<PartialShape> slice = SliceShape(rule, outside.shape);
        if (!slice.ok()) {
          return Annotate(slice.status(), Where(*node.loop, rule));
        }
        given.shape = *slice;
      } else if (rule.kind == LoopInput::Kind::kInvariant && outside.value != nullptr) {
        constants[parameter] = *outside.value;
      }
    }
    BW_RETURN_IF_ERROR(MergeInfo(Where(*node.loop, rule), declared, given));
    declared = given;
  }
  return absl::OkStatus();
}

absl::Status InferLoopOutputs(const Node& node, absl::Span<const InputInfo> inputs,
                              std::vector<ValueInfo>& outputs) {
  const Loop& loop = *node.loop;
  const auto result_info = [&](int index) -> const ValueInfo& {
    return loop.body.info(loop.body.node(loop.body.results[static_cast<size_t>(index)]).inputs[0]);
  };
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kCarried) {
      ValueInfo next = result_info(rule.back_edge);
      const ValueInfo& first =
          loop.body.node(loop.body.parameters[static_cast<size_t>(rule.body_parameter)]).outputs[0];
      BW_RETURN_IF_ERROR(
          MergeInfo(absl::StrCat(Where(loop, rule), ": the value of its back edge"), first, next));
    }
  }
  BW_ASSIGN_OR_RETURN(const int64_t trips, StaticTripCount(node, inputs));
  for (const LoopOutput& rule : loop.outputs) {
    const ValueInfo& part = result_info(rule.body_result);
    absl::StatusOr<PartialShape> shape = OutputShape(rule, part.shape, trips);
    if (!shape.ok()) {
      return Annotate(shape.status(), absl::StrCat("output ", rule.output));
    }
    outputs[static_cast<size_t>(rule.output)].dtype = part.dtype;
    outputs[static_cast<size_t>(rule.output)].shape = *shape;
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
