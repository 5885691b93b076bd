#include "ops/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace beamwright {

void WishHugePages(void* memory, size_t bytes) {
  constexpr size_t kPage = 4096;
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes < 2 * kHugePage) {
    return;
  }
  const size_t skipped = kPage - reinterpret_cast<uintptr_t>(memory) % kPage;
  madvise(static_cast<char*>(memory) + skipped, bytes - skipped, MADV_HUGEPAGE);
}

}  // namespace beamwright
