#include "server/model/golden_file.h"

#include <filesystem>

#include "ops/base/status.h"
#include "server/model/bundle_files.h"

namespace beamwright::model {
namespace {

constexpr char kGoldenName[] = "golden.jsonl";

}  // namespace

absl::StatusOr<std::string> ReadGolden(const std::string& folder) {
  // Versions may share a file by a link within the model's folder, as of other files.
  const std::filesystem::path path(folder);
  BW_ASSIGN_OR_RETURN(BundleFiles files, BundleFiles::Open(folder, path.parent_path().string()));
  absl::StatusOr<std::string> golden = files.Read(kGoldenName);
  if (absl::IsNotFound(golden.status())) {
    return std::string();
  }
  return golden;
}

}  // namespace beamwright::model
