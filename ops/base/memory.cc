#include "ops/base/memory.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright {

// Memory nodes (NUMA) of a Linux machine: reads them from /sys (ReadMemoryNodes), chooses one
// (ChooseMemoryNode), and binds the process's threads and memory to it (BindToCpus,
// BindToMemoryOf).
//
// ChooseMemoryNode takes "auto" as the node with most of the CPUs that the process may use, and a
// number as that node, if the process may use one of its CPUs at all. The system calls are made
// directly, so that libnuma is not needed.

namespace {

// Of linux/mempolicy.h, which not every system's headers have.
constexpr int kBind = 2;  // MPOL_BIND
// Numbers of nodes; more than Linux has (2^10).
constexpr int kMaxNodes = 4096;
constexpr int kBitsOfWord = 8 * sizeof(unsigned long);  // NOLINT(google-runtime-int): the kernel's
// NOLINTNEXTLINE(google-runtime-int)
using NodeMask = std::array<unsigned long, kMaxNodes / kBitsOfWord>;

std::string NodesFolder(const std::string& root) { return root + "/sys/devices/system/node"; }

// "Node 0 MemTotal:       16318444 kB" is one line of the file.
int64_t ReadNodeBytes(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kilobytes = 0;
    if (fields.size() == 5 && fields[2] == "MemTotal:" && fields[4] == "kB" &&
        absl::SimpleAtoi(fields[3], &kilobytes) && kilobytes > 0 && kilobytes < int64_t{1} << 50) {
      return 1024 * kilobytes;
    }
  }
  return 0;
}

}  // namespace

std::vector<int> ReadCpuList(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  std::vector<int> numbers;
  for (const absl::string_view range : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (absl::SimpleAtoi(ends.front(), &first) && absl::SimpleAtoi(ends.back(), &last) &&
        first >= 0 && last < CPU_SETSIZE) {
      for (int number = first; number <= last; ++number) {
        numbers.push_back(number);
      }
    }
  }
  return numbers;
}

std::vector<MemoryNode> ReadMemoryNodes(const std::string& root) {
  std::vector<MemoryNode> nodes;
  for (const int number : ReadCpuList(NodesFolder(root) + "/online")) {
    const std::string folder = absl::StrCat(NodesFolder(root), "/node", number);
    nodes.push_back({number, ReadCpuList(folder + "/cpulist"), ReadNodeBytes(folder + "/meminfo")});
  }
  return nodes;
}

absl::StatusOr<MemoryNode> ChooseMemoryNode(std::vector<MemoryNode> nodes,
                                            absl::Span<const int> cpus, absl::string_view wish) {
  int wanted = 0;
  const bool is_auto = wish == "auto";
  if (!is_auto && (!absl::SimpleAtoi(wish, &wanted) || wanted < 0)) {
    return Invalid("'", wish, "' is not off, auto or the number of a memory node");
  }
  if (nodes.empty()) {
    nodes.push_back({0, {cpus.begin(), cpus.end()}});
  }
  for (MemoryNode& node : nodes) {
    std::vector<int> usable;
    std::set_intersection(node.cpus.begin(), node.cpus.end(), cpus.begin(), cpus.end(),
                          std::back_inserter(usable));
    node.cpus = std::move(usable);
  }
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [](const MemoryNode& node) { return node.cpus.empty(); }),
              nodes.end());
  const auto chosen =
      is_auto ? std::max_element(nodes.begin(), nodes.end(),
                                 [](const MemoryNode& a, const MemoryNode& b) {
                                   return a.cpus.size() < b.cpus.size();
                                 })
              : std::find_if(nodes.begin(), nodes.end(),
                             [&](const MemoryNode& node) { return node.number == wanted; });
  if (chosen == nodes.end()) {
    return Invalid("memory node '", wish,
                   "' has no CPU that this process may use; nodes with some: ",
                   absl::StrJoin(nodes, ", ", [](std::string* out, const MemoryNode& node) {
                     absl::StrAppend(out, node.number);
                   }));
  }
  return std::move(*chosen);
}

absl::Status BindToCpus(absl::Span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  return sched_setaffinity(0, sizeof(set), &set) == 0
             ? absl::OkStatus()
             : absl::ErrnoToStatus(errno, "sched_setaffinity");
}

absl::Status BindToMemoryOf(int node) {
  if (node < 0 || node >= kMaxNodes) {
    return Invalid("there is no memory node ", node);
  }
  NodeMask mask{};
  mask[static_cast<size_t>(node / kBitsOfWord)] |= 1UL << (node % kBitsOfWord);
  // The kernel reads one bit fewer than it is given.
  return syscall(SYS_set_mempolicy, kBind, mask.data(), kMaxNodes + 1) == 0
             ? absl::OkStatus()
             : absl::ErrnoToStatus(errno, "set_mempolicy");
}

int64_t BoundMemoryBytes(const std::string& root) {
  int mode = 0;
  NodeMask mask{};
  if (syscall(SYS_get_mempolicy, &mode, mask.data(), kMaxNodes + 1, nullptr, 0) != 0 ||
      (mode & 0xff) != kBind) {
    return 0;
  }
  int64_t bytes = 0;
  for (const MemoryNode& node : ReadMemoryNodes(root)) {
    const auto word = static_cast<size_t>(node.number / kBitsOfWord);
    if (word < mask.size() && ((mask[word] >> (node.number % kBitsOfWord)) & 1) != 0) {
      bytes += node.bytes;
    }
  }
  return bytes;
}

// Limits of CPUs and memory that a container's cgroups set, of version 1 and 2, read from
// /proc/self/cgroup and /sys/fs/cgroup.
//
// ForEachCgroup visits the process's cgroups and all that contain them, since the tightest limit of
// these holds (Tighten). Version 2 has one hierarchy, version 1 one for each controller, with files
// of other names (Take). A file that cannot be read is no limit.
//
// UsableMemoryBytes is the least of the cgroups' limit, the memory of the nodes that the process is
// bound to, and the machine's.

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

void WishHugePages(void* memory, size_t bytes) {
  constexpr size_t kPage = 4096;
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes < 2 * kHugePage) {
    return;
  }
  const size_t skipped = kPage - reinterpret_cast<uintptr_t>(memory) % kPage;
  madvise(static_cast<char*>(memory) + skipped, bytes - skipped, MADV_HUGEPAGE);
}

}  // namespace beamwright
