#include "client/load/arrivals.h"

#include <cmath>

namespace beamwright::client {

ArrivalTimes::ArrivalTimes(Arrivals kind, double rate, uint64_t seed)
    : kind_(kind), rate_(rate), random_(seed) {}

absl::Duration ArrivalTimes::Next() {
  if (kind_ == Arrivals::kEven) {
    // Counted, not added up: a thousand million gaps add up to rounding errors as well.
    return absl::Seconds(static_cast<double>(++count_) / rate_);
  }
  // Our own inversion: the standard's distributions differ between libraries.
  const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;  // below 1
  seconds_ -= std::log1p(-uniform) / rate_;
  return absl::Seconds(seconds_);
}

}  // namespace beamwright::client
