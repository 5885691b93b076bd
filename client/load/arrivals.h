// When the calls of an open loop are due: users who come at their own pace, whatever the server
// does.
#ifndef BEAMWRIGHT_CLIENT_LOAD_ARRIVALS_H_
#define BEAMWRIGHT_CLIENT_LOAD_ARRIVALS_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace beamwright::client {

enum class Arrivals {
  kPoisson,  // independent of each other: exponential gaps, so that calls come in bursts
  kEven,     // one gap of 1 / rate after the other
};

// The times of arrival one by one, as durations since the start. Equal arguments give equal times,
// on every platform. Not thread-safe.
class ArrivalTimes {
 public:
  // rate: calls a second, above 0.
  ArrivalTimes(Arrivals kind, double rate, uint64_t seed);

  // Not before the one that came last.
  absl::Duration Next();

 private:
  const Arrivals kind_;
  const double rate_;
  std::mt19937_64 random_;
  int64_t count_ = 0;
  double seconds_ = 0;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_ARRIVALS_H_
