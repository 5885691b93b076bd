// States that grow, kept as what the step computes of them: attention decoders transpose and scale
// all keys so far in each step, which is the same as to transpose and scale each key once and keep
// that.
#ifndef BEAMWRIGHT_OPS_COMPILE_COMPUTED_CACHES_H_
#define BEAMWRIGHT_OPS_COMPILE_COMPUTED_CACHES_H_

#include <optional>
#include <vector>

#include "ops/graph/inference.h"

namespace beamwright::ops {

struct CacheNodes {
  int parameter = -1;  // a Parameter that starts empty on the axis on which it grows
  int result = -1;     // the Result that carries its next value
};

// The graph with such states, whose Parameters and Results have other shapes and other elements
// then. Nothing if no cache is one of these. `graph` and `info` as InferGraph leaves them.
std::optional<Graph> KeepComputed(const std::vector<CacheNodes>& caches, const Graph& graph,
                                  const GraphInfo& info);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_COMPUTED_CACHES_H_
