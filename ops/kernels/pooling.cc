// Pooling over windows of one to three axes, all treated as three (depth, height, width). Every (N,
// C) plane is pooled by itself, and threads share the planes (ForEachPlane). Two orders of the same
// work:
//
// 1. Row by row (ByRows), where windows are at most kMostRowKernel wide: a row of outputs is
//    computed together. For each position k of the window (Tap) the outputs x whose window has an
//    element there combine it: out[x] = combine(out[x], in[shift + x * stride]). The inner loop
//    runs along x and is vectorized (CombineRow).
//
//   in    a b c d e f      kernel 3, stride 1, pads 1
//   k=0     a b c d e      out[x] = max(out[x], in[x - 1])   x of [1, 6)
//   k=1   a b c d e f      out[x] = max(out[x], in[x])       x of [0, 6)
//   k=2   b c d e f        out[x] = max(out[x], in[x + 1])   x of [0, 5)
//
// 2. Window by window (ForEachWindow, ForEachElement): for wider windows, and for maxima with their
//    indices.
//
// Windows of two rows by one or two columns, usual for pictures, have loops without taps
// (PlaneOfTwoRows, CombinePairs). An output's elements are combined in the order of the window
// everywhere, so that all ways give the same bits. MaxPool starts from NaN, which any number
// replaces: so NaN never wins, and an output that is still NaN had no number.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/base/vector_isa.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/types.h"
#include "ops/kernels/windows.h"

