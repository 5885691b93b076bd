// What the kernel says that this process holds of the memory.
#ifndef BEAMWRIGHT_OPS_BASE_PROCESS_MEMORY_H_
#define BEAMWRIGHT_OPS_BASE_PROCESS_MEMORY_H_

#include <cstdint>

namespace beamwright {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t file_bytes = 0;  // of these what is of files, which the kernel can take back

  int64_t held_bytes() const { return resident_bytes - file_bytes; }
};

// Of /proc/self/statm; zeros if it cannot be read.
ProcessMemory ReadProcessMemory();

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_PROCESS_MEMORY_H_
