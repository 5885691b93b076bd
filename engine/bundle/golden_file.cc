#include "engine/bundle/golden_file.h"

#include <filesystem>
#include <vector>

#include "engine/bundle/bundle_files.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

absl::StatusOr<std::string> ReadIfThere(const std::string& folder,
                                        absl::Span<const std::string> allow_links,
                                        const char* name) {
  if (!IsThere((std::filesystem::path(folder) / name).string())) {
    return std::string();
  }
  // Versions may share a file by a link within the model's folder, as of other files.
  const std::filesystem::path path(folder);
  std::vector<std::string> roots = {path.parent_path().string()};
  roots.insert(roots.end(), allow_links.begin(), allow_links.end());
  BW_ASSIGN_OR_RETURN(BundleFiles files, BundleFiles::Open(folder, roots));
  return files.Read(name, kMaxRequestFileBytes);
}

}  // namespace

absl::StatusOr<std::string> ReadGolden(const std::string& folder,
                                       absl::Span<const std::string> allow_links) {
  return ReadIfThere(folder, allow_links, "golden.jsonl");
}

absl::StatusOr<std::string> ReadWarmUp(const std::string& folder,
                                       absl::Span<const std::string> allow_links) {
  return ReadIfThere(folder, allow_links, "warmup.jsonl");
}

}  // namespace beamwright::bundle
