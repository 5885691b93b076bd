// Runs a list of jobs in a child process, so that a job that crashes or hangs costs its own result
// and no other's.
#ifndef BEAMWRIGHT_TESTS_CONFORMANCE_WORKER_H_
#define BEAMWRIGHT_TESTS_CONFORMANCE_WORKER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace beamwright::ops {

struct Outcome {
  bool crashed = false;  // died, or ran longer than the limit
  std::string error;     // empty: passed
};

// Calls job(0) ... job(count - 1) in this order in one child process; when a job kills it, another
// child goes on with the next. The caller must have no other threads. One job may take
// `limit_seconds`.
std::vector<Outcome> RunInChildren(size_t count, const std::function<absl::Status(size_t)>& job,
                                   unsigned limit_seconds);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_CONFORMANCE_WORKER_H_
