// FaultPoint: a place where tests can make something go wrong that does not go wrong by itself: a
// read that fails, an engine that hangs. Programs for people install no hook, and there it is one
// load and a branch that is never taken; the server that the chaos tests run installs one
// (tests/chaos/faults/fault_hook.cc).
#ifndef BEAMWRIGHT_OPS_BASE_FAULT_POINT_H_
#define BEAMWRIGHT_OPS_BASE_FAULT_POINT_H_

#include <atomic>

#include "absl/base/optimization.h"
#include "absl/status/status.h"

namespace beamwright {

// May take its time, or throw std::bad_alloc where memory is what may run out; a status that is not
// OK is the fault. Called on any thread.
using FaultHook = absl::Status (*)(const char* point);

inline std::atomic<FaultHook> fault_hook{nullptr};

inline absl::Status FaultPoint(const char* point) {
  const FaultHook hook = fault_hook.load(std::memory_order_relaxed);
  return ABSL_PREDICT_TRUE(hook == nullptr) ? absl::OkStatus() : hook(point);
}

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_FAULT_POINT_H_
