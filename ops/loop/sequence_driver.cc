#include "ops/loop/sequence_driver.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "ops/graph/slicing.h"
#include "ops/loop/loop_body.h"

namespace beamwright::ops {
namespace {

// A tensor seen as [outer, axis, inner] in bytes.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner_bytes = 0;
};

AxisView ViewAxis(const Tensor& tensor, int axis) {
  AxisView view;
  view.inner_bytes = SizeOf(tensor.dtype());
  for (int i = 0; i < tensor.rank(); ++i) {
    if (i < axis) {
      view.outer *= tensor.dim(i);
    } else if (i == axis) {
      view.extent = tensor.dim(i);
    } else {
      view.inner_bytes *= tensor.dim(i);
    }
  }
  return view;
}

// Copies elements [begin, begin + length) of an axis between a whole tensor and a part of it.
void CopyPart(const AxisView& whole, std::byte* whole_bytes, std::byte* part_bytes, int64_t begin,
              int64_t length, bool to_part) {
  const auto bytes = static_cast<size_t>(length * whole.inner_bytes);
  for (int64_t i = 0; i < whole.outer; ++i) {
    std::byte* in_whole = whole_bytes + (i * whole.extent + begin) * whole.inner_bytes;
    std::byte* in_part = part_bytes + i * length * whole.inner_bytes;
    std::memcpy(to_part ? in_part : in_whole, to_part ? in_whole : in_part, bytes);
  }
}

// A sliced input while the loop runs.
struct Slicer {
  const LoopInput* rule = nullptr;
  const Tensor* source = nullptr;
  int axis = 0;
  SliceRange range;

  void Take(int64_t iteration, Tensor& part) const {
    Shape shape = source->shape();
    shape[static_cast<size_t>(axis)] = range.part_size;
    Shape seen = shape;
    if (rule->drop_axis) {
      seen.erase(seen.begin() + axis);
    }
    part.Resize(source->dtype(), seen);
    // The view only reads the source.
    CopyPart(ViewAxis(*source, axis), const_cast<std::byte*>(source->bytes()), part.mutable_bytes(),
             range.first + iteration * range.step, range.part_size, true);
  }
};

// Gathers one output of the loop.
class Collector {
 public:
  Collector(const LoopOutput& rule, int64_t trips) : rule_(rule), trips_(trips) {}

  absl::Status Add(int64_t iteration, const Tensor& part, Tensor& output) {
    if (rule_.kind == LoopOutput::Kind::kLastValue) {
      output = part;
      return absl::OkStatus();
    }
    const bool adds_axis = rule_.kind == LoopOutput::Kind::kStacked || part.rank() == 0;
    if (iteration == 0) {
      BW_RETURN_IF_ERROR(Start(part, adds_axis, output));
    }
    if (part.shape() != part_shape_ || part.dtype() != output.dtype()) {
      return Invalid("the part of iteration ", iteration, " is ", ToString(part.shape()),
                     ", the first one was ", ToString(part_shape_));
    }
    const int64_t place = rule_.reversed ? trips_ - 1 - iteration : iteration;
    CopyPart(ViewAxis(output, axis_), output.mutable_bytes(), const_cast<std::byte*>(part.bytes()),
             place * length_, length_, false);
    return absl::OkStatus();
  }

 private:
  absl::Status Start(const Tensor& part, bool adds_axis, Tensor& output) {
    part_shape_ = part.shape();
    BW_ASSIGN_OR_RETURN(axis_, NormalizeAxis(rule_.axis, part.rank() + (adds_axis ? 1 : 0)));
    Shape shape = part.shape();
    if (adds_axis) {
      shape.insert(shape.begin() + axis_, 1);
    }
    length_ = shape[static_cast<size_t>(axis_)];
    if (!adds_axis && length_ != rule_.part_size) {
      return Invalid("each part has ", length_, " elements on axis ", axis_, ", the rule says ",
                     rule_.part_size);
    }
    shape[static_cast<size_t>(axis_)] = length_ * trips_;
    if (trips_ > kMaxTensorBytes || part.num_bytes() * trips_ > kMaxTensorBytes) {
      return Invalid(trips_, " parts of ", ToString(part.shape()), " are more than ",
                     kMaxTensorBytes >> 30, " GiB");
    }
    output.Resize(part.dtype(), shape);
    return absl::OkStatus();
  }

