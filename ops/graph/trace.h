// What a graph says of its values: the meaning that their surroundings have, and how large its
// weights are.
#ifndef BEAMWRIGHT_OPS_GRAPH_TRACE_H_
#define BEAMWRIGHT_OPS_GRAPH_TRACE_H_

#include <cstdint>
#include <string>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// Follows a value through a graph for what its surroundings say of its meaning.

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

// How large a graph's weights are: what decides whether its steps are worth sharing among threads.

// Elements of constants of rank 2 and more, in loop bodies and branches too. Tables of which a run
// reads single rows (Gather) do not count. Of a graph as it was imported: compiling drops elements.
int64_t CountWeights(const Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_TRACE_H_
