// LoopBody: a loop's body compiled into a step program with carried states. It does not know why it
// is iterated: the sequence driver steps it over the parts of a tensor (TensorIterator), the beam
// driver over the tokens that a search chooses. A step reads the old states through `parents`, so
// that a search may drop, repeat and reorder rows, and writes new ones to other buffers: duplicates
// are safe.
//
// What depends only on invariant inputs (a request's encoder output) is computed once, by Bind, and
// held once per request however many rows it has.
#ifndef BEAMWRIGHT_OPS_LOOP_LOOP_BODY_H_
#define BEAMWRIGHT_OPS_LOOP_LOOP_BODY_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/compile/position_plan.h"
#include "ops/compile/program.h"
#include "ops/compile/row_plan.h"
#include "ops/compile/scopes.h"

namespace beamwright::ops {

class LoopBody {
 public:
  // Values of one request, or of one run of a loop: what Bind computed, and scratch for its steps.
  // One thread at a time.
  struct RequestValues {
    Slots slots;
    // By kIteration input: the number that the next step reads. Bind sets them to 0.
    std::vector<int64_t> counts;

    // Of a step that is to be made again, with -1.
    void CountSteps(int64_t steps) {
      for (int64_t& count : counts) {
        count += steps;
      }
    }
  };

  // A parent of a row that continues the row before it in the same step: the next position of one
  // text. Only where plan_positions().possible.
  static constexpr int32_t kRowBefore = -1;

  // One step over the rows of several requests; rows of a request stand together, in the order of
  // `requests`.
  struct RowStep {
    absl::Span<RequestValues* const> requests;
    absl::Span<const int> rows_per_request;
    // For each row the row of `states` that it continues, or, counted on from there, the entry of
    // `starts`; any order, repeats allowed; or kRowBefore. A request's rows continue states of one
    // length, where states grow. Behind the step, a row that another of the step has continued has
    // no states in `scratch`.
    absl::Span<const int32_t> parents;
    // One per kSliced input, in the order of the loop's inputs: this step's part for all rows.
    absl::Span<const Tensor> slices;
    // Start states of requests that take their first step: one [1, ...] per carried input, each.
    absl::Span<const std::vector<Tensor>* const> starts = {};
    // States that kernels can write row by row (writes_in_place) lie in `scratch`, where each row
    // has a page for each, and states[i] of them has no value. The step ends even if it is
    // interrupted, and cannot be made again. The same for all steps with one scratch.
    bool in_place = false;
    // A body result that is wanted although its extents may differ from request to request
    // (attention over a source): see RowScratch::parts. -1: none.
    int ragged_result = -1;
  };

  // Buffers of StepRows that are reused from step to step: values of all rows, and lists. Keep one
  // per batch, so that steady steps allocate nothing.
  class RowScratch {
   public:
    // Drops the rows that were stepped in place; the memory of a few is kept.
    void ForgetPages();

    // Of the last step's ragged_result: one or more [some rows, ...], together all rows in their
    // order. Valid until the next step.
    absl::Span<const Tensor> parts() const { return parts_; }
    // Drops the references of the last step to values of its requests.
    void ForgetRequests() {
      units.clear();
      copies.clear();
      parts_.clear();
      grown.clear();
      gathered.clear();
    }

