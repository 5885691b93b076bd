// Exports of stateful models reorder their states by a separate input, `beam_idx`. Who steps
// the graph for a search reorders states itself.
#ifndef BEAMWRIGHT_OPS_DECODER_BEAM_INDEX_H_
#define BEAMWRIGHT_OPS_DECODER_BEAM_INDEX_H_

#include <optional>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// The graph without its Parameters of integers [rows] that do nothing but index the rows of other
// Parameters, and without the Gathers that they feed. None if it has no such Parameter. Types and
// shapes are to be inferred anew.
std::optional<Graph> WithoutBeamIndex(const Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_BEAM_INDEX_H_
