// CumSum and CumProd: running sums or products along one axis, from either end, with the element
// itself or without (exclusive). Slice computes one line; threads take lines. Integers wrap: they
// are added and multiplied as unsigned numbers.
#include <type_traits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/selection.h"
#include "ops/kernels/types.h"
#include "ops/kernels/widen.h"

namespace beamwright::ops {
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
