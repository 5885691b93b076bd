// Whole files, read once. Those that are too large for that: ops/base/input_file.h.
#ifndef BEAMWRIGHT_OPS_BASE_FILE_H_
#define BEAMWRIGHT_OPS_BASE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace beamwright {

inline constexpr int64_t kMaxFileBytes = int64_t{16} << 30;

// The content of a regular file. NotFound, PermissionDenied, or InvalidArgument (not a regular
// file, larger than max_bytes), each naming the path.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

// False if nothing has this name. A link that leads nowhere is something, and so is what can't be
// looked at: reading it gives the reason.
bool IsThere(const std::string& path);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_FILE_H_
