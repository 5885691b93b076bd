// Which versions of a model are to be served, by what its folder says (serving.textproto) and by
// what lies there. Decides; loads nothing.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_VERSION_POLICY_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_VERSION_POLICY_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/serving.pb.h"
#include "engine/bundle/repository.h"

namespace beamwright::bundle {

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

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_VERSION_POLICY_H_
