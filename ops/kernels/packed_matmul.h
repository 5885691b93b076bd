// PackedMatMul: products of activations with one constant weight, f32. A row's result has the same
// bits whatever the number of rows, its position among them, the number of threads and the
// instruction set: that is what lets requests share a batch (docs/numerics.md). No matrix library
// promises that, and for the few rows of a beam one is also slower (docs/performance.md), so the
// kernel is our own (ops/kernels/strip_product.h).
#ifndef BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_
#define BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_

#include <memory>

#include "absl/types/span.h"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

class PackedMatMul {
 public:
  // Where an element's sum starts, before the terms of the product are added one by one.
  struct Start {
    absl::Span<const float> bias;  // [columns], or empty
    bool from_output = false;      // what stands in `out`, plus the bias
  };

  // weight: [depth, columns], or [columns, depth] if `transposed`. Packed; not kept.
  PackedMatMul(ConstMatrix<float> weight, bool transposed);

  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }

  // out [rows, columns] from a [rows, depth]; they must not overlap. On up to num_threads threads
  // where the work pays. Thread-safe.
  void Run(int num_threads, ConstMatrix<float> a, const Start& start, Matrix<float> out) const;

 private:
  int64_t depth_ = 0;
  int64_t columns_ = 0;
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float[], Free> strips_;  // [strips, depth, 32]
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_
