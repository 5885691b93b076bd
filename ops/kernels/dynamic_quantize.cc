// DynamicQuantizeLinear of ONNX: quantises a tensor to bytes by the range of its values,
//
//   scale = (max(x, 0) - min(x, 0)) / 255
//   zero = round(-min(x, 0) / scale)
//   y = round(x / scale) + zero
//
// As ONNX defines it, the range is that of the whole tensor, so that the rows of one request would
// change the results of another. A pass therefore sets item_axis: then each item (a row, or
// item_extent neighbouring rows) has a range of its values only, as if it were the whole tensor.
//
// 1. ItemsOf: an item's elements are `outer` stretches.
// 2. QuantizeItem: the range of the item (RangeOf, in 32 lanes, which the compiler vectorizes),
//    then its bytes (QuantizeLoop).
#include <algorithm>
#include <cmath>

#include "ops/base/vector_isa.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/quantization.h"

namespace beamwright::ops {
namespace {

struct DynamicOptions {
  bool by_item = false;
  std::optional<int64_t> axis;  // nothing: by item, on an axis that is not known yet
  int64_t extent = 1;           // of one item on that axis
};

absl::StatusOr<DynamicOptions> ParseDynamic(const Node& node) {
  DynamicOptions options;
  options.by_item = node.attributes.Has("item_axis");
  BW_ASSIGN_OR_RETURN(const int64_t axis, node.attributes.Int("item_axis", -1));
  BW_ASSIGN_OR_RETURN(options.extent, node.attributes.Int("item_extent", 1));
  if (axis >= 0) {
    options.axis = axis;
  }
  if (options.extent < 1) {
    return Invalid("attribute item_extent: ", options.extent, " must be at least 1");
  }
  return options;
}

// The shape of scales and zero points: a scalar; by item that of x with 1 on all axes but the
// items', so that it broadcasts.
absl::StatusOr<PartialShape> ScaleShape(const DynamicOptions& options, const PartialShape& x) {
  if (!options.by_item) {
    return PartialShape(Shape());
  }
  if (!x.has_rank()) {
    return PartialShape();
  }
  if (!options.axis.has_value()) {
    Shape dims(x.dims().begin(), x.dims().end());
    std::replace_if(
        dims.begin(), dims.end(), [](int64_t dim) { return dim != 1; }, PartialShape::kDynamic);
    return PartialShape(std::move(dims));
  }
  if (*options.axis >= x.rank()) {
    return Invalid("attribute item_axis: ", *options.axis, " is not an axis of x ", x.ToString());
  }
  Shape dims(static_cast<size_t>(x.rank()), 1);
  const int64_t extent = x.dim(static_cast<int>(*options.axis));
  if (extent >= 0 && extent % options.extent != 0) {
    return Invalid("attribute item_extent: ", options.extent, " does not divide axis ",
                   *options.axis, " of x ", x.ToString());
  }
  dims[static_cast<size_t>(*options.axis)] = extent;
  return PartialShape(std::move(dims));
}

// The elements of x by item: for each index of the axes before the items' axis, item i has the
// stretch [i * stretch, (i + 1) * stretch).
struct Items {
  int64_t outer = 1;
  int64_t count = 1;
  int64_t stretch = 1;
};

Items ItemsOf(const DynamicOptions& options, const Tensor& x) {
  if (!options.by_item) {
    return {1, 1, x.num_elements()};
  }
  Items items;
  const auto axis = static_cast<int>(*options.axis);
  for (int i = 0; i < axis; ++i) {
    items.outer *= x.dim(i);
  }
  items.count = x.dim(axis) / options.extent;
  items.stretch = x.num_elements() / items.outer / items.count;
  return items;
}

// The loops below are functions because their parameters can be __restrict: a lambda's captures
// cannot, and stored bytes may alias anything.

struct Range {
  float least = 0;
  float most = 0;
};

// The least and the largest of the values and of `range`; NaN counts for nothing.
BW_ALWAYS_INLINE inline Range RangeOf(const float* __restrict values, int64_t count, Range range) {
  constexpr int64_t kLanes = 32;  // two vectors, so that one need not wait for itself
  float low[kLanes];
  float high[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    low[lane] = range.least;
    high[lane] = range.most;
  }
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float x = values[i + lane];
      low[lane] = x < low[lane] ? x : low[lane];
      high[lane] = high[lane] < x ? x : high[lane];
    }
  }
  for (int64_t i = whole; i < count; ++i) {
    low[0] = values[i] < low[0] ? values[i] : low[0];
    high[0] = high[0] < values[i] ? values[i] : high[0];
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) {
      low[lane] = low[lane + half] < low[lane] ? low[lane + half] : low[lane];
      high[lane] = high[lane] < high[lane + half] ? high[lane + half] : high[lane];
    }
  }
  return {low[0], high[0]};
}

