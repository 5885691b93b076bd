#include "engine/bundle/repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
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
// Folders with more entries are refused. A bundle has some dozen files; a link to a whole disk
// would keep the loader busy for as long as the disk is large.
constexpr int kMaxListed = 100'000;  // in a repository or a model's folder
constexpr int kMaxWalked = 10'000;   // in a bundle, its subfolders and what its links lead to

// Names of the folders in `path`; links to folders count.
absl::StatusOr<std::vector<std::string>> ListFolders(const fs::path& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error);
  std::vector<std::string> names;
  int num_entries = 0;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (++num_entries > kMaxListed) {
      return Invalid("'", path.string(), "' has more than ", kMaxListed,
                     " entries; at most that many are listed");
    }
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

// Looks at a folder and at what its links lead to, each folder once: links among folders may lead
// back up, or multiply the ways to a folder with every level.
class Walk {
 public:
  explicit Walk(int max_depth) : max_depth_(max_depth) {}

  FolderState Run(const std::string& path) {
    Visit(path, 0);
    if (!state_.walked.ok()) {
      // The entries that were met first say nothing, and may be others in every walk.
      state_.fingerprint = absl::StrCat("more than ", kMaxWalked, " entries");
      return std::move(state_);
    }
    std::sort(lines_.begin(), lines_.end());
    state_.fingerprint = absl::StrJoin(lines_, "\n");
    return std::move(state_);
  }

 private:
  void Visit(const fs::path& folder, int depth) {
    struct stat info {};
    if (stat(folder.c_str(), &info) == 0 && !seen_.insert({info.st_dev, info.st_ino}).second) {
      return;
    }
    std::vector<fs::path> paths;
    std::error_code error;
    fs::directory_iterator entries(folder, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      if (++num_entries_ > kMaxWalked) {
        state_.walked =
            Invalid("the folder has more than ", kMaxWalked,
                    " entries, links followed; the walk ended in '", folder.string(), "'");
        return;
      }
      paths.push_back(entries->path());
    }
    if (error) {
      lines_.push_back(absl::StrCat(folder.string(), " ", error.message()));
    }
    // In a fixed order: of two links to one folder always the same is followed.
    std::sort(paths.begin(), paths.end());
    for (size_t i = 0; i < paths.size() && state_.walked.ok(); ++i) {
      Look(paths[i], depth);
    }
  }

  void Look(const fs::path& path, int depth) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) {
      lines_.push_back(absl::StrCat(path.string(), " gone"));
    } else if (S_ISREG(info.st_mode)) {
      lines_.push_back(absl::StrCat(path.string(), " ", info.st_dev, " ", info.st_ino, " ",
                                    info.st_size, " ", info.st_mtim.tv_sec, ".",
                                    info.st_mtim.tv_nsec));
      state_.bytes += info.st_size;
    } else {  // where a file should be, say; its times change with what lies in it
      lines_.push_back(absl::StrCat(path.string(), " ", info.st_mode & S_IFMT));
      if (S_ISDIR(info.st_mode) && depth < max_depth_) {
        Visit(path, depth + 1);
      }
    }
  }

  const int max_depth_;
  int num_entries_ = 0;
  std::set<std::pair<dev_t, ino_t>> seen_;  // folders
  std::vector<std::string> lines_;
  FolderState state_;
};

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

FolderState StateOf(const std::string& path, int max_depth) { return Walk(max_depth).Run(path); }

}  // namespace beamwright::bundle
