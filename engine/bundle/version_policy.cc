// Which versions of a model are served: a file in the model's folder says "all", the latest n, or
// specific ones, and gives labels to versions (ReadPolicy, ParsePolicy; without the file the latest
// one). ChooseVersions lists the candidates, how many of them are served, and versions that the
// policy names and the folder does not have.
#include "engine/bundle/version_policy.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/rules.h"
#include "engine/bundle/text_proto.h"
#include "engine/status/fault.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
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
