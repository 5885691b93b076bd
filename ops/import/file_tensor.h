// Tensors whose elements stand in a file as they stand in memory. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_FILE_TENSOR_H_
#define BEAMWRIGHT_OPS_IMPORT_FILE_TENSOR_H_

#include "absl/status/statusor.h"
#include "ops/import/import_options.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// The elements from `offset` on, which must lie in the file; of booleans any byte but 0 is true.
// In a DeferredScope (ops/tensor/deferred.h) a large tensor is read when it is needed. DataLoss if
// the file has changed.
absl::StatusOr<Tensor> ReadTensor(const InputFilePtr& file, int64_t offset, DType dtype,
                                  const Shape& shape);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_FILE_TENSOR_H_
