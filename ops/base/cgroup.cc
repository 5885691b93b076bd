// Limits of CPUs and memory that a container's cgroups set, of version 1 and 2, read from
// /proc/self/cgroup and /sys/fs/cgroup.
//
// ForEachCgroup visits the process's cgroups and all that contain them, since the tightest limit of
// these holds (Tighten). Version 2 has one hierarchy, version 1 one for each controller, with files
// of other names (Take). A file that cannot be read is no limit.
//
// UsableMemoryBytes is the least of the cgroups' limit, the memory of the nodes that the process is
// bound to, and the machine's.
#include "ops/base/cgroup.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/base/memory_nodes.h"

namespace beamwright {
namespace {

// Deeper than cgroups are nested.
constexpr int kMaxDepth = 64;

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

// 0 for what is not a number above 0: "max", "-1", a file that is not there.
double Number(absl::string_view text) {
  double number = 0;
  return absl::SimpleAtod(absl::StripAsciiWhitespace(text), &number) ? std::max(number, 0.0) : 0;
}

double Quota(absl::string_view quota, absl::string_view period) {
  return Number(period) > 0 ? Number(quota) / Number(period) : 0;
}

int64_t Bytes(absl::string_view text) {
  int64_t bytes = 0;
  // v1 writes the largest multiple of a page for none.
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &bytes) && bytes < int64_t{1} << 60
             ? std::max<int64_t>(bytes, 0)
             : 0;
}

template <typename T>
void Tighten(T value, T& limit) {
  limit = value > 0 && (limit == 0 || value < limit) ? value : limit;
}

// What one cgroup says, of version 2 or of a controller of version 1.
void Take(const std::string& folder, absl::string_view controllers, CgroupLimits& limits) {
  if (controllers.empty()) {
    const std::string cpu_max = ReadSmallFile(folder + "/cpu.max");
    const std::vector<absl::string_view> pair = absl::StrSplit(cpu_max, ' ');
    Tighten(pair.size() == 2 ? Quota(pair[0], pair[1]) : 0, limits.cpus);
    Tighten(Bytes(ReadSmallFile(folder + "/memory.max")), limits.memory_bytes);
  } else if (controllers == "memory") {
    Tighten(Bytes(ReadSmallFile(folder + "/memory.limit_in_bytes")), limits.memory_bytes);
  } else {
    Tighten(Quota(ReadSmallFile(folder + "/cpu.cfs_quota_us"),
                  ReadSmallFile(folder + "/cpu.cfs_period_us")),
            limits.cpus);
  }
}

// Calls visit(folder, controllers) for the process's cgroups and those around them; controllers are
// empty for version 2.
template <typename Visit>
void ForEachCgroup(const std::string& root, Visit visit) {
  const std::string cgroups = ReadSmallFile(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    // "0::/path" of version 2, "7:cpu,cpuacct:/path" of version 1.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const std::string& controllers = fields[1];
    const bool is_cpu =
        controllers == "cpu" || controllers == "cpu,cpuacct" || controllers == "cpuacct,cpu";
    if (!controllers.empty() && controllers != "memory" && !is_cpu) {
      continue;
    }
    const std::string mount = absl::StrCat(root, "/sys/fs/cgroup",
                                           controllers.empty() ? ""
                                           : is_cpu            ? "/cpu"
                                                               : "/memory");
    std::string path = fields[2] == "/" ? "" : fields[2];
    for (int depth = 0; depth < kMaxDepth; ++depth) {
      visit(mount + path, controllers);
      if (path.empty()) {
        break;
      }
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  ForEachCgroup(root, [&](const std::string& folder, absl::string_view controllers) {
    Take(folder, controllers, limits);
  });
  return limits;
}

std::optional<double> ReadThrottledSeconds(const std::string& root) {
  std::optional<double> most;
  ForEachCgroup(root, [&](const std::string& folder, absl::string_view controllers) {
    if (controllers == "memory") {
      return;
    }
    const std::string stat = ReadSmallFile(folder + "/cpu.stat");
    for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
      const std::pair<absl::string_view, absl::string_view> entry = absl::StrSplit(line, ' ');
      if (entry.first == (controllers.empty() ? "throttled_usec" : "throttled_time")) {
        const double seconds = Number(entry.second) * (controllers.empty() ? 1e-6 : 1e-9);
        most = std::max(most.value_or(0), seconds);
      }
    }
  });
  return most;
}

int64_t UsableMemoryBytes(const std::string& root) {
  int64_t bytes = ReadCgroupLimits(root).memory_bytes;
  Tighten(BoundMemoryBytes(root), bytes);
  const std::string meminfo = ReadSmallFile(root + "/proc/meminfo");
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() == 3 && fields[0] == "MemTotal:" && fields[2] == "kB") {
      Tighten(1024 * Bytes(fields[1]), bytes);
    }
  }
  return bytes;
}

}  // namespace beamwright