BW_ALWAYS_INLINE inline void QuantizeLoop(const float* __restrict values, int64_t count,
                                          float scale, float zero, uint8_t* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Saturate<uint8_t>(std::rint(values[i] / scale) + zero);
  }
}

Range WidenedRange(const float* values, int64_t count, Range range) {
  Range* const to = &range;
  Vectorized([=]() BW_ALWAYS_INLINE { *to = RangeOf(values, count, *to); });
  return range;
}

void Quantize(const float* values, int64_t count, float scale, uint8_t zero, uint8_t* out) {
  Vectorized([=]() BW_ALWAYS_INLINE {
    QuantizeLoop(values, count, scale, static_cast<float>(zero), out);
  });
}

struct DynamicQuantizeOp {
  using Options = DynamicOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseDynamic(node); }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs, 3));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "x", {DType::kF32}));
    BW_ASSIGN_OR_RETURN(const PartialShape scale, ScaleShape(options, inputs[0].shape));
    outputs[0] = {DType::kU8, inputs[0].shape, {}};
    outputs[1] = {DType::kF32, scale, {}};
    outputs[2] = {DType::kU8, scale, {}};
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    auto* const scales = outputs[1].mutable_data<float>();
    auto* const zeros = outputs[2].mutable_data<uint8_t>();
    if (inputs[0]->num_elements() == 0) {
      std::fill_n(scales, outputs[1].num_elements(), 1.0f);
      std::fill_n(zeros, outputs[2].num_elements(), uint8_t{0});
      return absl::OkStatus();
    }
    const Items items = ItemsOf(options, *inputs[0]);
    const float* const in = inputs[0]->data<float>();
    auto* const out = outputs[0].mutable_data<uint8_t>();
    ParallelFor(context.num_threads, items.count, 8 * inputs[0]->num_elements(), [&](int64_t i) {
      const auto [scale, zero] = QuantizeItem(items, i, in, out);
      const int64_t repeats = options.by_item ? options.extent : 1;
      std::fill_n(scales + i * repeats, repeats, scale);
      std::fill_n(zeros + i * repeats, repeats, zero);
    });
    return absl::OkStatus();
  }

 private:
  static std::pair<float, uint8_t> QuantizeItem(const Items& items, int64_t item, const float* in,
                                                uint8_t* out) {
    Range range;
    const auto each_stretch = [&](auto visit) {
      for (int64_t outer = 0; outer < items.outer; ++outer) {
        visit((outer * items.count + item) * items.stretch);
      }
    };
    each_stretch([&](int64_t first) { range = WidenedRange(in + first, items.stretch, range); });
    // All zeros: any scale will do, and 0 / 0 must not come of it.
    const float step = (range.most - range.least) / 255.0f;
    const float scale = step == 0.0f ? 1.0f : step;
    const uint8_t zero = Saturate<uint8_t>(std::rint(-range.least / scale));
    each_stretch(
        [&](int64_t first) { Quantize(in + first, items.stretch, scale, zero, out + first); });
    return {scale, zero};
  }
};

// Quantised as a whole, no row of x is independent. By item the rows are the items.
RowInfo DynamicQuantizeRows(const Node& node, absl::Span<const RowInfo> rows,
                            absl::Span<const InputInfo>) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  const absl::StatusOr<DynamicOptions> options = ParseDynamic(node);
  const bool are_items = options.ok() && options->by_item && IsRows(rows[0]) &&
                         (!options->axis.has_value() ||
                          (*options->axis == rows[0].axis && options->extent == rows[0].factor));
  return are_items ? rows[0] : kMixedRows;
}

}  // namespace

constinit const OperatorCode kDynamicQuantizeLinear =
    CodeOf<DynamicQuantizeOp>(&DynamicQuantizeRows);

}  // namespace beamwright::ops
