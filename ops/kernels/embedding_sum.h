// What EmbeddingSegmentsSum and the embedding bags share: sums of table rows, and the checks of
// what names them.
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "ops/kernels/inputs.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