namespace beamwright::ops {
namespace {

struct PoolOptions {
  WindowOptions windows;
  Ints kernel;
  bool exclude_pad = false;        // AvgPool
  int64_t axis = 0;                // MaxPool
  DType index_type = DType::kI64;  // MaxPool
};

absl::StatusOr<PoolOptions> ParsePool(const Node& node) {
  PoolOptions options;
  BW_ASSIGN_OR_RETURN(options.windows, ParseWindows(node));
  BW_ASSIGN_OR_RETURN(options.kernel, ParseExtents(node, "kernel", 1));
  if (options.kernel.empty()) {
    return Invalid("attribute kernel: is required");
  }
  return options;
}

// The shape of all outputs.
absl::StatusOr<PartialShape> PooledShape(const PoolOptions& options, const PartialShape& data) {
  const int spatial = static_cast<int>(options.kernel.size());
  BW_RETURN_IF_ERROR(CheckWindowRank(options.windows, spatial));
  if (!data.has_rank()) {
    return DynamicShape(spatial + 2);
  }
  if (data.rank() != spatial + 2) {
    return Invalid("data: shape ", data.ToString(), " must have rank ", spatial + 2,
                   ", as kernel has ", spatial, " entries");
  }
  Shape dims = {data.dim(0), data.dim(1)};
  for (size_t i = 0; i < options.kernel.size(); ++i) {
    BW_ASSIGN_OR_RETURN(
        const WindowAxis axis,
        MakeWindowAxis(options.windows, i, data.dim(static_cast<int>(i) + 2), options.kernel[i]));
    dims.push_back(axis.out);
  }
  return PartialShape(std::move(dims));
}

struct Window {
  std::array<int64_t, 3> start;                       // data position of kernel position 0
  std::array<std::pair<int64_t, int64_t>, 3> inside;  // kernel positions within the data
};

// Calls visit(index in the output plane, window) for each window of a plane, in order.
template <typename Visit>
void ForEachWindow(const WindowAxes& axes, Visit visit) {
  Window window;
  std::array<int64_t, 3> o;
  const auto place = [&](size_t axis) {
    window.start[axis] = o[axis] * axes[axis].stride - axes[axis].pad_begin;
    window.inside[axis] = axes[axis].InsideOf(o[axis]);
  };
  int64_t out = 0;
  for (o[0] = 0; o[0] < axes[0].out; ++o[0]) {
    place(0);
    for (o[1] = 0; o[1] < axes[1].out; ++o[1]) {
      place(1);
      for (o[2] = 0; o[2] < axes[2].out; ++o[2]) {
        place(2);
        visit(out++, window);
      }
    }
  }
}

// Calls visit(index in the plane) for each data element of a window, in order.
template <typename Visit>
void ForEachElement(const WindowAxes& axes, const Window& window, Visit visit) {
  for (int64_t kd = window.inside[0].first; kd < window.inside[0].second; ++kd) {
    const int64_t z = window.start[0] + kd * axes[0].dilation;
    for (int64_t kh = window.inside[1].first; kh < window.inside[1].second; ++kh) {
      const int64_t y = window.start[1] + kh * axes[1].dilation;
      for (int64_t kw = window.inside[2].first; kw < window.inside[2].second; ++kw) {
        visit((z * axes[1].in + y) * axes[2].in + window.start[2] + kw * axes[2].dilation);
      }
    }
  }
}

// Calls visit(index of the row's first output, z, y) for each row of outputs of a plane, in order.
template <typename Visit>
void ForEachRow(const WindowAxes& axes, Visit visit) {
  for (int64_t z = 0; z < axes[0].out; ++z) {
    for (int64_t y = 0; y < axes[1].out; ++y) {
      visit((z * axes[1].out + y) * axes[2].out, z, y);
    }
  }
}

// The widest window for which rows of outputs are computed together: wider windows (their extent
// is any number below 2^31) would make too many taps.
constexpr int64_t kMostRowKernel = 64;
bool ByRows(const WindowAxes& axes) { return axes[2].kernel <= kMostRowKernel; }

// A position of the window along a row: outputs x of [first, end) have their element in column
// shift + x * stride.
struct Tap {
  int64_t shift;
  int64_t first;
  int64_t end;
};
std::vector<Tap> TapsOf(const WindowAxes& axes) {
  std::vector<Tap> taps;
  for (int64_t k = 0; ByRows(axes) && k < axes[2].kernel; ++k) {
    const auto [first, end] = axes[2].OutputsOf(k);
    taps.push_back({k * axes[2].dilation - axes[2].pad_begin, first, end});
  }
  return taps;
}

// For a row of outputs calls visit(start, first, end) for each position of the window, in order:
// outputs x of [first, end) have their element at in[start + x * stride].
template <typename Visit>
void ForEachTap(const WindowAxes& axes, const std::vector<Tap>& taps, int64_t z, int64_t y,
                Visit visit) {
  const auto& [depth, height, width] = axes;
  const auto planes = depth.InsideOf(z);
  const auto lines = height.InsideOf(y);
  for (int64_t kd = planes.first; kd < planes.second; ++kd) {
    const int64_t in_z = z * depth.stride - depth.pad_begin + kd * depth.dilation;
    for (int64_t kh = lines.first; kh < lines.second; ++kh) {
      const int64_t in_y = y * height.stride - height.pad_begin + kh * height.dilation;
      const int64_t row = (in_z * height.in + in_y) * width.in;
      for (const Tap& tap : taps) {
        visit(row + tap.shift, tap.first, tap.end);
      }
    }
  }
}

// combine(out[x], in[start + x * stride]) for x of [first, end).
template <typename T, typename Combine>
void CombineRow(const T* in, int64_t start, int64_t stride, int64_t first, int64_t end, T* out,
                Combine combine) {
  VectorizedFor<T>([=]() BW_ALWAYS_INLINE {
    if (stride == 1) {
      for (int64_t x = first; x < end; ++x) {
        out[x] = combine(out[x], in[start + x]);
      }
    } else if (stride == 2) {
      for (int64_t x = first; x < end; ++x) {
        out[x] = combine(out[x], in[start + 2 * x]);
      }
    } else {
      for (int64_t x = first; x < end; ++x) {
        out[x] = combine(out[x], in[start + x * stride]);
      }
    }
  });
}

// Whether each output of a row has a window of two neighbours, whole and two columns behind that of
// the output before: the usual pooling of pictures.
bool IsByPairs(const WindowAxes& axes) {
  const WindowAxis& width = axes[2];
  return width.kernel == 2 && width.stride == 2 && width.dilation == 1 && width.pad_begin == 0 &&
         2 * width.out <= width.in;
}

// out[x] = combine(combine(best, in[2 x]), in[2 x + 1]) for x of [0, count); best: none or out[x].
template <bool kBegins, typename Combine>
void CombinePairs(const float* in, int64_t count, float none, float* out, Combine combine) {
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t x = 0; x < count; ++x) {
      out[x] = combine(combine(kBegins ? none : out[x], in[2 * x]), in[2 * x + 1]);
    }
  });
}

int64_t PlaneSize(const WindowAxes& axes) { return axes[0].in * axes[1].in * axes[2].in; }

