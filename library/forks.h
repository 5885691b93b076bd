// Whether this process was forked from one that has loaded a model. The engine's threads do not
// survive a fork, and locks that they held stay held in the child: a thread that waited there for
// an answer, or for such a lock, would wait for ever.
#ifndef BEAMWRIGHT_LIBRARY_FORKS_H_
#define BEAMWRIGHT_LIBRARY_FORKS_H_

#include "absl/status/status.h"

namespace beamwright::library {

// Says that a model is loaded in this process from here on. FailedPrecondition as CheckForks.
absl::Status EnterProcess();

// FailedPrecondition (reason FORKED) in a process that was forked after EnterProcess. Takes no
// lock and allocates only for the error.
absl::Status CheckForks();

}  // namespace beamwright::library

#endif  // BEAMWRIGHT_LIBRARY_FORKS_H_
