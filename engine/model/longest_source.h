// The longest source that an encoder's tables of positions hold. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_LONGEST_SOURCE_H_
#define BEAMWRIGHT_ENGINE_MODEL_LONGEST_SOURCE_H_

#include <cstdint>

#include "ops/graph/graph.h"

namespace beamwright::engine {

// Inference of shapes with the source's length given fails where a constant table that the encoder
// gathers from or slices is too short. Tries the extents of these tables, up to 8,192.
// parameter: index of the one that takes the source. Returns 0 if no length fails, if nearly all
// do, or if longer ones work again. Positions computed from the tokens' values are not found.
int64_t LongestSource(const ops::Graph& graph, int parameter, int length_axis);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_LONGEST_SOURCE_H_
