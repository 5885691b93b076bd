#include "ops/compile/row_plan.h"

#include <algorithm>
#include <set>

#include "ops/base/status.h"
#include "ops/compile/extents.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

class Planner {
 public:
  Planner(const Loop& loop, const GraphInfo& info, const OperatorSet& operators,
          const std::vector<Scope>& scopes, const Program& program)
      : loop_(loop), info_(info), operators_(operators), scopes_(scopes), program_(program) {}

  RowPlan Run() {
    FindRows();
    const auto num_slots = static_cast<size_t>(program_.num_slots());
    plan_.sources.assign(num_slots, RowPlan::Source::kConstant);
    plan_.factors.assign(num_slots, 1);
    plan_.row_axes.assign(num_slots, 0);
    for (size_t i = 0; i < loop_.body.nodes.size(); ++i) {
      for (size_t output = 0; output < loop_.body.nodes[i].outputs.size(); ++output) {
        const auto slot = Slot({static_cast<int>(i), static_cast<int>(output)});
        plan_.factors[slot] = rows_[i].factor;
        plan_.row_axes[slot] = rows_[i].axis;
        if (scopes_[i] == Scope::kRequest) {
          plan_.sources[slot] =
              rows_[i].kind == Kind::kFixed ? RowPlan::Source::kMeasure : RowPlan::Source::kRequest;
        } else if (scopes_[i] != Scope::kModel) {
          plan_.sources[slot] = RowPlan::Source::kRows;
        }
      }
    }
    for (size_t i = 0; i < program_.instructions().size(); ++i) {
      Place(i);
    }
    CheckResults();
    if (plan_.separable) {
      JoinOutputs();
    } else {
      MakeRowByRow(loop_, program_, plan_.reason, plan_);
    }
    return std::move(plan_);
  }

 private:
  size_t Slot(ValueId id) const { return static_cast<size_t>(program_.slot(id)); }
  const Node& NodeOf(size_t instruction) const {
    return loop_.body.node(program_.instructions()[instruction].node);
  }

  void Refuse(const std::string& why) {
    if (plan_.separable) {
      plan_.separable = false;
      plan_.reason = why;
    }
  }

