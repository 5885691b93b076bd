// Memory nodes (NUMA) of a Linux machine: reads them from /sys (ReadMemoryNodes), chooses one
// (ChooseMemoryNode), and binds the process's threads and memory to it (BindToCpus,
// BindToMemoryOf).
//
// ChooseMemoryNode takes "auto" as the node with most of the CPUs that the process may use, and a
// number as that node, if the process may use one of its CPUs at all. The system calls are made
// directly, so that libnuma is not needed.
#include "ops/base/memory_nodes.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright {
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

}  // namespace beamwright
