#include "engine/status/error_details.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace beamwright::status {
namespace {

constexpr char kDomain[] = "beamwright";

}  // namespace

absl::Status WithDetail(absl::Status status, const google::protobuf::Message& detail) {
  status.SetPayload(absl::StrCat("type.googleapis.com/", detail.GetDescriptor()->full_name()),
                    absl::Cord(detail.SerializeAsString()));
  return status;
}

absl::Status WithReason(absl::Status status, absl::string_view reason, const Metadata& metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  for (const auto& [name, value] : metadata) {
    (*info.mutable_metadata())[name] = value;
  }
  return WithDetail(std::move(status), info);
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  const int64_t ms = std::max<int64_t>(absl::ToInt64Milliseconds(wait), 1);
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(ms / 1000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  return WithDetail(std::move(status), info);
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

}  // namespace beamwright::status
