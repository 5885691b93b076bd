// Finds models and versions in folders, and whether a folder has changed.
//
//   repository/MODEL/VERSION/model.textproto     ScanRepository: all models
//   MODEL/VERSION/... or a bundle itself         FindModel: one model
//
// Versions are numbers without leading zeros, sorted from the newest.
//
// StateOf makes a fingerprint of a bundle's folder: names, sizes, inodes and times of all files,
// also of those that links lead to, so that the server sees a change without reading the files.
// FolderWalk goes level by level, each folder once, as links may form circles; it is bounded in
// depth and entries, since a link may lead to a whole disk.
#include "engine/bundle/repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxVersionDigits = 18;
constexpr int kMaxDepth = 5;         // of folders in a model's folder
constexpr int kMaxListed = 100'000;  // entries of a repository or a model's folder
// Bound of the entries of a bundle, its subfolders and what its links lead to. With more entries,
// only the files in the folder itself decide whether it has changed: a link to a whole disk must
// not keep the loader busy for as long as the disk is large.
constexpr int kMaxWalked = 10'000;

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

// Walks through a folder and what its links lead to, level by level, each folder once: links among
// folders may lead back up, or multiply the ways to a folder with every level.
class FolderWalk {
 public:
  FolderState Run(const std::string& path) {
    std::vector<fs::path> level = {path};
    FolderState own;  // of the files in the folder itself
    for (int depth = 0; !level.empty() && depth <= kMaxDepth; ++depth) {
      std::vector<fs::path> next;
      for (const fs::path& folder : level) {
        if (!Visit(folder, next)) {
          // What was met first of so much is chance.
          own.fingerprint += absl::StrCat("\nmore than ", kMaxWalked, " entries");
          return own;
        }
      }
      level.swap(next);
      if (depth == 0) {
        own = State();
      }
    }
    return State();
  }

 private:
  FolderState State() {
    std::sort(lines_.begin(), lines_.end());
    FolderState state;
    state.fingerprint = absl::StrJoin(lines_, "\n");
    state.bytes = bytes_;
    return state;
  }

  // Appends the folders in it to `next`; false: there are too many entries.
  bool Visit(const fs::path& folder, std::vector<fs::path>& next) {
    struct stat info {};
    if (stat(folder.c_str(), &info) == 0 && !seen_.insert({info.st_dev, info.st_ino}).second) {
      return true;
    }
    std::vector<fs::path> paths;
    std::error_code error;
    fs::directory_iterator entries(folder, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      if (++num_entries_ > kMaxWalked) {
        return false;
      }
      paths.push_back(entries->path());
    }
    if (error) {
      lines_.push_back(absl::StrCat(folder.string(), " ", error.message()));
    }
    // In a fixed order: of two links to one folder always the same is followed.
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      Look(path, next);
    }
    return true;
  }

  void Look(const fs::path& path, std::vector<fs::path>& next) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) {
      lines_.push_back(absl::StrCat(path.string(), " gone"));
    } else if (S_ISREG(info.st_mode)) {
      lines_.push_back(absl::StrCat(path.string(), " ", info.st_dev, " ", info.st_ino, " ",
                                    info.st_size, " ", info.st_mtim.tv_sec, ".",
                                    info.st_mtim.tv_nsec));
      bytes_ += info.st_size;
    } else {  // where a file should be, say; its times change with what lies in it
      lines_.push_back(absl::StrCat(path.string(), " ", info.st_mode & S_IFMT));
      if (S_ISDIR(info.st_mode)) {
        next.push_back(path);
      }
    }
  }

  int num_entries_ = 0;
  std::set<std::pair<dev_t, ino_t>> seen_;  // folders
  std::vector<std::string> lines_;
  int64_t bytes_ = 0;
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

}  // namespace

