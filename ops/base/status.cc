#include "ops/base/status.h"

#include <string>

namespace beamwright {

absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) {
    return status;
  }
  absl::Status result(status.code(), absl::StrCat(where, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

absl::Status JoinErrors(absl::Span<const absl::Status> statuses) {
  std::string messages;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (const absl::Status& status : statuses) {
    if (!status.ok()) {
      absl::StrAppend(&messages, messages.empty() ? "" : "; ", status.message());
      code = code == absl::StatusCode::kOk ? status.code() : code;
    }
  }
  return absl::Status(code, messages);
}

}  // namespace beamwright
