// What extents prove for ops/passes: constant targets for Reshape and Broadcast in the place of
// computed ones, and nodes that take, write or run over the whole of an axis.
#ifndef BEAMWRIGHT_OPS_COMPILE_SHAPE_TARGETS_H_
#define BEAMWRIGHT_OPS_COMPILE_SHAPE_TARGETS_H_

#include <optional>
#include <vector>

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Whether a shape is known to have this extent on an axis.
bool IsExtentAt(const std::optional<std::vector<Extent>>& shape, size_t axis, const Extent& extent);

// A constant pattern for a Reshape with special_zero; nothing if its extents do not allow one.
// special_zero: what the file says of the computed pattern.
std::optional<std::vector<int64_t>> ReshapePattern(const ValueExtents& data,
                                                   std::vector<Extent> pattern, bool special_zero);

// A constant pattern whose -1 comes to the data's own extent, with a 0 in its place, which says
// more. Sets the node's special_zero. Nothing for other patterns.
std::optional<std::vector<int64_t>> CopyingPattern(const ValueExtents& data,
                                                   const std::vector<Extent>& pattern, Node& node);

// A constant pattern that fits one row alone, with -1 for the rows where it says 1: what it means
// for rows that each run for themselves. Nothing if it is not that.
std::optional<std::vector<int64_t>> OpenPattern(const ValueExtents& data, const Extent& rows,
                                                const std::vector<Extent>& pattern);

// A Reshape of a graph that was exported for one row, opened: the rows go to the front, what is
// left is reshaped as for one of them, and they go where the pattern has its 1.
struct OpenedReshape {
  size_t from = 0;               // axis of the data that counts rows
  size_t to = 0;                 // and of the result
  std::vector<int64_t> pattern;  // for a Reshape with special_zero, the rows in front
};
// Nothing if the data has no rows, the pattern carries them already, or it is not clear which 1 is
// theirs. special_zero: of the file's pattern.
std::optional<OpenedReshape> OpenReshape(const ValueExtents& data, const Extent& rows,
                                         std::vector<Extent> pattern, bool special_zero);

// A constant target for a bidirectional Broadcast: 1 where the data's extent stays. Nothing if
// there is another extent that is not known.
std::optional<std::vector<int64_t>> BroadcastTarget(const ValueExtents& data,
                                                    const std::vector<Extent>& target);

// What is proven, by extents, to take, to write or to run over the whole of an axis.

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

#endif  // BEAMWRIGHT_OPS_COMPILE_SHAPE_TARGETS_H_
