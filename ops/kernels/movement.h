// Operators that move elements without looking at them (any element type), and those that compute
// shapes. Shapes are propagated as far as constants and known extents allow.
#ifndef BEAMWRIGHT_OPS_KERNELS_MOVEMENT_H_
#define BEAMWRIGHT_OPS_KERNELS_MOVEMENT_H_

#include "ops/base/precision.h"
#include "ops/kernels/operator_code.h"
#include "ops/kernels/strided_copy.h"

namespace beamwright::ops {

// movement.cc
extern const OperatorCode kConcat;         // attribute axis
extern const OperatorCode kSplit;          // data, axis; attribute num_splits
extern const OperatorCode kVariadicSplit;  // data, axis, split_lengths (one may be -1)
extern const OperatorCode kTranspose;      // data, order (empty: reversed)

// repeat.cc
extern const OperatorCode kTile;  // data, repeats
// data, target_shape[, axes_mapping]; attribute mode numpy, bidirectional or explicit.
extern const OperatorCode kBroadcast;

// reshape.cc: the output shares the input's elements.
// data, pattern; attribute special_zero (default true): 0 in the pattern copies the input's extent.
// One entry may be -1.
extern const OperatorCode kReshape;
// data[, axes]; without axes, or with an empty list, every extent of 1 goes. Attribute
// allow_axis_skip: axes whose extent is not 1 stay, else they are an error.
extern const OperatorCode kSqueeze;
extern const OperatorCode kUnsqueeze;  // data, axes (counted in the output's rank)

// reshape.cc
extern const OperatorCode kShapeOf;  // attribute output_type i64 (default) or i32

// generate.cc
// start, stop, step (scalars of any numeric type); attribute output_type, any numeric type (absent:
// the inputs'). Integers are exact, floats computed in f64 and rounded once; floats that end as
// integers are truncated first.
extern const OperatorCode kRange;
// num_rows, num_columns, diagonal_index[, batch_shape]; attribute output_type.
extern const OperatorCode kEye;
extern const OperatorCode kNonZero;  // attribute output_type i64 (default) or i32

// gather.cc: data, indices, axis; attribute batch_dims. Negative indices count from the end; an
// index outside is an error naming it. Rows of a large constant table
// (ops/kernels/shared_weights.h) are kept in bf16 where constant weights are not kept in f32.
const OperatorCode& GatherIn(Precision weights);

// reshape.cc: index 0 of the first axis, which goes, of a value that is the same for all rows of
// a request, though not of a step: its number. A plan runs it request by request (row_plan.h), and
// what it gives is the request's own. No file has this operator.
inline constexpr char kFirstRowName[] = "FirstRow";
extern const OperatorCode kFirstRow;

// slice.cc
extern const OperatorCode kSlice;  // data, start, stop, step[, axes]: Slice-8
// data, begin, end[, strides]; masks begin_mask, end_mask, new_axis_mask, shrink_axis_mask,
// ellipsis_mask (lists of 0 and 1, missing entries 0).
extern const OperatorCode kStridedSlice;

// repeat.cc: data, pads_begin, pads_end[, pad_value]; attribute pad_mode constant, edge, reflect or
// symmetric. Negative pads cut away; reflections are those of the whole of data.
extern const OperatorCode kPad;

// blocks.cc
// data, axis; attribute mode index (axis lists axes) or mask (axis is boolean, one element each).
extern const OperatorCode kReverse;
extern const OperatorCode kReverseSequence;  // data, seq_lengths; attributes batch_axis, seq_axis

// generate.cc: indices, depth, on_value, off_value; attributes axis and negative_indices_mode
// (ignore_negative, the default, or normalize). Other indices outside give off_value throughout.
extern const OperatorCode kOneHot;

// blocks.cc
// DepthToSpace and SpaceToDepth: attributes block_size and mode blocks_first or depth_first.
extern const OperatorCode kDepthSpace;
extern const OperatorCode kShuffleChannels;  // attributes axis and group

// Operators that gather and scatter elements or slices through tensors of indices (any integer
// type). Indices are checked before anything is moved; one outside its axis is an error naming it.
// Negative ones count from the end, except in ScatterUpdate, whose document refuses them.

// gather.cc
// data, indices of the same rank, no larger than data on the axes other than attribute axis.
extern const OperatorCode kGatherElements;
// data, indices (tuples on the last axis); attribute batch_dims: that many leading axes are common.
// Attribute joins_batch (GatherND-5; set by the importer): they become one axis of the output.
extern const OperatorCode kGatherNd;

// scatter.cc and scatter.cc: copies of data in which updates have been written, in
// row-major order of the indices, so that the last of several updates of one place stands.
extern const OperatorCode kScatterUpdate;  // data, indices, updates, axis: whole slices
// data, indices, updates, axis; attributes reduction none, sum, prod, min, max or mean, and
// use_init_val (false: data's own value takes no part). Means of integers round down.
extern const OperatorCode kScatterElements;
// data, indices (tuples), updates; attribute reduction none, sum, sub, prod, min or max.
extern const OperatorCode kScatterNd;

// What GatherElements and ScatterElementsUpdate share: the check of shapes known in part, and the
// walk over the elements of `indices` that visits the matching places of data at coordinate 0 of
// the axis.
absl::Status CheckElementIndices(const PartialShape& data, const PartialShape& indices,
                                 int64_t axis);
StridedAxes WalkElements(const Shape& data, const Shape& indices, int axis);

// GatherTree-1: the token ids of each beam, found by walking the parents back from the last step.
//
// step_ids, parent_ids [T, B, K], max_seq_len [B], end_token scalar, all of one type: any integer
// or float type (ids are copied as they are; parents and lengths are computed in 64-bit integers,
// so no id loses bits). Column (b, k): L = min(T, max_seq_len[b]); from step L - 1 down, the id of
// the beam that the parents lead to; what follows the first end_token, and all from L on, is
// end_token. L <= 0 gives a column of end_token.
//
// A parent is checked when it is followed, and only then: rows that no beam visits may hold
// anything. An error names the first bad column's place and value, whatever the number of threads.
// Columns are independent; they run in parallel above a threshold. O(T B K).

extern const OperatorCode kGatherTree;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_MOVEMENT_H_
