#include "server/serving/health.h"

namespace beamwright::serving {

Health HealthOf(Phase phase, bool any_able, bool hangs) {
  Health health;
  health.started = phase != Phase::kLoading;
  health.live = !hangs;
  health.tells = phase == Phase::kServing;
  health.ready = phase == Phase::kServing && any_able && !hangs;
  if (hangs) {
    health.reason = "the engine hangs: it has work and has not come round for the liveness-timeout";
  } else if (phase == Phase::kLoading) {
    health.reason = "loading models";
  } else if (phase != Phase::kServing) {
    health.reason = "shutting down";
  } else if (!any_able) {
    health.reason = "no model can serve";
  }
  return health;
}

}  // namespace beamwright::serving
