// The memory nodes (NUMA) of the machine, and how a process keeps to one of them.
#ifndef BEAMWRIGHT_OPS_BASE_MEMORY_NODES_H_
#define BEAMWRIGHT_OPS_BASE_MEMORY_NODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright {

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

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_MEMORY_NODES_H_