std::string NormalFolder(const std::string& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

bool IsVersion(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxVersionDigits && name[0] != '0' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

absl::StatusOr<std::vector<ModelFolder>> ScanRepository(const std::string& path) {
  const fs::path root = NormalFolder(path);
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
  const fs::path folder = NormalFolder(path);
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
    // A folder of models, which the other flag takes.
    std::string hint;
    if (const auto models = ScanRepository(path); models.ok()) {
      const auto first = std::find_if(models->begin(), models->end(), [](const ModelFolder& found) {
        return !found.versions.empty();
      });
      if (first != models->end()) {
        hint =
            absl::StrCat(", but models such as '", first->name, "': give it as --model-repository");
      }
    }
    return absl::NotFoundError(absl::StrCat("'", path, "' holds neither ", kConfigName,
                                            " nor a version folder (1, 2, ...)", hint));
  }
  return model;
}

FolderState StateOf(const std::string& path) { return FolderWalk().Run(path); }

// Which versions of a model are served: a file in the model's folder says "all", the latest n, or
// specific ones, and gives labels to versions (ReadPolicy, ParsePolicy; without the file the latest
// one). ChooseVersions lists the candidates, how many of them are served, and versions that the
// policy names and the folder does not have.

namespace {

constexpr int64_t kMaxPolicyBytes = int64_t{1} << 20;
constexpr size_t kMaxLabelLength = 64;

absl::Status CheckPolicy(const v1::ServingPolicy& policy) {
  status::Faults faults;
  CheckRules(policy, "", faults);
  if (policy.has_all() && !policy.all()) {
    faults.Add("all", "is false; leave it out, or say which versions with latest or specific");
  }
  if (policy.has_specific() && policy.specific().versions().empty()) {
    faults.Add("specific.versions", "is empty");
  }
  for (const int64_t version : policy.specific().versions()) {
    if (version < 1) {
      faults.Add("specific.versions", version, " is not a valid version");
    }
  }
  for (const auto& [label, version] : policy.labels()) {
    if (!IsLabel(label)) {
      faults.Add("labels", "'", absl::CEscape(label.substr(0, kMaxLabelLength)),
                 "' is not a valid label; allowed are 1 to ", kMaxLabelLength,
                 " letters, digits, '.', '_' and '-', a letter first");
    }
    if (version < 1) {
      faults.Add("labels", version, " is not a valid version");
    }
  }
  std::sort(faults.begin(), faults.end(), [](const status::Fault& a, const status::Fault& b) {
    return std::tie(a.field, a.text) < std::tie(b.field, b.text);
  });
  return status::OkOrInvalid(faults);
}

}  // namespace

bool IsLabel(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxLabelLength &&
         absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), allowed);
}

absl::StatusOr<v1::ServingPolicy> ParsePolicy(const std::string& text) {
  v1::ServingPolicy policy;
  BW_RETURN_IF_ERROR(ParseTextProto(text, policy));
  BW_RETURN_IF_ERROR(CheckPolicy(policy));
  if (policy.versions_case() == v1::ServingPolicy::VERSIONS_NOT_SET) {
    policy.set_latest(1);
  }
  return policy;
}

absl::StatusOr<v1::ServingPolicy> ReadPolicy(const ModelFolder& folder) {
  const std::string path = (std::filesystem::path(folder.path) / kPolicyName).string();
  if (folder.path.empty() || !IsThere(path)) {
    return ParsePolicy("");
  }
  BW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPolicyBytes));
  absl::StatusOr<v1::ServingPolicy> policy = ParsePolicy(text);
  return policy.ok() ? policy : Annotate(policy.status(), absl::StrCat("'", path, "'"));
}

VersionChoice ChooseVersions(const ModelFolder& folder, const v1::ServingPolicy& policy) {
  VersionChoice choice;
  for (const auto& [label, version] : policy.labels()) {
    choice.labelled.insert(absl::StrCat(version));
  }
  if (!policy.has_specific()) {
    choice.candidates = folder.versions;
    choice.count = policy.has_all() ? folder.versions.size() : static_cast<size_t>(policy.latest());
    return choice;
  }
  std::set<std::string> wanted;
  for (const int64_t version : policy.specific().versions()) {
    wanted.insert(absl::StrCat(version));
  }
  for (const VersionFolder& version : folder.versions) {
    if (wanted.erase(version.version) > 0 || choice.labelled.count(version.version) > 0) {
      choice.candidates.push_back(version);
    }
  }
  choice.count = choice.candidates.size();
  for (const std::string& version : wanted) {
    choice.missing.push_back(
        {folder.name, version,
         absl::NotFoundError(absl::StrCat(kPolicyName, " asks for version ", version, ", and '",
                                          folder.path, "' has no such folder"))});
  }
  return choice;
}

}  // namespace beamwright::bundle
