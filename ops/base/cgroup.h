// What the cgroups around this process allow it: containers are bounded by them, and neither the
// number of CPUs nor the size of the memory that the system reports knows of that.
#ifndef BEAMWRIGHT_OPS_BASE_CGROUP_H_
#define BEAMWRIGHT_OPS_BASE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>

namespace beamwright {

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

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_CGROUP_H_
