// The elements of short lists of integers, as far as shape arithmetic goes: what ShapeOf gives, and
// what is picked, joined, multiplied and broadcast from it. Private to compile/.
#ifndef BEAMWRIGHT_OPS_COMPILE_SHORT_LISTS_H_
#define BEAMWRIGHT_OPS_COMPILE_SHORT_LISTS_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Whether a value is integers or truth values of rank 0 or 1 and a small, known number.
bool IsShortList(DType dtype, const ValueExtents& value);

// Elements of a tensor that is known at load.
void FindKnown(const Tensor& known, ValueExtents& value);

// Elements of the only output of `node`, whose inputs `found` knows; sets nothing if there is no
// rule for it.
void FindElements(const Node& node, const Extents& found, const GraphInfo& info,
                  const OperatorSet& operators, ValueExtents& value);

// The shape of `data` reshaped to `pattern`, as far as it is known.
std::optional<std::vector<Extent>> ReshapedTo(const ValueExtents& data, const ValueExtents& pattern,
                                              bool special_zero);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SHORT_LISTS_H_
