// The product of 8-bit matrices with all that follows it in a quantized layer, in one kernel: (a -
// a_zero) x (b - b_zero) in integers, times the scales of row and column, plus a bias, plus an
// addend.
//
// 1. The constructor packs b with its zero points (PackedIntegers) and keeps the scale and bias of
//    each column.
// 2. Run checks the shapes of the inputs that come at run time (CheckScaled; the packed ones keep
//    those of the load).
// 3. An addend of the product's shape is added as the sums leave the registers. Another one is
//    broadcast afterwards, by ApplyBinary.
//
// A missing bias is -0.0, since x + -0.0 is x for each x, zeros of both signs included.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/kernels/elementwise_binary.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/integer_operands.h"
#include "ops/kernels/integer_product.h"
#include "ops/kernels/product_shapes.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

enum Input : size_t { kA, kB, kAZero, kBZero, kAScale, kBScale, kBias, kAddend, kNumInputs };

// What is packed into the kernel.
bool IsPacked(size_t index) {
  return index == kB || index == kBZero || index == kBScale || index == kBias;
}

absl::Status CheckScaled(absl::Span<const InputInfo> inputs, absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, kNumInputs, outputs));
  if (!Present(inputs, kAScale) || !Present(inputs, kBScale)) {
    return Invalid("a_scale and b_scale must be there");
  }
  const PartialShape& a = inputs[kA].shape;
  const PartialShape& b = inputs[kB].shape;
  BW_RETURN_IF_ERROR(CheckBytes(inputs[kA], "a", inputs[kAZero], "a_zero_point"));
  BW_RETURN_IF_ERROR(CheckBytes(inputs[kB], "b", inputs[kBZero], "b_zero_point"));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAZero], "a_zero_point", a, true));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBZero], "b_zero_point", b, false));
  BW_RETURN_IF_ERROR(ExpectType(inputs[kAScale], "a_scale", {DType::kF32}));
  BW_RETURN_IF_ERROR(ExpectType(inputs[kBScale], "b_scale", {DType::kF32}));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAScale], "a_scale", a, true));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBScale], "b_scale", b, false));
  BW_RETURN_IF_ERROR(ExpectRank(inputs[kB], "b", 2));
  if (a.has_rank() && a.rank() < 2) {
    return Invalid("a: shape ", a.ToString(), " must have two axes or more");
  }
  if (Present(inputs, kBias)) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[kBias], "bias", {DType::kF32}));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBias], "bias", b, false));
  }
  outputs[0].dtype = DType::kF32;
  BW_ASSIGN_OR_RETURN(outputs[0].shape, ProductShape({}, a, b));
  if (Present(inputs, kAddend)) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[kAddend], "addend", {DType::kF32}));
    BW_ASSIGN_OR_RETURN(outputs[0].shape,
                        BroadcastPartial(outputs[0].shape, inputs[kAddend].shape));
  }
  return absl::OkStatus();
}

class ScaledIntegerKernel final : public Kernel {
 public:
  explicit ScaledIntegerKernel(absl::Span<const InputInfo> inputs)
      : packed_(*inputs[kB].value, inputs[kBZero].value),
        column_scales_(ExpandFloats(inputs[kBScale].value, *inputs[kB].value, false)),
        bias_(column_scales_.size(), -0.0f) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      known_.push_back({inputs[i].dtype, inputs[i].shape});
    }
    if (Present(inputs, kBias)) {
      bias_ = ExpandFloats(inputs[kBias].value, *inputs[kB].value, false);
    }
  }

  bool NeedsInput(size_t index) const override { return !IsPacked(index); }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    RuntimeInfos infos = DescribeInputs(inputs);
    for (size_t i = 0; i < infos.size(); ++i) {
      infos[i] = IsPacked(i) ? known_[i] : infos[i];
    }
    RuntimeResults results(outputs.size());
    BW_RETURN_IF_ERROR(CheckScaled(infos, absl::MakeSpan(results)));
    BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
    const Tensor& a = *inputs[kA];
    const std::vector<int32_t> zeros = ExpandIntegers(InputOrNull(inputs, kAZero), a, true);
    const std::vector<float> row_scales = ExpandFloats(inputs[kAScale], a, true);
    SumScales scales{row_scales.data(), column_scales_.data(), bias_.data()};
    const Tensor* const addend = InputOrNull(inputs, kAddend);
    Shape shape = a.shape();
    shape.back() = packed_.columns();
    if (addend == nullptr || addend->shape() == shape) {
      scales.addend = addend == nullptr ? nullptr : addend->data<float>();
      packed_.Multiply(context.num_threads, a, zeros, scales, outputs[0].mutable_data<float>());
      return absl::OkStatus();
    }
    Tensor product(DType::kF32, std::move(shape));
    packed_.Multiply(context.num_threads, a, zeros, scales, product.mutable_data<float>());
    return ApplyBinary<float, float>(product, *addend, outputs[0],
                                     [](float x, float y) { return x + y; });
  }

 private:
  const PackedIntegers packed_;
  const std::vector<float> column_scales_;
  std::vector<float> bias_;       // one a column
  std::vector<InputInfo> known_;  // by input, without values
};

absl::Status InferScaled(const Node&, absl::Span<const InputInfo> inputs,
                         std::vector<ValueInfo>& outputs) {
  return CheckScaled(inputs, absl::MakeSpan(outputs));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeScaled(const KernelRequest& request) {
  for (const size_t i : {kB, kBZero, kBScale, kBias}) {
    if (Present(request.inputs, i) && request.inputs[i].value == nullptr) {
      return Invalid("b, its zero point and its scale, and the bias must be known at load");
    }
  }
  return std::make_unique<ScaledIntegerKernel>(request.inputs);
}

}  // namespace

// Rows have been separated when it is made, so this is never called.
constinit const OperatorCode kScaledIntegerProduct = {&InferScaled, &MakeScaled, &ExtentRows};

}  // namespace beamwright::ops
