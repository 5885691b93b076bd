// What products of integers share: scales and zero points that go with the rows of one operand or
// the columns of the other. Private to kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_INTEGER_OPERANDS_H_
#define BEAMWRIGHT_OPS_KERNELS_INTEGER_OPERANDS_H_

#include <vector>

#include "ops/graph/operator.h"

namespace beamwright::ops {

// What holds for the rows of a, or for the columns of b: one value for all; a list, one for each;
// or of the operand's rank, broadcast to it, with extent 1 on the axis that is summed over. `list`
// may be absent: zeros.
absl::Status CheckPerRow(const InputInfo& list, absl::string_view name, const PartialShape& operand,
                         bool rows);

// Operand i8 or u8, its zero point, which may be absent, of the same type.
absl::Status CheckBytes(const InputInfo& input, absl::string_view name, const InputInfo& zero,
                        absl::string_view zero_name);

// The values of `list`, which may be null, for each row of a (column of b), matrix by matrix.
std::vector<float> ExpandFloats(const Tensor* list, const Tensor& operand, bool rows);
std::vector<int32_t> ExpandIntegers(const Tensor* list, const Tensor& operand, bool rows);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INTEGER_OPERANDS_H_
