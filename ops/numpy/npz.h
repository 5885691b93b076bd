// Tensors in NumPy's files: one as .npy, a short text header and then the elements, and named ones
// as .npz, a zip archive of .npy files, stored or deflated.
#ifndef BEAMWRIGHT_OPS_NUMPY_NPZ_H_
#define BEAMWRIGHT_OPS_NUMPY_NPZ_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// One tensor as a NumPy .npy file: a short text header, then the elements. The format is described
// in NumPy's documentation (numpy.lib.format).

// Reads versions 1 to 3, little-endian, C order; the bytes need not be aligned and are not kept.
// InvalidArgument: not a .npy file, fewer or more elements than the header says. Unimplemented:
// Fortran order, big-endian, objects, structures, texts, complex numbers.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes);

// Version 1 (2 if the header is long). bf16 becomes f32, which NumPy knows, without loss. The
// tensor must have a value.
std::string FormatNpy(const Tensor& tensor);

// Named tensors as a NumPy .npz file: a zip archive of .npy files, stored or deflated. What
// beamwright-graph takes its inputs from and writes its outputs to.

using TensorMap = std::map<std::string, Tensor>;

struct NpzLimits {
  int64_t max_arrays = 10'000;
  int64_t max_bytes = int64_t{4} << 30;  // of all arrays, unpacked
};

// All arrays of an archive, by name without ".npy". InvalidArgument: no zip archive, a broken or
// encrypted entry, an entry that is no .npy file, two of one name, more than the limits allow; and
// ParseNpy's errors with the entry's name. Entry names are never used as paths.
absl::StatusOr<TensorMap> ParseNpz(absl::string_view bytes, const NpzLimits& limits = {});
// The same from a file; errors name it.
absl::StatusOr<TensorMap> ReadNpz(const std::string& path, const NpzLimits& limits = {});

// Writes a stored archive whose bytes depend on `tensors` alone (no time stamps), replacing `path`
// when it is complete. InvalidArgument if empty. Errors name the path.
absl::Status WriteNpz(const std::string& path, const TensorMap& tensors);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_NUMPY_NPZ_H_
