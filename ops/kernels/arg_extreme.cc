// ArgMax and ArgMin: the index of the largest or smallest element along an axis; of equal ones the
// first, or the last (select_last_index). Find goes along one line; threads take lines. The index
// is relative to its line, so that rows of requests stay apart on other axes (Rows).
#include "ops/kernels/inputs.h"
#include "ops/kernels/order.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/selection.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
