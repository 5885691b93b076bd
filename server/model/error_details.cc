#include "server/model/error_details.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace beamwright::model {
namespace {

constexpr char kDomain[] = "beamwright";
// All details travel in trailers, for which clients have little room.
constexpr size_t kMaxViolations = 8;
constexpr size_t kMaxDescription = 96;

absl::Status With(absl::Status status, const google::protobuf::Message& detail) {
  status.SetPayload(absl::StrCat("type.googleapis.com/", detail.GetDescriptor()->full_name()),
                    absl::Cord(detail.SerializeAsString()));
  return status;
}

// A piece of a text; whole characters of UTF-8.
std::string Beginning(absl::string_view text, size_t size) {
  if (text.size() > size) {
    while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) {
      --size;
    }
    text = text.substr(0, size);
  }
  return std::string(text);
}

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason, const Metadata& metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  for (const auto& [name, value] : metadata) {
    (*info.mutable_metadata())[name] = value;
  }
  return With(std::move(status), info);
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  const int64_t ms = std::max<int64_t>(absl::ToInt64Milliseconds(wait), 1);
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(ms / 1000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  return With(std::move(status), info);
}

absl::Status InvalidFields(const std::vector<std::string>& faults) {
  google::rpc::BadRequest bad;
  for (size_t i = 0; i < std::min(faults.size(), kMaxViolations); ++i) {
    const absl::string_view fault = faults[i];
    const size_t colon = fault.find(": ");
    google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
    if (colon != absl::string_view::npos) {
      violation.set_field(Beginning(fault.substr(0, colon), kMaxDescription));
    }
    violation.set_description(Beginning(
        colon == absl::string_view::npos ? fault : fault.substr(colon + 2), kMaxDescription));
  }
  return With(
      WithReason(absl::InvalidArgumentError(absl::StrJoin(faults, "; ")), reason::kInvalidRequest),
      bad);
}

const absl::Status& OutOfMemory() {
  static const auto* const status = new absl::Status(
      WithReason(absl::ResourceExhaustedError("out of memory"), reason::kOutOfMemory));
  return *status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  return info.has_value() ? info->reason() : "";
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::RetryInfo>(status);
  if (!info.has_value()) {
    return std::nullopt;
  }
  return absl::Seconds(info->retry_delay().seconds()) +
         absl::Nanoseconds(info->retry_delay().nanos());
}

}  // namespace beamwright::model
