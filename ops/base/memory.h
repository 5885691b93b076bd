// The memory of the machine and of this process: what cgroups allow it (CPUs as well), the memory
// nodes, what the process holds, and huge pages.
#ifndef BEAMWRIGHT_OPS_BASE_MEMORY_H_
#define BEAMWRIGHT_OPS_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright {

// The memory nodes (NUMA) of the machine, and how a process keeps to one of them.

struct MemoryNode {
  int number = 0;
  std::vector<int> cpus;  // ascending
  int64_t bytes = 0;      // of memory; 0: unknown
};

// Ascending by number; empty where the system does not say. root: before /sys; other than "" in
// tests.
std::vector<MemoryNode> ReadMemoryNodes(const std::string& root = "");

// The numbers of a list such as "0-3,8" in a file of /sys, ascending as Linux writes them; empty if
// there is no file.
std::vector<int> ReadCpuList(const std::string& path);

// Which node a process that may run on `cpus` keeps to. wish: "auto" (the node with the most of
// these CPUs, the first of several) or a number. What is returned has those of its CPUs that are in
// `cpus`. Where the system names no nodes, all is node 0. InvalidArgument: another wish, or a node
// without any of these CPUs.
absl::StatusOr<MemoryNode> ChooseMemoryNode(std::vector<MemoryNode> nodes,
                                            absl::Span<const int> cpus, absl::string_view wish);

// Lets the calling thread, and threads that it starts from now on, run on these CPUs alone. Errors:
// the system's.
absl::Status BindToCpus(absl::Span<const int> cpus);

// Lets them have memory of this node alone; what they have already stays where it is.
// Errors: the system's (containers often refuse it).
absl::Status BindToMemoryOf(int node);

// Memory of the nodes that the calling thread is bound to (BindToMemoryOf, or numactl); 0: it is
// bound to none.
int64_t BoundMemoryBytes(const std::string& root = "");

// What the cgroups around this process allow it: containers are bounded by them, and neither the
// number of CPUs nor the size of the memory that the system reports knows of that.

// The tightest of the process's own cgroup and those around it; 0: no limit.
struct CgroupLimits {
  double cpus = 0;
  int64_t memory_bytes = 0;
};

// Of cgroups v2 and v1. `root` stands before /proc and /sys; other than "" in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// How long the CPU quota of its cgroup, or of one around it, has held threads back: the most of
// them. None where no cgroup says so.
std::optional<double> ReadThrottledSeconds(const std::string& root = "");

// Memory that this process may use: the machine's, or that of the memory nodes that it is bound to,
// cut by its cgroups; 0 if none can be read.
int64_t UsableMemoryBytes(const std::string& root = "");

// What the kernel says that this process holds of the memory.

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t file_bytes = 0;  // of these what is of files, which the kernel can take back

  int64_t held_bytes() const { return resident_bytes - file_bytes; }
};

// Of /proc/self/statm; zeros if it cannot be read.
ProcessMemory ReadProcessMemory();

// Huge pages for large memory. What is read all over, weights or rows of a table, misses the
// processor's list of pages at every 4 KiB, and each miss costs as much as the line that is fetched
// (docs/performance.md, 'How a step runs').

// Asks the system for huge pages in [memory, memory + bytes), which are not written yet, if that
// is large enough to hold some. A wish: it is unknown whether it is fulfilled.
void WishHugePages(void* memory, size_t bytes);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_MEMORY_H_
