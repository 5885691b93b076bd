// Files that are read in parts while their content must not change: an InputFile remembers size and
// time of the file when it was opened, Read gives any part of it, and CheckUnchanged compares at
// the end. A file that became shorter is an error of the read. Only regular files are opened; a
// pipe in the place of a file must not block the program.
#include "ops/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ops/base/check.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"

namespace beamwright {

absl::StatusOr<std::shared_ptr<const InputFile>> InputFile::Open(const std::string& path,
                                                                 int64_t max_bytes) {
  BW_RETURN_IF_ERROR(FaultPoint("read_file"));
  std::shared_ptr<InputFile> file(new InputFile());
  file->path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below.
  file->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path, "'"));
  }
  struct stat info {};
  if (fstat(file->fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat '", path, "'"));
  }
  if (!S_ISREG(info.st_mode)) {
    return Invalid("'", path, "' is not a regular file");
  }
  if (info.st_size > max_bytes) {
    return Invalid("'", path, "' has ", info.st_size, " bytes; at most ", max_bytes,
                   " are allowed");
  }
  file->size_ = info.st_size;
  file->modified_ = info.st_mtim;
  return file;
}

std::shared_ptr<const InputFile> InputFile::OfContent(std::string content) {
  std::shared_ptr<InputFile> file(new InputFile());
  file->content_ = std::move(content);
  file->size_ = static_cast<int64_t>(file->content_.size());
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

absl::Status InputFile::Read(int64_t offset, int64_t count, void* out) const {
  BW_CHECK(offset >= 0 && count >= 0 && offset <= size_ && count <= size_ - offset);
  if (fd_ < 0) {
    if (count > 0) {
      std::memcpy(out, content_.data() + offset, static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }
  auto* to = static_cast<char*>(out);
  for (int64_t done = 0; done < count;) {
    const ssize_t got = pread(fd_, to + done, static_cast<size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", path_, "'"));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("'", path_, "' became shorter while it was read: ",
                                              offset + done, " of ", size_, " bytes"));
    }
    done += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> InputFile::ReadAll() const {
  if (fd_ < 0) {
    return content_;
  }
  std::string content(static_cast<size_t>(size_), '\0');
  BW_RETURN_IF_ERROR(Read(0, size_, content.data()));
  return content;
}

absl::Status InputFile::CheckUnchanged() const {
  struct stat info {};
  if (fd_ < 0) {
    return absl::OkStatus();
  }
  if (fstat(fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat '", path_, "'"));
  }
  const bool same = info.st_size == size_ && info.st_mtim.tv_sec == modified_.tv_sec &&
                    info.st_mtim.tv_nsec == modified_.tv_nsec;
  return same ? absl::OkStatus()
              : absl::DataLossError(absl::StrCat("'", path_, "' changed while it was read"));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  BW_ASSIGN_OR_RETURN(const std::shared_ptr<const InputFile> file,
                      InputFile::Open(path, max_bytes));
  return file->ReadAll();
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace beamwright
