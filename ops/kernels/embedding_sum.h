// Sums of rows of embeddings: by segment, and bag by bag.
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// What EmbeddingSegmentsSum and the embedding bags share: sums of table rows, and the checks of
// what names them.

// InvalidArgument naming the first of `indices` (i32 or i64) outside [0, table_rows).
absl::Status CheckIndices(const Tensor& indices, int64_t table_rows);
// -1 (zeros) or a row of the table, whether it is used or not.
absl::Status CheckDefaultIndex(int64_t default_index, int64_t table_rows);

// Rows of a table that are summed: item i is row indices[i], times weights[i] where there are
// weights. Everything has been checked.
struct EmbeddingItems {
  const Tensor* table = nullptr;    // of any numeric type
  const Tensor* indices = nullptr;  // i32 or i64
  const Tensor* weights = nullptr;  // of the table's type; may be null
  int64_t default_index = -1;       // the row that an empty sum is; -1: zeros
};

// The items of a bag: the first and one past the last.
using ItemsOfBag = absl::FunctionRef<std::pair<int64_t, int64_t>(int64_t bag)>;

// output [bags, ...], of the table's type: of each bag the sum of its items, or with `mean` that
// divided by their number (integers: towards zero). Sums are wide enough that an output is rounded
// once; integers wrap.
void SumBags(int num_threads, const EmbeddingItems& items, bool mean, ItemsOfBag items_of,
             Tensor& output);

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

extern const OperatorCode kEmbeddingSegmentsSum;

// Sums and means of embedding rows, bag by bag. Types, sums and default_index as for
// EmbeddingSegmentsSum; everything is validated before anything
// is computed.

// EmbeddingBagOffsetsSum-3 and EmbeddingBagOffsets-15: emb_table [N, ..], indices [n], offsets
// [bags], default_index[, per_sample_weights [n]]. Bag b holds items [offsets[b], offsets[b + 1]),
// the last one up to n; offsets ascend and may equal n. Items before offsets[0] are in no bag.
// Version 15: attribute reduction, sum (the default) or mean, which takes no weights.
extern const OperatorCode kEmbeddingBagOffsets;

// EmbeddingBagPackedSum-3 and EmbeddingBagPacked-15: emb_table, indices [bags, per_bag][,
// per_sample_weights of that shape]; attribute reduction as above.
extern const OperatorCode kEmbeddingBagPacked;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
