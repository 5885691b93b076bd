// Einsum-7: sums of products of tensors by an equation (attribute `equation`,
// ops/kernels/einsum.h). Any float or integer type, the same for all inputs; f16 and bf16
// in f32, integers wrap.
//
// Inputs are contracted from left to right. Each pair becomes a batch of matrix products after
// labels that only one of them has and that are not needed later were summed away; a repeated label
// of one input is its diagonal. Sums ascend over the contracted labels in the order in which the
// left operand has them, so an output element's bits follow from its own operands alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_EINSUM_H_
#define BEAMWRIGHT_OPS_KERNELS_EINSUM_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/kernels/operator_code.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// The equation of an Einsum ("ij,jk->ik"), parsed and matched with shapes.

// A letter, or an axis that an ellipsis stands for.
using Label = int;
inline constexpr Label kEllipsis = 0;  // in a parsed equation
// In labelled shapes: the ellipsis' axis `distance` from the right end of the ellipsis, 1 the last.
inline constexpr Label EllipsisAxis(int distance) { return -distance; }
inline bool IsEllipsisAxis(Label label) { return label < 0; }

struct EinsumEquation {
  std::vector<std::vector<Label>> inputs;  // letters and at most one kEllipsis each
  std::vector<Label> output;
};

// Letters a-z and A-Z, "..." at most once a term, blanks ignored. Without "->" the output is the
// ellipsis, then every letter that occurs exactly once, in ASCII order ("A" before "a").
absl::StatusOr<EinsumEquation> ParseEinsum(const std::string& equation);

// The equation with the ellipses of particular shapes spelled out.
struct EinsumLabels {
  std::vector<std::vector<Label>> inputs;  // one label an axis
  std::vector<Label> output;
  std::map<Label, int64_t> extents;  // -1: not known yet
};

// Matches shapes of known rank (extents may be -1). A letter has one extent wherever it stands;
// axes of ellipses broadcast, aligned at their right. InvalidArgument naming the input.
absl::StatusOr<EinsumLabels> LabelShapes(const EinsumEquation& equation,
                                         absl::Span<const Shape> shapes);

extern const OperatorCode kEinsum;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EINSUM_H_
