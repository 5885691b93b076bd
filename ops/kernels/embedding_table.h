// A large table of which rows are read by index, such as the embeddings of 32,000 tokens, kept in
// bf16 where a model's weights are in bf16 or in 8 bits: half the memory and half the traffic. A
// row is widened when it is read, so that what reads it computes in f32 as before
// (docs/numerics.md, 'Precision').
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_TABLE_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_TABLE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ops/tensor/matrix.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

class EmbeddingTable {
 public:
  // Whether a constant is such a table: f32, [rows, width], at least 1 MiB, and rows of 32 elements
  // and more. What is narrower may be a list of numbers that have to be exact, and gains little.
  static bool Fits(const Tensor& table);

  // Rounded to nearest, ties to even. `table` is not kept.
  explicit EmbeddingTable(ConstMatrix<float> table);

  int64_t rows() const { return table_.dim(0); }
  int64_t width() const { return table_.dim(1); }
  // Row `index` of [0, rows()), into `out` [width()].
  void Read(int64_t index, absl::Span<float> out) const;

 private:
  Tensor table_;  // bf16 [rows, width]
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_TABLE_H_
