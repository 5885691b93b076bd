// For programs that take many locks.
#ifndef BEAMWRIGHT_OPS_BASE_MUTEX_CHECKS_H_
#define BEAMWRIGHT_OPS_BASE_MUTEX_CHECKS_H_

namespace beamwright {

// Turns off Abseil's search for deadlocks in this process. Distributions build Abseil with it, and
// then all threads meet in one lock whenever any lock is taken; gRPC takes dozens a call. Call it
// first in main.
void SkipDeadlockSearch();

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_MUTEX_CHECKS_H_
