#include "ops/base/mutex_checks.h"

#include "absl/synchronization/mutex.h"

namespace beamwright {

void SkipDeadlockSearch() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace beamwright
