// Packed weights and tables, each held once in the process: versions of a model that differ in a
// few layers, and models with a common encoder, share the others, and an encoder and a decoder
// share their table of embeddings. Weights are identified by a keyed hash of their extents and
// elements, and by their precision, since what was packed cannot be compared any more. The last
// kernel that uses a weight frees it.
#ifndef BEAMWRIGHT_OPS_KERNELS_SHARED_WEIGHTS_H_
#define BEAMWRIGHT_OPS_KERNELS_SHARED_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// A large table of which rows are read by index, such as the embeddings of 32,000 tokens, kept in
// bf16 where a model's weights are in bf16 or in 8 bits: half the memory and half the traffic. A
// row is widened when it is read, so that what reads it computes in f32 as before
// (docs/numerics.md, 'Precision').

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

// As PackedMatMul(weight, transposed, precision). `lifetime` is that of the elements, which must
// not change (Tensor::lifetime): a weight that many nodes read is then hashed once. Without it,
// each time. Thread-safe.
std::shared_ptr<const PackedMatMul> SharePacked(ConstMatrix<float> weight, bool transposed,
                                                Precision precision = Precision::kF32,
                                                const std::weak_ptr<const void>& lifetime = {});

// As EmbeddingTable(table), in the same way.
std::shared_ptr<const EmbeddingTable> ShareTable(ConstMatrix<float> table,
                                                 const std::weak_ptr<const void>& lifetime = {});

// A table of 8-bit integers, [rows, width]. A translation model chooses its tokens by a product
// with its table of embeddings: where SharePacked has that product in int8, the rows are read out
// of it, and the table itself is freed. Thread-safe.
class ByteTable {
 public:
  explicit ByteTable(ConstMatrix<int8_t> table);

  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  // Row `row`: out [width].
  void Read(int64_t row, int8_t* out) const;

  // Reads rows out of `packed` from now on if they are exactly there as its columns.
  void ReadFrom(const std::shared_ptr<const PackedMatMul>& packed) const;

 private:
  bool Is(const PackedMatMul& packed) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const int64_t rows_;
  const int64_t width_;
  std::vector<uint8_t> largest_;  // by row: the largest magnitude
  mutable absl::Mutex mutex_;
  mutable Tensor table_ ABSL_GUARDED_BY(mutex_);  // i8 [rows, width]; empty if packed_ has it
  mutable std::shared_ptr<const PackedMatMul> packed_ ABSL_GUARDED_BY(mutex_);
};

// As ByteTable(table), in the same way. A table of u8 is its bytes.
std::shared_ptr<const ByteTable> ShareBytes(ConstMatrix<int8_t> table,
                                            const std::weak_ptr<const void>& lifetime = {});

// Packed weights that are held now; for tests.
size_t NumSharedWeights();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SHARED_WEIGHTS_H_
