// Errors that programs can read. A Fault names a field and says what is wrong with it; a status
// holds all of them as google.rpc.BadRequest, and its message lists them for people. On the way
// from the engine to an edge the fields get the names that the edge's callers use (WithFields).
// Other details: a reason with metadata (WithReason, ErrorInfo), and when to try again
// (WithRetryAfter, RetryInfo).
//
// A status whose message says more than its faults keeps that message when fields are renamed.
#include "engine/status/fault.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::status {
namespace {

// Messages hold valid UTF-8 alone.
std::string Printable(const std::string& text) {
  return CheckUtf8(text).ok() ? text : absl::CHexEscape(text);
}

Faults FaultsIn(const google::rpc::BadRequest& bad) {
  Faults faults;
  for (const auto& violation : bad.field_violations()) {
    faults.Add(violation.field(), violation.description());
  }
  return faults;
}

}  // namespace

bool operator==(const Fault& a, const Fault& b) { return a.field == b.field && a.text == b.text; }

std::string ToString(const Fault& fault) {
  return fault.field.empty() ? fault.text : absl::StrCat(fault.field, ": ", fault.text);
}

std::string ToString(absl::Span<const Fault> faults) {
  return absl::StrJoin(faults, "; ",
                       [](std::string* out, const Fault& fault) { *out += ToString(fault); });
}

absl::Status InvalidFields(absl::Span<const Fault> faults) {
  google::rpc::BadRequest bad;
  for (const Fault& fault : faults) {
    google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
    violation.set_field(Printable(fault.field));
    violation.set_description(Printable(fault.text));
  }
  return WithDetail(absl::InvalidArgumentError(ToString(FaultsIn(bad))), bad);
}

absl::Status OkOrInvalid(absl::Span<const Fault> faults) {
  return faults.empty() ? absl::OkStatus() : InvalidFields(faults);
}

Faults FaultsOf(const absl::Status& status) {
  if (const auto bad = DetailOf<google::rpc::BadRequest>(status); bad.has_value()) {
    return FaultsIn(*bad);
  }
  return status.ok() ? Faults() : Faults{{"", std::string(status.message())}};
}

absl::Status WithFields(const absl::Status& status,
                        absl::FunctionRef<std::string(absl::string_view)> rename) {
  const auto bad = DetailOf<google::rpc::BadRequest>(status);
  if (!bad.has_value()) {
    return status;
  }
  Faults faults = FaultsIn(*bad);
  const bool says_more = status.message() != ToString(faults);
  for (Fault& fault : faults) {
    fault.field = rename(fault.field);
  }
  const absl::Status invalid = InvalidFields(faults);
  absl::Status renamed(status.code(), says_more ? status.message() : invalid.message());
  for (const absl::Status* const from : {&status, &invalid}) {
    from->ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
      renamed.SetPayload(url, payload);
    });
  }
  return renamed;
}

absl::Status AtField(const absl::Status& status, absl::string_view field) {
  return absl::IsInvalidArgument(status) ? InvalidField(field, status.message())
                                         : Annotate(status, field);
}

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
