// Packed weights and tables, each held once in the process: versions of a model that differ in a
// few layers, and models with a common encoder, share the others, and an encoder and a decoder
// share their table of embeddings. Weights are identified by the SHA-256 of their extents,
// precision and elements, since what was packed cannot be compared any more. The last kernel that
// uses a weight frees it.
#ifndef BEAMWRIGHT_OPS_KERNELS_SHARED_WEIGHTS_H_
#define BEAMWRIGHT_OPS_KERNELS_SHARED_WEIGHTS_H_

#include <cstdint>
#include <memory>

#include "ops/kernels/embedding_table.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// As PackedMatMul(weight, transposed, precision). `lifetime` is that of the elements, which must
// not change (Tensor::lifetime): a weight that many nodes read is then hashed once. Without it,
// each time. Thread-safe.
std::shared_ptr<const PackedMatMul> SharePacked(ConstMatrix<float> weight, bool transposed,
                                                Precision precision = Precision::kF32,
                                                const std::weak_ptr<const void>& lifetime = {});

// As EmbeddingTable(table), in the same way.
std::shared_ptr<const EmbeddingTable> ShareTable(ConstMatrix<float> table,
                                                 const std::weak_ptr<const void>& lifetime = {});

// The same for a table of 8-bit integers, [rows, width], which is kept as it is: i8 [rows, width].
// A table of u8 is its bytes.
std::shared_ptr<const Tensor> ShareBytes(ConstMatrix<int8_t> table,
                                         const std::weak_ptr<const void>& lifetime = {});

// Packed weights that are held now; for tests.
size_t NumSharedWeights();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SHARED_WEIGHTS_H_
