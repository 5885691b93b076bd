// EmbeddingSegmentsSum-3: sums of table rows by segment.
//
// emb_table [N, d1, ...] of T; indices [n]; segment_ids [n], ascending; num_segments scalar;
// default_index scalar, optional; per_sample_weights [n] of T, optional. Integers are all i32 or
// all i64; T is any integer or float type. Output [num_segments, d1, ...]: row s is the sum of
// emb_table[indices[i]] * per_sample_weights[i] over segment_ids[i] == s, in ascending i; an empty
// segment is row default_index, unweighted, or zeros where that is absent or -1.
//
// f16 and bf16 are summed in f32 and rounded once; integers wrap in T. Everything is validated
// before anything is computed; segments then run in parallel above a threshold.
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SEGMENTS_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SEGMENTS_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

extern const OperatorCode kEmbeddingSegmentsSum;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SEGMENTS_H_
