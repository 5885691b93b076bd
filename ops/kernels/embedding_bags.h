// Sums and means of embedding rows, bag by bag. Types, sums and default_index as for
// EmbeddingSegmentsSum (ops/kernels/embedding_segments.h); everything is validated before anything
// is computed.
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_BAGS_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_BAGS_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// EmbeddingBagOffsetsSum-3 and EmbeddingBagOffsets-15: emb_table [N, ..], indices [n], offsets
// [bags], default_index[, per_sample_weights [n]]. Bag b holds items [offsets[b], offsets[b + 1]),
// the last one up to n; offsets ascend and may equal n. Items before offsets[0] are in no bag.
// Version 15: attribute reduction, sum (the default) or mean, which takes no weights.
extern const OperatorCode kEmbeddingBagOffsets;

// EmbeddingBagPackedSum-3 and EmbeddingBagPacked-15: emb_table, indices [bags, per_bag][,
// per_sample_weights of that shape]; attribute reduction as above.
extern const OperatorCode kEmbeddingBagPacked;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_BAGS_H_
