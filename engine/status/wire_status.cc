// Statuses as they are sent: google.rpc.Status with an ErrorInfo (reason), RetryInfo, BadRequest
// (fields at fault) and SourceErrors.
//
// Clients of gRPC refuse trailers above 8 KiB, and a message is sent twice: percent-encoded, where
// a character may take three bytes, and with the details in base64. ToRpcStatus therefore cuts the
// message and the fields, and SourceErrors to what is left (RoomInTrailer). Texts that are no UTF-8
// are escaped, since protobuf and HTTP/2 refuse them (WireText).
//
// RetryAfter says after how long trying again makes sense, and HttpCode which HTTP status a code
// becomes.
#include "engine/status/wire_status.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "google/rpc/error_details.pb.h"
#include "ops/base/utf8.h"

namespace beamwright::status {

// What a call answers when all of its sources failed, and how the list of the sources' errors is
// cut to the size that a trailer of gRPC may have. The answer is a single status, because a call
// has one; its details (v1::SourceErrors) say which source failed with what.
//
// StatusOfFailedCall:
//
// 1. Gather: equal errors are joined to one, with ranges of the sources that have it; the codes are
//    counted. A call of 10,000 sources that the queue refused has one error with the range 0 to
//    9,999.
// 2. LeaderOf: the source whose status becomes that of the call. PlaceOf is the order
//    (wire_status.h explains it): what trying again can help comes before what it cannot.
// 3. MessageOfCall: the counts and the leader's message, such as "all 720 sources failed (657
//    RESOURCE_EXHAUSTED, 63 INVALID_ARGUMENT); sources[3]: the queue ...".
// 4. FaultyFields: of an InvalidArgument, the fields at fault of all sources, as paths into the
//    request (InRequest).
//
// Shortened: if the details are longer than a trailer may be, Brief drops the errors' own details,
// cuts their messages and joins those that have become equal; then ranges are added while there is
// room, and the sources whose ranges found no room are counted (num_left_out).

namespace {

// Of one source's message within the message of the call: the trailer must have room for the
// details too.
constexpr size_t kMaxLeadBytes = 400;
// Of a source's message in Brief, where the messages do not all fit.
constexpr size_t kMaxShortBytes = 96;
// Fields that a call's error names: as many as an error of one source names.
constexpr int kMaxFaultyFields = 8;

template <typename T>
void SetDetail(const T& detail, absl::Status& status) {
  status.SetPayload(absl::StrCat("type.googleapis.com/", T::descriptor()->full_name()),
                    absl::Cord(detail.SerializeAsString()));
}

template <typename T>
bool GetDetail(const google::rpc::Status& status, T& detail) {
  return std::any_of(status.details().begin(), status.details().end(),
                     [&detail](const google::protobuf::Any& any) { return any.UnpackTo(&detail); });
}

absl::Duration WaitOf(const google::rpc::Status& error) {
  google::rpc::RetryInfo retry;
  return GetDetail(error, retry) ? absl::Seconds(retry.retry_delay().seconds()) +
                                       absl::Nanoseconds(retry.retry_delay().nanos())
                                 : absl::ZeroDuration();
}

// Place in the order of StatusOfFailedCall.
int PlaceOf(const google::rpc::Status& error) {
  switch (static_cast<absl::StatusCode>(error.code())) {
    case absl::StatusCode::kUnavailable:
      return 0;
    case absl::StatusCode::kResourceExhausted:
      return WaitOf(error) > absl::ZeroDuration() ? 1 : 5;
    case absl::StatusCode::kDeadlineExceeded:
      return 2;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return 4;
    case absl::StatusCode::kCancelled:
      return 6;
    default:
      return 3;
  }
}

// Adds the source to the ranges of the error: to the last range if it continues that, else as a new
// one. Sources come in ascending order.
void AddSource(int source, v1::SourceError& error) {
  if (error.sources_size() > 0) {
    v1::SourceRange& last = *error.mutable_sources(error.sources_size() - 1);
    if (last.first() + last.count() == source) {
      last.set_count(last.count() + 1);
      return;
    }
  }
  v1::SourceRange& range = *error.add_sources();
  range.set_first(source);
  range.set_count(1);
}

v1::SourceErrors Gather(absl::Span<const google::rpc::Status* const> errors) {
  v1::SourceErrors gathered;
  std::map<int, int> counts;
  absl::flat_hash_map<std::string, v1::SourceError*> seen;
  for (size_t i = 0; i < errors.size(); ++i) {
    ++counts[errors[i]->code()];
    v1::SourceError*& error = seen[errors.size() == 1 ? "" : errors[i]->SerializeAsString()];
    if (error == nullptr) {
      error = gathered.add_errors();
      if (errors.size() > 1) {
        *error->mutable_error() = *errors[i];
      }
    }
    AddSource(static_cast<int>(i), *error);
  }
  for (const auto& [code, count] : counts) {
    v1::CodeCount& added = *gathered.add_counts();
    added.set_code(code);
    added.set_sources(count);
  }
  return gathered;
}

// The source whose status becomes the call's; of several with the same place the one that asks for
// the longest wait, then the first.
size_t LeaderOf(absl::Span<const google::rpc::Status* const> errors) {
  size_t leader = 0;
  for (size_t i = 1; i < errors.size(); ++i) {
    const int place = PlaceOf(*errors[i]);
    const int best = PlaceOf(*errors[leader]);
    if (place < best || (place == best && WaitOf(*errors[i]) > WaitOf(*errors[leader]))) {
      leader = i;
    }
  }
  return leader;
}

// A field of a source's error as the request has it.
std::string InRequest(absl::string_view field, size_t source, const SourceNames& names) {
  if (names.list.empty() || field.empty() || absl::StartsWith(field, "options.") ||
      absl::StartsWith(field, names.list)) {
    return std::string(field);
  }
  const std::string place = absl::StrCat(names.list, "[", source, "]");
  absl::string_view rest = field;
  if (!names.element.empty() && absl::ConsumePrefix(&rest, names.element) &&
      (rest.empty() || rest[0] == '.' || rest[0] == '[')) {
    return absl::StrCat(place, rest);
  }
  return absl::StrCat(place, ".", field);
}

// The fields at fault of all sources, as far as a status lists them.
google::rpc::BadRequest FaultyFields(absl::Span<const google::rpc::Status* const> errors,
                                     const SourceNames& names) {
  google::rpc::BadRequest all;
  for (size_t i = 0; i < errors.size() && all.field_violations_size() < kMaxFaultyFields; ++i) {
    google::rpc::BadRequest bad;
    GetDetail(*errors[i], bad);
    for (const auto& violation : bad.field_violations()) {
      if (all.field_violations_size() < kMaxFaultyFields) {
        auto& added = *all.add_field_violations();
        added.set_field(InRequest(violation.field(), i, names));
        added.set_description(violation.description());
      }
    }
  }
  return all;
}

// "all 720 sources failed (657 RESOURCE_EXHAUSTED, 63 INVALID_ARGUMENT); sources[3]: the queue ..."
std::string MessageOfCall(const v1::SourceErrors& gathered, size_t num_sources, size_t leader,
                          const google::rpc::Status& error, const SourceNames& names) {
  std::string message = absl::StrCat("all ", num_sources, " ", names.list, " failed");
  if (gathered.counts_size() > 1) {
    const char* separator = " (";
    for (const v1::CodeCount& count : gathered.counts()) {
      absl::StrAppend(&message, separator, count.sources(), " ",
                      absl::StatusCodeToString(static_cast<absl::StatusCode>(count.code())));
      separator = ", ";
    }
    message += ")";
  }
  return absl::StrCat(message, "; ", names.list, "[", leader,
                      "]: ", WireText(error.message(), kMaxLeadBytes));
}

// The errors without their details and with the beginnings of their messages only. Errors that have
// become equal are joined: their ranges are sorted and merged.
v1::SourceErrors Brief(const v1::SourceErrors& errors) {
  v1::SourceErrors brief;
  absl::flat_hash_map<std::string, v1::SourceError*> seen;
  for (const v1::SourceError& error : errors.errors()) {
    google::rpc::Status shortened;
    shortened.set_code(error.error().code());
    shortened.set_message(WireText(error.error().message(), kMaxShortBytes));
    v1::SourceError*& into = seen[shortened.SerializeAsString()];
    if (into == nullptr) {
      into = brief.add_errors();
      *into->mutable_error() = std::move(shortened);
    }
    into->mutable_sources()->MergeFrom(error.sources());
  }
  for (v1::SourceError& error : *brief.mutable_errors()) {
    std::sort(error.mutable_sources()->begin(), error.mutable_sources()->end(),
              [](const auto& a, const auto& b) { return a.first() < b.first(); });
    v1::SourceError joined;
    for (const v1::SourceRange& range : error.sources()) {
      for (int i = 0; i < range.count(); ++i) {
        AddSource(range.first() + i, joined);
      }
    }
    error.mutable_sources()->Swap(joined.mutable_sources());
  }
  return brief;
}

}  // namespace

absl::Status StatusOfFailedCall(absl::Span<const google::rpc::Status* const> errors,
                                const SourceNames& names) {
  const v1::SourceErrors gathered = Gather(errors);
  const size_t leader = LeaderOf(errors);
  const google::rpc::Status& error = *errors[leader];
  absl::Status status = FromRpcStatus(error);
  if (errors.size() > 1) {
    status =
        absl::Status(status.code(), MessageOfCall(gathered, errors.size(), leader, error, names));
    for (const google::protobuf::Any& detail : error.details()) {
      status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  if (absl::IsInvalidArgument(status)) {
    const google::rpc::BadRequest fields = FaultyFields(errors, names);
    if (fields.field_violations_size() > 0) {
      SetDetail(fields, status);
    }
  }
  SetDetail(gathered, status);
  return status;
}

v1::SourceErrors Shortened(const v1::SourceErrors& errors, size_t max_bytes) {
  const bool of_one_source = errors.errors_size() == 1 && !errors.errors(0).has_error();
  if (of_one_source || errors.ByteSizeLong() <= max_bytes) {
    return errors;
  }
  // A range is a field of two numbers; its tags and length take three bytes more.
  constexpr size_t kBytesBesides = 16;
  v1::SourceErrors brief = Brief(errors);
  v1::SourceErrors result;
  *result.mutable_counts() = errors.counts();
  size_t bytes = result.ByteSizeLong() + kBytesBesides;
  int num_left_out = 0;
  for (v1::SourceError& error : *brief.mutable_errors()) {
    v1::SourceError kept;
    kept.mutable_error()->Swap(error.mutable_error());
    size_t size = kept.ByteSizeLong() + kBytesBesides;
    for (const v1::SourceRange& range : error.sources()) {
      const size_t range_size = range.ByteSizeLong() + 2;
      if (bytes + size + range_size <= max_bytes) {
        size += range_size;
        *kept.add_sources() = range;
      } else {
        num_left_out += range.count();
      }
    }
    if (kept.sources_size() > 0) {
      bytes += size;
      *result.add_errors() = std::move(kept);
    }
  }
  result.set_num_left_out(num_left_out);
  return result;
}

namespace {

// Clients refuse trailers above 8 KiB; a character may take three bytes each there, and the message
// is sent once more, in base64, with the details.
constexpr size_t kMaxMessageBytes = 1024;
// The same for metadata of an ErrorInfo.
constexpr size_t kMaxDetailBytes = 1024;

// Most faults of a request that are sent, and the bytes of each.
constexpr int kMaxViolations = 8;
constexpr size_t kMaxDescription = 96;

// Bytes of message and details together, as they are sent: the rest of 8 KiB is for other trailers.
constexpr size_t kMaxTrailerBytes = 7 << 10;

constexpr absl::Duration kRetrySoon = absl::Milliseconds(100);
constexpr absl::Duration kRetryLater = absl::Seconds(1);

// The reason of an error that has none.
std::string ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return reason::kInvalidRequest;
    case absl::StatusCode::kResourceExhausted:
      return reason::kTooLarge;
    default:
      return absl::StatusCodeToString(code);
  }
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

// The first faults, as many as there is room for.
google::rpc::BadRequest Shortened(const google::rpc::BadRequest& bad) {
  google::rpc::BadRequest result;
  for (int i = 0; i < std::min(bad.field_violations_size(), kMaxViolations); ++i) {
    google::rpc::BadRequest::FieldViolation& violation = *result.add_field_violations();
    violation.set_field(Beginning(bad.field_violations(i).field(), kMaxDescription));
    violation.set_description(Beginning(bad.field_violations(i).description(), kMaxDescription));
  }
  return result;
}

void AddDetail(const google::protobuf::Message& detail, google::rpc::Status& status) {
  status.add_details()->PackFrom(detail);
}

// How many bytes of a message gRPC makes of it: all but printable ASCII is percent-encoded.
size_t PercentEncodedSize(absl::string_view text) {
  size_t size = 0;
  for (const char c : text) {
    size += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  }
  return size;
}

// How many bytes more the details of a status may take in a trailer, where they are in base64.
size_t RoomInTrailer(const google::rpc::Status& status) {
  // The detail's type URL, and what base64 and protobuf add around it.
  constexpr size_t kAround = 96;
  const size_t message = PercentEncodedSize(status.message());
  const size_t all = message < kMaxTrailerBytes ? (kMaxTrailerBytes - message) / 4 * 3 : 0;
  const size_t taken = status.ByteSizeLong() + kAround;
  return taken < all ? all - taken : 0;
}

}  // namespace

absl::StatusCode WireCode(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown ? absl::StatusCode::kInternal : code;
}

std::string WireText(absl::string_view original, size_t max_bytes) {
  std::string text(original);
  if (!CheckUtf8(text).ok()) {
    text = absl::CHexEscape(text);
  }
  if (text.size() <= max_bytes) {
    return text;
  }
  size_t end = max_bytes;
  while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), " ... (", text.size() - end, " bytes more)");
}

