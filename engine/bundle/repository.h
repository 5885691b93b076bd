// Where bundles lie on disk, and which of their versions are served.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_REPOSITORY_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_REPOSITORY_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/serving.pb.h"

namespace beamwright::bundle {

// Where bundles lie on disk: `<repository>/<model>/<version>/`, or one model's folder, or one
// bundle. Lists the versions, newest first, and whether their files have changed.

// True for the name of a version folder: a whole number from 1 up to 18 digits, no leading zero.
bool IsVersion(absl::string_view name);

// The folder's path, absolute and without a slash at the end, so that "." and "model/" have names
// too. Links stay, for their names are what people chose.
std::string NormalFolder(const std::string& path);

struct VersionFolder {
  std::string version;
  std::string path;
};

struct ModelFolder {
  std::string name;                     // of the folder; model.textproto may say otherwise
  std::string path;                     // holds the versions; empty for a bundle alone
  std::vector<VersionFolder> versions;  // newest first; at least one if `listed` is OK
  absl::Status listed;                  // why the folder could not be listed
};

// The models of a repository, by name. Names that start with a dot, files, and folders without any
// version are passed over, and within a model whatever is not a version folder (sources, training
// scripts). NotFound and the like if the repository can't be listed; one without any model is an
// empty list.
absl::StatusOr<std::vector<ModelFolder>> ScanRepository(const std::string& path);

// One model from a path: a folder that holds model.textproto is a bundle, else its version folders
// are taken. NotFound if it has neither.
absl::StatusOr<ModelFolder> FindModel(const std::string& path);

struct LoadFailure {
  std::string model;
  std::string version;
  absl::Status reason;
};

// What the files of a folder look like from outside, subfolders included.
struct FolderState {
  // Changes when a file is written, renamed, added or removed: names, sizes, times and inodes;
  // of folders and other things their names and kinds.
  std::string fingerprint;
  int64_t bytes = 0;  // of all files
};
// Links are followed. Of a folder that can't be read the state is a separate one.
FolderState StateOf(const std::string& path);

// Which versions of a model are to be served, by what its folder says (serving.textproto) and by
// what lies there. Decides; loads nothing.

inline constexpr char kPolicyName[] = "serving.textproto";

// True for what may label a version: a letter, then up to 63 letters, digits, '.', '_' and '-'.
bool IsLabel(absl::string_view name);

// The content of a serving.textproto, `latest: 1` where it does not say which versions. Errors as
// ParseTextProto's, or InvalidArgument naming all fields that are wrong.
absl::StatusOr<v1::ServingPolicy> ParsePolicy(const std::string& text);
// The policy of a model's folder; the newest version alone if it has none. Errors as ParsePolicy's
// and ReadFile's.
absl::StatusOr<v1::ServingPolicy> ReadPolicy(const ModelFolder& folder);

struct VersionChoice {
  std::vector<VersionFolder> candidates;  // newest first
  size_t count = 0;                       // as many of them, from the newest on, are to be served,
  std::set<std::string> labelled;         // and these, however old
  std::vector<LoadFailure> missing;       // asked for, and not there
};
VersionChoice ChooseVersions(const ModelFolder& folder, const v1::ServingPolicy& policy);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_REPOSITORY_H_