   private:
    friend class LoopBody;
    // Rows [begin, end) of one request, and where its values live.
    struct Unit {
      RequestValues* request = nullptr;
      Slots* slots = nullptr;
      int64_t begin = 0;
      int64_t end = 0;
    };
    Slots rows;
    RowFamilies families;
    std::vector<Unit> units;
    std::vector<Slots> copies;  // of a request's values for each row, where rows run one at a time
    std::vector<absl::Status> statuses;  // of units
    std::vector<Tensor> parts_;
    // Of one state.
    struct Pages {
      std::vector<Tensor> rows;  // [1, ...] each
      std::vector<Tensor> spare;
      std::vector<const float*> from;  // of the step under way, by family
      std::vector<float*> to;          // and by row
      StatePages view;
    };
    std::vector<Pages> pages;  // by state
    // Of states that grow, by state and row, [1, ...] each: what the last step left, and what the
    // step under way continues.
    std::vector<std::vector<Tensor>> grown;
    std::vector<std::vector<Tensor>> gathered;
    bool by_family = false;  // whether the step under way holds family_states_ by family
    // Of a step that reads several positions of a row: the rows by position, ascending, and for
    // those of position 0 what they continue and the row of their last position.
    std::vector<std::vector<int32_t>> positions;
    std::vector<int32_t> first_parents;
    std::vector<int32_t> last_rows;
    Slots in_order;  // values of the rows of one position
    RowFamilies singles;
    StatePages single_pages;
    std::vector<float*> single_places;
    std::vector<const float*> single_sources;
    std::vector<int32_t> single_parents;
  };

  // `body_info`: what inference found of loop->body. Errors name the node that can't be compiled.
  static absl::StatusOr<std::unique_ptr<LoopBody>> Compile(std::shared_ptr<const Loop> loop,
                                                           const GraphInfo& body_info,
                                                           const OperatorSet& operators);

  const Loop& loop() const { return *loop_; }
  const RowPlan& plan() const { return plan_; }
  // Whether, and how, a step may read several positions of a row (kRowBefore).
  const PositionPlan& plan_positions() const { return positions_; }
  // Where a body result counts rows: the axis, and its extent per row (heads that were joined with
  // the rows, for example).
  int result_row_axis(int result) const {
    return plan_.row_axes[static_cast<size_t>(result_slots_[static_cast<size_t>(result)])];
  }
  int64_t result_row_factor(int result) const {
    return plan_.factors[static_cast<size_t>(result_slots_[static_cast<size_t>(result)])];
  }
  // The instructions that plan() speaks of, by index.
  const Program& step_program() const { return step_program_; }
  const std::vector<Scope>& scopes() const { return scopes_; }
  int num_states() const { return static_cast<int>(carried_.size()); }
  // Whether steps may be made in place, and some state gains by it.
  bool writes_in_place() const {
    return plan_.separable && std::any_of(paged_by_.begin(), paged_by_.end(),
                                          [](int instruction) { return instruction >= 0; });
  }
  // The axis on which a state becomes one longer in each step (ops/compile/growing_states.h), such
  // as a cache of keys; -1: it keeps its shape.
  int growing_axis(size_t state) const { return growing_axes_[state]; }
  bool has_growing_states() const {
    return std::any_of(growing_axes_.begin(), growing_axes_.end(),
                       [](int axis) { return axis >= 0; });
  }
  // Whether requests must have taken the same number of steps for their rows to be one request's.
  bool counts_steps() const { return has_growing_states() || !iterations_.empty(); }
  // Body Parameters that read the number of the step.
  const std::vector<int>& iterations() const { return iterations_; }
  // States of row `row` after a step, [1, ...] each, wherever they lie.
  std::vector<Tensor> StatesOfRow(const RowScratch& scratch, absl::Span<const Tensor> states,
                                  int64_t row) const;
  // The loop's input rules by kind, as indices into loop().inputs. States, invariants and slices
  // below stand in these orders.
  const std::vector<int>& carried() const { return carried_; }
  const std::vector<int>& invariants() const { return invariants_; }
  const std::vector<int>& sliced() const { return sliced_; }

  // Whether the body reads invariant `index` (of invariants()): a weight that kernels have packed
  // need not be given to Bind.
  bool reads_invariant(size_t index) const { return reads_invariant_[index]; }

  // Computes what the steps of one request (or run) share.
  absl::Status Bind(const ExecutionContext& context, absl::Span<const Tensor> invariants,
                    RequestValues& values) const;

