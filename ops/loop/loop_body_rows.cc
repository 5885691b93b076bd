// One step over the rows of several requests (StepRows). Requests, the number of rows of each and
// the parent of each row come in; the next states and the results, for all rows, come out.
//
// 1. MakeUnits: the units of work that run per request: a request's rows, or single rows where the
//    plan found rows not separable.
// 2. NumberSteps and GatherGrown: the number of the step and states that grow are put into each
//    request's values.
// 3. GatherStates: each row's state is copied from its parent's row, by family where kernels allow
//    it (one copy for all rows with one parent), or found in place (TakePages): the last row of a
//    family writes over its parent's page, the others write to spare pages.
// 4. RunSegments: a segment over all rows runs its instructions once (RunOverRows); a segment per
//    request runs them for each unit, on several threads (RunPerRequest, RunUnit), and Join
//    concatenates the outputs that all rows share.
// 5. CollectResults takes the next states out; CollectGrown those that grow, as views for each row.
// 6. ReleaseViews and ReleaseGrown drop every second reference to a buffer, so that the next step
//    can write it again: steady steps allocate nothing.
//
// A step that was interrupted is made again: RestoreStates makes the gathered states the rows' own,
// so that the rows which remain are each their own parent.
//
// An example: request a has two rows and b one; a's rows both continue its old row 0, b has just
// joined.
//
//   rows of the step      0  1  2
//   parents               0  0  2         2 is beyond the two old rows of a: b's start state
//   families              {0, 1}, {2}     rows with one parent
//   units, separable      [0, 2) of a, [2, 3) of b
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "ops/base/status.h"
#include "ops/base/step_profile.h"
#include "ops/kernels/parallel.h"
#include "ops/loop/loop_body.h"

