#include "engine/bundle/repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/model_config.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxVersionDigits = 18;
constexpr int kMaxDepth = 5;  // of folders in a model's folder

// Names of the folders in `path`; links to folders count.
absl::StatusOr<std::vector<std::string>> ListFolders(const fs::path& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error);
  std::vector<std::string> names;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code gone;  // a link that leads nowhere
    if (entries->is_directory(gone)) {
      names.push_back(entries->path().filename().string());
    }
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list '", path.string(), "'"));
  }
  return names;
}

bool Newer(const VersionFolder& a, const VersionFolder& b) {
  // Without leading zeros the longer number is the larger.
  return std::pair(a.version.size(), a.version) > std::pair(b.version.size(), b.version);
}

absl::StatusOr<ModelFolder> ListVersions(const fs::path& path) {
  BW_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolders(path));
  ModelFolder model;
  model.name = path.filename().string();
  model.path = path.string();
  for (const std::string& name : names) {
    if (IsVersion(name)) {
      model.versions.push_back({name, (path / name).string()});
    }
  }
  std::sort(model.versions.begin(), model.versions.end(), Newer);
  return model;
}

fs::path Normal(const std::string& path) {
  std::error_code error;
  fs::path normal = fs::absolute(path, error).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

bool IsVersion(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxVersionDigits && name[0] != '0' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

absl::StatusOr<std::vector<ModelFolder>> ScanRepository(const std::string& path) {
  const fs::path root = Normal(path);
  BW_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFolders(root));
  std::sort(names.begin(), names.end());
  std::vector<ModelFolder> models;
  for (const std::string& name : names) {
    if (name[0] == '.' || name == "lost+found") {  // the latter a file system's own
      continue;
    }
    absl::StatusOr<ModelFolder> model = ListVersions(root / name);
    if (!model.ok()) {
      models.push_back({name, (root / name).string(), {}, model.status()});
    } else if (!model->versions.empty()) {
      models.push_back(*std::move(model));
    }
  }
  return models;
}

absl::StatusOr<ModelFolder> FindModel(const std::string& path) {
  const fs::path folder = Normal(path);
  std::error_code error;
  if (fs::exists(folder / kConfigName, error)) {
    const std::string name = folder.filename().string();
    if (IsVersion(name)) {
      return ModelFolder{
          folder.parent_path().filename().string(), "", {{name, folder.string()}}, {}};
    }
    return ModelFolder{name, "", {{"1", folder.string()}}, {}};
  }
  BW_ASSIGN_OR_RETURN(ModelFolder model, ListVersions(folder));
  if (model.versions.empty()) {
    return absl::NotFoundError(absl::StrCat("'", path, "' holds neither ", kConfigName,
                                            " nor a version folder (1, 2, ...)"));
  }
  return model;
}

FolderState StateOf(const std::string& path) {
  FolderState state;
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entries(path, fs::directory_options::follow_directory_symlink,
                                           error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    struct stat info {};
    const std::string file = entries->path().string();
    if (stat(file.c_str(), &info) != 0) {
      files.push_back(absl::StrCat(file, " gone"));
    } else if (S_ISREG(info.st_mode)) {
      files.push_back(absl::StrCat(file, " ", info.st_dev, " ", info.st_ino, " ", info.st_size, " ",
                                   info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec));
      state.bytes += info.st_size;
    } else {  // where a file should be, say; its times change with what lies in it
      files.push_back(absl::StrCat(file, " ", info.st_mode & S_IFMT));
    }
    // A link that leads back up would have no end.
    if (entries.depth() >= kMaxDepth) {
      entries.disable_recursion_pending();
    }
  }
  std::sort(files.begin(), files.end());
  state.fingerprint = absl::StrCat(absl::StrJoin(files, "\n"), error ? error.message() : "");
  return state;
}

}  // namespace beamwright::bundle
