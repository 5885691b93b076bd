// One tensor as a NumPy .npy file: a short text header, then the elements. The format is described
// in NumPy's documentation (numpy.lib.format).
#ifndef BEAMWRIGHT_OPS_NUMPY_NPY_H_
#define BEAMWRIGHT_OPS_NUMPY_NPY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Reads versions 1 to 3, little-endian, C order; the bytes need not be aligned and are not kept.
// InvalidArgument: not a .npy file, fewer or more elements than the header says. Unimplemented:
// Fortran order, big-endian, objects, structures, texts, complex numbers.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes);

// Version 1 (2 if the header is long). bf16 becomes f32, which NumPy knows, without loss. The
// tensor must have a value.
std::string FormatNpy(const Tensor& tensor);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_NUMPY_NPY_H_