namespace beamwright::ops {
namespace {

// Rows [begin, end) of a tensor [rows, ...] (axis 0) or [1, rows, ...] (axis 1): the forms that the
// plan allows.
Tensor SliceRows(const Tensor& tensor, int axis, int64_t begin, int64_t end) {
  if (axis == 0) {
    return tensor.Rows(begin, end);
  }
  BW_CHECK(axis == 1 && tensor.dim(0) == 1);
  Shape flat(tensor.shape().begin() + 1, tensor.shape().end());
  Tensor rows = tensor.Reshaped(flat).Rows(begin, end);
  Shape shape = rows.shape();
  shape.insert(shape.begin(), 1);
  return rows.Reshaped(shape);
}

}  // namespace

// Row i of `out` is row parents[i] of `old`; parents from old's number of rows on are start states.
// False where shapes differ. A row that continues the row before it (kRowBefore) is filled in
// later, from that row.
bool GatherRows(const Tensor& old, absl::Span<const std::vector<Tensor>* const> starts,
                size_t state, absl::Span<const int32_t> parents, Tensor& out) {
  const Tensor& model = old.has_value() ? old : (*starts[0])[state];
  const int64_t old_rows = old.has_value() ? old.dim(0) : 0;
  Shape shape = model.shape();
  shape[0] = 1;
  for (const std::vector<Tensor>* start : starts) {
    if ((*start)[state].shape() != shape || (*start)[state].dtype() != model.dtype()) {
      return false;
    }
  }
  shape[0] = static_cast<int64_t>(parents.size());
  out.Resize(model.dtype(), shape);
  const auto bytes =
      parents.empty() ? size_t{0} : static_cast<size_t>(out.num_bytes()) / parents.size();
  for (size_t i = 0; i < parents.size(); ++i) {
    const int64_t parent = parents[i];
    if (parent == LoopBody::kRowBefore) {
      continue;
    }
    const std::byte* from = parent < old_rows
                                ? old.bytes() + static_cast<size_t>(parent) * bytes
                                : (*starts[static_cast<size_t>(parent - old_rows)])[state].bytes();
    std::memcpy(out.mutable_bytes() + i * bytes, from, bytes);
  }
  return true;
}

// Units of separable rows use the request's slots. Otherwise each row gets a copy of them, whose
// tensors are shared; the pointers to copies are set at the end, since the vector of copies moves
// while it grows.
void LoopBody::MakeUnits(const RowStep& step, RowScratch& scratch) const {
  scratch.units.clear();
  scratch.copies.clear();
  int64_t row = 0;
  for (size_t i = 0; i < step.requests.size(); ++i) {
    const int64_t end = row + step.rows_per_request[i];
    if (plan_.separable) {
      scratch.units.push_back({step.requests[i], &step.requests[i]->slots, row, end});
    } else {
      for (int64_t single = row; single < end; ++single) {
        scratch.copies.push_back(step.requests[i]->slots);
        scratch.units.push_back({step.requests[i], nullptr, single, single + 1});
      }
    }
    row = end;
  }
  for (size_t i = 0; i < scratch.copies.size(); ++i) {
    scratch.units[i].slots = &scratch.copies[i];
  }
}

// Before each instruction its inputs are put into the unit's slots: of values of all rows a view of
// the unit's rows. A value of the request that has one row is repeated for all rows of the unit,
// unless the operator broadcasts.
absl::Status LoopBody::RunUnit(const ExecutionContext& context, const RowPlan::Segment& segment,
                               const Unit& unit, const Slots& rows) const {
  Slots& slots = *unit.slots;
  absl::InlinedVector<int, 4> repeated;
  for (const int index : segment.instructions) {
    BW_RETURN_IF_ERROR(context.CheckInterruption());
    const Program::Instruction& instruction =
        step_program_.instructions()[static_cast<size_t>(index)];
    repeated.clear();
    for (const int slot : instruction.inputs) {
      if (slot < 0) {
        continue;
      }
      const auto at = static_cast<size_t>(slot);
      if (plan_.sources[at] == RowPlan::Source::kRows && rows[at].has_value()) {
        slots[at] = SliceRows(rows[at], plan_.row_axes[at], unit.begin * plan_.factors[at],
                              unit.end * plan_.factors[at]);
      } else if (plan_.sources[at] == RowPlan::Source::kRequest &&
                 !plan_.broadcasts[static_cast<size_t>(index)] && slots[at].rank() > 0 &&
                 slots[at].dim(0) == plan_.factors[at]) {
        repeated.push_back(slot);
      }
    }
    BW_RETURN_IF_ERROR(
        Program::RunRepeating(instruction, context, slots, repeated, unit.end - unit.begin));
  }
  return absl::OkStatus();
}

int64_t LoopBody::WorkOf(const RowPlan::Segment& segment, const RowScratch& scratch) const {
  // Each row reads the request's values: an element takes a multiply-add that no kernel blocks.
  constexpr int64_t kPerElement = 4;
  constexpr int64_t kPerInstruction = 100'000;  // a microsecond: shapes, types, outputs
  int64_t work = 0;
  for (const Unit& unit : scratch.units) {
    work += kPerInstruction * static_cast<int64_t>(segment.instructions.size());
    for (const int index : segment.instructions) {
      for (const int slot : step_program_.instructions()[static_cast<size_t>(index)].inputs) {
        if (slot >= 0 && plan_.sources[static_cast<size_t>(slot)] == RowPlan::Source::kRequest) {
          const Tensor& value = (*unit.slots)[static_cast<size_t>(slot)];
          work +=
              value.has_value() ? kPerElement * (unit.end - unit.begin) * value.num_elements() : 0;
        }
      }
    }
  }
  return work;
}

absl::Status LoopBody::RunPerRequest(const ExecutionContext& context,
                                     const RowPlan::Segment& segment, RowScratch& scratch) const {
  const auto count = static_cast<int>(scratch.units.size());
  absl::Span<absl::Status> statuses = absl::MakeSpan(scratch.statuses);
  const PhaseScope phase(context.profile, Phase::kAttention);
  // Loops within the shared one run on its threads.
  const int threads = SharingFor(std::min(context.num_threads, count), WorkOf(segment, scratch));
  ParallelFor(threads, count, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    statuses[at] = RunUnit(context, segment, scratch.units[at], scratch.rows);
  });
  for (int i = 0; i < count; ++i) {
    BW_RETURN_IF_ERROR(statuses[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

// Parts are joined along axis 0. Where their other axes differ, as with sources of different
// lengths, the value has no form for all rows, and whatever reads it runs per request.
void LoopBody::Join(const RowPlan::Segment& segment, absl::Span<const Unit> units,
                    Slots& rows) const {
  for (const int slot : segment.joined) {
    const auto at = static_cast<size_t>(slot);
    const Tensor& first = (*units.front().slots)[at];
    int64_t extent = 0;
    bool agree = first.rank() > 0;
    for (const Unit& unit : units) {
      const Tensor& part = (*unit.slots)[at];
      agree = agree && part.rank() == first.rank() &&
              std::equal(part.shape().begin() + 1, part.shape().end(), first.shape().begin() + 1);
      extent += agree ? part.dim(0) : 0;
    }
    if (!agree) {
      rows[at] = Tensor();
      continue;
    }
    Shape shape = first.shape();
    shape[0] = extent;
    rows[at].Resize(first.dtype(), shape);
    std::byte* out = rows[at].mutable_bytes();
    for (const Unit& unit : units) {
      const Tensor& part = (*unit.slots)[at];
      std::memcpy(out, part.bytes(), static_cast<size_t>(part.num_bytes()));
      out += part.num_bytes();
    }
  }
}

void LoopBody::ReleaseViews(RowScratch& scratch) const {
  const std::vector<Program::Instruction>& instructions = step_program_.instructions();
  for (size_t i = instructions.size(); i-- > 0;) {
    if (!plan_.per_request[i]) {
      Program::ReleaseViews(instructions[i], scratch.rows);
      continue;
    }
    for (const Unit& unit : scratch.units) {
      Program::ReleaseViews(instructions[i], *unit.slots);
    }
  }
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (size_t input = 0; plan_.per_request[i] && input < instructions[i].inputs.size(); ++input) {
      const int slot = instructions[i].inputs[input];
      if (slot >= 0 && plan_.sources[static_cast<size_t>(slot)] == RowPlan::Source::kRows) {
        for (const Unit& unit : scratch.units) {
          (*unit.slots)[static_cast<size_t>(slot)] = Tensor();
        }
      }
    }
  }
}

void LoopBody::CollectParts(int result, RowScratch& scratch) const {
  const auto slot = static_cast<size_t>(result_slots_[static_cast<size_t>(result)]);
  const std::vector<Program::Instruction>& instructions = step_program_.instructions();
  for (size_t i = 0; i < instructions.size(); ++i) {
    const int output = static_cast<int>(slot) - instructions[i].first_output;
    if (plan_.per_request[i] && output >= 0 && output < instructions[i].num_outputs) {
      for (const Unit& unit : scratch.units) {
        scratch.parts_.push_back((*unit.slots)[slot]);
      }
      return;
    }
  }
  scratch.parts_.push_back(scratch.rows[slot]);
}

void LoopBody::RowScratch::ForgetPages() {
  constexpr size_t kMostSpare = 4;
  for (Pages& own : pages) {
    std::move(own.rows.begin(), own.rows.end(), std::back_inserter(own.spare));
    own.rows.clear();
    own.spare.resize(std::min(own.spare.size(), kMostSpare));
  }
}

std::vector<Tensor> LoopBody::StatesOfRow(const RowScratch& scratch,
                                          absl::Span<const Tensor> states, int64_t row) const {
  std::vector<Tensor> of_row;
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (growing_axes_[i] >= 0) {
      of_row.push_back(scratch.grown[i][static_cast<size_t>(row)]);
      continue;
    }
    of_row.push_back(states[i].has_value() ? states[i].Rows(row, row + 1)
                                           : scratch.pages[i].rows[static_cast<size_t>(row)]);
  }
  return of_row;
}

// Pages of a state that is written in place: where the rows of the step read it and where they
// write it. The last row of a family writes over the old state, the others to spare pages. A page
// that no row continues becomes spare. The positions of a row share a page, which is that of the
// last of them after the step.
absl::Status LoopBody::TakePages(const RowStep& step, size_t state, RowScratch& scratch) const {
  RowScratch::Pages& pages = scratch.pages[state];
  const RowFamilies& families = scratch.families;
  const auto old_rows = static_cast<int32_t>(pages.rows.size());
  const auto row_of = [&](size_t first) {
    return scratch.last_rows.empty() ? first : static_cast<size_t>(scratch.last_rows[first]);
  };
  Shape& shape = pages.view.row_shape;
  shape =
      ParameterNode(loop_->inputs[static_cast<size_t>(carried_[state])]).outputs[0].shape.dims();
  shape[0] = 1;
  // 1. The page that each family reads: its parent's, which its last row takes over, or a start
  //    state.
  std::vector<Tensor> old = std::exchange(pages.rows, {});
  pages.rows.resize(step.parents.size());
  pages.from.clear();
  pages.to.assign(static_cast<size_t>(families.num_rows()), nullptr);
  for (int32_t family = 0; family < families.num_families(); ++family) {
    const int32_t parent = families.parents()[static_cast<size_t>(family)];
    const size_t last = row_of(
        static_cast<size_t>(families.rows()[static_cast<size_t>(families.first(family + 1) - 1)]));
    if (parent < old_rows) {
      pages.rows[last] = std::exchange(old[static_cast<size_t>(parent)], Tensor());
      BW_CHECK(pages.rows[last].has_value());
      pages.from.push_back(pages.rows[last].data<float>());
      continue;
    }
    const Tensor& start = (*step.starts[static_cast<size_t>(parent - old_rows)])[state];
    if (start.shape() != shape || start.dtype() != DType::kF32) {
      return Invalid("a start state of ",
                     Describe(ParameterNode(loop_->inputs[static_cast<size_t>(carried_[state])])),
                     " is ", Name(start.dtype()), ToString(start.shape()));
    }
    pages.from.push_back(start.data<float>());
  }
  // 2. Pages without a continuing row are spare, and other rows write to spare or new pages.
  for (Tensor& page : old) {
    if (page.has_value()) {
      pages.spare.push_back(std::move(page));
    }
  }
  for (size_t row = 0; row < pages.to.size(); ++row) {
    Tensor& page = pages.rows[row_of(row)];
    if (!page.has_value() && !pages.spare.empty()) {
      page = std::move(pages.spare.back());
      pages.spare.pop_back();
    }
    if (!page.has_value()) {
      page = Tensor(DType::kF32, shape);
    }
    pages.to[row] = page.mutable_data<float>();
  }
  // Spare pages are kept for as many rows as the batch has.
  pages.spare.resize(std::min(pages.spare.size(), pages.to.size()));
  pages.view.from = pages.from;
  pages.view.to = pages.to;
  return absl::OkStatus();
}

// Puts the states that grow into the values of their request, [its rows, ...]. The rows continue
// views of what the last step left; a single row is taken without a copy.
absl::Status LoopBody::GatherGrown(const RowStep& step, std::vector<Tensor>& states,
                                   RowScratch& scratch) const {
  scratch.grown.resize(carried_.size());
  scratch.gathered.resize(carried_.size());
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (growing_axes_[i] < 0) {
      continue;
    }
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    std::vector<Tensor> old = std::exchange(scratch.grown[i], {});
    if (const Tensor given = std::exchange(states[i], Tensor()); given.has_value()) {
      old.clear();
      for (int64_t row = 0; row < given.dim(0); ++row) {
        old.push_back(given.Rows(row, row + 1));
      }
    }
    const auto continued = [&](int64_t row) -> const Tensor& {
      const auto parent = static_cast<size_t>(step.parents[static_cast<size_t>(row)]);
      return parent < old.size() ? old[parent] : (*step.starts[parent - old.size()])[i];
    };
    std::vector<Tensor>& gathered = scratch.gathered[i];
    gathered.resize(step.parents.size());
    for (const Unit& unit : scratch.units) {
      Tensor& to = (*unit.slots)[static_cast<size_t>(ParameterSlot(input))];
      const Tensor& first = continued(unit.begin);
      if (unit.end - unit.begin == 1) {
        to = first;
        gathered[static_cast<size_t>(unit.begin)] = first;
        continue;
      }
      Shape shape = first.shape();
      shape[0] = unit.end - unit.begin;
      to = Tensor(first.dtype(), shape);
      const auto bytes = static_cast<size_t>(first.num_bytes());
      std::byte* out = to.mutable_bytes();
      for (int64_t row = unit.begin; row < unit.end; ++row) {
        const Tensor& own = continued(row);
        if (own.shape() != first.shape() || own.dtype() != first.dtype()) {
          return Invalid("rows of one request continue states of ", Describe(ParameterNode(input)),
                         " that differ in length");
        }
        if (bytes > 0) {
          std::memcpy(out, own.bytes(), bytes);
          out += bytes;
        }
      }
      for (int64_t row = 0; row < shape[0]; ++row) {
        gathered[static_cast<size_t>(unit.begin + row)] = to.Rows(row, row + 1);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status LoopBody::CollectGrown(size_t num_rows, RowScratch& scratch) const {
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (growing_axes_[i] < 0) {
      continue;
    }
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    const int next_slot = result_slots_[static_cast<size_t>(input.back_edge)];
    scratch.grown[i].resize(num_rows);
    for (const Unit& unit : scratch.units) {
      Tensor& old = (*unit.slots)[static_cast<size_t>(ParameterSlot(input))];
      const Tensor& next = (*unit.slots)[static_cast<size_t>(next_slot)];
      Shape wanted = old.shape();
      ++wanted[static_cast<size_t>(growing_axes_[i])];
      if (next.dtype() != old.dtype() || next.shape() != wanted) {
        return Invalid("back edge to body ", Describe(ParameterNode(input)), " carries ",
                       Name(next.dtype()), ToString(next.shape()), ", not ", Name(old.dtype()),
                       ToString(wanted));
      }
      for (int64_t row = unit.begin; row < unit.end; ++row) {
        scratch.grown[i][static_cast<size_t>(row)] =
            next.Rows(row - unit.begin, row - unit.begin + 1);
      }
    }
  }
  return absl::OkStatus();
}

// Drops the request's references to states that grow: `scratch` alone holds them between steps.
void LoopBody::ReleaseGrown(const RowScratch& scratch) const {
  for (size_t i = 0; i < carried_.size(); ++i) {
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    const auto next = static_cast<size_t>(result_slots_[static_cast<size_t>(input.back_edge)]);
    for (const Unit& unit : scratch.units) {
      if (growing_axes_[i] >= 0) {
        (*unit.slots)[static_cast<size_t>(ParameterSlot(input))] = Tensor();
        (*unit.slots)[next] = Tensor();
      }
    }
  }
}

void LoopBody::NumberSteps(const RowStep& step, RowScratch& scratch) const {
  for (size_t i = 0; i < iterations_.size(); ++i) {
    const int node = iterations_[i];
    const auto slot = static_cast<size_t>(step_program_.slot({node, 0}));
    for (const Unit& unit : scratch.units) {
      (*unit.slots)[slot] =
          IterationTensor(loop_->body.node(node).outputs[0], unit.request->counts[i]);
    }
  }
  for (RequestValues* const request : step.requests) {
    request->CountSteps(1);
  }
}

absl::Status LoopBody::GatherStates(const RowStep& step, absl::Span<const Tensor> states,
                                    RowScratch& scratch) const {
  const bool has_positions = !scratch.last_rows.empty();
  scratch.by_family = TakesFamilies() && !has_positions;
  if (TakesFamilies()) {
    scratch.families.Assign(has_positions ? scratch.first_parents : step.parents);
  }
  scratch.pages.resize(step.in_place ? carried_.size() : 0);
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (growing_axes_[i] >= 0) {
      continue;
    }
    if (step.in_place && paged_by_[i] >= 0) {
      BW_RETURN_IF_ERROR(TakePages(step, i, scratch));
      continue;
    }
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    const absl::Span<const int32_t> parents =
        scratch.by_family && family_states_[i] ? scratch.families.parents() : step.parents;
    if (!GatherRows(states[i], step.starts, i, parents,
                    scratch.rows[static_cast<size_t>(ParameterSlot(input))])) {
      return Invalid("start states of ", Describe(ParameterNode(input)),
                     " differ in shape from request to request");
    }
  }
  return absl::OkStatus();
}

void LoopBody::RestoreStates(RowScratch& scratch, std::vector<Tensor>& states) const {
  const RowFamilies& families = scratch.families;
  std::vector<int32_t> family_of_row;
  if (scratch.by_family) {
    family_of_row.resize(static_cast<size_t>(families.num_rows()));
    for (int32_t family = 0; family < families.num_families(); ++family) {
      for (int i = families.first(family); i < families.first(family + 1); ++i) {
        family_of_row[static_cast<size_t>(families.rows()[static_cast<size_t>(i)])] = family;
      }
    }
  }
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (growing_axes_[i] >= 0) {
      scratch.grown[i] = std::exchange(scratch.gathered[i], {});
      states[i] = Tensor();
      continue;
    }
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    Tensor gathered =
        std::exchange(scratch.rows[static_cast<size_t>(ParameterSlot(input))], Tensor());
    if (scratch.by_family && family_states_[i]) {
      states[i] = Tensor();
      GatherRows(gathered, {}, i, family_of_row, states[i]);
    } else {
      states[i] = std::move(gathered);
    }
  }
}

// Two instructions may be left to the kernel that reads them: a look-up of rows of a table, and the
// copy of a state for each row of a family. The kernel then reads the table or the parent's state
// in place (RowSources).
absl::Status LoopBody::RunOverRows(const ExecutionContext& context, size_t instruction,
                                   RowScratch& scratch) const {
  const std::vector<Program::Instruction>& instructions = step_program_.instructions();
  const Program::Instruction& now = instructions[instruction];
  if (!plan_.separable) {
    return Program::RunInstruction(now, context, scratch.rows);
  }
  const bool has_positions = !scratch.last_rows.empty();
  if (is_look_up_[instruction] && !(has_positions && is_read_in_order_[instruction])) {
    return absl::OkStatus();
  }
  RowSources sources;
  sources.families =
      reads_families_[instruction] && scratch.by_family ? &scratch.families : nullptr;
  if (const int state = paged_state_of_[instruction]; state >= 0 && !scratch.pages.empty()) {
    sources.pages = &scratch.pages[static_cast<size_t>(state)].view;
  }
  const Tensor* table = nullptr;
  if (const int look_up = look_ups_[instruction]; look_up >= 0) {
    const std::vector<int>& inputs = instructions[static_cast<size_t>(look_up)].inputs;
    table = &scratch.rows[static_cast<size_t>(inputs[0])];
    sources.table_rows = &scratch.rows[static_cast<size_t>(inputs[1])];
  }
  return sources.families == nullptr && table == nullptr
             ? Program::RunInstruction(now, context, scratch.rows)
             : Program::RunRows(now, context, sources, table, scratch.rows);
}

absl::Status LoopBody::RunSegment(const ExecutionContext& context, const RowPlan::Segment& segment,
                                  RowScratch& scratch) const {
  if (segment.per_request) {
    BW_RETURN_IF_ERROR(RunPerRequest(context, segment, scratch));
    Join(segment, scratch.units, scratch.rows);
    return absl::OkStatus();
  }
  for (const int index : segment.instructions) {
    BW_RETURN_IF_ERROR(context.CheckInterruption());
    BW_RETURN_IF_ERROR(RunOverRows(context, static_cast<size_t>(index), scratch));
  }
  return absl::OkStatus();
}

absl::Status LoopBody::RunSegments(const ExecutionContext& context, RowScratch& scratch) const {
  for (const RowPlan::Segment& segment : plan_.segments) {
    BW_RETURN_IF_ERROR(RunSegment(context, segment, scratch));
  }
  return absl::OkStatus();
}

absl::Status LoopBody::StepRows(const ExecutionContext& context, const RowStep& step,
                                RowScratch& scratch, std::vector<Tensor>& states,
                                std::vector<Tensor>& results) const {
  Slots& rows = scratch.rows;
  if (rows.empty()) {
    rows = step_program_.MakeSlots();
  }
  BW_CHECK(!step.in_place || plan_.separable);
  // 1. References to the last results are dropped: this step writes the same buffers.
  results.clear();
  scratch.parts_.clear();
  // 2. Units, and positions of rows that read several tokens.
  MakeUnits(step, scratch);
  ListPositions(step, scratch);
  BW_CHECK(scratch.last_rows.empty() || positions_.possible);
  if (counts_steps()) {
    // 3. Numbers and states that grow. Before anything can fail: a repeated step takes the number
    // back (CountSteps).
    NumberSteps(step, scratch);
    BW_RETURN_IF_ERROR(GatherGrown(step, states, scratch));
  }
  // 4. States and slices.
  BW_RETURN_IF_ERROR(GatherStates(step, states, scratch));
  std::fill(states.begin(), states.end(), Tensor());
  for (size_t i = 0; i < sliced_.size(); ++i) {
    const LoopInput& input = loop_->inputs[static_cast<size_t>(sliced_[i])];
    Tensor& parameter = rows[static_cast<size_t>(ParameterSlot(input))];
    parameter.Resize(step.slices[i].dtype(), step.slices[i].shape());
    std::memcpy(parameter.mutable_bytes(), step.slices[i].bytes(),
                static_cast<size_t>(parameter.num_bytes()));
  }
  // 5. The instructions.
  scratch.statuses.resize(scratch.units.size());
  ExecutionContext to_its_end = context;
  if (step.in_place) {
    to_its_end.interruption = nullptr;  // half a step in place could not be made again
  }
  BW_RETURN_IF_ERROR(scratch.last_rows.empty() ? RunSegments(to_its_end, scratch)
                                               : RunStages(to_its_end, step, scratch));
  // 6. The next states and the results; then buffers with one owner each.
  for (size_t i = 0; i < carried_.size(); ++i) {
    if ((step.in_place && paged_by_[i] >= 0) || growing_axes_[i] >= 0) {
      continue;
    }
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[i])];
    states[i] =
        rows[static_cast<size_t>(ParameterSlot(input))];  // the form that the next state must have
  }
  BW_RETURN_IF_ERROR(CollectResults(rows, /*may_change_shape=*/false,
                                    static_cast<int64_t>(step.parents.size()), step.in_place,
                                    states, results));
  if (step.ragged_result >= 0) {
    CollectParts(step.ragged_result, scratch);
  }
  BW_RETURN_IF_ERROR(CollectGrown(step.parents.size(), scratch));
  ReleaseViews(scratch);
  ReleaseGrown(scratch);
  return absl::OkStatus();
}

}  // namespace beamwright::ops
