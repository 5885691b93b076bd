// Operators that gather and scatter elements or slices through tensors of indices (any integer
// type). Indices are checked before anything is moved; one outside its axis is an error naming it.
// Negative ones count from the end, except in ScatterUpdate, whose document refuses them.
#ifndef BEAMWRIGHT_OPS_KERNELS_INDEX_MOVEMENT_H_
#define BEAMWRIGHT_OPS_KERNELS_INDEX_MOVEMENT_H_

#include "ops/kernels/operator_code.h"
#include "ops/kernels/strided_walk.h"

namespace beamwright::ops {

// gather_elements.cc
// data, indices of the same rank, no larger than data on the axes other than attribute axis.
extern const OperatorCode kGatherElements;
// data, indices (tuples on the last axis); attribute batch_dims: that many leading axes are common.
// Attribute joins_batch (GatherND-5; set by the importer): they become one axis of the output.
extern const OperatorCode kGatherNd;

// scatter.cc and scatter_elements.cc: copies of data in which updates have been written, in
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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INDEX_MOVEMENT_H_
