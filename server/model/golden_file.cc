#include "server/model/golden_file.h"

#include <filesystem>

#include "ops/base/file.h"
#include "ops/base/status.h"
#include "server/model/bundle_files.h"

namespace beamwright::model {
namespace {

absl::StatusOr<std::string> ReadIfThere(const std::string& folder, const char* name) {
  if (!IsThere((std::filesystem::path(folder) / name).string())) {
    return std::string();
  }
  // Versions may share a file by a link within the model's folder, as of other files.
  const std::filesystem::path path(folder);
  BW_ASSIGN_OR_RETURN(BundleFiles files, BundleFiles::Open(folder, path.parent_path().string()));
  return files.Read(name);
}

}  // namespace

absl::StatusOr<std::string> ReadGolden(const std::string& folder) {
  return ReadIfThere(folder, "golden.jsonl");
}

absl::StatusOr<std::string> ReadWarmUp(const std::string& folder) {
  return ReadIfThere(folder, "warmup.jsonl");
}

}  // namespace beamwright::model
