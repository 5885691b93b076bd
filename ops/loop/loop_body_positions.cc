// The part of LoopBody that steps rows over several positions at once: a row whose parent is
// kRowBefore reads the states that the row before it leaves. What the plan (PositionPlan) says to
// be independent of states runs over all rows, the rest position by position, each time over the
// rows that have that position.
//
// 1. ListPositions: which rows are at which position, and the last row of each chain of rows.
// 2. RunStages runs the plan's stages. ShiftState copies a state's next values one row further.
// 3. RunInOrder takes the rows of a position out of the values that the stage reads (TakeRows),
//    runs the stage's instructions over them (RunPosition), and puts the results back (PutRows).
// 4. RunPagedUpdate: a stage of a single state update in pages is left to the kernel, which goes
//    through the positions of a row itself.
//
// An example: two requests, of which the first reads a prompt of three tokens and the second one
// token. The step has four rows, with the parents 0, kRowBefore, kRowBefore, 1.
//
//   row                     0    1    2    3
//   request                 a    a    a    b
//   position                0    1    2    0
//   positions               [0, 3], [1], [2]      rows by position
//   first_parents           0, 1                  a chain's first row continues an old row
//   last_rows               2, 3                  a chain's last row is continued by the next step
//
// Products with weights run once, over [4, width]. A cell runs three times: over rows 0 and 3, then
// row 1, then row 2.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/base/status.h"
#include "ops/loop/loop_body.h"

namespace beamwright::ops {
namespace {

// A value [.., factor * rows, ..] as `outer` blocks, each with `bytes` for each row.
struct RowBlocks {
  int64_t outer = 1;
  int64_t rows = 0;
  size_t bytes = 0;

