// The oneDNN half of PackedMatMul: the weight in packed panels of columns, and a primitive for each
// of a few row counts. Private to packed_matmul.cc.
#ifndef BEAMWRIGHT_OPS_KERNELS_ONEDNN_PANELS_H_
#define BEAMWRIGHT_OPS_KERNELS_ONEDNN_PANELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

// Columns of a panel: what a thread owns when rows are few. Narrow enough that the products of one
// cell make several, wide enough that a call's fixed cost (0.35 us) does not show.
inline constexpr int64_t kPanelColumns = 512;

class OneDnnPanels {
 public:
  // weight: [depth, columns] row-major, dense. Null if oneDNN has no suitable kernel or none passes
  // the self-check.
  static std::unique_ptr<OneDnnPanels> Create(absl::Span<const float> weight, int64_t depth,
                                              int64_t columns);

  // The row counts in use, ascending.
  const std::vector<int64_t>& tiles() const { return tiles_; }
  const std::string& kernel() const { return kernel_; }
  // Index of the smallest tile that holds `rows`, of the largest if none does.
  size_t TileFor(int64_t rows) const;

  // out [tile, width of panel] = a [tile, depth] * panel, all dense. `tile` is an index of tiles().
  // One thread; callable by many at once. False if oneDNN reports an error.
  bool Run(size_t tile, int64_t panel, const float* a, float* out) const;

 private:
  struct Primitive {
    dnnl::matmul matmul;
    dnnl::memory::desc a, weight, out, scratch;
  };
  struct Panel {
    dnnl::memory weight;
    size_t kind = 0;  // index of primitives_: panels of one width share theirs
  };

  OneDnnPanels() = default;
  void Build(absl::Span<const float> weight, int64_t depth, int64_t columns);
  // Primitives for one width, one for each candidate tile; a null primitive where there is none.
  std::vector<Primitive> MakePrimitives(int64_t depth, int64_t width);
  // Keeps the tiles whose rows all have the bits of the largest usable tile's first row.
  void SelfCheck(int64_t depth, int64_t columns);

  std::vector<int64_t> tiles_;
  std::vector<std::vector<Primitive>> primitives_;  // [kind][tile]
  std::vector<Panel> panels_;
  std::string kernel_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ONEDNN_PANELS_H_
