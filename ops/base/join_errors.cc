#include "ops/base/join_errors.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace beamwright {

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