  const LoopOutput& rule_;
  int64_t trips_;
  Shape part_shape_;
  int axis_ = 0;
  int64_t length_ = 0;
};

class LoopKernel : public Kernel {
 public:
  LoopKernel(std::unique_ptr<LoopBody> body, int64_t declared_trips)
      : body_(std::move(body)), declared_trips_(declared_trips) {}

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    const Loop& loop = body_->loop();
    std::vector<Slicer> slicers;
    BW_ASSIGN_OR_RETURN(const int64_t trips, Prepare(inputs, slicers));
    std::vector<Tensor> invariants;
    for (const int index : body_->invariants()) {
      invariants.push_back(*inputs[InputOf(index)]);
    }
    std::vector<Tensor> states;
    for (const int index : body_->carried()) {
      states.push_back(*inputs[InputOf(index)]);
    }
    LoopBody::RequestValues values;
    BW_RETURN_IF_ERROR(body_->Bind(context, invariants, values));
    std::vector<Collector> collectors;
    for (const LoopOutput& rule : loop.outputs) {
      collectors.emplace_back(rule, trips);
    }
    std::vector<Tensor> slices(slicers.size());
    std::vector<Tensor> results;
    for (int64_t iteration = 0; iteration < trips; ++iteration) {
      if (context.deadline != absl::InfiniteFuture() && absl::Now() > context.deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("deadline passed in iteration ", iteration, " of ", trips));
      }
      for (size_t i = 0; i < slicers.size(); ++i) {
        slicers[i].Take(iteration, slices[i]);
      }
      BW_RETURN_IF_ERROR(body_->StepWhole(context, slices, iteration, values, states, results));
      for (size_t i = 0; i < collectors.size(); ++i) {
        const LoopOutput& rule = loop.outputs[i];
        absl::Status status =
            collectors[i].Add(iteration, results[static_cast<size_t>(rule.body_result)],
                              outputs[static_cast<size_t>(rule.output)]);
        if (!status.ok()) {
          return Annotate(status, absl::StrCat("output ", rule.output));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  size_t InputOf(int rule) const {
    return static_cast<size_t>(body_->loop().inputs[static_cast<size_t>(rule)].input);
  }

  // Resolves the slices against real extents; the number of iterations.
  absl::StatusOr<int64_t> Prepare(absl::Span<const Tensor* const> inputs,
                                  std::vector<Slicer>& slicers) const {
    int64_t trips = -1;
    for (const int index : body_->sliced()) {
      const LoopInput& rule = body_->loop().inputs[static_cast<size_t>(index)];
      Slicer slicer;
      slicer.rule = &rule;
      slicer.source = inputs[InputOf(index)];
      const std::string where = absl::StrCat("input port ", rule.external_id);
      absl::StatusOr<int> axis = NormalizeAxis(rule.axis, slicer.source->rank());
      if (!axis.ok()) {
        return Annotate(axis.status(), where);
      }
      slicer.axis = *axis;
      absl::StatusOr<SliceRange> range = ResolveSlice(rule, slicer.source->dim(*axis));
      if (!range.ok()) {
        return Annotate(range.status(), where);
      }
      slicer.range = *range;
      if (trips >= 0 && trips != slicer.range.count) {
        return Invalid(where, " has ", slicer.range.count, " parts, another sliced input has ",
                       trips);
      }
      trips = slicer.range.count;
      slicers.push_back(slicer);
    }
    return trips >= 0 ? trips : declared_trips_;
  }

  std::unique_ptr<LoopBody> body_;
  int64_t declared_trips_;
};

// How often a loop without sliced inputs runs: its trip count, which must be known at load; else as
// a joined output's declared extent says; else once.
absl::StatusOr<int64_t> DeclaredTrips(const KernelRequest& request) {
  const Node& node = request.node;
  if (node.loop->trip_count_input >= 0) {
    const Tensor* count = request.inputs[static_cast<size_t>(node.loop->trip_count_input)].value;
    if (count == nullptr || count->num_elements() != 1) {
      return absl::UnimplementedError("a trip count that is computed at run time is not supported");
    }
    BW_ASSIGN_OR_RETURN(const std::vector<int64_t> value, ToInt64(*count));
    return value[0] < 0 ? absl::StatusOr<int64_t>(
                              absl::UnimplementedError("a loop without a bound is not supported"))
                        : absl::StatusOr<int64_t>(value[0]);
  }
  for (const LoopOutput& rule : node.loop->outputs) {
    const PartialShape& shape = node.outputs[static_cast<size_t>(rule.output)].shape;
    if (rule.kind == LoopOutput::Kind::kLastValue || !shape.has_rank()) {
      continue;
    }
    const absl::StatusOr<int> axis = NormalizeAxis(rule.axis, shape.rank());
    if (axis.ok() && shape.dim(*axis) > 0) {
      return shape.dim(*axis) / std::max<int64_t>(rule.part_size, 1);
    }
  }
  return 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLoopKernel(const KernelRequest& request) {
  const Loop& loop = *request.node.loop;
  if (loop.condition_input >= 0 || loop.condition_result >= 0) {
    return absl::UnimplementedError(
        "a loop with an execution condition is not supported; supported are loops over sliced "
        "inputs and with a constant trip count (TensorIterator)");
  }
  BW_ASSIGN_OR_RETURN(const int64_t trips, DeclaredTrips(request));
  BW_CHECK(request.body != nullptr);
  BW_ASSIGN_OR_RETURN(std::unique_ptr<LoopBody> body,
                      LoopBody::Compile(request.node.loop, *request.body, request.operators));
  return std::make_unique<LoopKernel>(std::move(body), trips);
}

}  // namespace beamwright::ops
