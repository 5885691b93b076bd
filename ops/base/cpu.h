// What this process may use of the machine.
#ifndef BEAMWRIGHT_OPS_BASE_CPU_H_
#define BEAMWRIGHT_OPS_BASE_CPU_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright {

// Threads that can run at once: the CPU affinity, cut by the cgroup's CPU quota (v2 and v1),
// rounded up; at least 1.
int UsableCpus();

// Numbers of the CPUs in the affinity, ascending. A cpuset of the cgroup bounds the affinity.
std::vector<int> AffinityCpus();

// What such CPUs are: of how many cores they are hyperthreads, and in how many memory nodes
// (NUMA) they lie. root: before /sys; other than "" in tests. A CPU of which the system says
// nothing counts as a core of the first node.
struct CpuTopology {
  int cores = 0;
  int nodes = 0;
};
CpuTopology ReadCpuTopology(absl::Span<const int> cpus, const std::string& root = "");

// Bytes of the last cache before memory, which cores may share; 32 MiB where the system does not
// say.
int64_t LastCacheBytes();

// What this process's threads, ended ones too, have used of the CPUs so far, in seconds.
double ProcessCpuSeconds();

// The widest vector instruction set that kernels may use here: "avx512", "avx2" or "x86-64";
// "generic" elsewhere.
absl::string_view InstructionSet();

// All that kernels of this build are compiled for, the narrowest first.
absl::Span<const absl::string_view> InstructionSets();

// Whether the CPU multiplies 8-bit integers in its widest vectors in one instruction (AVX-512
// VNNI).
bool HasInt8Products();

// Whether it multiplies pairs of bf16 there (AVX512_BF16).
bool HasBf16Products();

// Whether it multiplies tiles (AMX) of 8-bit integers, or of bf16, in addition to AVX-512, and
// Linux gave this process leave to: it is asked once.
bool HasInt8Tiles();
bool HasBf16Tiles();

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_CPU_H_
