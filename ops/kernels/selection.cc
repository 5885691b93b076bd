// Operators along an axis: ArgMax and ArgMin, TopK, and running sums.
//
// A tensor is seen as lines along the axis: `count` elements, `stride` apart, where the stride is
// the product of the extents behind the axis. Line s begins at element s / stride * count * stride
// + s % stride. Each line is computed by itself, so that threads take lines and rows of requests
// stay apart unless they lie on the axis.
//
// Example: data [2, 3, 4] along axis 1 are 8 lines of 3 elements, 4 apart; line 5 begins at 5 / 4 *
// 12 + 5 % 4 = 13.
#include "ops/kernels/selection.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// ArgMax and ArgMin: the index of the largest or smallest element along an axis; of equal ones the
// first, or the last (select_last_index). Find goes along one line; threads take lines. The index
// is relative to its line, so that rows of requests stay apart on other axes (Rows).

namespace {

struct ArgExtremeOp {
  struct Options {
    int64_t axis = 0;
    bool keep_dims = true;
    bool last = false;
    bool smallest = false;
  };

  static absl::StatusOr<bool> Flag(const Node& node, const std::string& name, int64_t fallback) {
    BW_ASSIGN_OR_RETURN(const int64_t value, node.attributes.Int(name, fallback));
    if (value != 0 && value != 1) {
      return Invalid("attribute ", name, ": ", value, " must be 0 or 1");
    }
    return value == 1;
  }

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", 0));
    BW_ASSIGN_OR_RETURN(options.keep_dims, Flag(node, "keepdims", 1));
    BW_ASSIGN_OR_RETURN(options.last, Flag(node, "select_last_index", 0));
    options.smallest = node.op == "ArgMin";
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    if (!IsFloat(inputs[0].dtype) && !IsInteger(inputs[0].dtype)) {
      return Invalid("data: element type ", Name(inputs[0].dtype),
                     " is not supported, only integers and floats");
    }
    outputs[0].dtype = DType::kI64;
    outputs[0].shape = PartialShape();
    if (!inputs[0].shape.has_rank()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, inputs[0].shape.rank()));
    Shape dims = inputs[0].shape.dims();
    if (dims[static_cast<size_t>(axis)] == 0) {
      return Invalid("data: shape ", inputs[0].shape.ToString(), " has no elements along axis ",
                     axis);
    }
    if (options.keep_dims) {
      dims[static_cast<size_t>(axis)] = 1;
    } else {
      dims.erase(dims.begin() + axis);
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  // The index of the extreme element of one line; the first of equals, or the last if that is asked
  // for.
  template <typename T>
  static int64_t Find(const Options& options, const T* in, int64_t count, int64_t stride) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
      const T value = in[i * stride];
      const T held = in[best * stride];
      const bool better = options.smallest ? Above(held, value) : Above(value, held);
      const bool worse = options.smallest ? Above(value, held) : Above(held, value);
      if (better || (options.last && !worse)) {
        best = i;
      }
    }
    return best;
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    const int axis = NormalizeAxis(options.axis, data.rank()).value_or(0);
    const int64_t count = data.dim(axis);
    int64_t stride = 1;
    for (int i = axis + 1; i < data.rank(); ++i) {
      stride *= data.dim(i);
    }
    int64_t* const out = outputs[0].mutable_data<int64_t>();
    VisitDType(data.dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (!std::is_same_v<T, bool>) {
        const T* in = data.data<T>();
        ParallelFor(context.num_threads, outputs[0].num_elements(), data.num_elements(),
                    [&](int64_t slice) {
                      out[slice] =
                          Find(options, in + slice / stride * count * stride + slice % stride,
                               count, stride);
                    });
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    const absl::StatusOr<Options> options = Parse(node);
    if (!options.ok()) {
      return kMixedRows;
    }
    RowInfo result = RowsOffAxis(options->axis, rows, inputs);
    if (IsRows(result) && !options->keep_dims &&
        NormalizeAxis(options->axis, inputs[0].shape.rank()).value_or(0) < result.axis) {
      --result.axis;
    }
    return result;
  }
};

}  // namespace

constinit const OperatorCode kArgExtreme = CodeOf<ArgExtremeOp>(&ArgExtremeOp::Rows);

