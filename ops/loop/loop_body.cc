// LoopBody::Compile: from a loop's body to two programs and the plans by which steps run. Running
// rows of several requests is in loop_body_rows.cc, several positions of a row in
// loop_body_positions.cc.
//
// 1. FindScopes: what a value depends on. Nodes of request scope become the request program, which
//    Bind runs once for each request (loop-invariant code motion); other nodes that lead to a
//    result become the step program. Constants were computed at load.
// 2. PlanRows: which instructions of the step run over all rows, and which request by request
//    (row_plan.cc).
// 3. The loop's inputs by kind: carried states, invariants, slices, numbers of iterations.
// 4. FindFamilyStates: states that only kernels read which know families (rows with one parent):
//    such a state is held once for a family, not once for a row. FindLookUps: a Gather whose rows a
//    kernel can read from the table itself, without a copy. FindPagedStates: states that one
//    instruction may write in place.
// 5. PlanPositions: whether a step may read several tokens of a row at once.
// 6. DropUnread: constants that kernels have packed are freed.
//
// StepWhole runs the body as it is written, for loops that no search steps.
#include "ops/loop/loop_body.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {

absl::StatusOr<std::unique_ptr<LoopBody>> LoopBody::Compile(std::shared_ptr<const Loop> loop,
                                                            const GraphInfo& body_info,
                                                            const OperatorSet& operators) {
  std::unique_ptr<LoopBody> body(new LoopBody());
  body->loop_ = std::move(loop);
  const Graph& graph = body->loop_->body;
  body->scopes_ = FindScopes(*body->loop_, body_info);
  std::vector<bool> request(graph.nodes.size());
  std::vector<bool> step(graph.nodes.size());
  // Nodes that lead to no result are left out (dead code elimination).
  std::vector<ValueId> results;
  for (const int result : graph.results) {
    results.push_back(graph.node(result).inputs[0]);
  }
  const std::vector<bool> read = AncestorsOf(graph, results);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    request[i] = read[i] && body->scopes_[i] == Scope::kRequest;
    step[i] = read[i] && body->scopes_[i] != Scope::kRequest;
  }
  // The request program runs in f32: once per request, fewer bits save little time.
  BW_ASSIGN_OR_RETURN(body->request_program_,
                      Program::Compile(graph, body_info, Operators(), request));
  BW_ASSIGN_OR_RETURN(body->step_program_, Program::Compile(graph, body_info, operators, step));
  body->plan_ = PlanRows(*body->loop_, body_info, operators, body->scopes_, body->step_program_);
  for (size_t i = 0; i < body->loop_->inputs.size(); ++i) {
    const auto index = static_cast<int>(i);
    switch (body->loop_->inputs[i].kind) {
      case LoopInput::Kind::kCarried:
        body->carried_.push_back(index);
        body->growing_axes_.push_back(GrowingAxis(*body->loop_, body->loop_->inputs[i]));
        break;
      case LoopInput::Kind::kInvariant:
        body->invariants_.push_back(index);
        break;
      case LoopInput::Kind::kSliced:
        body->sliced_.push_back(index);
        break;
      case LoopInput::Kind::kIteration:
        body->iterations_.push_back(
            graph.parameters[static_cast<size_t>(body->loop_->inputs[i].body_parameter)]);
        break;
    }
  }
  for (const int result : graph.results) {
    body->result_slots_.push_back(body->step_program_.slot(graph.node(result).inputs[0]));
  }
  for (const int rule : body->carried_) {
    const int back_edge = body->loop_->inputs[static_cast<size_t>(rule)].back_edge;
    const int slot = body->result_slots_[static_cast<size_t>(back_edge)];
    auto& spares = body->spare_slots_;
    const bool is_first = std::find(spares.begin(), spares.end(), slot) == spares.end();
    spares.push_back(is_first && body->step_program_.Computes(slot) ? slot : -1);
  }
  body->FindFamilyStates();
  body->FindLookUps();
  body->FindPagedStates();
  body->PlanPositionsOfRows();
  Program* const programs[] = {&body->request_program_, &body->step_program_};
  Program::DropUnread(graph, programs);
  for (const int rule : body->invariants_) {
    const int slot = body->ParameterSlot(body->loop_->inputs[static_cast<size_t>(rule)]);
    const auto& slots = body->result_slots_;
    body->reads_invariant_.push_back(body->request_program_.Reads(slot) ||
                                     body->step_program_.Reads(slot) ||
                                     std::find(slots.begin(), slots.end(), slot) != slots.end());
  }
  return body;
}

