#include "ops/base/file.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "ops/base/input_file.h"
#include "ops/base/status.h"

namespace beamwright {

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
