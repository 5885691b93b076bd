// The glue between an operator's three functions and the Kernel interface. An operator is a struct
//
//   struct ReluOp {
//     using Options = ...;                                        // its attributes, parsed
//     static absl::StatusOr<Options> Parse(const Node& node);
//     static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
//                                absl::Span<ValueInfo> outputs);  // types and shapes, with all
//                                checks
//     static absl::Status Compute(const Options&, const ExecutionContext&,
//                                 absl::Span<const Tensor* const> inputs,
//                                 absl::Span<Tensor> outputs);    // outputs have their shapes
//     // Optional: true where f16 and bf16 are to be computed in f32 (ComputeInF32).
//     static bool WidensHalves(const Options&);
//   };
//
// Shapes serves twice: at load, with what is known then, and in each run, with the real shapes and
// values. So a check is written once, and a run can never see a shape that was not checked.
#ifndef BEAMWRIGHT_OPS_KERNELS_OPERATOR_CODE_H_
#define BEAMWRIGHT_OPS_KERNELS_OPERATOR_CODE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "ops/base/status.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// What a registry line needs besides the name and the attributes.
struct OperatorCode {
  InferFunction infer = nullptr;
  MakeFunction make = nullptr;
  RowFunction rows = nullptr;
};

struct NoOptions {
  static absl::StatusOr<NoOptions> Parse(const Node&) { return NoOptions{}; }
};

using RuntimeInfos = absl::InlinedVector<InputInfo, 8>;
using RuntimeResults = absl::InlinedVector<ValueInfo, 4>;

// The inputs of a run as Shapes sees them: all shapes and values known.
RuntimeInfos DescribeInputs(absl::Span<const Tensor* const> inputs);
// Resizes outputs to what Shapes found; InvalidArgument if that is not fully known or is larger
// than a tensor may be (8 GiB).
absl::Status PrepareOutputs(absl::Span<const ValueInfo> results, absl::Span<Tensor> outputs);

// f16 and bf16 are computed in f32 and rounded once: calls `compute` with f32 copies of the inputs
// that have these types, and with f32 tensors for such outputs (resized already), which are rounded
// to their own types afterwards.
using ComputeFunction =
    absl::FunctionRef<absl::Status(absl::Span<const Tensor* const>, absl::Span<Tensor>)>;
absl::Status ComputeInF32(absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs,
                          ComputeFunction compute);
bool HasHalves(absl::Span<const Tensor* const> inputs, absl::Span<const Tensor> outputs);

template <typename Op>
class CodeKernel final : public Kernel {
 public:
  explicit CodeKernel(typename Op::Options options) : options_(std::move(options)) {}

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    const RuntimeInfos infos = DescribeInputs(inputs);
    RuntimeResults results(outputs.size());
    BW_RETURN_IF_ERROR(Op::Shapes(options_, infos, absl::MakeSpan(results)));
    if constexpr (requires { Op::Share(*inputs[0], results[0]); }) {
      // The output is the input's elements under another shape.
      outputs[0] = Op::Share(*inputs[0], results[0]);
      return absl::OkStatus();
    } else {
      BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
      if constexpr (requires { Op::WidensHalves(options_); }) {
        if (Op::WidensHalves(options_) && HasHalves(inputs, outputs)) {
          return ComputeInF32(inputs, outputs, [&](auto wide_inputs, auto wide_outputs) {
            return Op::Compute(options_, context, wide_inputs, wide_outputs);
          });
        }
      }
      return Op::Compute(options_, context, inputs, outputs);
    }
  }

 private:
  const typename Op::Options options_;
};

template <typename Op>
absl::Status InferAs(const Node& node, absl::Span<const InputInfo> inputs,
                     std::vector<ValueInfo>& outputs) {
  BW_ASSIGN_OR_RETURN(const typename Op::Options options, Op::Parse(node));
  return Op::Shapes(options, inputs, absl::MakeSpan(outputs));
}

template <typename Op>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAs(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(typename Op::Options options, Op::Parse(request.node));
  return std::make_unique<CodeKernel<Op>>(std::move(options));
}

template <typename Op>
constexpr OperatorCode CodeOf(RowFunction rows) {
  return {&InferAs<Op>, &MakeAs<Op>, rows};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_OPERATOR_CODE_H_
