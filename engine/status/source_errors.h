// What a call ends with when none of its sources has an answer: a status that a client's retry
// policy can act on, with the error of each source in its details (beamwright.v1.SourceErrors).
// docs/operations.md, 'Calls without an answer', promises the rules.
#ifndef BEAMWRIGHT_ENGINE_STATUS_SOURCE_ERRORS_H_
#define BEAMWRIGHT_ENGINE_STATUS_SOURCE_ERRORS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/source_errors.pb.h"
#include "google/rpc/status.pb.h"

namespace beamwright::status {

// How a request names its sources: "sources[2].ids[1]" is what errors of the source call
// "source.ids[1]".
struct SourceNames {
  absl::string_view list;     // empty: the request has no list
  absl::string_view element;  // that errors name the source by itself; empty: its fields alone
};

// The status of a call all of whose sources failed; errors: at least one, as they would be sent.
// Of one source it is that source's status. Of several it has the code, the reason and the longest
// wait of those that stand first in this order: UNAVAILABLE; RESOURCE_EXHAUSTED that says when to
// try again; DEADLINE_EXCEEDED; faults of the server; faults of the request; what never fits;
// CANCELLED. So a client that tries again whenever that can help a source loses none, and one that
// gets a fault of its request knows that trying again helps no source.
absl::Status StatusOfFailedCall(absl::Span<const google::rpc::Status* const> errors,
                                const SourceNames& names);

// The same for the results of an answer; OK if one of them is not an error.
template <typename Results>
absl::Status OutcomeOf(const Results& results, const SourceNames& names) {
  std::vector<const google::rpc::Status*> errors;
  for (const auto& result : results) {
    if (!result.has_error()) {
      return absl::OkStatus();
    }
    errors.push_back(&result.error());
  }
  return errors.empty() ? absl::OkStatus() : StatusOfFailedCall(errors, names);
}

// How many results are errors.
template <typename Results>
int CountErrors(const Results& results) {
  int count = 0;
  for (const auto& result : results) {
    count += result.has_error() ? 1 : 0;
  }
  return count;
}

// Cut to `max_bytes` as a message. First to go are details and all but the
// beginning of messages, then the errors of the last sources; the counts stay whatever the limit.
v1::SourceErrors Shortened(const v1::SourceErrors& errors, size_t max_bytes);

}  // namespace beamwright::status

#endif  // BEAMWRIGHT_ENGINE_STATUS_SOURCE_ERRORS_H_
