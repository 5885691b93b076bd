#include "ops/base/threads.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace beamwright {

PeriodicThread::PeriodicThread(const char* name, absl::Duration interval,
                               std::function<void()> work)
    : thread_([this, name, interval = std::max(interval, absl::Milliseconds(1)),
               work = std::move(work)] {
        pthread_setname_np(pthread_self(), name);
        while (WaitForTurn(interval)) {
          work();
        }
      }) {}

PeriodicThread::PeriodicThread(const char* name, std::function<absl::Duration()> work)
    : thread_([this, name, work = std::move(work)] {
        pthread_setname_np(pthread_self(), name);
        while (WaitForTurn(work())) {
        }
      }) {}

PeriodicThread::~PeriodicThread() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
  }
  thread_.join();
}

absl::Duration PeriodicThread::IntervalFor(absl::Duration timeout) {
  return std::clamp(timeout / 8, absl::Milliseconds(10), absl::Seconds(1));
}

void PeriodicThread::Hurry() {
  absl::MutexLock lock(&mutex_);
  hurries_ = true;
}

bool PeriodicThread::WaitForTurn(absl::Duration interval) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &PeriodicThread::IsDue), interval);
  hurries_ = false;
  return !stops_;
}

namespace {

// The least that Linux takes.
constexpr uint64_t kShortNs = 100'000;
// Linux's own choice.
constexpr uint64_t kUsual = 0;
// Some ten times Linux's choice; the most that it takes is 100 ms.
constexpr uint64_t kLongNs = 30'000'000;

// struct sched_attr of Linux in its first version: C libraries before 2.41 have none, and the
// kernel's header for it declares types that theirs declare too.
struct Attributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};

// Returns the slice before. Policy and niceness stay what they are.
uint64_t SetTimeSlice(uint64_t ns) {
  constexpr uint32_t kNormal = 0;
  constexpr uint32_t kBatch = 3;
  Attributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
      (attributes.policy != kNormal && attributes.policy != kBatch)) {
    return kUsual;  // nothing that a slice means anything for
  }
  const uint64_t before = attributes.runtime_ns;
  attributes.runtime_ns = ns;
  // If it is refused, all is as it was.
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
  return before;
}

}  // namespace

void UseShortTimeSlices() { SetTimeSlice(kShortNs); }
void UseUsualTimeSlices() { SetTimeSlice(kUsual); }

LongTimeSlices::LongTimeSlices() : before_ns_(SetTimeSlice(kLongNs)) {}
LongTimeSlices::~LongTimeSlices() { SetTimeSlice(before_ns_); }

void SkipDeadlockSearch() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace beamwright
