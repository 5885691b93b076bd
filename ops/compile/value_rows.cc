// Finds for each value of a loop's body on which axis it has the rows of requests (FindRows), so
// that steps of many requests can run together.
//
// 1. Parameters: a sliced input or a state has rows on its first axis, or on the second if the
//    first is time (RowAxis).
// 2. FindRowsOf asks the row function of each node's operator, in the order of nodes.
// 3. LookCloser improves the answer by symbolic extents, in which the number of rows is one symbol:
//    these show, for example, that a Reshape keeps rows on their axis.
#include "ops/compile/value_rows.h"

#include <algorithm>
#include <optional>

#include "ops/compile/extents.h"
#include "ops/compile/row_extents.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

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
