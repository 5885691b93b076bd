// BundleFiles: the files of one bundle folder, kept inside it and checked against MANIFEST.sha256.
// What is hashed is the very content that is handed out, so nothing can change in between. Private
// to model/.
#ifndef BEAMWRIGHT_SERVER_MODEL_BUNDLE_FILES_H_
#define BEAMWRIGHT_SERVER_MODEL_BUNDLE_FILES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::model {

inline constexpr char kManifestName[] = "MANIFEST.sha256";

// One thread at a time.
class BundleFiles {
 public:
  // Reads the manifest, if there is one. `root`: the folder that resolved paths must not leave,
  // `folder` itself or one that contains it. Errors: NotFound, a manifest line that is none.
  static absl::StatusOr<BundleFiles> Open(const std::string& folder, const std::string& root);

  // Content of a file by its path relative to the folder. InvalidArgument: an absolute path, one
  // with "..", or one that links out of the root; NotFound and the like; DataLoss: not what the
  // manifest says.
  absl::StatusOr<std::string> Read(const std::string& path);

  // Checks what the manifest lists and Read has not read.
  absl::Status CheckRest();

 private:
  BundleFiles() = default;
  absl::Status ReadManifest();
  absl::StatusOr<std::string> Resolve(const std::string& path) const;

  std::string folder_;
  std::string resolved_root_;
  std::map<std::string, std::string> unchecked_;  // path -> lower-case hex digest
  std::map<std::string, std::string> digests_;    // all that the manifest lists
};

// Lower-case hex.
std::string Sha256(absl::string_view content);

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_SERVER_MODEL_BUNDLE_FILES_H_
