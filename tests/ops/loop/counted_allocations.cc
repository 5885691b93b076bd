#include "tests/ops/loop/counted_allocations.h"

#include <execinfo.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/sanitized.h"

namespace beamwright::testing_support {
namespace {

constexpr int kMostFrames = 12;
constexpr int kMostCallers = 4;

struct Counter {
  bool counting = false;
  int count = 0;
  void* frames[kMostCallers][kMostFrames];
  int num_frames[kMostCallers];
};
thread_local Counter counter;

[[maybe_unused]] void* Allocate(std::size_t size, std::size_t alignment) {
  if (counter.counting) {
    counter.counting = false;  // backtrace may allocate
    if (counter.count < kMostCallers) {
      counter.num_frames[counter.count] = backtrace(counter.frames[counter.count], kMostFrames);
    }
    ++counter.count;
    counter.counting = true;
  }
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}

}  // namespace

bool AllocationsAreCounted() { return !kSanitized; }

void CountAllocations() {
  counter.count = 0;
  counter.counting = true;
}

CountedAllocations StopCounting() {
  counter.counting = false;
  CountedAllocations result;
  result.count = std::exchange(counter.count, 0);
  for (int i = 0; i < std::min(result.count, kMostCallers); ++i) {
    char** const names = backtrace_symbols(counter.frames[i], counter.num_frames[i]);
    for (int frame = 0; frame < counter.num_frames[i]; ++frame) {
      absl::StrAppend(&result.callers, "\n  ", names[frame]);
    }
    absl::StrAppend(&result.callers, "\n");
    std::free(names);
  }
  return result;
}

}  // namespace beamwright::testing_support

#if !BEAMWRIGHT_SANITIZED
using beamwright::testing_support::Allocate;  // of this file

#if defined(__GNUC__) && !defined(__clang__)
// g++ looks through operator new in the sources of its group and takes free() for the wrong way to
// end what it made.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t size) { return Allocate(size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif  // !BEAMWRIGHT_SANITIZED
