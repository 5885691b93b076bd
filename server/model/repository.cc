#include "server/model/repository.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "ops/base/status.h"
#include "server/model/model_config.h"

namespace beamwright::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxVersionDigits = 18;

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
      models.push_back({name, {}, model.status()});
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
      return ModelFolder{folder.parent_path().filename().string(), {{name, folder.string()}}, {}};
    }
    return ModelFolder{name, {{"1", folder.string()}}, {}};
  }
  BW_ASSIGN_OR_RETURN(ModelFolder model, ListVersions(folder));
  if (model.versions.empty()) {
    return absl::NotFoundError(absl::StrCat("'", path, "' holds neither ", kConfigName,
                                            " nor a version folder (1, 2, ...)"));
  }
  return model;
}

LoadReport LoadNewest(const ModelFolder& folder,
                      const std::function<absl::Status(Bundle bundle)>& accept) {
  LoadReport report;
  if (!folder.listed.ok()) {
    report.failures.push_back({folder.name, "", folder.listed});
  }
  for (const VersionFolder& version : folder.versions) {
    absl::StatusOr<Bundle> bundle = LoadBundle(version.path);
    absl::Status status = bundle.status();
    if (status.ok()) {
      status = Annotate(accept(*std::move(bundle)), absl::StrCat("bundle '", version.path, "'"));
    }
    if (status.ok()) {
      report.loaded = version;
      break;
    }
    report.failures.push_back({folder.name, version.version, status});
  }
  return report;
}

}  // namespace beamwright::model
