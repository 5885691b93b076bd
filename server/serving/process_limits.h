// What the system lets the process have: threads, address space, files. Limits that are too low are
// said at the start, with what raises them, instead of ending the process when they are met.
#ifndef BEAMWRIGHT_SERVER_SERVING_PROCESS_LIMITS_H_
#define BEAMWRIGHT_SERVER_SERVING_PROCESS_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace beamwright::serving {

// From now on an exception that nothing catches (a thread that cannot be started, memory that
// cannot be had) ends the process with a message and exit code 1 instead of SIGABRT.
void ExplainTermination();

// Whether the process can have `count` more threads at once, and 256 MiB of address space: starts
// and ends them. ResourceExhausted says how many there could be, and which limits to raise.
absl::Status CheckThreads(int count);

// Raises the soft limit of open files to the hard one, which most systems keep far lower for the
// sake of programs that use select(). How many there may be then; 0 if that is unknown.
int64_t RaiseFileLimit();

// How many of `limit` files listeners leave to probes, operators and the models' files, whatever
// callers do.
int64_t FilesKeptBack(int64_t limit);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_PROCESS_LIMITS_H_
