// Counts every operator new of a thread, and remembers who called. Replaces the program's own.
#ifndef BEAMWRIGHT_TESTS_OPS_LOOP_COUNTED_ALLOCATIONS_H_
#define BEAMWRIGHT_TESTS_OPS_LOOP_COUNTED_ALLOCATIONS_H_

#include <string>

namespace beamwright::testing_support {

struct CountedAllocations {
  int count = 0;
  std::string callers;  // stacks of the first few
};

// False under sanitizers, which bring other allocators: nothing is counted there.
bool AllocationsAreCounted();
// From now on, on this thread.
void CountAllocations();
// What there was since then; nothing if nothing was counted.
CountedAllocations StopCounting();

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_OPS_LOOP_COUNTED_ALLOCATIONS_H_
