// A program with one fault on purpose, named by its argument; "none" is the same work without
// fault. tests/sanitizers/CMakeLists.txt checks that the sanitizer builds see each of them.
#include <omp.h>

#include <atomic>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace {

// Two threads add to one counter, with or without a lock. A library without instrumentation holds
// the lock's code, so "none" also checks that its happens-before edges are known.
int Count(bool locked) {
  absl::Mutex mutex;
  int count = 0;
  std::atomic<int> started{0};
  auto add = [&] {
    // Both run at the same time, or the sanitizer may take the second for the first; a relaxed
    // counter orders nothing.
    started.fetch_add(1, std::memory_order_relaxed);
    while (started.load(std::memory_order_relaxed) < 2) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 1000; ++i) {
      if (locked) {
        absl::MutexLock lock(&mutex);
        ++count;
      } else {
        ++count;
      }
    }
  };
  std::thread one(add), other(add);
  one.join();
  other.join();
  return count;
}

// One thread hands values to another through a wait on a condition, the other hands their sum back
// through a notification.
int HandOver() {
  absl::Mutex mutex;
  absl::Notification done;
  int value = 0;
  int sum = 0;
  std::thread taker([&] {
    for (int i = 1; i <= 100; ++i) {
      absl::MutexLock lock(&mutex);
      mutex.Await(absl::Condition(
          +[](int* v) { return *v != 0; }, &value));
      sum += value;
      value = 0;
    }
    done.Notify();
  });
  for (int i = 1; i <= 100; ++i) {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(
        +[](int* v) { return *v == 0; }, &value));
    value = i;
  }
  done.WaitForNotification();
  const int result = sum;
  taker.join();
  return result;
}

// A team passes values from thread to thread over a barrier, or without one.
int Rotate(bool barrier) {
  constexpr int kThreads = 4;
  std::vector<int> values(kThreads, 0);
  int sum = 0;
#pragma omp parallel num_threads(kThreads) shared(values, sum)
  {
    const int thread = omp_get_thread_num();
    for (int round = 0; round < 50; ++round) {
      values[thread] = round;
      if (barrier) {
#pragma omp barrier
      }
      const int next = values[(thread + 1) % kThreads];
#pragma omp critical
      sum += next;
#pragma omp barrier
    }
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "none";
  int result = Count(fault != "race") + HandOver() + Rotate(fault != "openmp-race");
  std::vector<int>* values = new std::vector<int>(argc);
  volatile int past_the_end = fault == "overflow" ? argc : 0;
  result += values->data()[past_the_end];
  if (fault == "leak") {
    values = nullptr;
  }
  delete values;
  int large = std::numeric_limits<int>::max() - 1 + (fault == "signed-overflow" ? argc : 0);
  result ^= large;
  std::printf("%d\n", result);
  return 0;
}
