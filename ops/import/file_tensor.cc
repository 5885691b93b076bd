#include "ops/import/file_tensor.h"

#include "ops/base/status.h"
#include "ops/tensor/deferred.h"

namespace beamwright::ops {

absl::StatusOr<Tensor> ReadTensor(const InputFilePtr& file, int64_t offset, DType dtype,
                                  const Shape& shape) {
  const int64_t bytes = NumElements(shape) * SizeOf(dtype);
  return MakeConstant(dtype, shape, [=](std::byte* out) -> absl::Status {
    BW_RETURN_IF_ERROR(file->Read(offset, bytes, out));
    for (int64_t i = 0; dtype == DType::kBool && i < bytes; ++i) {
      out[i] = std::byte{out[i] != std::byte{0}};
    }
    return file->CheckUnchanged();
  });
}

}  // namespace beamwright::ops
