// Slice and StridedSlice: both become one Range for each axis of the data, and a copy with strides
// (CopyRanges).
//
// 1. TakeRange resolves bounds as NumPy does: [10] with start -3, stop 100, step 2 is first 7,
//    count 2 (7, 9).
// 2. SliceOp::Resolve reads the lists start, stop, step and axes, as far as they are known; axes
//    that no list names are whole.
// 3. StridedSliceOp::Resolve goes through the entries of begin: an entry takes the next axis of the
//    data (TakeAxis), adds an axis of 1 (new_axis_mask), drops its axis (shrink_axis_mask), or is
//    the ellipsis, which takes all axes that the other entries leave.
// 4. Rows: the axis of rows must be taken whole and in order, whatever its extent is
//    (Range::whole): a fixed stop would hold for one number of rows alone.
#include <algorithm>
#include <limits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/strided_copy.h"

namespace beamwright::ops {
namespace {

// The part of one axis: `count` elements from `first`, `step` apart. count -1: not known yet.
struct Range {
  int64_t first = 0;
  int64_t count = PartialShape::kDynamic;
  int64_t step = 1;
  bool whole = false;  // the whole axis in order, whatever its extent
};

constexpr int64_t kFarEnd = std::numeric_limits<int32_t>::max();

// Bounds as in Slice-8 and NumPy: negative ones count from the end, what is outside is clamped.
Range TakeRange(int64_t start, int64_t stop, int64_t step, int64_t extent) {
  Range range;
  range.step = step;
  range.whole = step == 1 && start == 0 && stop >= kFarEnd;
  if (extent < 0) {
    return range;
  }
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? extent : extent - 1;
  start = std::clamp(start < 0 ? start + extent : start, low, high);
  stop = std::clamp(stop < 0 ? stop + extent : stop, low, high);
  const int64_t distance = step > 0 ? stop - start : start - stop;
  // -step overflows for the lowest integer; as unsigned it does not.
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  range.first = start;
  range.count =
      distance <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1;
  // With one element the step is not used, and must not overflow an address.
  range.step = range.count <= 1 ? 1 : step;
  return range;
}

// Example: [4, 10] with rows 1 to 2 and columns 7, 9 begins at 1 * 10 + 7, and has extents {2, 2}
// with strides {10, 2}.
void CopyRanges(const Tensor& data, absl::Span<const Range> ranges, Tensor& output) {
  const Shape dense = DenseStrides(data.shape());
  Shape extents;
  Shape strides;
  int64_t offset = 0;
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    extents.push_back(ranges[axis].count);
    strides.push_back(ranges[axis].step * dense[axis]);
    offset += ranges[axis].first * dense[axis];
  }
  StridedCopy(data, offset, extents, strides, output);
}

using Ranges = absl::InlinedVector<Range, 6>;

struct SliceOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }

  // One Range an axis of data, or nothing (empty, with known = false) if the axes are not known.
  static absl::StatusOr<Ranges> Resolve(absl::Span<const InputInfo> inputs, bool& known) {
    Ints lists[4];
    bool read[4] = {true, true, true, true};
    static constexpr absl::string_view kNames[] = {"start", "stop", "step", "axes"};
    const size_t count = Present(inputs, 4) ? 4 : 3;
    for (size_t i = 0; i < count; ++i) {
      BW_ASSIGN_OR_RETURN(read[i], ReadInts(inputs[i + 1], kNames[i], lists[i]));
    }
    const PartialShape& shape = inputs[0].shape;
    known = shape.has_rank() && read[3];
    if (!known) {
      return Ranges();
    }
    const int64_t length =
        count == 4 ? static_cast<int64_t>(lists[3].size()) : ListLength(inputs[1]);
    if (length < 0) {
      known = false;
      return Ranges();
    }
    for (int64_t axis = 0; count == 3 && axis < length; ++axis) {
      lists[3].push_back(axis);
    }
    BW_ASSIGN_OR_RETURN(const Ints axes, NormalizeAxes(lists[3], shape.rank()));
    for (size_t i = 0; i < 3; ++i) {
      if (read[i] && lists[i].size() != axes.size()) {
        return Invalid(kNames[i], ": has ", lists[i].size(), " elements, expected ", axes.size());
      }
    }
    Ranges ranges(static_cast<size_t>(shape.rank()));
    for (int axis = 0; axis < shape.rank(); ++axis) {
      ranges[static_cast<size_t>(axis)] = Range{0, shape.dim(axis), 1, true};
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      Range& range = ranges[static_cast<size_t>(axes[i])];
      if (read[2] && lists[2][i] == 0) {
        return Invalid("step[", i, "]: must not be 0");
      }
      range = read[0] && read[1] && read[2] ? TakeRange(lists[0][i], lists[1][i], lists[2][i],
                                                        shape.dim(static_cast<int>(axes[i])))
                                            : Range{};
    }
    return ranges;
  }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 4, 5, outputs));
    bool known = false;
    BW_ASSIGN_OR_RETURN(const Ranges ranges, Resolve(inputs, known));
    outputs[0].dtype = inputs[0].dtype;
    if (!known) {
      outputs[0].shape =
          inputs[0].shape.has_rank() ? DynamicShape(inputs[0].shape.rank()) : PartialShape();
      return absl::OkStatus();
    }
    Shape dims;
    for (const Range& range : ranges) {
      dims.push_back(range.count);
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    bool known = false;
    BW_ASSIGN_OR_RETURN(const Ranges ranges, Resolve(DescribeInputs(inputs), known));
    CopyRanges(*inputs[0], ranges, outputs[0]);
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    bool known = false;
    const absl::StatusOr<Ranges> ranges = Resolve(inputs, known);
    if (!OnlyFirstHasRows(rows).has_value() || !ranges.ok() || !known) {
      return kMixedRows;
    }
    return (*ranges)[static_cast<size_t>(rows[0].axis)].whole ? rows[0] : kMixedRows;
  }
};