  // One iteration of the body as it is written, over the whole batch of `values`. `states` (one per
  // carried input) are replaced by the new ones; results (one per body result) are set.
  absl::Status StepWhole(const ExecutionContext& context, absl::Span<const Tensor> slices,
                         int64_t iteration, RequestValues& values, std::vector<Tensor>& states,
                         std::vector<Tensor>& results) const;

  // One step over rows. states[i] is [old rows, ...], or has no value before the first step, and
  // becomes [rows, ...]; results[i] is [rows, ...], or has no value where its extents differ from
  // request to request. States that grow lie in `scratch` afterwards, and states[i] of them has no
  // value: StatesOfRow. A row's values are bit-identical whatever other rows there are.
  absl::Status StepRows(const ExecutionContext& context, const RowStep& step, RowScratch& scratch,
                        std::vector<Tensor>& states, std::vector<Tensor>& results) const;

  // After StepRows, interrupted or not: `states` become the states that its rows continued, one for
  // each row, in the order of the step. So the step can be repeated, also for some of its rows,
  // each row then being its own parent.
  void RestoreStates(RowScratch& scratch, std::vector<Tensor>& states) const;

  // Runs rows one at a time from now on: what the self-check at load does when stacking changes
  // bits.
  void ForceRowByRow(std::string reason);

 private:
  using Unit = RowScratch::Unit;

  LoopBody() = default;
  int ParameterSlot(const LoopInput& input) const;
  const Node& ParameterNode(const LoopInput& input) const;
  static Tensor IterationTensor(const ValueInfo& info, int64_t iteration);
  // `num_rows`: what replaces the first extent of the old states; -1: nothing does.
  // in_place: states that lie in pages are passed over.
  absl::Status CollectResults(const Slots& slots, bool may_change_shape, int64_t num_rows,
                              bool in_place, std::vector<Tensor>& states,
                              std::vector<Tensor>& results) const;
  // Finds the states that are read by nothing but kernels that take them by family, and rows of
  // tables by nothing but one that takes the table.
  void FindFamilyStates();
  void FindLookUps();
  void FindPagedStates();
  void PlanPositionsOfRows();
  // The step's instructions that read `slot`, if all of them run over rows and take it as the input
  // that `input` names, and it is not a result; otherwise nothing.
  std::optional<std::vector<size_t>> ReadersBySource(int slot,
                                                     int (RowSourceKernel::*input)() const) const;
  absl::Status RunOverRows(const ExecutionContext& context, size_t instruction,
                           RowScratch& scratch) const;
  absl::Status RunSegment(const ExecutionContext& context, const RowPlan::Segment& segment,
                          RowScratch& scratch) const;
  absl::Status RunSegments(const ExecutionContext& context, RowScratch& scratch) const;
  // Of a step that reads several positions of a row (loop_body_positions.cc).
  static void ListPositions(const RowStep& step, RowScratch& scratch);
  absl::Status RunStages(const ExecutionContext& context, const RowStep& step,
                         RowScratch& scratch) const;
  absl::Status ShiftState(size_t state, RowScratch& scratch) const;
  bool IsOnePagedUpdate(const PositionPlan::Stage& stage) const;
  absl::Status RunPagedUpdate(const ExecutionContext& context, const PositionPlan::Stage& stage,
                              RowScratch& scratch) const;
  absl::Status RunInOrder(const ExecutionContext& context, const RowStep& step,
                          const PositionPlan::Stage& stage, RowScratch& scratch) const;
  absl::Status RunPosition(const ExecutionContext& context, const PositionPlan::Stage& stage,
                           size_t position, RowScratch& scratch) const;
  // What RunPosition gives a kernel that writes the state to pages.
  RowSources PageSources(size_t state, size_t position, RowScratch& scratch) const;
  // Whether StepRows takes the states of family_states_ by family.
  bool TakesFamilies() const {
    return plan_.separable &&
           std::find(family_states_.begin(), family_states_.end(), true) != family_states_.end();
  }
  absl::Status GatherStates(const RowStep& step, absl::Span<const Tensor> states,
                            RowScratch& scratch) const;
  absl::Status TakePages(const RowStep& step, size_t state, RowScratch& scratch) const;
  int StateSlot(size_t state) const {
    return ParameterSlot(loop_->inputs[static_cast<size_t>(carried_[state])]);
  }
  int NextSlot(size_t state) const {
    const LoopInput& input = loop_->inputs[static_cast<size_t>(carried_[state])];
    return result_slots_[static_cast<size_t>(input.back_edge)];
  }
  // States that grow: before a step into the values of each request, after it out of them.
  absl::Status GatherGrown(const RowStep& step, std::vector<Tensor>& states,
                           RowScratch& scratch) const;
  absl::Status CollectGrown(size_t num_rows, RowScratch& scratch) const;
  void ReleaseGrown(const RowScratch& scratch) const;
  void NumberSteps(const RowStep& step, RowScratch& scratch) const;
  // At the end of StepWhole: lets go of states and slices. An old state's memory becomes that of
  // the value that carries the next one, so that two buffers take turns.
  void ReleaseParameters(Slots& slots) const;
  void MakeUnits(const RowStep& step, RowScratch& scratch) const;
  void CollectParts(int result, RowScratch& scratch) const;
  // What a segment of single requests takes, as ops/kernels/parallel.h counts it.
  int64_t WorkOf(const RowPlan::Segment& segment, const RowScratch& scratch) const;
  absl::Status RunPerRequest(const ExecutionContext& context, const RowPlan::Segment& segment,
                             RowScratch& scratch) const;
  absl::Status RunUnit(const ExecutionContext& context, const RowPlan::Segment& segment,
                       const Unit& unit, const Slots& rows) const;
  // At the end of a step: lets go of the rows that units borrowed and of all that shares a buffer
  // with another value, so that every buffer has one owner again and can be written in the next.
  void ReleaseViews(RowScratch& scratch) const;
  void Join(const RowPlan::Segment& segment, absl::Span<const Unit> units, Slots& rows) const;

