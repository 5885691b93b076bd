// What a status of the server says besides its code and message. Calls keep all of it: as payloads
// of absl::Status, under the types' URLs.
#ifndef BEAMWRIGHT_CLIENT_ERRORS_H_
#define BEAMWRIGHT_CLIENT_ERRORS_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/source_errors.pb.h"
#include "google/rpc/status.pb.h"

namespace beamwright::client {

// Code, message and details.
absl::Status FromGrpcStatus(const grpc::Status& status);

// After how long the server says that trying again makes sense, if it says so.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Set if the call failed because each of its sources did: the request was right, and the server
// answers. What Decode, Score, Align and StreamDecode return; not set by servers before 0.2, whose
// calls succeed with an error in each result.
std::optional<v1::SourceErrors> SourceErrorsOf(const absl::Status& status);

// The error of each source of such a call, in their order; empty for any other status.
// Where the server had no room for the error of a source, that of the call stands for it.
std::vector<google::rpc::Status> ErrorsOfSources(const absl::Status& status, int num_sources);

// Makes of such a status the response that it stands for, with an error in each result and nothing
// else. Any other is left as it is.
template <typename Response>
absl::StatusOr<Response> WithErrorsInResults(absl::StatusOr<Response> response, int num_sources) {
  if (response.ok()) {
    return response;
  }
  Response errors;
  for (google::rpc::Status& error : ErrorsOfSources(response.status(), num_sources)) {
    *errors.add_results()->mutable_error() = std::move(error);
  }
  return errors.results_size() > 0 ? absl::StatusOr<Response>(std::move(errors))
                                   : std::move(response);
}

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_ERRORS_H_