// StridedSlice: each entry of begin takes one axis of data, adds an axis, or stands for several.
struct StridedSliceOp {
  struct Options {
    std::vector<int64_t> begin, end, new_axis, shrink, ellipsis;  // masks
  };

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    const std::pair<const char*, std::vector<int64_t>*> masks[] = {
        {"begin_mask", &options.begin},
        {"end_mask", &options.end},
        {"new_axis_mask", &options.new_axis},
        {"shrink_axis_mask", &options.shrink},
        {"ellipsis_mask", &options.ellipsis}};
    for (const auto& [name, mask] : masks) {
      BW_ASSIGN_OR_RETURN(*mask, node.attributes.Ints(name, {}));
      for (const int64_t bit : *mask) {
        if (bit != 0 && bit != 1) {
          return Invalid("attribute ", name, ": ", bit, " must be 0 or 1");
        }
      }
    }
    if (std::count(options.ellipsis.begin(), options.ellipsis.end(), 1) > 1) {
      return Invalid("attribute ellipsis_mask: at most one entry may be 1");
    }
    return options;
  }
  static bool Bit(const std::vector<int64_t>& mask, size_t i) {
    return i < mask.size() && mask[i] == 1;
  }

  // An axis of the output: its extent, and the data axis it comes from (-1: new).
  struct OutputAxis {
    int64_t extent = 1;
    int source = -1;
  };
  struct Plan {
    bool known = false;
    Ranges ranges;  // one an axis of data
    absl::InlinedVector<OutputAxis, 6> axes;
  };

  struct Lists {
    Ints begin, end, strides;
    bool bounds_known = false;
  };

  // Takes data axis `axis` as entry i says.
  static absl::Status TakeAxis(const Options& options, const Lists& lists, size_t i, int axis,
                               int64_t extent, Plan& plan) {
    Range& range = plan.ranges[static_cast<size_t>(axis)];
    const bool shrinks = Bit(options.shrink, i);
    const bool from_start = Bit(options.begin, i);
    const bool to_end = Bit(options.end, i) && !shrinks;
    range = Range{};
    if (shrinks) {
      range.count = 1;
      if (lists.bounds_known && extent >= 0) {
        const int64_t begin = from_start ? 0 : lists.begin[i];
        range.first = begin < 0 ? begin + extent : begin;
        if (range.first < 0 || range.first >= extent) {
          return Invalid("begin[", i, "]: ", begin, " is outside [", -extent, ", ", extent, ")");
        }
      }
      return absl::OkStatus();
    }
    if (lists.bounds_known) {
      const int64_t step = lists.strides.empty() ? 1 : lists.strides[i];
      if (step == 0) {
        return Invalid("strides[", i, "]: must not be 0");
      }
      // A masked bound is the end of the axis that the direction starts from or goes to.
      constexpr int64_t kLowest = std::numeric_limits<int64_t>::min() / 2;
      constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
      const int64_t start = !from_start ? lists.begin[i] : step > 0 ? 0 : kHighest;
      const int64_t stop = !to_end ? lists.end[i] : step > 0 ? kHighest : kLowest;
      range = TakeRange(start, stop, step, extent);
    } else {
      range.whole = from_start && to_end && lists.strides.empty();
    }
    plan.axes.push_back({range.count, axis});
    return absl::OkStatus();
  }

  // Example: data [2, 3, 4, 5], begin {1, ..., 0} with shrink_axis_mask {1, 0, 0} and ellipsis_mask
  // {0, 1, 0}, end {.., .., 2}: axis 0 is dropped at index 1, the ellipsis takes axes 1 and 2, axis
  // 3 is cut to 0 and 1. The result is [3, 4, 2].
  static absl::StatusOr<Plan> Resolve(const Options& options, absl::Span<const InputInfo> inputs) {
    Plan plan;
    Lists lists;
    BW_ASSIGN_OR_RETURN(const bool begin_known, ReadInts(inputs[1], "begin", lists.begin));
    BW_ASSIGN_OR_RETURN(const bool end_known, ReadInts(inputs[2], "end", lists.end));
    bool strides_known = true;
    if (Present(inputs, 3)) {
      BW_ASSIGN_OR_RETURN(strides_known, ReadInts(inputs[3], "strides", lists.strides));
    }
    lists.bounds_known = begin_known && end_known && strides_known;
    const PartialShape& shape = inputs[0].shape;
    const int64_t length = ListLength(inputs[1]);
    if (!shape.has_rank() || length < 0) {
      return plan;
    }
    const size_t entries = static_cast<size_t>(length);
    if ((end_known && lists.end.size() != entries) ||
        (Present(inputs, 3) && strides_known && lists.strides.size() != entries)) {
      return Invalid("begin, end and strides must have the same number of elements");
    }
    // 1. The ellipsis takes the axes that no other entry takes.
    int taken = 0;  // axes of data that entries other than the ellipsis take
    for (size_t i = 0; i < entries; ++i) {
      taken += Bit(options.ellipsis, i) || Bit(options.new_axis, i) ? 0 : 1;
    }
    if (taken > shape.rank()) {
      return Invalid("begin: ", taken, " entries for data of rank ", shape.rank());
    }
    // 2. The entries in order; axes behind the last entry are whole.
    plan.known = true;
    plan.ranges.resize(static_cast<size_t>(shape.rank()));
    int axis = 0;
    const auto take_whole = [&](int count) {
      for (; count > 0; --count, ++axis) {
        plan.ranges[static_cast<size_t>(axis)] = Range{0, shape.dim(axis), 1, true};
        plan.axes.push_back({shape.dim(axis), axis});
      }
    };
    for (size_t i = 0; i < entries; ++i) {
      if (Bit(options.ellipsis, i)) {
        take_whole(shape.rank() - taken);
      } else if (Bit(options.new_axis, i)) {
        plan.axes.push_back({1, -1});
      } else {
        BW_RETURN_IF_ERROR(TakeAxis(options, lists, i, axis, shape.dim(axis), plan));
        ++axis;
      }
    }
    take_whole(shape.rank() - axis);
    return plan;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 4, outputs));
    BW_ASSIGN_OR_RETURN(const Plan plan, Resolve(options, inputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    if (plan.known) {
      Shape dims;
      for (const OutputAxis& axis : plan.axes) {
        dims.push_back(axis.extent);
      }
      outputs[0].shape = PartialShape(std::move(dims));
    }
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const Plan plan, Resolve(options, DescribeInputs(inputs)));
    CopyRanges(*inputs[0], plan.ranges, outputs[0]);
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const absl::StatusOr<Options> options = Parse(node);
    if (!OnlyFirstHasRows(rows).has_value() || !options.ok()) {
      return kMixedRows;
    }
    const absl::StatusOr<Plan> plan = Resolve(*options, inputs);
    if (!plan.ok() || !plan->known || !plan->ranges[static_cast<size_t>(rows[0].axis)].whole) {
      return kMixedRows;
    }
    for (size_t i = 0; i < plan->axes.size(); ++i) {
      if (plan->axes[i].source == rows[0].axis) {
        return RowsAt(static_cast<int>(i), rows[0].factor);
      }
    }
    return kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kSlice = CodeOf<SliceOp>(&SliceOp::Rows);
constinit const OperatorCode kStridedSlice = CodeOf<StridedSliceOp>(&StridedSliceOp::Rows);

}  // namespace beamwright::ops