// Calls body(index) for each plane of the data, which has elements.
template <typename Body>
void ForEachPlane(const ExecutionContext& context, const Tensor& data, const Tensor& output,
                  const WindowAxes& axes, Body body) {
  int64_t window = 1;
  for (const WindowAxis& axis : axes) {
    window *= std::min(axis.kernel, axis.in);
  }
  const int64_t work = output.num_elements() * std::min(window, kMinParallelWork);
  ParallelFor(context.num_threads, data.dim(0) * data.dim(1), work, body);
}

RowInfo PoolRows(const Node& node, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  // Indices of maxima count from the start of axis 0 unless another is named.
  const bool counts_rows =
      node.outputs.size() > 1 && node.attributes.Int("axis", 0).value_or(0) <= 0;
  return rows[0].axis == 0 && !counts_rows ? rows[0] : kMixedRows;
}

struct MaxPoolOp {
  using Options = PoolOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(Options options, ParsePool(node));
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", 0));
    BW_ASSIGN_OR_RETURN(const std::string type,
                        node.attributes.String("index_element_type", "i64"));
    BW_ASSIGN_OR_RETURN(options.index_type, ParseDType(type));
    if (options.index_type != DType::kI64 && options.index_type != DType::kI32) {
      return Invalid("attribute index_element_type: ", type, " is not supported, only i64 and i32");
    }
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs, outputs.size() == 2 ? 2 : 1));
    if (!IsFloat(inputs[0].dtype) && !IsInteger(inputs[0].dtype)) {
      return Invalid("data: element type ", Name(inputs[0].dtype),
                     " is not supported, only integers and floats");
    }
    BW_ASSIGN_OR_RETURN(outputs[0].shape, PooledShape(options, inputs[0].shape));
    outputs[0].dtype = inputs[0].dtype;
    BW_RETURN_IF_ERROR(NormalizeAxis(options.axis, outputs[0].shape.rank()).status());
    if (outputs.size() == 2) {
      outputs[1].dtype = options.index_type;
      outputs[1].shape = outputs[0].shape;
    }
    return absl::OkStatus();
  }

  // Whether windows are two rows by one or two columns, all of them whole, as pictures have them.
  static bool IsOfTwoRows(const WindowAxes& axes) {
    const auto& [depth, height, width] = axes;
    const bool by_columns =
        width.kernel == 1 && width.stride == 1 && width.pad_begin == 0 && width.out <= width.in;
    return depth.in == 1 && depth.out == 1 && depth.kernel == 1 && height.kernel == 2 &&
           height.dilation == 1 && height.pad_begin == 0 &&
           (height.out - 1) * height.stride + 2 <= height.in && (by_columns || IsByPairs(axes));
  }

  // `kLanes` outputs whose windows begin at a[0] and b[0], in the order of the window.
  template <int kLanes, bool kPairs>
  static BW_ALWAYS_INLINE void LargestOfTwoRows(const float* __restrict a,
                                                const float* __restrict b, float* __restrict out) {
    const auto larger = [](float best, float x)
                            BW_ALWAYS_INLINE { return x > best || best != best ? x : best; };
    for (int i = 0; i < kLanes; ++i) {
      const float best =
          kPairs ? larger(larger(larger(a[2 * i], a[2 * i + 1]), b[2 * i]), b[2 * i + 1])
                 : larger(a[i], b[i]);
      out[i] = best == best ? best : std::numeric_limits<float>::lowest();
    }
  }

  // A plane of IsOfTwoRows with at least kLanes outputs in a row: the last ones of a row are
  // computed with some before them once more, so that no loop is left over.
  template <int kLanes, bool kPairs>
  static void PlaneOfTwoRows(const WindowAxes& axes, const float* in, float* out) {
    constexpr int64_t kStep = kPairs ? 2 : 1;
    const int64_t rows = axes[1].out;
    const int64_t row_step = axes[1].stride * axes[2].in;
    const int64_t width_in = axes[2].in;
    const int64_t width = axes[2].out;
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (int64_t y = 0; y < rows; ++y) {
        const float* const a = in + y * row_step;
        for (int64_t x = 0; x < width; x += kLanes) {
          const int64_t at = x + kLanes <= width ? x : width - kLanes;
          LargestOfTwoRows<kLanes, kPairs>(a + kStep * at, a + width_in + kStep * at,
                                           out + y * width + at);
        }
      }
    });
  }

  template <bool kPairs>
  static void PlaneOfTwoRows(const WindowAxes& axes, const float* in, float* out) {
    const auto run = axes[2].out >= 16  ? &PlaneOfTwoRows<16, kPairs>
                     : axes[2].out >= 8 ? &PlaneOfTwoRows<8, kPairs>
                                        : &PlaneOfTwoRows<1, kPairs>;
    run(axes, in, out);
  }

  // Maxima without indices. An output is NaN until its window has given a number.
  template <typename T>
  static void PlaneOfValues(const WindowAxes& axes, const T* in, T* out) {
    constexpr bool kIsFloat = std::is_floating_point_v<T>;
    constexpr T kNone =
        kIsFloat ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::lowest();
    if constexpr (std::is_same_v<T, float>) {
      if (IsOfTwoRows(axes)) {
        (IsByPairs(axes) ? &PlaneOfTwoRows<true> : &PlaneOfTwoRows<false>)(axes, in, out);
        return;
      }
    }
    // 1. The taps; windows of two neighbours count as one tap.
    const int64_t width = axes[2].out;
    const auto larger = [](T best, T x)
                            BW_ALWAYS_INLINE { return x > best || best != best ? x : best; };
    const bool by_pairs = std::is_same_v<T, float> && IsByPairs(axes);
    const std::vector<Tap> taps =
        by_pairs ? std::vector<Tap>{{-axes[2].pad_begin, 0, width}} : TapsOf(axes);
    ForEachRow(axes, [&](int64_t at, int64_t z, int64_t y) {
      // 2. The first tap sets the row to kNone, so that the row is written once less.
      T* const row = out + at;
      bool begins = true;
      ForEachTap(axes, taps, z, y, [&](int64_t start, int64_t first, int64_t end) {
        if constexpr (std::is_same_v<T, float>) {
          if (by_pairs) {
            (begins ? CombinePairs<true, decltype(larger)>
                    : CombinePairs<false, decltype(larger)>)(in + start, width, kNone, row, larger);
            begins = false;
            return;
          }
        }
        if (begins) {
          std::fill(row, row + width, kNone);
          begins = false;
        }
        CombineRow(in, start, axes[2].stride, first, end, row, larger);
      });
      if (begins) {
        std::fill(row, row + width, kNone);
      }
      // 3. Windows without a number.
      if constexpr (kIsFloat) {
        VectorizedFor<T>([=]() BW_ALWAYS_INLINE {
          for (int64_t x = 0; x < width; ++x) {
            row[x] = row[x] == row[x] ? row[x] : std::numeric_limits<T>::lowest();
          }
        });
      }
    });
  }

  template <typename T>
  static void Plane(const WindowAxes& axes, const T* in, T* out, int64_t* indices) {
    if (indices == nullptr && ByRows(axes)) {
      PlaneOfValues(axes, in, out);
      return;
    }
    ForEachWindow(axes, [&](int64_t at, const Window& window) {
      T best = std::numeric_limits<T>::lowest();
      int64_t index = 0;
      bool found = false;
      ForEachElement(axes, window, [&](int64_t i) {
        if (found ? in[i] > best : in[i] == in[i]) {
          best = in[i];
          index = i;
          found = true;
        }
      });
      out[at] = best;
      if (indices != nullptr) {
        indices[at] = index;
      }
    });
  }

  template <typename T>
  static void Run(const Options& options, const ExecutionContext& context, const WindowAxes& axes,
                  const Tensor& data, absl::Span<Tensor> outputs) {
    const T* in = data.data<T>();
    T* const out = outputs[0].mutable_data<T>();
    const int64_t size_in = PlaneSize(axes);
    const int64_t size_out = axes[0].out * axes[1].out * axes[2].out;
    // The index of a plane's first element, counted within the block that `axis` leaves apart. From
    // spatial axes on that block is a part of the plane.
    const int axis = NormalizeAxis(options.axis, data.rank()).value_or(0);
    int64_t block = 1;
    for (int i = axis; i < data.rank(); ++i) {
      block *= data.dim(i);
    }
    std::vector<int64_t> wide(outputs.size() == 2 ? static_cast<size_t>(outputs[1].num_elements())
                                                  : 0);
    int64_t* const indices = wide.empty() ? nullptr : wide.data();
    ForEachPlane(context, data, outputs[0], axes, [&](int64_t plane) {
      int64_t* const to = indices == nullptr ? nullptr : indices + plane * size_out;
      Plane(axes, in + plane * size_in, out + plane * size_out, to);
      for (int64_t i = 0; to != nullptr && i < size_out; ++i) {
        to[i] = (plane * size_in + to[i]) % block;
      }
    });
    for (size_t i = 0; i < wide.size(); ++i) {
      if (options.index_type == DType::kI64) {
        outputs[1].mutable_data<int64_t>()[i] = wide[i];
      } else {
        outputs[1].mutable_data<int32_t>()[i] = static_cast<int32_t>(wide[i]);
      }
    }
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(
        const WindowAxes axes,
        MakeWindowAxes(options.windows, absl::Span<const int64_t>(data.shape()).subspan(2),
                       options.kernel));
    VisitDType(data.dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        Run<T>(options, context, axes, data, outputs);
      }
    });
    return absl::OkStatus();
  }
};

