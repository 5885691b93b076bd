// What the machine offers to this process: CPUs (UsableCpus: affinity and cgroup's quota), cores
// and memory nodes (ReadCpuTopology), the size of the last cache, and instruction sets.
//
// InstructionSet names the best of those that kernels are written for. Products of 8-bit integers
// and bf16, and AMX tiles, are asked for separately, as not every CPU with AVX-512 has them. For
// tiles the CPU must have them, and Linux must grant the process their registers (LeaveForTiles);
// both are asked once.
#include "ops/base/cpu.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "ops/base/memory.h"

namespace beamwright {
namespace {

// Of EDX of CPUID's leaf 7.
constexpr unsigned kBf16TilesBit = 1U << 22;
constexpr unsigned kTilesBit = 1U << 24;
constexpr unsigned kInt8TilesBit = 1U << 25;

// Linux keeps the registers of tiles, 8 KiB a thread, only for processes that ask for it (5.16 and
// later; Documentation/arch/x86/xstate.rst of the kernel).
[[maybe_unused]] bool LeaveForTiles() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool has_leave = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return has_leave;
#else
  return false;
#endif
}

bool HasTiles([[maybe_unused]] unsigned bit) {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return InstructionSet() == "avx512" && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & kTilesBit) != 0 && (d & bit) != 0 && LeaveForTiles();
#else
  return false;
#endif
}

}  // namespace

std::vector<int> AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

CpuTopology ReadCpuTopology(absl::Span<const int> cpus, const std::string& root) {
  std::map<int, int> node_of;
  for (const MemoryNode& node : ReadMemoryNodes(root)) {
    for (const int cpu : node.cpus) {
      node_of[cpu] = node.number;
    }
  }
  std::set<int> cores;  // the first hyperthread of each
  std::set<int> nodes;
  for (const int cpu : cpus) {
    const std::vector<int> siblings = ReadCpuList(
        absl::StrCat(root, "/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? cpu : siblings.front());
    const auto node = node_of.find(cpu);
    nodes.insert(node == node_of.end() ? 0 : node->second);
  }
  return {static_cast<int>(cores.size()), static_cast<int>(nodes.size())};
}

int64_t LastCacheBytes() {
  constexpr int64_t kUnknown = int64_t{32} << 20;
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const int64_t bytes = sysconf(level); bytes > 0) {
      return bytes;
    }
  }
  return kUnknown;
}

int UsableCpus() {
  int cpus = static_cast<int>(AffinityCpus().size());
  const double quota = ReadCgroupLimits().cpus;
  if (quota > 0) {
    cpus = std::min(cpus, static_cast<int>(std::ceil(quota)));
  }
  return std::max(cpus, 1);
}

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::string_view InstructionSet() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return "avx512";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return "avx2";
  }
  return "x86-64";
#else
  return "generic";
#endif
}

absl::Span<const absl::string_view> InstructionSets() {
#if defined(__x86_64__)
  static constexpr absl::string_view kNames[] = {"x86-64", "avx2", "avx512"};
#else
  static constexpr absl::string_view kNames[] = {"generic"};
#endif
  return kNames;
}

bool HasInt8Products() {
#if defined(__x86_64__)
  static const bool has = InstructionSet() == "avx512" && __builtin_cpu_supports("avx512vnni");
  return has;
#else
  return false;
#endif
}

bool HasBf16Products() {
#if defined(__x86_64__)
  static const bool has = InstructionSet() == "avx512" && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

bool HasInt8Tiles() {
  static const bool has = HasTiles(kInt8TilesBit);
  return has;
}

bool HasBf16Tiles() {
  static const bool has = HasTiles(kBf16TilesBit);
  return has;
}

}  // namespace beamwright
