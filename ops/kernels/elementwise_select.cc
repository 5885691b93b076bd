// Select (elements of one of two tensors by a condition, with broadcasting), Convert and
// ConvertLike (another type), and BitCast (the same bits under another type of the same width).
// Select moves elements as words of their size, whatever their type. A Convert to the type that the
// input has shares its buffer.
#include "ops/kernels/broadcast_loop.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_binary.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

struct SelectOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_RETURN_IF_ERROR(ParseAutoBroadcast(node).status());
    return Options{};
  }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "condition", {DType::kBool}));
    if (inputs[1].dtype != inputs[2].dtype) {
      return Invalid("element types ", Name(inputs[1].dtype), " and ", Name(inputs[2].dtype),
                     " of then and else differ");
    }
    outputs[0].dtype = inputs[1].dtype;
    BW_ASSIGN_OR_RETURN(const PartialShape both,
                        BroadcastPartial(inputs[1].shape, inputs[2].shape));
    BW_ASSIGN_OR_RETURN(outputs[0].shape, BroadcastPartial(both, inputs[0].shape));
    return absl::OkStatus();
  }
  template <typename T>
  static void Run(absl::Span<const Tensor* const> inputs, Tensor& output) {
    const absl::Span<const int64_t> shapes[] = {inputs[0]->shape(), inputs[1]->shape(),
                                                inputs[2]->shape()};
    const bool* condition = inputs[0]->data<bool>();
    const T* then_data = Words<T>(*inputs[1]);
    const T* else_data = Words<T>(*inputs[2]);
    T* out = MutableWords<T>(output);
    BroadcastPlan(output.shape(), shapes)
        .ForEachRow(
            [&](int64_t offset, int64_t count, const PerOperand& at, const PerOperand& step) {
              for (int64_t i = 0; i < count; ++i) {
                out[offset + i] = condition[at[0] + i * step[0]] ? then_data[at[1] + i * step[1]]
                                                                 : else_data[at[2] + i * step[2]];
              }
            });
  }
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    VisitWord(outputs[0].dtype(), [&](auto type) { Run<decltype(type)>(inputs, outputs[0]); });
    return absl::OkStatus();
  }
};

Tensor Converted(const Tensor& input, const ValueInfo& output) {
  absl::StatusOr<Tensor> converted = ops::Convert(input, output.dtype);
  BW_CHECK(converted.ok());  // both types are defined
  return *std::move(converted);
}

struct ConvertOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("destination_type", ""));
    absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok()) {
      return Annotate(dtype.status(), "attribute destination_type");
    }
    return *dtype;
  }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    return Converted(input, output);
  }
};

// The same bits under another type of the same width. Boolean is not among them: any byte but 0 and
// 1 would not be one.
struct BitCastOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return ConvertOp::Parse(node); }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", kNumericTypes));
    if (dtype == DType::kBool || SizeOf(dtype) != SizeOf(inputs[0].dtype)) {
      return Invalid("the bits of ", Name(inputs[0].dtype), " are not those of ", Name(dtype),
                     "; it must be a number of ", 8 * SizeOf(inputs[0].dtype), " bits");
    }
    outputs[0].dtype = dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static absl::Status Compute(Options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    if (inputs[0]->num_bytes() > 0) {
      std::memcpy(outputs[0].mutable_bytes(), inputs[0]->bytes(),
                  static_cast<size_t>(inputs[0]->num_bytes()));
    }
    return absl::OkStatus();
  }
};

// ConvertLike(data, like): of the second input only the type counts.
struct ConvertLikeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    outputs[0].dtype = inputs[1].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    return Converted(input, output);
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return ElementwiseRows(node, rows.subspan(0, 1), inputs.subspan(0, 1));
  }
};

}  // namespace

constinit const OperatorCode kSelect = CodeOf<SelectOp>(&ElementwiseRows);
constinit const OperatorCode kBitCast = CodeOf<BitCastOp>(&ElementwiseRows);
constinit const OperatorCode kConvert = CodeOf<ConvertOp>(&ElementwiseRows);
constinit const OperatorCode kConvertLike = CodeOf<ConvertLikeOp>(&ConvertLikeOp::Rows);

}  // namespace beamwright::ops
