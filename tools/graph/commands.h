// The commands of beamwright-graph on graph files, once the command line is read
// (tools/graph_tool.h).
#ifndef BEAMWRIGHT_TOOLS_GRAPH_COMMANDS_H_
#define BEAMWRIGHT_TOOLS_GRAPH_COMMANDS_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/graph/check.h"

namespace beamwright::ops {

struct ShowFlags {
  std::string file;
  std::string allow_links;
  bool json = false;
  bool dot = false;
};
absl::Status Show(const ShowFlags& flags, std::ostream& output);

struct RunFlags {
  std::string file;
  std::string allow_links;
  std::string inputs;
  std::string outputs;
  int threads = 1;
  // Bytes of all tensors together; 0: 2 GiB, or what machine and cgroup have if that is less.
  int64_t max_memory = 0;
  double timeout_seconds = 60;
};
absl::Status Run(const RunFlags& flags, std::ostream& output);

// What `check` finds in one graph file. A file that the server can't read has the reader's error,
// or all operators that are missing.
GraphFindings CheckFile(const std::string& path, const std::string& allow_links);

struct BenchFlags {
  std::string file;
  std::string allow_links;
  std::string inputs;  // .npz instead of made-up inputs; empty: none
  // Every combination is run.
  std::vector<int64_t> batches = {1};
  std::vector<int64_t> lengths = {16};
  std::vector<int> threads = {1};
  double seconds = 1;  // for each combination
  bool json = false;
};
absl::Status Bench(const BenchFlags& flags, std::ostream& output);

// The tables of docs/operators.md.
void ListOperators(std::ostream& output);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_COMMANDS_H_