  std::shared_ptr<const Loop> loop_;
  std::vector<Scope> scopes_;
  Program request_program_;
  Program step_program_;
  RowPlan plan_;
  PositionPlan positions_;
  std::vector<int> carried_;
  std::vector<int> invariants_;
  std::vector<bool> reads_invariant_;  // by invariant
  std::vector<int> sliced_;
  std::vector<int> iterations_;    // body parameters (node indices)
  std::vector<int> growing_axes_;  // by state
  std::vector<int> result_slots_;
  std::vector<int> spare_slots_;  // by state: the slot of its next value; -1: not the step's alone
  std::vector<bool> family_states_;   // by state: StepRows holds it by family, not by row
  std::vector<int> paged_by_;         // by state: the instruction that may write it in place; or -1
  std::vector<int> paged_state_of_;   // by instruction of the step program: that state; or -1
  std::vector<bool> reads_families_;  // by instruction of the step program: one of these states
  // By instruction, of those that run over all rows: the Gather whose table it reads; -1: none.
  std::vector<int> look_ups_;
  std::vector<bool> is_look_up_;  // a Gather that need not run for it
  // A Gather of these that runs all the same for a step of several positions: its reader is in
  // order.
  std::vector<bool> is_read_in_order_;
};

// out = rows parents[i] of `old` [rows, ...] (or no value), followed by state
// `state` [1, ...] of each of `starts`; rows of LoopBody::kRowBefore are left open. `out` must not
// share their buffers. False if a start's shape or type is not that of the others.
bool GatherRows(const Tensor& old, absl::Span<const std::vector<Tensor>* const> starts,
                size_t state, absl::Span<const int32_t> parents, Tensor& out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_LOOP_BODY_H_
