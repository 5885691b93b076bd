// The plan of a step over rows of several requests, from three things known of each value of the
// loop's body: its scope (scopes.h), how it counts rows (FindRows), and its slot in the program.
//
// 1. Run: each slot gets its source: a constant, rows, a value that each request has once, or a
//    number of the request.
// 2. TakeOwnInputs: states that grow, and the number of the step, differ from request to request:
//    their slots are ragged.
// 3. Place puts each instruction, in order, into a segment over all rows, or per request if it
//    reads a value of a request or a ragged one. Its outputs are ragged where their extents may
//    differ (IsJoinable).
// 4. CheckPerRequestInputs and CheckResults: what could not be separated makes the whole plan run
//    row by row (Refuse, MakeRowByRow).
// 5. JoinOutputs: outputs of a segment per request that are read elsewhere are joined over all rows
//    at its end.
//
//   h [rows, 512]  product with a weight           over all rows, one GEMM
//   keys [source, 512] of the request, h * keys    per request: [its rows, source], ragged
//   softmax, times values [source, 512]            per request: [its rows, 512], joined
//   product with a weight                          over all rows
//
// So a batch of requests with sources of different lengths shares every product with a weight,
// without padding.
#include "ops/compile/row_plan.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "ops/compile/row_proof.h"
#include "ops/kernels/movement.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

// For each input of a loop whether it is a state that grows. Found once, as that walks the graph.
std::vector<bool> GrowingInputs(const Loop& loop) {
  std::vector<bool> growing;
  for (const LoopInput& input : loop.inputs) {
    growing.push_back(GrowingAxis(loop, input) >= 0);
  }
  return growing;
}

class Planner {
 public:
  Planner(const Loop& loop, const GraphInfo& info, const OperatorSet& operators,
          const std::vector<Scope>& scopes, const Program& program)
      : loop_(loop),
        info_(info),
        operators_(operators),
        scopes_(scopes),
        program_(program),
        grows_(GrowingInputs(loop)) {}

  RowPlan Run() {
    rows_ = FindRows(loop_, info_, operators_, scopes_);
    const auto num_slots = static_cast<size_t>(program_.num_slots());
    plan_.sources.assign(num_slots, RowPlan::Source::kConstant);
    plan_.is_rows.assign(num_slots, false);
    plan_.factors.assign(num_slots, 1);
    plan_.row_axes.assign(num_slots, 0);
    for (size_t i = 0; i < loop_.body.nodes.size(); ++i) {
      for (size_t output = 0; output < loop_.body.nodes[i].outputs.size(); ++output) {
        const auto slot = Slot({static_cast<int>(i), static_cast<int>(output)});
        plan_.is_rows[slot] = rows_[i].kind == Kind::kRows;
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
    TakeOwnInputs();
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

  // States that grow are as long as the number of their request's steps, and the number of the step
  // is a request's: both are held with the request's values.
  void TakeOwnInputs() {
    for (const LoopInput& input : loop_.inputs) {
      if (input.kind == LoopInput::Kind::kIteration || Grows(input)) {
        const int node = loop_.body.parameters[static_cast<size_t>(input.body_parameter)];
        plan_.sources[Slot({node, 0})] = RowPlan::Source::kLocal;
        ragged_.insert(program_.slot({node, 0}));
      }
    }
  }

  void Refuse(const std::string& why) {
    if (plan_.separable) {
      plan_.separable = false;
      plan_.reason = why;
    }
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
    const bool takes_step_number = node.op == kFirstRowName;
    bool per_request = takes_step_number;
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
      Refuse(absl::StrCat("rows of ", Describe(node), " cannot be separated"));
    }
    if (per_request) {
      CheckPerRequestInputs(node);
    }
    plan_.per_request.push_back(per_request);
    plan_.takes_step_number.push_back(takes_step_number);
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

  // Checks the inputs of an instruction that runs per request. Allowed are the request's rows of a
  // value over all rows, the request's own value, repeated along the first axis, and what the
  // segment computed for it before.
  void CheckPerRequestInputs(const Node& node) {
    for (const ValueId id : node.inputs) {
      if (!id.present() || scopes_[static_cast<size_t>(id.node)] == Scope::kModel) {
        continue;
      }
      const RowInfo& rows = rows_[static_cast<size_t>(id.node)];
      const RowPlan::Source source = plan_.sources[Slot(id)];
      const bool is_own =
          ragged_.count(program_.slot(id)) > 0 || source == RowPlan::Source::kMeasure;
      // An extent that was read of a request's values counts the request's rows.
      const bool is_extent = rows.kind == Kind::kExtent && ragged_.count(program_.slot(id)) > 0;
      const bool fits = rows.kind == Kind::kRows
                            ? is_own || rows.axis == 0 ||
                                  (source == RowPlan::Source::kRows && IsBehindOne(id, rows))
                            : is_own && (rows.kind == Kind::kFixed || is_extent);
      if (!fits) {
        Refuse(
            absl::StrCat(Describe(node), " joins per-request values with input that is not rows"));
      }
    }
  }

  // Whether the value is [1, rows, ...]: its rows can be sliced as those of the first axis.
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
        Refuse(absl::StrCat("rows of ", Describe(loop_.body.node(result)), " cannot be separated"));
      }
    }
  }

