// Declares to ThreadSanitizer what absl's locks order. The distribution's Abseil is not
// instrumented, so without this every access that one of its locks guards would be reported as a
// race. Linked into the thread sanitizer's test programs only: these definitions take the place of
// the library's, call them, and add the happens-before edge. The waits on a condition are polls,
// because the library would evaluate conditions of one thread on another in code that the sanitizer
// does not see. A function that is missing here shows up as a false report; add it.
//
// The OpenMP runtime is not instrumented either; it declares its synchronization to the sanitizer
// itself (libarcher), for which its own accesses have to be ignored.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

namespace {

#define BEAMWRIGHT_STRING_OF(name) #name
#define BEAMWRIGHT_STRING(name) BEAMWRIGHT_STRING_OF(name)

// The library's own definition of a member function, given as it is mangled: `prefix` "_ZN" ("_ZNK"
// if const), then absl and its inline namespace, then `rest`.
void* Library(const char* prefix, const char* rest) {
  const std::string version = BEAMWRIGHT_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string symbol = prefix + ("4absl" + std::to_string(version.size())) + version + rest;
  void* found = dlsym(RTLD_NEXT, symbol.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "Abseil has no %s (tests/sanitizers/tsan_absl.cc)\n", symbol.c_str());
    std::abort();
  }
  return found;
}

// The functions are members of classes without virtual functions: `this` is their first argument.
template <typename Result, typename Object, typename... Args>
Result Call(void* function, Object* object, Args... args) {
  return reinterpret_cast<Result (*)(Object*, Args...)>(function)(object, args...);
}

bool Poll(absl::Mutex* mutex, const absl::Condition& condition,
          absl::Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  while (!condition.Eval()) {
    if (absl::Now() >= deadline) {
      return false;
    }
    mutex->Unlock();
    absl::SleepFor(absl::Microseconds(100));
    mutex->Lock();
  }
  return true;
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static void* const lock = Library("_ZN", "5Mutex4LockEv");
  Call<void>(lock, this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static void* const unlock = Library("_ZN", "5Mutex6UnlockEv");
  __tsan_release(this);
  Call<void>(unlock, this);
}

bool Mutex::TryLock() {
  static void* const try_lock = Library("_ZN", "5Mutex7TryLockEv");
  const bool locked = Call<bool>(try_lock, this);
  if (locked) {
    __tsan_acquire(this);
  }
  return locked;
}

// A reader's lock is taken as a writer's: readers exclude each other, which hides no race between
// readers and writers.
void Mutex::ReaderLock() { Lock(); }
void Mutex::ReaderUnlock() { Unlock(); }

void Mutex::Await(const Condition& condition) { Poll(this, condition, InfiniteFuture()); }

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  return Poll(this, condition, Now() + timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  return Poll(this, condition, deadline);
}

void Mutex::LockWhen(const Condition& condition) {
  Lock();
  Await(condition);
}

void CondVar::Wait(Mutex* mutex) {
  static void* const wait = Library("_ZN", "7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  Call<void>(wait, this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  return WaitWithDeadline(mutex, Now() + timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static void* const wait = Library("_ZN", "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool expired = Call<bool>(wait, this, mutex, deadline);
  __tsan_acquire(mutex);
  return expired;
}

void Notification::Notify() {
  static void* const notify = Library("_ZN", "12Notification6NotifyEv");
  __tsan_release(this);
  Call<void>(notify, this);
}

void Notification::WaitForNotification() const {
  static void* const wait = Library("_ZNK", "12Notification19WaitForNotificationEv");
  Call<void>(wait, this);
  __tsan_acquire(const_cast<Notification*>(this));
}

ABSL_NAMESPACE_END
}  // namespace absl
