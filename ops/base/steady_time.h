// The clock of deadlines, ages and pauses. It runs at the rate of the wall clock and never jumps:
// if somebody sets the machine's time while calls run, none of them ends early or late.
#ifndef BEAMWRIGHT_OPS_BASE_STEADY_TIME_H_
#define BEAMWRIGHT_OPS_BASE_STEADY_TIME_H_

#include "absl/time/time.h"

namespace beamwright {

// The wall-clock time when the process first called this, plus the time that has passed since by
// the monotonic clock. Thread-safe.
absl::Time SteadyNow();

// `wall_time`, such as a deadline that gRPC reads from a call's headers, by SteadyNow. Convert
// once, when the time arrives: the wall clock may jump afterwards. wall_now, steady_now: the
// present by both clocks. Infinite times stay infinite.
absl::Time ToSteady(absl::Time wall_time, absl::Time wall_now, absl::Time steady_now);
absl::Time ToSteady(absl::Time wall_time);

// The inverse, for times that leave the process, as those of spans. The clocks are compared to the
// millisecond, so the order of near times stays.
absl::Time ToWall(absl::Time steady_time);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_STEADY_TIME_H_