  RowBlocks(const Tensor& value, int axis, int64_t factor) {
    for (int i = 0; i < axis; ++i) {
      outer *= value.dim(i);
    }
    rows = value.dim(axis) / factor;
    bytes = outer * rows == 0 ? 0 : static_cast<size_t>(value.num_bytes() / (outer * rows));
  }
};

Shape WithRows(const Tensor& value, int axis, int64_t extent) {
  Shape shape = value.shape();
  shape[static_cast<size_t>(axis)] = extent;
  return shape;
}

bool AreConsecutive(absl::Span<const int32_t> rows) {
  return rows.back() - rows.front() + 1 == static_cast<int32_t>(rows.size());
}

// The rows `list` (ascending) of `value`, less `back`: a view where it can be one.
//
// `back` is 1 where a position reads what the position before gave: row r then reads row r - 1.
// Rows on axis 0 that follow each other are a view without a copy, which is the usual case of one
// request; all others are gathered block by block.
void TakeRows(const Tensor& value, int axis, int64_t factor, absl::Span<const int32_t> list,
              int32_t back, Tensor& out) {
  if (axis == 0 && AreConsecutive(list)) {
    out = value.Rows((list.front() - back) * factor, (list.back() - back + 1) * factor);
    return;
  }
  const RowBlocks blocks(value, axis, factor);
  out.Resize(value.dtype(), WithRows(value, axis, factor * static_cast<int64_t>(list.size())));
  std::byte* to = out.mutable_bytes();
  for (int64_t block = 0; block < blocks.outer; ++block) {
    for (const int32_t row : list) {
      std::memcpy(
          to, value.bytes() + static_cast<size_t>(block * blocks.rows + row - back) * blocks.bytes,
          blocks.bytes);
      to += blocks.bytes;
    }
  }
}

// The reverse: `part` becomes the rows `list` of `value`, which has all rows.
void PutRows(const Tensor& part, int axis, int64_t factor, absl::Span<const int32_t> list,
             Tensor& value) {
  const RowBlocks blocks(value, axis, factor);
  const std::byte* from = part.bytes();
  std::byte* const to = value.mutable_bytes();
  for (int64_t block = 0; block < blocks.outer; ++block) {
    for (const int32_t row : list) {
      std::memcpy(to + static_cast<size_t>(block * blocks.rows + row) * blocks.bytes, from,
                  blocks.bytes);
      from += blocks.bytes;
    }
  }
}

}  // namespace

// Without any kRowBefore the lists stay empty, and the step runs as usual.
void LoopBody::ListPositions(const RowStep& step, RowScratch& scratch) {
  scratch.first_parents.clear();
  scratch.last_rows.clear();
  if (std::find(step.parents.begin(), step.parents.end(), kRowBefore) == step.parents.end()) {
    return;
  }
  for (std::vector<int32_t>& rows : scratch.positions) {
    rows.clear();
  }
  size_t position = 0;
  for (size_t row = 0; row < step.parents.size(); ++row) {
    position = step.parents[row] == kRowBefore ? position + 1 : 0;
    BW_CHECK(position <= row);
    if (position == 0) {
      scratch.first_parents.push_back(step.parents[row]);
      scratch.last_rows.push_back(0);
    }
    scratch.last_rows.back() = static_cast<int32_t>(row);
    if (scratch.positions.size() <= position) {
      scratch.positions.resize(position + 1);
    }
    scratch.positions[position].push_back(static_cast<int32_t>(row));
  }
}

absl::Status LoopBody::RunStages(const ExecutionContext& context, const RowStep& step,
                                 RowScratch& scratch) const {
  using Kind = PositionPlan::Stage::Kind;
  for (const PositionPlan::Stage& stage : positions_.stages) {
    switch (stage.kind) {
      case Kind::kRows:
      case Kind::kRequests:
        BW_RETURN_IF_ERROR(RunSegment(context, stage.segment, scratch));
        break;
      case Kind::kShift:
        BW_RETURN_IF_ERROR(ShiftState(static_cast<size_t>(stage.states[0]), scratch));
        break;
      case Kind::kInOrder:
        BW_RETURN_IF_ERROR(step.in_place && IsOnePagedUpdate(stage)
                               ? RunPagedUpdate(context, stage, scratch)
                               : RunInOrder(context, step, stage, scratch));
        break;
    }
  }
  return absl::OkStatus();
}

bool LoopBody::IsOnePagedUpdate(const PositionPlan::Stage& stage) const {
  const std::vector<int>& instructions = stage.segment.instructions;
  return stage.states.size() == 1 && instructions.size() == 1 &&
         paged_state_of_[static_cast<size_t>(instructions[0])] == stage.states[0];
}

// The kernel itself goes from position to position, so that the state stays in the cache.
absl::Status LoopBody::RunPagedUpdate(const ExecutionContext& context,
                                      const PositionPlan::Stage& stage, RowScratch& scratch) const {
  BW_RETURN_IF_ERROR(context.CheckInterruption());
  RowSources sources = PageSources(static_cast<size_t>(stage.states[0]), 0, scratch);
  sources.last_rows = scratch.last_rows;
  const auto instruction = static_cast<size_t>(stage.segment.instructions[0]);
  return Program::RunRows(step_program_.instructions()[instruction], context, sources, nullptr,
                          scratch.rows);
}

// Ascending: a state may be its own next value.
absl::Status LoopBody::ShiftState(size_t state, RowScratch& scratch) const {
  const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[state])];
  Tensor& to = scratch.rows[static_cast<size_t>(ParameterSlot(input))];
  const Tensor& next = scratch.rows[static_cast<size_t>(NextSlot(state))];
  if (next.shape() != to.shape() || next.dtype() != to.dtype()) {
    return Invalid("back edge to body ", Describe(ParameterNode(input)), " carries ",
                   Name(next.dtype()), ToString(next.shape()), ", the state is ", Name(to.dtype()),
                   ToString(to.shape()));
  }
  const size_t bytes = static_cast<size_t>(to.num_bytes() / to.dim(0));
  for (size_t position = 1; position < scratch.positions.size(); ++position) {
    for (const int32_t row : scratch.positions[position]) {
      const auto at = static_cast<size_t>(row);
      std::memcpy(to.mutable_bytes() + at * bytes, next.bytes() + (at - 1) * bytes, bytes);
    }
  }
  return absl::OkStatus();
}

RowSources LoopBody::PageSources(size_t state, size_t position, RowScratch& scratch) const {
  RowScratch::Pages& pages = scratch.pages[state];
  RowSources sources;
  if (position == 0) {
    sources.families = &scratch.families;
    sources.pages = &pages.view;
    return sources;
  }
  // Each row has its page from the position before.
  scratch.single_places.clear();
  size_t first = 0;
  for (const int32_t row : scratch.positions[position]) {
    while (scratch.last_rows[first] < row) {
      ++first;
    }
    scratch.single_places.push_back(pages.to[first]);
  }
  scratch.single_sources.assign(scratch.single_places.begin(), scratch.single_places.end());
  scratch.single_parents.resize(scratch.single_places.size());
  std::iota(scratch.single_parents.begin(), scratch.single_parents.end(), 0);
  scratch.singles.Assign(scratch.single_parents);
  scratch.single_pages.row_shape = pages.view.row_shape;
  scratch.single_pages.from = scratch.single_sources;
  scratch.single_pages.to = scratch.single_places;
  sources.families = &scratch.singles;
  sources.pages = &scratch.single_pages;
  return sources;
}

