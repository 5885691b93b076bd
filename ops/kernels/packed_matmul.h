// PackedMatMul: products of activations with one constant weight, f32. A row's result has the same
// bits whatever the number of rows, its position among them and the number of threads: that is what
// lets requests share a batch (docs/numerics.md).
//
// oneDNN computes fixed tiles of rows by fixed panels of columns, each call on one thread, with
// primitives made at construction; rows are padded up to a tile and cut into tiles. A self-check at
// construction puts a probe row at every position of every tile and drops tiles whose results
// differ in any bit; if none is left, or oneDNN has no packed kernel for this machine, a kernel of
// our own takes over that adds in ascending depth.
#ifndef BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_
#define BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

class OneDnnPanels;

class PackedMatMul {
 public:
  enum class Backend {
    kAutomatic,
    kFixedOrder,  // our own kernel
  };
  // While one lives, kAutomatic means kFixedOrder in the whole process: how tests reach the
  // fallback through operators that pack for themselves.
  class ScopedFixedOrder {
   public:
    ScopedFixedOrder();
    ~ScopedFixedOrder();
    ScopedFixedOrder(const ScopedFixedOrder&) = delete;
    ScopedFixedOrder& operator=(const ScopedFixedOrder&) = delete;
  };

  static bool FixedOrderIsForced();

  // What is done with a product once it is there.
  struct Epilogue {
    absl::Span<const float> bias;  // [columns], or empty
    bool add_to_output = false;    // out += product + bias instead of out = product + bias
  };

  // weight: [depth, columns], or [columns, depth] if `transposed`. Packed or copied; not kept.
  PackedMatMul(ConstMatrix<float> weight, bool transposed, Backend backend = Backend::kAutomatic);
  ~PackedMatMul();

  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }
  // "oneDNN brg:avx512_core, tiles 1 8 16 32 64" or "fixed order": for descriptions of a model.
  std::string implementation() const;

  // out [rows, columns] from a [rows, depth]; they must not overlap. Tiles and panels run on up to
  // num_threads threads where the work pays. Thread-safe. Internal if oneDNN fails.
  absl::Status Run(int num_threads, ConstMatrix<float> a, const Epilogue& epilogue,
                   Matrix<float> out) const;

 private:
  absl::Status RunTile(ConstMatrix<float> a, const Epilogue& epilogue, Matrix<float> out,
                       int64_t panel) const;
  void RunFixedOrder(ConstMatrix<float> a, const Epilogue& epilogue, Matrix<float> out,
                     int64_t panel) const;

  int64_t depth_ = 0;
  int64_t columns_ = 0;
  std::unique_ptr<OneDnnPanels> onednn_;  // null: fixed order
  std::vector<float> weight_;             // [depth, columns], for the fixed order only
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_
