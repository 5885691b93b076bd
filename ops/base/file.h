// Files: read whole, once, or, where they are too large for that, open for reading.
#ifndef BEAMWRIGHT_OPS_BASE_FILE_H_
#define BEAMWRIGHT_OPS_BASE_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace beamwright {

// Whole files, read once. Those that are too large for that: ops/base/file.h.

inline constexpr int64_t kMaxFileBytes = int64_t{16} << 30;

// The content of a regular file. NotFound, PermissionDenied, or InvalidArgument (not a regular
// file, larger than max_bytes), each naming the path.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

// False if nothing has this name. A link that leads nowhere is something, and so is what can't be
// looked at: reading it gives the reason.
bool IsThere(const std::string& path);

// InputFile: a file that is open for reading, so that a large one need not be read whole. Model
// files are never mapped: a file that is cut short while it is read must not end the process, and
// one that changes must not change what is served. A reader that comes back to a file later asks
// CheckUnchanged.

// Thread-safe.
class InputFile {
 public:
  // A regular file. NotFound, PermissionDenied, or InvalidArgument (not a regular file, larger than
  // max_bytes), each naming the path.
  static absl::StatusOr<std::shared_ptr<const InputFile>> Open(const std::string& path,
                                                               int64_t max_bytes = kMaxFileBytes);
  // A file that is in memory already.
  static std::shared_ptr<const InputFile> OfContent(std::string content);

  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // When it was opened.
  int64_t size() const { return size_; }

  // Bytes [offset, offset + count), which must lie within size(), to `out`. DataLoss if the file
  // has become shorter.
  absl::Status Read(int64_t offset, int64_t count, void* out) const;
  // All of it.
  absl::StatusOr<std::string> ReadAll() const;
  // DataLoss if size or time of modification are not those of when it was opened. A file that is
  // replaced by renaming another is not changed: this one is still open.
  absl::Status CheckUnchanged() const;

 private:
  InputFile() = default;

  int fd_ = -1;  // -1: in memory
  std::string path_;
  std::string content_;
  int64_t size_ = 0;
  struct timespec modified_ {};
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_FILE_H_
