// How far a sequence of tokens came in a search, by the search's trace (docs/decoding.md, 'Trace').
#ifndef BEAMWRIGHT_CLIENT_CLI_FOLLOWED_PATH_H_
#define BEAMWRIGHT_CLIENT_CLI_FOLLOWED_PATH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::client {

// Pointers are into the trace, which must outlive it.
struct FollowedPath {
  // Its candidate in each step from the first on. The last one is dropped, ended, or the last that
  // there is.
  std::vector<const v1::TraceCandidate*> candidates;
  // Its tokens went on and the search, too, but the next step does not list it.
  bool unlisted = false;
};

// Where several rows hold the same tokens (groups, samples): the one that came furthest; of those
// the one that is at place `answer` of the answer (0: any), else the one that ranked best. Nothing
// in a trace can make it read beyond the trace.
FollowedPath Follow(const v1::SearchTrace& trace, absl::Span<const int32_t> tokens, int answer);

// What `row` of `step` had chosen before, from the first token on.
std::vector<int32_t> TokensBefore(const v1::SearchTrace& trace, int step, int row);

// The candidate that had the beam's last place before `dropped` in its step; null if missing.
const v1::TraceCandidate* LastKeptBefore(const v1::TraceStep& step,
                                         const v1::TraceCandidate& dropped);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_FOLLOWED_PATH_H_
