#include "engine/status/fault.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "engine/status/error_details.h"
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

}  // namespace beamwright::status