// TopK as an operator of graphs: the k largest or smallest elements along an axis, with their
// indices, sorted by value or by index. The selection of tokens in a search does not use it
// (topk.cc).
//
// Each slice sorts its indices partially (Slice). Equal values keep the order of their indices, so
// that results are the same everywhere; NaN is ordered by Above. Slices are shared out among
// threads.

namespace {

struct TopKOp {
  struct Options {
    int64_t axis = -1;
    bool smallest = false;
    bool by_index = false;
    DType index_type = DType::kI32;
  };

  static absl::StatusOr<std::string> Word(const Node& node, const char* name, const char* fallback,
                                          std::initializer_list<absl::string_view> allowed) {
    BW_ASSIGN_OR_RETURN(std::string word, node.attributes.String(name, fallback));
    word = absl::AsciiStrToLower(word);
    if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) {
      return Invalid("attribute ", name, ": '", word, "' is not supported");
    }
    return word;
  }

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", -1));
    BW_ASSIGN_OR_RETURN(const std::string mode, Word(node, "mode", "max", {"max", "min"}));
    BW_ASSIGN_OR_RETURN(const std::string sort,
                        Word(node, "sort", "value", {"value", "index", "none"}));
    BW_ASSIGN_OR_RETURN(const std::string type,
                        Word(node, "index_element_type", "i32", {"i32", "i64"}));
    BW_RETURN_IF_ERROR(node.attributes.Bool("stable", false).status());
    options.smallest = mode == "min";
    options.by_index = sort == "index";
    options.index_type = type == "i64" ? DType::kI64 : DType::kI32;
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs, 2));
    if (!IsFloat(inputs[0].dtype) && !IsInteger(inputs[0].dtype)) {
      return Invalid("data: element type ", Name(inputs[0].dtype),
                     " is not supported, only integers and floats");
    }
    Ints k;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "k", k));
    if (known && (k.size() != 1 || k[0] < 0)) {
      return Invalid("k: must be one number that is not negative");
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[1].dtype = options.index_type;
    outputs[0].shape = PartialShape();
    if (inputs[0].shape.has_rank()) {
      BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, inputs[0].shape.rank()));
      Shape dims = inputs[0].shape.dims();
      int64_t& extent = dims[static_cast<size_t>(axis)];
      if (known && extent >= 0 && k[0] > extent) {
        return Invalid("k: ", k[0], " is more than the ", extent, " elements of axis ", axis,
                       " of shape ", inputs[0].shape.ToString());
      }
      extent = known ? k[0] : PartialShape::kDynamic;
      outputs[0].shape = PartialShape(std::move(dims));
    }
    outputs[1].shape = outputs[0].shape;
    return absl::OkStatus();
  }

  // The k best of `count` elements `stride` apart; results as far apart.
  template <typename T, typename Index>
  static void Slice(const Options& options, const T* in, int64_t count, int64_t k, int64_t stride,
                    std::vector<int64_t>& order, T* values, Index* indices) {
    order.resize(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto before = [&](int64_t a, int64_t b) {
      const T x = in[a * stride];
      const T y = in[b * stride];
      const bool x_first = options.smallest ? Above(y, x) : Above(x, y);
      const bool y_first = options.smallest ? Above(x, y) : Above(y, x);
      return x_first || (!y_first && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
    if (options.by_index) {
      std::sort(order.begin(), order.begin() + k);
    }
    for (int64_t i = 0; i < k; ++i) {
      const int64_t index = order[static_cast<size_t>(i)];
      values[i * stride] = in[index * stride];
      indices[i * stride] = static_cast<Index>(index);
    }
  }

  template <typename T, typename Index>
  static void Run(const Options& options, int num_threads, const Tensor& data,
                  absl::Span<Tensor> outputs) {
    const int axis = NormalizeAxis(options.axis, data.rank()).value_or(0);
    const int64_t count = data.dim(axis);
    const int64_t k = outputs[0].dim(axis);
    int64_t stride = 1;
    for (int i = axis + 1; i < data.rank(); ++i) {
      stride *= data.dim(i);
    }
    const T* in = data.data<T>();
    T* const values = outputs[0].mutable_data<T>();
    Index* const indices = outputs[1].mutable_data<Index>();
    const int64_t slices = data.num_elements() / count;
    ParallelFor(num_threads, slices, 8 * data.num_elements(), [&](int64_t slice) {
      static thread_local std::vector<int64_t> order;
      const int64_t block = slice / stride;
      const int64_t from = block * count * stride + slice % stride;
      const int64_t to = block * k * stride + slice % stride;
      Slice(options, in + from, count, k, stride, order, values + to, indices + to);
    });
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    VisitDType(inputs[0]->dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (!std::is_same_v<T, bool>) {
        if (options.index_type == DType::kI64) {
          Run<T, int64_t>(options, context.num_threads, *inputs[0], outputs);
        } else {
          Run<T, int32_t>(options, context.num_threads, *inputs[0], outputs);
        }
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return RowsOffAxis(node.attributes.Int("axis", -1).value_or(-1), rows, inputs);
  }
};

}  // namespace

constinit const OperatorCode kTopK = CodeOf<TopKOp>(&TopKOp::Rows);

// CumSum and CumProd: running sums or products along one axis, from either end, with the element
// itself or without (exclusive). Slice computes one line; threads take lines. Integers wrap: they
// are added and multiplied as unsigned numbers.

namespace {

// Running sums, or products.
template <bool kIsProduct>
struct CumulativeOp {
  struct Options {
    bool exclusive = false;
    bool reverse = false;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.exclusive, node.attributes.Bool("exclusive", false));
    BW_ASSIGN_OR_RETURN(options.reverse, node.attributes.Bool("reverse", false));
    return options;
  }

  // The axis, -1 if it or the rank is not known yet.
  static absl::StatusOr<int> AxisOf(absl::Span<const InputInfo> inputs) {
    Ints axis = {0};
    bool known = true;
    if (Present(inputs, 1)) {
      BW_ASSIGN_OR_RETURN(known, ReadInts(inputs[1], "axis", axis));
    }
    if (known && axis.size() != 1) {
      return Invalid("axis: has ", axis.size(), " elements, must be one number");
    }
    return known && inputs[0].shape.has_rank() ? NormalizeAxis(axis[0], inputs[0].shape.rank())
                                               : absl::StatusOr<int>(-1);
  }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 2, outputs));
    if (!IsFloat(inputs[0].dtype) && !IsInteger(inputs[0].dtype)) {
      return Invalid("data: element type ", Name(inputs[0].dtype),
                     " is not supported, only integers and floats");
    }
    BW_RETURN_IF_ERROR(AxisOf(inputs).status());
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }

  template <typename T>
  static void Slice(const Options& options, const T* in, int64_t count, int64_t stride, T* out) {
    // Unsigned: signed overflow would be undefined.
    using Total = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                              std::type_identity<T>>::type;
    Total total{kIsProduct ? 1 : 0};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (options.reverse ? count - 1 - i : i) * stride;
      const Total before = total;
      const auto element = static_cast<Total>(in[at]);
      // Two 16-bit factors as ints could overflow.
      total = kIsProduct ? static_cast<Total>(static_cast<WrapType<T>>(before) *
                                              static_cast<WrapType<T>>(element))
                         : static_cast<Total>(before + element);
      out[at] = static_cast<T>(options.exclusive ? before : total);
    }
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, AxisOf(DescribeInputs(inputs)));
    if (data.num_elements() == 0) {
      return absl::OkStatus();
    }
    const int64_t count = data.dim(axis);
    int64_t stride = 1;
    for (int i = axis + 1; i < data.rank(); ++i) {
      stride *= data.dim(i);
    }
    VisitDType(data.dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        const T* in = data.data<T>();
        T* const out = outputs[0].mutable_data<T>();
        ParallelFor(context.num_threads, data.num_elements() / count, 2 * data.num_elements(),
                    [&](int64_t slice) {
                      const int64_t start = slice / stride * count * stride + slice % stride;
                      Slice(options, in + start, count, stride, out + start);
                    });
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    const absl::StatusOr<int> axis = AxisOf(inputs);
    return RowsOffAxis(axis.ok() && *axis >= 0 ? std::optional<int64_t>(*axis) : std::nullopt, rows,
                       inputs);
  }
};

}  // namespace

constinit const OperatorCode kCumSum =
    WidenedCodeOf<CumulativeOp<false>>(&CumulativeOp<false>::Rows);
constinit const OperatorCode kCumProd =
    WidenedCodeOf<CumulativeOp<true>>(&CumulativeOp<true>::Rows);

}  // namespace beamwright::ops