std::optional<std::vector<size_t>> LoopBody::ReadersBySource(int slot,
                                                             int (RowSourceKernel::*input)()
                                                                 const) const {
  if (std::find(result_slots_.begin(), result_slots_.end(), slot) != result_slots_.end()) {
    return std::nullopt;
  }
  std::vector<size_t> readers;
  for (const Program::Reader& reader : step_program_.Readers(slot)) {
    const RowSourceKernel* const kernel =
        step_program_.instructions()[reader.instruction].by_source;
    if (plan_.per_request[reader.instruction] || kernel == nullptr ||
        (kernel->*input)() != static_cast<int>(reader.port)) {
      return std::nullopt;
    }
    readers.push_back(reader.instruction);
  }
  return readers;
}

void LoopBody::FindFamilyStates() {
  reads_families_.assign(step_program_.instructions().size(), false);
  for (const int rule : carried_) {
    const int slot = ParameterSlot(loop_->inputs[static_cast<size_t>(rule)]);
    const auto readers = ReadersBySource(slot, &RowSourceKernel::state_input);
    family_states_.push_back(readers.has_value());
    for (const size_t reader : readers.value_or(std::vector<size_t>())) {
      reads_families_[reader] = true;
    }
  }
}

// A state may be written in place if its extents are known and one instruction alone reads it,
// whose output is the state's next value and is read by no other.
void LoopBody::FindPagedStates() {
  const std::vector<Program::Instruction>& instructions = step_program_.instructions();
  paged_by_.assign(carried_.size(), -1);
  paged_state_of_.assign(instructions.size(), -1);
  for (size_t i = 0; i < carried_.size(); ++i) {
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    const ValueInfo& info = ParameterNode(input).outputs[0];
    const std::vector<Program::Reader> readers = step_program_.Readers(ParameterSlot(input));
    if (!family_states_[i] || readers.size() != 1 || info.dtype != DType::kF32 ||
        std::any_of(info.shape.dims().begin() + 1, info.shape.dims().end(),
                    [](int64_t extent) { return extent < 0; })) {
      continue;
    }
    const size_t reader = readers[0].instruction;
    const int output = instructions[reader].by_source->paged_output();
    const int slot = result_slots_[static_cast<size_t>(input.back_edge)];
    if (output >= 0 && slot == instructions[reader].first_output + output &&
        std::count(result_slots_.begin(), result_slots_.end(), slot) == 1 &&
        step_program_.Readers(slot).empty()) {
      paged_by_[i] = static_cast<int>(reader);
      paged_state_of_[reader] = static_cast<int>(i);
    }
  }
}

void LoopBody::FindLookUps() {
  const std::vector<Program::Instruction>& instructions = step_program_.instructions();
  const Slots constants = step_program_.MakeSlots();
  look_ups_.assign(instructions.size(), -1);
  is_look_up_.assign(instructions.size(), false);
  const auto constant = [&](int slot) {
    const Tensor* value = slot < 0 ? nullptr : &constants[static_cast<size_t>(slot)];
    return value != nullptr && value->has_value() ? value : nullptr;
  };
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Program::Instruction& gather = instructions[i];
    const Node& node = loop_->body.node(gather.node);
    if (node.op != "Gather" || gather.inputs.size() != 3 || plan_.per_request[i] ||
        node.attributes.Int("batch_dims", 0).value_or(-1) != 0) {
      continue;
    }
    const Tensor* const table = constant(gather.inputs[0]);
    const Tensor* const axis = constant(gather.inputs[2]);
    const PartialShape& rows = loop_->body.info(node.inputs[1]).shape;
    if (table == nullptr || table->rank() != 2 || axis == nullptr || axis->num_elements() != 1 ||
        (*ToInt64(*axis))[0] != 0 || !rows.has_rank() || rows.rank() != 1) {
      continue;
    }
    const auto readers = ReadersBySource(gather.first_output, &RowSourceKernel::table_input);
    if (readers.has_value() && readers->size() == 1) {
      look_ups_[readers->front()] = static_cast<int>(i);
      is_look_up_[i] = true;
    }
  }
}

void LoopBody::PlanPositionsOfRows() {
  const bool reads_number = counts_steps() || absl::c_linear_search(plan_.takes_step_number, true);
  if (!plan_.separable || reads_number || loop_->states_may_change_shape) {
    positions_.reason =
        !plan_.separable ? plan_.reason : "states grow, or the number of the step is read";
    return;
  }
  std::vector<StateSlots> states;
  for (size_t i = 0; i < carried_.size(); ++i) {
    states.push_back({StateSlot(i), NextSlot(i)});
  }
  positions_ = PlanPositions(step_program_, plan_, states, result_slots_);
  is_read_in_order_.assign(look_ups_.size(), false);
  for (const PositionPlan::Stage& stage : positions_.stages) {
    for (const int index : stage.segment.instructions) {
      const int look_up = look_ups_[static_cast<size_t>(index)];
      if (stage.kind == PositionPlan::Stage::Kind::kInOrder && look_up >= 0) {
        is_read_in_order_[static_cast<size_t>(look_up)] = true;
      }
    }
  }
}

int LoopBody::ParameterSlot(const LoopInput& input) const {
  const int node = loop_->body.parameters[static_cast<size_t>(input.body_parameter)];
  return step_program_.slot({node, 0});
}

