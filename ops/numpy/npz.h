// Named tensors as a NumPy .npz file: a zip archive of .npy files, stored or deflated. What
// beamwright-graph takes its inputs from and writes its outputs to.
#ifndef BEAMWRIGHT_OPS_NUMPY_NPZ_H_
#define BEAMWRIGHT_OPS_NUMPY_NPZ_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

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