// 1. The values that the stage reads are cut to the rows of the position.
// 2. Its instructions run, on the slots of scratch.in_order, where all values have these
//    rows alone.
// 3. Results that others read are put back among all rows. The first position makes the memory for
//    all of them: position 0 has a row of every chain, so the shape of a row is known from it. A
//    later position must give the same shape.
absl::Status LoopBody::RunPosition(const ExecutionContext& context,
                                   const PositionPlan::Stage& stage, size_t position,
                                   RowScratch& scratch) const {
  Slots& slots = scratch.in_order;
  const std::vector<int32_t>& list = scratch.positions[position];
  const auto num_rows = static_cast<int64_t>(scratch.units.back().end);
  for (const int slot : stage.read) {
    const auto at = static_cast<size_t>(slot);
    TakeRows(scratch.rows[at], plan_.row_axes[at], plan_.factors[at], list, 0, slots[at]);
  }
  for (const int index : stage.segment.instructions) {
    BW_RETURN_IF_ERROR(context.CheckInterruption());
    const Program::Instruction& now = step_program_.instructions()[static_cast<size_t>(index)];
    const int paged = paged_state_of_[static_cast<size_t>(index)];
    BW_RETURN_IF_ERROR(
        paged >= 0 && !scratch.pages.empty()
            ? Program::RunRows(now, context,
                               PageSources(static_cast<size_t>(paged), position, scratch), nullptr,
                               slots)
            : Program::RunInstruction(now, context, slots));
  }
  for (const int slot : stage.given) {
    const auto at = static_cast<size_t>(slot);
    const Tensor& part = slots[at];
    const bool is_there =
        position == 0 && std::any_of(stage.states.begin(), stage.states.end(), [&](int state) {
          return StateSlot(static_cast<size_t>(state)) == slot;
        });
    if (is_there || !part.has_value()) {  // or it lies in pages
      continue;
    }
    const int axis = plan_.row_axes[at];
    const int64_t factor = plan_.factors[at];
    const Shape shape = WithRows(part, axis, factor * num_rows);
    if (position == 0) {
      scratch.rows[at].Resize(part.dtype(), shape);
    }
    if (scratch.rows[at].shape() != shape || scratch.rows[at].dtype() != part.dtype() ||
        part.dim(axis) != factor * static_cast<int64_t>(list.size())) {
      return Invalid("position ", position, " of a row gives ", ToString(part.shape()), " for ",
                     list.size(), " rows, the first one gave ", ToString(scratch.rows[at].shape()));
    }
    PutRows(part, axis, factor, list, scratch.rows[at]);
  }
  return absl::OkStatus();
}

// Position 0 reads the states that the step was given, position p the next values of position p -
// 1, which lie one row before (`back` of TakeRows). States in pages are read and written by the
// kernel itself.
absl::Status LoopBody::RunInOrder(const ExecutionContext& context, const RowStep& step,
                                  const PositionPlan::Stage& stage, RowScratch& scratch) const {
  Slots& slots = scratch.in_order;
  if (slots.empty()) {
    slots = step_program_.MakeSlots();
  }
  for (size_t position = 0; position < scratch.positions.size(); ++position) {
    const std::vector<int32_t>& list = scratch.positions[position];
    if (list.empty()) {
      break;
    }
    for (const int number : stage.states) {
      const auto state = static_cast<size_t>(number);
      if (step.in_place && paged_by_[state] >= 0) {
        continue;
      }
      const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[state])];
      const auto parameter = static_cast<size_t>(StateSlot(state));
      const auto next = static_cast<size_t>(NextSlot(state));
      if (position > 0 && scratch.rows[next].dim(0) != scratch.rows[parameter].dim(0)) {
        return Invalid("back edge to body ", Describe(ParameterNode(input)), " carries ",
                       ToString(scratch.rows[next].shape()));
      }
      TakeRows(scratch.rows[position == 0 ? parameter : next], 0, 1, list, position == 0 ? 0 : 1,
               slots[parameter]);
    }
    BW_RETURN_IF_ERROR(RunPosition(context, stage, position, scratch));
    // The next position's values are to be written where these lie.
    const std::vector<Program::Instruction>& instructions = step_program_.instructions();
    for (size_t i = stage.segment.instructions.size(); i-- > 0;) {
      Program::ReleaseViews(instructions[static_cast<size_t>(stage.segment.instructions[i])],
                            slots);
    }
    for (const int slot : stage.read) {
      slots[static_cast<size_t>(slot)] = Tensor();
    }
    for (const int number : stage.states) {
      slots[static_cast<size_t>(StateSlot(static_cast<size_t>(number)))] = Tensor();
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