struct AvgPoolOp {
  using Options = PoolOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(Options options, ParsePool(node));
    BW_ASSIGN_OR_RETURN(options.exclude_pad, node.attributes.Bool("exclude-pad", false));
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    BW_RETURN_IF_ERROR(
        ExpectType(inputs[0], "data", {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}));
    BW_ASSIGN_OR_RETURN(outputs[0].shape, PooledShape(options, inputs[0].shape));
    outputs[0].dtype = inputs[0].dtype;
    return absl::OkStatus();
  }

  // Positions of output o's window that count, along one axis.
  static int64_t Counted(const Options& options, const WindowAxis& axis, int64_t o) {
    if (options.exclude_pad) {
      const auto [first, end] = axis.InsideOf(o);
      return end - first;
    }
    const int64_t room = axis.in + axis.pad_end - (o * axis.stride - axis.pad_begin);
    return std::clamp<int64_t>((room + axis.dilation - 1) / axis.dilation, 0, axis.kernel);
  }

  // Row (z, y) of sums.
  template <typename T>
  static void SumRow(const WindowAxes& axes, const std::vector<Tap>& taps, const T* in, int64_t z,
                     int64_t y, T* row) {
    std::fill(row, row + axes[2].out, T{});
    ForEachTap(axes, taps, z, y, [&](int64_t start, int64_t first, int64_t end) {
      CombineRow(in, start, axes[2].stride, first, end, row,
                 [](T sum, T x) BW_ALWAYS_INLINE { return sum + x; });
    });
  }

  template <typename T>
  static void Run(const Options& options, const ExecutionContext& context, const WindowAxes& axes,
                  const Tensor& data, Tensor& output) {
    const int64_t size_in = PlaneSize(axes);
    const int64_t size_out = axes[0].out * axes[1].out * axes[2].out;
    T* const all = output.mutable_data<T>();
    std::vector<int64_t> across;  // positions of a window that count, of the last axis
    for (int64_t x = 0; x < axes[2].out; ++x) {
      across.push_back(Counted(options, axes[2], x));
    }
    const std::vector<Tap> taps = TapsOf(axes);
    ForEachPlane(context, data, output, axes, [&](int64_t plane) {
      const T* in = data.data<T>() + plane * size_in;
      T* out = all + plane * size_out;
      if (!ByRows(axes)) {
        ForEachWindow(axes, [&](int64_t at, const Window& window) {
          T sum{};
          ForEachElement(axes, window, [&](int64_t i) { sum += in[i]; });
          out[at] = sum;
        });
      }
      ForEachRow(axes, [&](int64_t at, int64_t z, int64_t y) {
        T* const row = out + at;
        if (ByRows(axes)) {
          SumRow(axes, taps, in, z, y, row);
        }
        const int64_t counted = Counted(options, axes[0], z) * Counted(options, axes[1], y);
        for (int64_t x = 0; x < axes[2].out; ++x) {
          const int64_t count = counted * across[static_cast<size_t>(x)];
          row[x] = count == 0 ? T{} : row[x] / static_cast<T>(count);
        }
      });
    });
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(
        const WindowAxes axes,
        MakeWindowAxes(options.windows, absl::Span<const int64_t>(data.shape()).subspan(2),
                       options.kernel));
    if (data.dtype() == DType::kF64) {
      Run<double>(options, context, axes, data, outputs[0]);
    } else {
      Run<float>(options, context, axes, data, outputs[0]);
    }
    return absl::OkStatus();
  }
};

}  // namespace

constinit const OperatorCode kMaxPool = WidenedCodeOf<MaxPoolOp>(&PoolRows);
constinit const OperatorCode kAvgPool = WidenedCodeOf<AvgPoolOp>(&PoolRows);

}  // namespace beamwright::ops
