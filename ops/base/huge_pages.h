// Huge pages for large memory. What is read all over, weights or rows of a table, misses the
// processor's list of pages at every 4 KiB, and each miss costs as much as the line that is fetched
// (docs/performance.md, 'How a step runs').
#ifndef BEAMWRIGHT_OPS_BASE_HUGE_PAGES_H_
#define BEAMWRIGHT_OPS_BASE_HUGE_PAGES_H_

#include <cstddef>

namespace beamwright {

// Asks the system for huge pages in [memory, memory + bytes), which are not written yet, if that
// is large enough to hold some. A wish: it is unknown whether it is fulfilled.
void WishHugePages(void* memory, size_t bytes);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_HUGE_PAGES_H_
