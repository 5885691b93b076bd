#include "ops/base/cpu.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "ops/base/cgroup.h"

namespace beamwright {

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
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

}  // namespace beamwright
