#include "ops/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"

namespace beamwright {

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  BW_RETURN_IF_ERROR(FaultPoint("read_file"));
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path, "'"));
  }
  absl::Cleanup closer = [fd] { close(fd); };
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat '", path, "'"));
  }
  if (!S_ISREG(info.st_mode)) {
    return Invalid("'", path, "' is not a regular file");
  }
  if (info.st_size > max_bytes) {
    return Invalid("'", path, "' has ", info.st_size, " bytes; at most ", max_bytes,
                   " are allowed");
  }
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = read(fd, content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", path, "'"));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("'", path, "' became shorter while it was read: ",
                                              done, " of ", content.size(), " bytes"));
    }
    done += static_cast<size_t>(got);
  }
  return content;
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace beamwright