std::string WireMessage(const absl::Status& status) {
  return WireText(status.message(), kMaxMessageBytes);
}

google::rpc::Status ToRpcStatus(const absl::Status& status, Room room) {
  google::rpc::Status result;
  const absl::StatusCode code = WireCode(status.code());
  result.set_code(static_cast<int>(code));
  result.set_message(WireMessage(status));
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  AddDetail(info.has_value() && info->ByteSizeLong() <= kMaxDetailBytes
                ? *info
                : *DetailOf<google::rpc::ErrorInfo>(
                      WithReason(status, info.has_value() ? info->reason() : ReasonOfCode(code))),
            result);
  if (const absl::Duration wait = RetryAfter(status); wait != absl::InfiniteDuration()) {
    AddDetail(*DetailOf<google::rpc::RetryInfo>(WithRetryAfter(status, wait)), result);
  }
  if (const auto bad = DetailOf<google::rpc::BadRequest>(status); bad.has_value()) {
    AddDetail(Shortened(*bad), result);
  }
  if (const auto sources = DetailOf<v1::SourceErrors>(status); sources.has_value()) {
    AddDetail(room == Room::kBody ? *sources : Shortened(*sources, RoomInTrailer(result)), result);
  }
  return result;
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  for (const google::protobuf::Any& detail : status.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

absl::Duration RetryAfter(const absl::Status& status) {
  if (const std::optional<absl::Duration> wait = RetryAfterOf(status); wait.has_value()) {
    return *wait;
  }
  if (absl::IsUnavailable(status)) {
    return kRetryLater;
  }
  const std::string why = ReasonOf(status);
  // What is too large will not become smaller.
  const bool for_good = why.empty() || why == reason::kTooLarge || why == reason::kReplyTooLarge;
  return absl::IsResourceExhausted(status) && !for_good ? kRetrySoon : absl::InfiniteDuration();
}

int HttpCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;  // nginx's "client closed request"; the client has gone
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace beamwright::status