const Node& LoopBody::ParameterNode(const LoopInput& input) const {
  return loop_->body.node(loop_->body.parameters[static_cast<size_t>(input.body_parameter)]);
}

absl::Status LoopBody::Bind(const ExecutionContext& context, absl::Span<const Tensor> invariants,
                            RequestValues& values) const {
  BW_CHECK(invariants.size() == invariants_.size());
  values.slots = step_program_.MakeSlots();
  values.counts.assign(iterations_.size(), 0);
  for (size_t i = 0; i < invariants.size(); ++i) {
    const LoopInput& input = loop_->inputs[static_cast<size_t>(invariants_[i])];
    if (reads_invariant_[i]) {
      values.slots[static_cast<size_t>(ParameterSlot(input))] = invariants[i];
    }
  }
  return request_program_.Run(context, values.slots);
}

absl::Status LoopBody::CollectResults(const Slots& slots, bool may_change_shape, int64_t num_rows,
                                      bool in_place, std::vector<Tensor>& states,
                                      std::vector<Tensor>& results) const {
  results.resize(result_slots_.size());
  for (size_t i = 0; i < result_slots_.size(); ++i) {
    results[i] = slots[static_cast<size_t>(result_slots_[i])];
  }
  // All results are read before any state is replaced: back edges take effect together.
  for (size_t i = 0; i < carried_.size(); ++i) {
    if ((in_place && paged_by_[i] >= 0) || (num_rows >= 0 && growing_axes_[i] >= 0)) {
      continue;
    }
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    const Tensor& next = results[static_cast<size_t>(input.back_edge)];
    const Node& parameter = ParameterNode(input);
    Shape wanted = states[i].shape();
    if (num_rows >= 0) {
      wanted[0] = num_rows;
    }
    const bool fits = next.has_value() && next.dtype() == states[i].dtype() &&
                      (may_change_shape ? parameter.outputs[0].shape.Accepts(next.shape())
                                        : next.shape() == wanted);
    if (!fits) {
      return Invalid("back edge to body ", Describe(parameter), " carries ",
                     next.has_value() ? absl::StrCat(Name(next.dtype()), ToString(next.shape()))
                                      : "nothing that all rows share",
                     ", the state is ", Name(states[i].dtype()),
                     may_change_shape ? parameter.outputs[0].shape.ToString() : ToString(wanted));
    }
    states[i] = next;
  }
  return absl::OkStatus();
}

Tensor LoopBody::IterationTensor(const ValueInfo& info, int64_t iteration) {
  const Tensor number = info.dtype == DType::kI32 ? Tensor::Scalar(static_cast<int32_t>(iteration))
                                                  : Tensor::Scalar(iteration);
  return info.shape.has_rank() && info.shape.rank() == 1 ? number.Reshaped({1}) : number;
}

absl::Status LoopBody::StepWhole(const ExecutionContext& context, absl::Span<const Tensor> slices,
                                 int64_t iteration, RequestValues& values,
                                 std::vector<Tensor>& states, std::vector<Tensor>& results) const {
  Slots& slots = values.slots;
  size_t state = 0;
  size_t slice = 0;
  for (const LoopInput& input : loop_->inputs) {
    Tensor& parameter = slots[static_cast<size_t>(ParameterSlot(input))];
    if (input.kind == LoopInput::Kind::kCarried) {
      parameter = states[state++];
    } else if (input.kind == LoopInput::Kind::kSliced) {
      parameter = slices[slice++];
    } else if (input.kind == LoopInput::Kind::kIteration) {
      parameter = IterationTensor(ParameterNode(input).outputs[0], iteration);
    }
  }
  BW_RETURN_IF_ERROR(step_program_.Run(context, slots));
  BW_RETURN_IF_ERROR(CollectResults(slots, loop_->states_may_change_shape, -1, /*in_place=*/false,
                                    states, results));
  step_program_.ReleaseViews(slots);
  ReleaseParameters(slots);
  return absl::OkStatus();
}

void LoopBody::ReleaseParameters(Slots& slots) const {
  for (size_t i = 0; i < carried_.size(); ++i) {
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    Tensor old = std::exchange(slots[static_cast<size_t>(ParameterSlot(input))], Tensor());
    if (spare_slots_[i] >= 0) {
      slots[static_cast<size_t>(spare_slots_[i])] = std::move(old);
    }
  }
  for (const int rule : sliced_) {
    slots[static_cast<size_t>(ParameterSlot(loop_->inputs[static_cast<size_t>(rule)]))] = Tensor();
  }
}

void LoopBody::ForceRowByRow(std::string reason) {
  if (plan_.separable) {
    positions_ = PositionPlan();
    positions_.reason = reason;
    MakeRowByRow(*loop_, step_program_, std::move(reason), plan_);
  }
}

}  // namespace beamwright::ops
