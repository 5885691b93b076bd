#include "ops/base/steady_time.h"

#include <chrono>

#include "absl/time/clock.h"

namespace beamwright {
namespace {

absl::Duration SinceBoot() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

absl::Time SteadyNow() {
  static const absl::Time boot = absl::Now() - SinceBoot();
  return boot + SinceBoot();
}

absl::Time ToSteady(absl::Time wall_time, absl::Time wall_now, absl::Time steady_now) {
  return steady_now + (wall_time - wall_now);
}

absl::Time ToSteady(absl::Time wall_time) { return ToSteady(wall_time, absl::Now(), SteadyNow()); }

absl::Time ToWall(absl::Time steady_time) {
  const absl::Duration ahead = absl::Now() - SteadyNow();
  return steady_time + absl::Trunc(ahead, absl::Milliseconds(1));
}

}  // namespace beamwright
