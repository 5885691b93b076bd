// ProveRowsApart: whether the rows of a graph can belong to different requests. Every input has
// rows on its first axis; their number becomes a symbol, extents are computed with it (Extents),
// and RowFollower follows the rows to the results. If a result has no axis of rows, or mixes them,
// the proof fails with the reason, and the graph runs for one request at a time.
#include "ops/compile/row_proof.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/compile/row_follower.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

RowProof Unproven(std::string why) { return {false, std::move(why), {}}; }

// Why no number of rows but one can be put in; empty if any can.
std::string WhyNotAny(const Graph& graph) {
  for (const int parameter : graph.parameters) {
    const PartialShape& shape = graph.node(parameter).outputs[0].shape;
    const std::string input = absl::StrCat("input '", PortName(graph, parameter), "'");
    if (!shape.has_rank() || shape.rank() == 0) {
      return absl::StrCat(input, " is declared without an axis that counts rows");
    }
    if (shape.dim(0) != PartialShape::kDynamic) {
      return absl::StrCat(input, " is declared ", shape.ToString(), ", for ", shape.dim(0),
                          shape.dim(0) == 1 ? " row" : " rows", " alone");
    }
  }
  return "";
}

}  // namespace

RowProof ProveRowsApart(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                        const RowInputs& inputs, std::vector<RowInfo>* scales) {
  if (std::string why = WhyNotAny(graph); !why.empty()) {
    return Unproven(std::move(why));
  }
  Symbols symbols;
  const Extent rows = symbols.New();
  std::vector<ValueExtents> known =
      ParametersWithRows(graph, std::vector<int>(graph.parameters.size(), 0), rows, symbols);
  if (inputs.source >= 0 && inputs.lengths >= 0) {
    const auto& source = known[static_cast<size_t>(inputs.source)].shape;
    ValueExtents& lengths = known[static_cast<size_t>(inputs.lengths)];
    if (source->size() > 1 && lengths.shape->size() == 1) {
      lengths.all = (*source)[1];
    }
  }
  const Extents extents = Extents::Find(graph, info, operators, symbols, known);
  const RowFollower follower(graph, info, extents, RowExtents(rows, symbols),
                             std::vector<RowInfo>(graph.parameters.size(), {Kind::kRows, 0, 1}),
                             {operators, symbols, scales});
  RowProof proof;
  proof.separable = true;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const ValueId value = follower.ResultValue(static_cast<int>(i));
    const RowInfo& found = follower.of(value);
    if (found.kind == Kind::kMixed) {
      return Unproven(follower.WhyMixed(value));
    }
    if (found.kind != Kind::kFixed && (found.kind != Kind::kRows || found.factor != 1)) {
      return Unproven(absl::StrCat("output '", PortName(graph, graph.results[i]),
                                   "' has no axis that counts rows"));
    }
    proof.result_axes.push_back(found.kind == Kind::kRows ? found.axis : -1);
  }
  return proof;
}

}  // namespace beamwright::ops
