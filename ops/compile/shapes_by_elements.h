// Shapes that follow from the elements of a node's inputs, or from more than one of their extents:
// the target of a Reshape, the lists of a Slice, the sum of joined lengths, the number of windows.
// Private to ops/compile/extents.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_SHAPES_BY_ELEMENTS_H_
#define BEAMWRIGHT_OPS_COMPILE_SHAPES_BY_ELEMENTS_H_

#include <optional>
#include <vector>

#include "ops/compile/extents.h"

namespace beamwright::ops {

// The shape of a node's first output, from what is known of its inputs; nothing where the operator
// is no such one, or too little is known. Extents that stay open get new symbols.
std::optional<std::vector<Extent>> ShapeByElements(const Node& node, const Extents& found,
                                                   Symbols& symbols);

// An axis counted from the front; nothing if there is no such axis, which inference has not seen
// where it knew no rank.
std::optional<size_t> AxisOf(int64_t axis, size_t rank);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SHAPES_BY_ELEMENTS_H_