  // A segment's outputs that are read outside of it (another segment, a Result) are joined where
  // possible; inside later segments of the same requests ragged ones stay local. The next value of
  // a state that is as long as the source, such as a coverage, is joined at run time: requests
  // whose states differ in shape are not stepped together. That of a state that grows is not.
  void JoinOutputs() {
    for (RowPlan::Segment& segment : plan_.segments) {
      for (const int index : segment.instructions) {
        const Program::Instruction& instruction =
            program_.instructions()[static_cast<size_t>(index)];
        for (int output = 0; segment.per_request && output < instruction.num_outputs; ++output) {
          const int slot = instruction.first_output + output;
          plan_.sources[static_cast<size_t>(slot)] = RowPlan::Source::kLocal;
          const ValueId value{instruction.node, output};
          if (ragged_.count(slot) == 0 ? IsReadOutside(segment, value) : IsNextState(value)) {
            segment.joined.push_back(slot);
          }
        }
      }
    }
  }

  bool Grows(const LoopInput& input) const {
    return grows_[static_cast<size_t>(&input - loop_.inputs.data())];
  }

  bool IsNextState(ValueId id) const {
    return std::any_of(loop_.inputs.begin(), loop_.inputs.end(), [&](const LoopInput& input) {
      if (input.kind != LoopInput::Kind::kCarried || Grows(input)) {
        return false;
      }
      const int result = loop_.body.results[static_cast<size_t>(input.back_edge)];
      return loop_.body.node(result).inputs[0] == id;
    });
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
  const std::vector<bool> grows_;  // by input of the loop
  std::vector<RowInfo> rows_;      // by node
  std::set<int> ragged_;           // slots whose extents differ from request to request
  RowPlan plan_;
};

}  // namespace

void MakeRowByRow(const Loop& loop, const Program& program, std::string reason, RowPlan& plan) {
  plan.separable = false;
  plan.reason = std::move(reason);
  const std::vector<bool> growing = GrowingInputs(loop);
  std::vector<bool> grows(loop.body.results.size(), false);
  for (size_t i = 0; i < growing.size(); ++i) {
    if (growing[i]) {
      grows[static_cast<size_t>(loop.inputs[i].back_edge)] = true;
    }
  }
  RowPlan::Segment all{true, {}, {}};
  for (size_t i = 0; i < program.instructions().size(); ++i) {
    const Program::Instruction& instruction = program.instructions()[i];
    all.instructions.push_back(static_cast<int>(i));
    for (int output = 0; output < instruction.num_outputs; ++output) {
      plan.sources[static_cast<size_t>(instruction.first_output + output)] =
          RowPlan::Source::kLocal;
    }
    for (size_t result = 0; result < loop.body.results.size(); ++result) {
      const ValueId value = loop.body.node(loop.body.results[result]).inputs[0];
      const int slot = program.slot(value);
      if (!grows[result] && value.node == instruction.node &&
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
