// How products of many rows have their weights at hand although no cache holds them.
//
// Strips are read one after another, each once for every block of rows. The hardware fetches ahead
// within a page of 4 KiB only, and the first cache has room for few lines that are on their way. So
// each block of rows also fetches its share of the strips that come next into the second cache:
// memory is busy all the time, not only while the first block passes (docs/performance.md).
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIP_PREFETCH_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIP_PREFETCH_H_

#include <cstdint>

namespace beamwright::ops {

// How far ahead of its reads a block fetches into the first cache. Not a multiple of 4 KiB:
// lines that far apart share a set, of which four strips would need all eight ways (a row by 1 MB
// of weights in the second cache took 1.2 times as long).
inline constexpr int64_t kPrefetchBytes = 3072;

// A weight of this size is in no cache when it is read again. Few rows then read it strip by
// strip in the order of memory, which the hardware fetches best alone: three or four strips side by
// side, which they need to keep the arithmetic busy with weights from a cache, and fetching 3 KiB
// ahead, take a fifth longer (docs/performance.md).
inline constexpr int64_t kMinBytesFromMemory = int64_t{4} << 20;

// With fewer rows arithmetic takes less time than the weights need from memory: a block then
// reads what it has fetched itself.
inline constexpr int kMinRowsToFetchNext = 8;

// How far a block of `rows` rows fetches ahead of its reads.
inline int64_t BytesAhead(bool from_memory, int rows) {
  return from_memory && rows < kMinRowsToFetchNext ? 0 : kPrefetchBytes;
}

// A block's share of the strips after its own. May lie behind the last strip: fetching cannot fail.
struct NextStrips {
  const char* first;
  int64_t step;  // bytes for each line of the block's strips
};

// `next`: behind the strips of all blocks, which have `depth` lines of `line_bytes` (a line of each
// strip that is computed at once).
inline NextStrips ShareOfNext(const void* next, int64_t line_bytes, int64_t depth, int64_t block,
                              int64_t num_blocks) {
  const int64_t step = line_bytes / num_blocks;
  return {static_cast<const char*>(next) + block * depth * step, step};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIP_PREFETCH_H_
