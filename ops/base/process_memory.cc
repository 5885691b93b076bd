#include "ops/base/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace beamwright {

ProcessMemory ReadProcessMemory() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  int64_t of_files = 0;
  if (!(statm >> total >> resident >> of_files)) {
    return {};
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {resident * page, of_files * page};
}

}  // namespace beamwright
