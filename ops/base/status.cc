#include "ops/base/status.h"

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

}  // namespace beamwright
