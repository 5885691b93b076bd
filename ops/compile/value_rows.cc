#include "ops/compile/value_rows.h"

#include <algorithm>

#include "ops/compile/extents.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

class RowFinder {
 public:
  RowFinder(const Loop& loop, const GraphInfo& info, const OperatorSet& operators,
            const std::vector<Scope>& scopes)
      : loop_(loop), info_(info), operators_(operators), scopes_(scopes) {}

  // Which rows each value depends on, as the operators' row functions tell.
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
      const Node& node = body.nodes[i];
      if (scopes_[i] == Scope::kModel || node.op == "Parameter") {
        continue;
      }
      std::vector<RowInfo> inputs;
      for (const ValueId id : node.inputs) {
        inputs.push_back(id.present() ? rows_[static_cast<size_t>(id.node)]
                                      : RowInfo{Kind::kFixed});
      }
      if (node.op == "Result") {
        rows_[i] = inputs[0];
        continue;
      }
      const Operator* op = operators_.Find(node.op);
      if (op != nullptr && op->rows != nullptr) {
        rows_[i] = op->rows(node, inputs, info_.InputsOf(body, node));
        if (rows_[i].kind == Kind::kExtent && node.outputs.size() == 1) {
          rows_[i] = LookCloser(static_cast<int>(i), inputs);
        }
      } else {
        const bool fixed = std::all_of(inputs.begin(), inputs.end(), [](const RowInfo& rows) {
          return rows.kind == Kind::kFixed;
        });
        rows_[i] = RowInfo{fixed ? Kind::kFixed : Kind::kMixed};
      }
    }
    return std::move(rows_);
  }

 private:
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
    Symbols symbols;
    const Extent rows = symbols.New();
    row_symbol_ = rows.symbols[0];
    extents_ = Extents::Find(loop_.body, info_, operators_, symbols,
                             ParametersWithRows(loop_.body, axes, rows, symbols));
  }

  bool HasRows(const Extent& extent) const {
    return std::find(extent.symbols.begin(), extent.symbols.end(), row_symbol_) !=
           extent.symbols.end();
  }

  // Of a value that follows from extents, whether it really follows from the number of rows: other
  // extents are the same for every row. What is broadcast to the rows has them.
  RowInfo LookCloser(int index, absl::Span<const RowInfo> inputs) const {
    const Node& node = loop_.body.node(index);
    const ValueExtents& value = extents_.of({index, 0});
    if (value.elements.has_value() &&
        std::all_of(value.elements->begin(), value.elements->end(), [&](const Extent& element) {
          return element.is_extent() && !HasRows(element);
        })) {
      return RowInfo{Kind::kFixed};
    }
    return node.op == "Broadcast" && inputs.size() == 2 && inputs[0].kind == Kind::kFixed
               ? BroadcastRows(extents_.of(node.inputs[0]), value)
               : RowInfo{Kind::kExtent};
  }

  // The rows of something that has none, broadcast to them.
  RowInfo BroadcastRows(const ValueExtents& data, const ValueExtents& value) const {
    const auto has_rows = [&](const Extent& extent) { return HasRows(extent); };
    if (!value.shape.has_value() || !data.shape.has_value() ||
        std::count_if(value.shape->begin(), value.shape->end(), has_rows) != 1) {
      return RowInfo{Kind::kExtent};
    }
    const auto rows = std::find_if(value.shape->begin(), value.shape->end(), has_rows);
    const auto from_right = static_cast<size_t>(value.shape->end() - rows);
    const bool is_new = data.shape->size() < from_right ||
                        *(data.shape->end() - static_cast<int64_t>(from_right)) == Extent{};
    return is_new && rows->symbols.size() == 1
               ? RowInfo{Kind::kRows, static_cast<int>(rows - value.shape->begin()), rows->number}
               : RowInfo{Kind::kExtent};
  }

  const Loop& loop_;
  const GraphInfo& info_;
  const OperatorSet& operators_;
  const std::vector<Scope>& scopes_;
  Extents extents_;
  int row_symbol_ = 0;
  std::vector<RowInfo> rows_;  // by node
};

}  // namespace

std::vector<RowInfo> FindRows(const Loop& loop, const GraphInfo& body_info,
                              const OperatorSet& operators, const std::vector<Scope>& scopes) {
  return RowFinder(loop, body_info, operators, scopes).Run();
}

}  // namespace beamwright::ops
