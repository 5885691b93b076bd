#include "ops/base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace beamwright {
namespace {

// Files under /proc and /sys report size 0, so ReadFile does not serve.
std::string ReadSmallFile(const std::string& path) {
  std::string content;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    char buffer[4096];
    content.assign(buffer, std::fread(buffer, 1, sizeof(buffer), file));
    std::fclose(file);
  }
  return content;
}

// Quota in CPUs from a "quota period" pair; 0: none.
double Quota(absl::string_view quota, absl::string_view period) {
  double q = 0;
  double p = 0;
  if (!absl::SimpleAtod(absl::StripAsciiWhitespace(quota), &q) ||
      !absl::SimpleAtod(absl::StripAsciiWhitespace(period), &p) || q <= 0 || p <= 0) {
    return 0;
  }
  return q / p;
}

// The tightest quota of this process's cgroup and the ones around it; 0: none.
double CgroupQuota() {
  double tightest = 0;
  const auto take = [&](double quota) {
    if (quota > 0 && (tightest == 0 || quota < tightest)) {
      tightest = quota;
    }
  };
  for (absl::string_view line : absl::StrSplit(ReadSmallFile("/proc/self/cgroup"), '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const bool v2 = fields[1].empty();
    const bool v1 = fields[1] == "cpu" || fields[1] == "cpu,cpuacct" || fields[1] == "cpuacct,cpu";
    if (!v2 && !v1) {
      continue;
    }
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    std::string path = fields[2] == "/" ? "" : fields[2];
    for (int depth = 0; depth < 64; ++depth) {
      if (v2) {
        const std::vector<std::string> pair =
            absl::StrSplit(ReadSmallFile(root + path + "/cpu.max"), ' ');
        take(pair.size() == 2 ? Quota(pair[0], pair[1]) : 0);
      } else {
        take(Quota(ReadSmallFile(root + path + "/cpu.cfs_quota_us"),
                   ReadSmallFile(root + path + "/cpu.cfs_period_us")));
      }
      if (path.empty()) {
        break;
      }
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return tightest;
}

}  // namespace

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = CgroupQuota();
  if (quota > 0) {
    cpus = std::min(cpus, static_cast<int>(std::ceil(quota)));
  }
  return std::max(cpus, 1);
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

}  // namespace beamwright
