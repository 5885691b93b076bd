#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ops/import/import_options.h"
#include "tools/graph/show.h"

namespace beamwright::ops {
namespace {

void Count(const Graph& graph, absl::flat_hash_set<const std::byte*>& seen,
           ConstantTotals& totals) {
  for (const Node& node : graph.nodes) {
    if (node.op == "Constant" && seen.insert(node.constant.place()).second) {
      ++totals.tensors;
      totals.elements += node.constant.num_elements();
      totals.bytes += node.constant.num_bytes();
    }
    VisitBodies(node, [&](const Graph& body, absl::string_view) { Count(body, seen, totals); });
  }
}

void CollectUnsupported(const Graph& graph, const OperatorSet& operators, const std::string& where,
                        std::vector<std::string>& found) {
  for (const Node& node : graph.nodes) {
    if (node.op == "Parameter" || node.op == "Constant" || node.op == "Result") {
      continue;
    }
    if (operators.Find(node.op) == nullptr && !node.attributes.Has(kHiddenOperator)) {
      found.push_back(absl::StrCat(where, Describe(node)));
    }
    VisitBodies(node, [&](const Graph& body, absl::string_view what) {
      const bool is_loop = node.loop != nullptr;
      CollectUnsupported(
          body, operators,
          absl::StrCat(where, Describe(node), is_loop ? "" : ", ", is_loop ? "" : what, ": "),
          found);
    });
  }
}

}  // namespace

ConstantTotals CountConstants(const Graph& graph) {
  ConstantTotals totals;
  absl::flat_hash_set<const std::byte*> seen;
  Count(graph, seen, totals);
  return totals;
}

std::vector<std::string> UnsupportedNodes(const Graph& graph, const OperatorSet& operators) {
  std::vector<std::string> found;
  CollectUnsupported(graph, operators, "", found);
  return found;
}

}  // namespace beamwright::ops
