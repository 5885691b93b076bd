#include "client/errors.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"

namespace beamwright::client {
namespace {

template <typename T>
std::optional<T> DetailOf(const absl::Status& status) {
  const auto payload =
      status.GetPayload(absl::StrCat("type.googleapis.com/", T::descriptor()->full_name()));
  T detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  return detail;
}

// The call's own status, for a source. Its details are the call's but for those of sources.
google::rpc::Status AsErrorOfSource(const absl::Status& status) {
  google::rpc::Status error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  const std::string of_sources =
      absl::StrCat("type.googleapis.com/", v1::SourceErrors::descriptor()->full_name());
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    if (type != of_sources) {
      google::protobuf::Any& detail = *error.add_details();
      detail.set_type_url(std::string(type));
      detail.set_value(std::string(payload));
    }
  });
  return error;
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  // The codes of gRPC and of Abseil are the same numbers.
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status whole;
  if (!status.ok() && whole.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : whole.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::RetryInfo>(status);
  if (!info.has_value()) {
    return std::nullopt;
  }
  return absl::Seconds(info->retry_delay().seconds()) +
         absl::Nanoseconds(info->retry_delay().nanos());
}

std::optional<v1::SourceErrors> SourceErrorsOf(const absl::Status& status) {
  return DetailOf<v1::SourceErrors>(status);
}

std::vector<google::rpc::Status> ErrorsOfSources(const absl::Status& status, int num_sources) {
  const auto of_sources = SourceErrorsOf(status);
  if (!of_sources.has_value()) {
    return {};
  }
  const google::rpc::Status of_call = AsErrorOfSource(status);
  std::vector<google::rpc::Status> errors(static_cast<size_t>(num_sources), of_call);
  for (const v1::SourceError& error : of_sources->errors()) {
    for (const v1::SourceRange& range : error.sources()) {
      const int64_t end = std::min<int64_t>(int64_t{range.first()} + range.count(), num_sources);
      for (int64_t i = std::max(range.first(), 0); i < end; ++i) {
        errors[static_cast<size_t>(i)] = error.has_error() ? error.error() : of_call;
      }
    }
  }
  return errors;
}

}  // namespace beamwright::client
