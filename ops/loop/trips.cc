#include "ops/loop/trips.h"

#include <vector>

#include "ops/base/status.h"

namespace beamwright::ops {

absl::StatusOr<bool> OneBool(absl::string_view what, const Tensor& value) {
  if (value.dtype() != DType::kBool || value.num_elements() != 1) {
    return Invalid(what, " is ", Name(value.dtype()), ToString(value.shape()),
                   "; it must be one boolean");
  }
  return *value.data<bool>();
}

absl::StatusOr<Trips> FindTrips(const Loop& loop, absl::Span<const Tensor* const> inputs,
                                int64_t parts, bool condition_stays) {
  int64_t limit = -1;
  if (loop.trip_count_input >= 0) {
    const Tensor& count = *inputs[static_cast<size_t>(loop.trip_count_input)];
    if (count.num_elements() != 1) {
      return Invalid("the trip count is ", ToString(count.shape()), "; it must be one integer");
    }
    BW_ASSIGN_OR_RETURN(const std::vector<int64_t> value, ToInt64(count));
    limit = value[0];
    if (parts >= 0 && limit > parts) {
      return Invalid("the trip count is ", limit, ", sliced inputs have ", parts, " parts");
    }
  }
  if (loop.condition_input >= 0) {
    BW_ASSIGN_OR_RETURN(
        const bool begins,
        OneBool("the condition", *inputs[static_cast<size_t>(loop.condition_input)]));
    if (!begins) {
      return Trips{0, true};
    }
  }
  Trips trips;
  trips.exact = loop.condition_result < 0 || condition_stays;
  if (limit >= 0 || parts >= 0) {
    trips.most = limit >= 0 ? limit : parts;
  } else if (loop.trip_count_input < 0 && loop.condition_result < 0) {
    trips.most = 1;
  } else if (trips.exact) {
    return Invalid("nothing ends the loop: it has no bound, and no condition that may change");
  } else {
    trips = Trips{kMaxUnboundedIterations, false, true};
  }
  return trips;
}

}  // namespace beamwright::ops
