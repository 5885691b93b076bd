// Extents that an export wrote down as numbers where they are open: PyTorch's TorchScript exporter
// does that to nn.MultiheadAttention's memory, and to views by x.size(). Such a graph loads, and
// works for sources of one length alone.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_FROZEN_RESHAPE_H_
#define BEAMWRIGHT_TOOLS_GRAPH_FROZEN_RESHAPE_H_

#include <string>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// The first Reshape whose constant target can't be made of the extents that are known, with what to
// do, for people: some number in it is an open extent's, or a factor of one (the heads of rows *
// heads are no fault). So it explains what fails, and proves nothing. Empty: none. Bodies
// are looked into. `graph` as InferGraph leaves it.
std::string FrozenReshape(const Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_FROZEN_RESHAPE_H_
