#include "ops/import/files_beside.h"

#include <filesystem>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<fs::path> Canonical(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::canonical(path.empty() ? fs::path(".") : path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot open '", path.string(), "'"));
  }
  return resolved;
}

bool IsBelow(const fs::path& path, const fs::path& root) {
  const fs::path relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

OpenFileFunction FilesBeside(const std::string& graph_path, const std::string& allow_links) {
  return [=](const std::string& name) -> absl::StatusOr<InputFilePtr> {
    if (name == graph_path) {
      return InputFile::Open(name);
    }
    BW_ASSIGN_OR_RETURN(const fs::path folder, Canonical(fs::path(graph_path).parent_path()));
    BW_ASSIGN_OR_RETURN(const fs::path path, Canonical(name));
    bool allowed = IsBelow(path, folder);
    if (!allowed && !allow_links.empty()) {
      BW_ASSIGN_OR_RETURN(const fs::path root, Canonical(allow_links));
      allowed = IsBelow(path, root);
    }
    if (!allowed) {
      return Invalid("'", name, "' links to '", path.string(), "', outside of the model's folder",
                     allow_links.empty() ? "" : absl::StrCat(" and of '", allow_links, "'"),
                     "; --allow-links names a folder that links may lead into");
    }
    return InputFile::Open(path.string());
  };
}

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? std::string() : std::string(path.substr(0, slash + 1));
}

}  // namespace beamwright::ops
