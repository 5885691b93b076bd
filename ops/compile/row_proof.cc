// ProveRowsApart: whether the rows of a graph can belong to different requests. Every input has
// rows on its first axis; their number becomes a symbol, extents are computed with it (Extents),
// and RowFollower follows the rows to the results. If a result has no axis of rows, or mixes them,
// the proof fails with the reason, and the graph runs for one request at a time.
#include "ops/compile/row_proof.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/compile/extents.h"
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

// Finds for each value of a loop's body on which axis it has the rows of requests (FindRows), so
// that steps of many requests can run together.
//
// 1. Parameters: a sliced input or a state has rows on its first axis, or on the second if the
//    first is time (RowAxis).
// 2. FindRowsOf asks the row function of each node's operator, in the order of nodes.
// 3. LookCloser improves the answer by symbolic extents, in which the number of rows is one symbol:
//    these show, for example, that a Reshape keeps rows on their axis.

namespace {

class RowFinder {
 public:
  RowFinder(const Loop& loop, const GraphInfo& info, const OperatorSet& operators,
            const std::vector<Scope>& scopes)
      : loop_(loop), info_(info), operators_(operators), scopes_(scopes) {}

  // Which rows each value depends on, by the operators' row functions.
  std::vector<RowInfo> Run() {
    const Graph& body = loop_.body;
    FindExtents();
    rows_.assign(body.nodes.size(), RowInfo{Kind::kFixed});
    for (const LoopInput& input : loop_.inputs) {
      const int parameter = body.parameters[static_cast<size_t>(input.body_parameter)];
      RowInfo& rows = rows_[static_cast<size_t>(parameter)];
      if (scopes_[static_cast<size_t>(parameter)] == Scope::kModel) {
        continue;
      }
      rows.kind = input.kind == LoopInput::Kind::kIteration ? Kind::kFixed : Kind::kRows;
      rows.axis = RowAxis(input);
      // A scalar, for example a counter, has no rows.
      const PartialShape& shape = body.node(parameter).outputs[0].shape;
      if (rows.kind == Kind::kRows && shape.has_rank() && shape.rank() <= rows.axis) {
        rows.kind = Kind::kMixed;
      }
    }
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      FindRowsOf(i);
      for (size_t output = 0; output < body.nodes[i].outputs.size(); ++output) {
        row_extents_->Note(extents_.of({static_cast<int>(i), static_cast<int>(output)}), rows_[i]);
      }
    }
    return std::move(rows_);
  }

 private:
  void FindRowsOf(size_t i) {
    const Node& node = loop_.body.nodes[i];
    if (scopes_[i] == Scope::kModel || node.op == "Parameter") {
      return;
    }
    std::vector<RowInfo> inputs;
    for (const ValueId id : node.inputs) {
      inputs.push_back(id.present() ? rows_[static_cast<size_t>(id.node)] : RowInfo{Kind::kFixed});
    }
    if (node.op == "Result") {
      rows_[i] = inputs[0];
      return;
    }
    const Operator* op = operators_.Find(node.op);
    if (op != nullptr && op->rows != nullptr) {
      rows_[i] = op->rows(node, inputs, info_.InputsOf(loop_.body, node));
      if (node.outputs.size() == 1) {
        rows_[i] = LookCloser(static_cast<int>(i), inputs);
      }
    } else {
      const bool fixed = std::all_of(inputs.begin(), inputs.end(),
                                     [](const RowInfo& rows) { return rows.kind == Kind::kFixed; });
      rows_[i] = RowInfo{fixed ? Kind::kFixed : Kind::kMixed};
    }
  }

  // Of a sliced [rows, time] or [time, rows] the other axis counts rows; of all else the first.
  static int RowAxis(const LoopInput& input) {
    return input.kind == LoopInput::Kind::kSliced && !input.drop_axis && input.axis == 0 ? 1 : 0;
  }

  // Extents of the body's values, the number of rows being one symbol.
  void FindExtents() {
    std::vector<int> axes(loop_.body.parameters.size(), -1);
    for (const LoopInput& input : loop_.inputs) {
      if (input.kind != LoopInput::Kind::kIteration) {
        axes[static_cast<size_t>(input.body_parameter)] = RowAxis(input);
      }
    }
    const Extent rows = symbols_.New();
    row_extents_.emplace(rows, symbols_);
    extents_ = Extents::Find(loop_.body, info_, operators_, symbols_,
                             ParametersWithRows(loop_.body, axes, rows, symbols_));
  }

  RowInfo LookCloser(int index, absl::Span<const RowInfo> inputs) const {
    const Node& node = loop_.body.node(index);
    std::vector<const ValueExtents*> known;
    for (const ValueId id : node.inputs) {
      known.push_back(id.present() ? &extents_.of(id) : nullptr);
    }
    return row_extents_->LookCloser(node, inputs, known, extents_.of({index, 0}),
                                    rows_[static_cast<size_t>(index)]);
  }

  const Loop& loop_;
  const GraphInfo& info_;
  const OperatorSet& operators_;
  const std::vector<Scope>& scopes_;
  Symbols symbols_;
  Extents extents_;
  std::optional<RowExtents> row_extents_;
  std::vector<RowInfo> rows_;  // by node
};

}  // namespace

std::vector<RowInfo> FindRows(const Loop& loop, const GraphInfo& body_info,
                              const OperatorSet& operators, const std::vector<Scope>& scopes) {
  return RowFinder(loop, body_info, operators, scopes).Run();
}

}  // namespace beamwright::ops
