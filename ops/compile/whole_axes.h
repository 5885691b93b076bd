// What is proven, by extents, to take, to write or to run over the whole of an axis.
// (for ops/passes).
#ifndef BEAMWRIGHT_OPS_COMPILE_WHOLE_AXES_H_
#define BEAMWRIGHT_OPS_COMPILE_WHOLE_AXES_H_

#include <optional>
#include <vector>

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Which entries of a Slice's lists cut something away: those whose axis is not taken whole, from 0
// to its own extent. Nothing if that is not known, or the node is no Slice.
std::optional<std::vector<int64_t>> CuttingEntries(const Node& node, const Extents& extents);

// Whether a node is a Slice that takes all of its data.
bool TakesWhole(const Node& node, const Extents& extents);

// Whether a node is a ScatterUpdate that writes each place of its axis once, in order: a list of
// one step, as TensorFlow's layers keep their outputs in.
bool OverwritesAll(const Node& node, const Extents& extents);

// Whether all lengths are `time`.
bool AreAll(const ValueExtents& lengths, const Extent& time);

// Whether each item of a loop's batch is as long as the sliced axis. One length for each item is a
// part of that: with another number of lengths the loop is an error.
bool LengthsAreWhole(const Node& node, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_WHOLE_AXES_H_
