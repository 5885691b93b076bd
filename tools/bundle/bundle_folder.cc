#include "tools/bundle/bundle_folder.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"

namespace beamwright::tools {

namespace fs = std::filesystem;

absl::Status AddFile(const std::string& name, std::string content, Files& files) {
  const auto [it, fresh] = files.try_emplace(name, content);
  return fresh || it->second == content
             ? absl::OkStatus()
             : Invalid("two different files would be named '", name, "' in the bundle");
}

absl::Status CheckOut(const std::string& out) {
  std::error_code error;
  if (fs::exists(out, error) && !(fs::is_directory(out, error) && fs::is_empty(out, error))) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", out, "' exists; --out names a folder that doesn't, or an empty one"));
  }
  return absl::OkStatus();
}

absl::Status WriteFiles(const std::string& out, const Files& files) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) {
    return absl::UnknownError(absl::StrCat("cannot make '", out, "': ", error.message()));
  }
  for (const auto& [name, content] : files) {
    const fs::path path = fs::path(out) / name;
    fs::create_directories(path.parent_path(), error);  // external data may lie below
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.close();
    if (!file.good()) {
      return absl::UnknownError(absl::StrCat("cannot write '", path.string(), "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::tools
