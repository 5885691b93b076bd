// Follows a value through a graph for what its surroundings say of its meaning.
#ifndef BEAMWRIGHT_OPS_GRAPH_TRACE_H_
#define BEAMWRIGHT_OPS_GRAPH_TRACE_H_

#include <string>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// Extent of the table that a Gather looks the Parameter's ids up in, layers that only move or
// convert them aside, loop bodies included; -1 if missing or unknown.
int64_t LookedUpRows(const Graph& graph, int parameter);

// The operator that first computes with the Parameter's values, found so: "" if none does.
std::string FirstOperatorOn(const Graph& graph, int parameter);

// The operator that last computed the values of a Result, found so. A loop's output is
// followed into its body.
std::string LastOperatorOf(const Graph& graph, int result);

// Whether the Parameter starts a state of a loop, directly or through layers that only move it.
bool StartsLoopState(const Graph& graph, int parameter);

// The axis of a source [rows, ...] that counts as its length: axis 1, or where that has a fixed
// extent the only open one. 0: that would be a guess, of [rows, channels, height, width] with both
// or none of the last two open.
int FindLengthAxis(const PartialShape& source);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_TRACE_H_
