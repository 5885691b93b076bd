#include "library/forks.h"

#include <pthread.h>

#include <atomic>

#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::library {
namespace {

// Set by the first load; a fork makes kParent of kHere in the child.
enum State { kUnused, kHere, kParent };
std::atomic<int> state{kUnused};

void AfterForkInChild() {
  if (state.load(std::memory_order_relaxed) == kHere) {
    state.store(kParent, std::memory_order_relaxed);
  }
}

}  // namespace

absl::Status EnterProcess() {
  BW_RETURN_IF_ERROR(CheckForks());
  // Once in the life of the library; what is unloaded is taken from the list by the C library.
  static const int error = pthread_atfork(nullptr, nullptr, AfterForkInChild);
  if (error != 0) {
    return absl::ResourceExhaustedError("no memory to watch for forks");
  }
  state.store(kHere, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CheckForks() {
  if (state.load(std::memory_order_relaxed) != kParent) {
    return absl::OkStatus();
  }
  return status::WithReason(
      absl::FailedPreconditionError(
          "this process was forked from one that had loaded a model, and the threads that decode "
          "do not survive a fork; load models after the fork alone, or start processes by exec "
          "('spawn' or 'forkserver' in Python's multiprocessing)"),
      status::reason::kForked);
}

}  // namespace beamwright::library
