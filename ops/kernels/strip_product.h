// Rows times a packed weight: the innermost kernel of PackedMatMul.
//
// The weight is stored in strips of 32 columns, [strips][depth][32], zeros behind the last column.
// An element of the result is one chain of fused multiply-adds in ascending depth, from its start
// value, whichever instructions compute it and whatever other rows and columns are computed beside
// it: that is why its bits follow from its own row and column alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_

#include <cstdint>

#include "ops/base/vector_isa.h"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

inline constexpr int64_t kStripColumns = 32;

// What an element's sum starts from: 0, plus bias[column], plus what stands in `out`.
struct ProductStart {
  const float* bias = nullptr;  // [out.columns] or null
  bool from_output = false;
};

// out [rows, columns] from a [rows, depth]. strips: the first of ceil(columns / 32) strips, aligned
// to 64 bytes. One thread.
void MultiplyStrips(VectorIsa isa, ConstMatrix<float> a, const float* strips,
                    const ProductStart& start, Matrix<float> out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_
