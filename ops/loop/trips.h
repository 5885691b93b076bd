// How often a loop iterates, as its trip count, its condition and its slices say. Private to loop/.
#ifndef BEAMWRIGHT_OPS_LOOP_TRIPS_H_
#define BEAMWRIGHT_OPS_LOOP_TRIPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

struct Trips {
  int64_t most = 0;        // iterations at most
  bool exact = false;      // as many as `most`
  bool unbounded = false;  // `most` is only the limit of patience
};

// inputs: the node's. parts: what slices have, -1 if nothing is sliced. condition_stays: the body's
// condition is known to be true. InvalidArgument where nothing ends the loop, or parts do not
// suffice for its trip count.
absl::StatusOr<Trips> FindTrips(const Loop& loop, absl::Span<const Tensor* const> inputs,
                                int64_t parts, bool condition_stays);

// The value of a condition; InvalidArgument, naming `what`, unless it is one boolean.
absl::StatusOr<bool> OneBool(absl::string_view what, const Tensor& value);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_TRIPS_H_
