#include "tools/graph/port_names.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace beamwright::ops {

std::vector<std::string> UniquePortNames(const Graph& graph, absl::Span<const int> nodes) {
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> taken;
  absl::flat_hash_map<std::string, int> counts;
  for (const int node : nodes) {
    const std::string name = PortName(graph, node);
    std::string unique = name;
    // Counting goes on where it stopped for this name; a file may bear "x#2" itself.
    for (int& count = counts.try_emplace(name, 1).first->second; !taken.insert(unique).second;) {
      unique = absl::StrCat(name, "#", ++count);
    }
    names.push_back(std::move(unique));
  }
  return names;
}

}  // namespace beamwright::ops
