// Kernels that compute in f32 serve f16 and bf16 as well: inputs are widened, which is exact, and
// results rounded once. So an operator's numerics are written down once, and a 16-bit result is the
// f32 result's nearest neighbour.
#ifndef BEAMWRIGHT_OPS_KERNELS_WIDEN_H_
#define BEAMWRIGHT_OPS_KERNELS_WIDEN_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// make(request) with every f16 and bf16 input as f32, constants included; f32 outputs of the kernel
// become the type of the first such input. Without one it is make(request) itself.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(const KernelRequest& request,
                                                    MakeFunction make);

template <MakeFunction kMake>
absl::StatusOr<std::unique_ptr<Kernel>> Widened(const KernelRequest& request) {
  return MakeWidened(request, kMake);
}

// An operator whose Compute knows f32 (and perhaps more) and whose Shapes allow f16 and bf16.
template <typename Op>
constexpr OperatorCode WidenedCodeOf(RowFunction rows) {
  return {&InferAs<Op>, &Widened<&MakeAs<Op>>, rows};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_WIDEN_H_