  // Which rows each value depends on, as the operators' row functions tell.
  void FindRows() {
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

  // Whether all extents but that of the row axis are known, so that requests' parts can be joined.
  bool IsJoinable(int node, int output) const {
    const PartialShape& shape = loop_.body.node(node).outputs[static_cast<size_t>(output)].shape;
    const RowInfo& rows = rows_[static_cast<size_t>(node)];
    if (!shape.has_rank() || shape.rank() == 0 || rows.kind != Kind::kRows || rows.axis != 0) {
      return false;
    }
    return std::all_of(shape.dims().begin() + 1, shape.dims().end(),
                       [](int64_t dim) { return dim != PartialShape::kDynamic; });
  }

  // Puts an instruction into a segment over all rows or into one per request.
  void Place(size_t index) {
    const Program::Instruction& instruction = program_.instructions()[index];
    const Node& node = NodeOf(index);
    bool per_request = false;
    for (const ValueId id : node.inputs) {
      if (!id.present()) {
        continue;
      }
      const RowPlan::Source source = plan_.sources[Slot(id)];
      const bool request_value =
          source == RowPlan::Source::kRequest || source == RowPlan::Source::kMeasure;
      per_request |= request_value || ragged_.count(program_.slot(id)) > 0;
      if (request_value && rows_[static_cast<size_t>(id.node)].kind == Kind::kExtent) {
        Refuse(absl::StrCat(Describe(node), " reads an extent of a per-request input"));
      }
    }
    const RowInfo& rows = rows_[static_cast<size_t>(instruction.node)];
    if (rows.kind == Kind::kMixed) {
      Refuse(absl::StrCat("rows of ", Describe(node), " cannot be told apart"));
    }
    if (per_request) {
      CheckPerRequestInputs(node);
    }
    plan_.per_request.push_back(per_request);
    const Operator* op = operators_.Find(node.op);
    plan_.broadcasts.push_back(op != nullptr && op->broadcasts_rows && RanksAgree(node));
    Append(index, per_request);
    for (int output = 0; per_request && output < instruction.num_outputs; ++output) {
      if (!IsJoinable(instruction.node, output)) {
        ragged_.insert(instruction.first_output + output);
      }
    }
  }

  bool RanksAgree(const Node& node) const {
    int rank = -1;
    for (const ValueId id : node.inputs) {
      if (!id.present() || scopes_[static_cast<size_t>(id.node)] == Scope::kModel) {
        continue;
      }
      const PartialShape& shape = loop_.body.info(id).shape;
      if (plan_.sources[Slot(id)] == RowPlan::Source::kRequest &&
          rows_[static_cast<size_t>(id.node)].factor != 1) {
        return false;
      }
      if (!shape.has_rank() || (rank >= 0 && shape.rank() != rank)) {
        return false;
      }
      rank = shape.rank();
    }
    return rank >= (node.op == "MatMul" ? 3 : 1);
  }

  // What a request's part of a step can be given: a request's rows of a value over all rows, the
  // request's own value, repeated along the first axis, and what was computed for it before.
  void CheckPerRequestInputs(const Node& node) {
    for (const ValueId id : node.inputs) {
      if (!id.present() || scopes_[static_cast<size_t>(id.node)] == Scope::kModel) {
        continue;
      }
      const RowInfo& rows = rows_[static_cast<size_t>(id.node)];
      const RowPlan::Source source = plan_.sources[Slot(id)];
      const bool is_own =
          ragged_.count(program_.slot(id)) > 0 || source == RowPlan::Source::kMeasure;
      const bool fits = rows.kind == Kind::kRows
                            ? is_own || rows.axis == 0 ||
                                  (source == RowPlan::Source::kRows && IsBehindOne(id, rows))
                            : is_own && rows.kind == Kind::kFixed;
      if (!fits) {
        Refuse(
            absl::StrCat(Describe(node), " joins per-request values with input that is not rows"));
      }
    }
  }

  // [1, rows, ...]: as good as rows on the first axis.
  bool IsBehindOne(ValueId id, const RowInfo& rows) const {
    const PartialShape& shape = loop_.body.info(id).shape;
    return rows.axis == 1 && shape.has_rank() && shape.rank() > 1 && shape.dim(0) == 1;
  }

  void Append(size_t index, bool per_request) {
    if (plan_.segments.empty() || plan_.segments.back().per_request != per_request) {
      plan_.segments.push_back({per_request, {}, {}});
    }
    plan_.segments.back().instructions.push_back(static_cast<int>(index));
  }

  // Carried states and results must be rows themselves.
  void CheckResults() {
    for (const int result : loop_.body.results) {
      const RowInfo& rows = rows_[static_cast<size_t>(result)];
      if (scopes_[static_cast<size_t>(result)] == Scope::kRow &&
          (rows.kind != Kind::kRows || rows.axis != 0 || rows.factor != 1)) {
        Refuse(
            absl::StrCat("rows of ", Describe(loop_.body.node(result)), " cannot be told apart"));
      }
    }
  }

  // A segment's outputs that somebody outside reads (another segment, a Result) are joined where
  // possible; inside later segments of the same requests ragged ones stay local.
  void JoinOutputs() {
    for (RowPlan::Segment& segment : plan_.segments) {
      for (const int index : segment.instructions) {
        const Program::Instruction& instruction =
            program_.instructions()[static_cast<size_t>(index)];
        for (int output = 0; segment.per_request && output < instruction.num_outputs; ++output) {
          const int slot = instruction.first_output + output;
          plan_.sources[static_cast<size_t>(slot)] = RowPlan::Source::kLocal;
          if (ragged_.count(slot) == 0 && IsReadOutside(segment, {instruction.node, output})) {
            segment.joined.push_back(slot);
          }
        }
      }
    }
  }

  bool IsReadOutside(const RowPlan::Segment& segment, ValueId id) const {
    for (size_t i = 0; i < loop_.body.nodes.size(); ++i) {
      const Node& node = loop_.body.nodes[i];
      if (std::find(node.inputs.begin(), node.inputs.end(), id) == node.inputs.end()) {
        continue;
      }
      const bool inside =
          std::any_of(segment.instructions.begin(), segment.instructions.end(), [&](int index) {
            return program_.instructions()[static_cast<size_t>(index)].node == static_cast<int>(i);
          });
      if (!inside) {
        return true;
      }
    }
    return false;
  }

  const Loop& loop_;
  const GraphInfo& info_;
  const OperatorSet& operators_;
  const std::vector<Scope>& scopes_;
  const Program& program_;
  Extents extents_;
  int row_symbol_ = 0;
  std::vector<RowInfo> rows_;  // by node
  std::set<int> ragged_;       // slots whose extents differ from request to request
  RowPlan plan_;
};

}  // namespace

void MakeRowByRow(const Loop& loop, const Program& program, std::string reason, RowPlan& plan) {
  plan.separable = false;
  plan.reason = std::move(reason);
  RowPlan::Segment all{true, {}, {}};
  for (size_t i = 0; i < program.instructions().size(); ++i) {
    const Program::Instruction& instruction = program.instructions()[i];
    all.instructions.push_back(static_cast<int>(i));
    for (int output = 0; output < instruction.num_outputs; ++output) {
      plan.sources[static_cast<size_t>(instruction.first_output + output)] =
          RowPlan::Source::kLocal;
    }
    for (const int result : loop.body.results) {
      const ValueId value = loop.body.node(result).inputs[0];
      const int slot = program.slot(value);
      if (value.node == instruction.node &&
          std::find(all.joined.begin(), all.joined.end(), slot) == all.joined.end()) {
        all.joined.push_back(slot);
      }
    }
  }
  plan.per_request.assign(program.instructions().size(), true);
  plan.segments = {std::move(all)};
}

RowPlan PlanRows(const Loop& loop, const GraphInfo& body_info, const OperatorSet& operators,
                 const std::vector<Scope>& scopes, const Program& program) {
  return Planner(loop, body_info, operators, scopes, program).Run();
}

}  // namespace beamwright::ops
