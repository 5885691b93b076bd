// BundleHead: what a bundle says of itself, for those who have no need of its graphs yet.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_HEAD_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_HEAD_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::bundle {

struct BundleHead {
  std::string name;
  std::string version;  // "1" where the folder's name is not a version number
  v1::ModelConfig config;
};

// Reads model.textproto alone. Errors as LoadBundle's (bundle.h).
absl::StatusOr<BundleHead> ReadBundleHead(const std::string& folder,
                                          absl::Span<const std::string> allow_links = {});

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_HEAD_H_
