// A run of a Loop, from LoopKernel::Run:
//
//   1. The node's inputs are sorted by rule; lengths, if the loop has them, are read and checked.
//   2. RunOnce: Slicer resolves the slices against real extents, FindTrips says how many
//      iterations there may be, and each output rule gets a Collector with its output's memory.
//   3. Iterate: LoopBody::Bind computes once what depends on invariants alone. Then for each
//      iteration: interruption and deadline, slices, LoopBody::StepWhole, Collect, the condition.
//      Where the body is one recurrent cell, CellLoop runs those after the first.
//   4. FillEmpty: outputs of a loop that ran no iteration, whose shapes are inferred anew.
//
// Items of different lengths in one batch take one of three ways: states of items that have ended
// are held (HoldRows, Items::kHeld), items that are sorted by length leave the batch
// (LeavingItems), or each item is run alone (RunApart, Items::kApart).
//
// Shapes, for a loop over 5 time steps of 3 items with 8 features and a state of 4: the sliced
// input is [5, 3, 8] (axis 0), a slice [1, 3, 8] or, where the axis is dropped, [3, 8]; the state
// is [3, 4] before and after each iteration; an output that is joined along a new axis 0 is [5, 3,
// 4].
#include "ops/loop/sequence_driver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/compile/row_follower.h"
#include "ops/loop/loop_body.h"

namespace beamwright::ops {
namespace {

using Items = Loop::Items;

class LoopKernel : public Kernel {
 public:
  // What a run reads of the node's inputs is noted here (NeedsInput): an invariant that the body
  // does not read, since its kernels have packed it, need not be kept by the program.
  LoopKernel(const KernelRequest& request, std::unique_ptr<LoopBody> body, bool condition_stays)
      : node_(request.node),
        operators_(&request.operators),
        body_(std::move(body)),
        cell_(CellLoop::Find(*request.node.loop, *request.bodies[0], request.operators)),
        condition_stays_(condition_stays),
        items_leave_(request.node.attributes.Bool(kItemsLeave, false).value_or(false)) {
    for (const LoopOutput& rule : loop().outputs) {
      state_of_output_.push_back(FindState(rule));
    }
    needs_input_.assign(request.inputs.size(), false);
    const auto need = [&](int input) {
      if (input >= 0) {
        needs_input_[static_cast<size_t>(input)] = true;
      }
    };
    need(loop().trip_count_input);
    need(loop().condition_input);
    need(loop().lengths_input);
    for (const LoopInput& rule : loop().inputs) {
      need(rule.kind == LoopInput::Kind::kInvariant ? -1 : rule.input);
    }
    for (size_t i = 0; i < body_->invariants().size(); ++i) {
      const auto rule = static_cast<size_t>(body_->invariants()[i]);
      need(body_->reads_invariant(i) ? loop().inputs[rule].input : -1);
    }
    for (const InputInfo& input : request.inputs) {
      given_.push_back({input.dtype, input.shape});
    }
  }

  bool NeedsInput(size_t index) const override { return needs_input_[index]; }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    // The node's inputs by rule.
    std::vector<Tensor> values(loop().inputs.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const int input = loop().inputs[i].input;
      values[i] = input < 0 ? Tensor() : *inputs[static_cast<size_t>(input)];
    }
    if (loop().items == Items::kApart) {
      return RunApart(context, inputs, values, outputs);
    }
    std::vector<int64_t> lengths;
    if (loop().lengths_input >= 0) {
      BW_ASSIGN_OR_RETURN(lengths, ReadLengths(loop(), LengthsOf(inputs), values));
      BW_RETURN_IF_ERROR(DropWholeLengths(values, lengths));
    }
    std::vector<Tensor> results;
    for (const LoopOutput& rule : loop().outputs) {
      results.push_back(std::exchange(outputs[static_cast<size_t>(rule.output)], Tensor()));
    }
    BW_RETURN_IF_ERROR(RunOnce(context, inputs, values, -1, lengths, results));
    BW_RETURN_IF_ERROR(FillEmpty(inputs, results));
    Deliver(results, outputs);
    return absl::OkStatus();
  }

 private:
  const Loop& loop() const { return body_->loop(); }

  // Index of the state, among the carried ones, that `rule` gives the last value of; -1: none.
  int FindState(const LoopOutput& rule) const {
    for (size_t i = 0; i < body_->carried().size(); ++i) {
      const LoopInput& input = loop().inputs[static_cast<size_t>(body_->carried()[i])];
      if (rule.kind == LoopOutput::Kind::kLastValue && input.back_edge == rule.body_result) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  // Items that leave may as well stay together while none does.
  absl::Status DropWholeLengths(const std::vector<Tensor>& values,
                                std::vector<int64_t>& lengths) const {
    if (!items_leave_) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const int64_t extent, SlicedExtent(loop(), values));
    if (std::all_of(lengths.begin(), lengths.end(),
                    [extent](int64_t length) { return length == extent; })) {
      lengths.clear();
    }
    return absl::OkStatus();
  }

  // Iterates over the first `length` elements of the sliced axes (-1: all). `results`, one for each
  // output rule, give their memory, and end without a value where no iteration gave one.
  absl::Status RunOnce(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       const std::vector<Tensor>& values, int64_t length,
                       const std::vector<int64_t>& lengths, std::vector<Tensor>& results) const {
    std::vector<Tensor> memory(results.size());
    memory.swap(results);
    std::vector<Slicer> slicers;
    BW_ASSIGN_OR_RETURN(const int64_t parts, MakeSlicers(values, length, slicers));
    BW_ASSIGN_OR_RETURN(const Trips trips, FindTrips(loop(), inputs, parts, condition_stays_));
    std::vector<Tensor> states;
    for (const int rule : body_->carried()) {
      states.push_back(values[static_cast<size_t>(rule)]);
    }
    if (trips.most > 0) {
      Iterations run{context, trips, slicers, lengths, states, {}, {}, {}};
      if (items_leave_ && LeavingItems::AreSorted(lengths, trips.most)) {
        run.leaving.emplace(lengths, states);
      }
      for (size_t i = 0; i < results.size(); ++i) {
        run.collectors.emplace_back(loop().outputs[i], trips.exact ? trips.most : -1,
                                    std::move(memory[i]));
      }
      BW_RETURN_IF_ERROR(Iterate(run, values, results));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (state_of_output_[i] >= 0) {
        results[i] = states[static_cast<size_t>(state_of_output_[i])];
      }
    }
    return absl::OkStatus();
  }

  // Everything that changes from iteration to iteration.
  struct Iterations {
    const ExecutionContext& context;
    const Trips& trips;
    const std::vector<Slicer>& slicers;
    const std::vector<int64_t>& lengths;
    std::vector<Tensor>& states;
    std::vector<Collector> collectors;  // one for each output rule
    std::vector<Tensor> body_results;
    std::optional<LeavingItems> leaving;  // if the body sees only those that take part
  };

  // The first iteration always runs by StepWhole, as it alone finds shapes and makes the outputs'
  // memory. After it CellLoop takes over the others if the body is one cell, nothing ends at
  // different lengths, and the number of iterations is known.
  //
  // States before the step are copied (`before`) only where items may have ended: their states are
  // put back by Collect. A copy shares the elements, so it costs no time in proportion to them.
  absl::Status Iterate(Iterations& run, const std::vector<Tensor>& values,
                       std::vector<Tensor>& results) const {
    std::vector<Tensor> invariants;
    for (const int rule : body_->invariants()) {
      invariants.push_back(values[static_cast<size_t>(rule)]);
    }
    LoopBody::RequestValues request;
    BW_RETURN_IF_ERROR(body_->Bind(run.context, invariants, request));
    std::vector<Tensor> slices(run.slicers.size());
    bool goes_on = true;
    for (int64_t iteration = 0; goes_on && iteration < run.trips.most; ++iteration) {
      BW_RETURN_IF_ERROR(CheckInTime(run, iteration));
      const bool holds = !run.lengths.empty() && !run.leaving.has_value();
      const int64_t items =
          run.leaving.has_value() ? run.leaving->Enter(PositionAt(run, iteration), run.states) : 0;
      for (size_t i = 0; i < run.slicers.size(); ++i) {
        if (run.leaving.has_value()) {
          run.slicers[i].TakeRows(iteration, items, slices[i]);
        } else {
          run.slicers[i].Take(iteration, slices[i]);
        }
      }
      const std::vector<Tensor> before = holds ? run.states : std::vector<Tensor>();
      BW_RETURN_IF_ERROR(
          body_->StepWhole(run.context, slices, iteration, request, run.states, run.body_results));
      BW_RETURN_IF_ERROR(Collect(run, iteration, before, results));
      BW_ASSIGN_OR_RETURN(goes_on, GoesOn(run.body_results));
      if (cell_.has_value() && run.lengths.empty() && run.trips.exact &&
          cell_->Fits(run.slicers[0], run.states)) {
        BW_RETURN_IF_ERROR(cell_->Run(
            run.context, run.slicers[0], run.trips.most,
            [&](int64_t number) { return CheckInTime(run, number); }, absl::MakeSpan(run.states),
            absl::MakeSpan(run.collectors), absl::MakeSpan(results)));
        break;
      }
    }
    if (goes_on && run.trips.unbounded) {
      return absl::ResourceExhaustedError(absl::StrCat("its condition still holds after ",
                                                       run.trips.most,
                                                       " iterations, and it has no trip count"));
    }
    if (run.leaving.has_value()) {
      run.leaving->Finish(run.states);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (loop().outputs[i].kind != LoopOutput::Kind::kLastValue) {
        BW_RETURN_IF_ERROR(InOutput(i, run.collectors[i].Finish(results[i])));
      }
    }
    return absl::OkStatus();
  }

  // Once an iteration. A single iteration that takes long is not interrupted.
  static absl::Status CheckInTime(const Iterations& run, int64_t iteration) {
    BW_RETURN_IF_ERROR(run.context.CheckInterruption());
    if (run.context.deadline != absl::InfiniteFuture() && SteadyNow() > run.context.deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("deadline passed in iteration ", iteration,
                       run.trips.exact ? absl::StrCat(" of ", run.trips.most) : std::string()));
    }
    return absl::OkStatus();
  }

  // Which element of the sliced axes an iteration under lengths is about.
  int64_t PositionAt(const Iterations& run, int64_t iteration) const {
    const bool forward = loop().inputs[static_cast<size_t>(body_->sliced()[0])].stride > 0;
    return forward ? iteration : run.trips.most - 1 - iteration;
  }

  // Hands on what an iteration gave.
  absl::Status Collect(Iterations& run, int64_t iteration, const std::vector<Tensor>& before,
                       std::vector<Tensor>& results) const {
    const std::vector<int64_t>& lengths = run.lengths;
    const bool holds = !lengths.empty() && !run.leaving.has_value();
    const int64_t position = holds ? PositionAt(run, iteration) : iteration;
    for (size_t i = 0; holds && i < run.states.size(); ++i) {
      absl::StatusOr<Tensor> held = HoldRows(run.states[i], before[i], lengths, position);
      if (!held.ok()) {
        return Annotate(held.status(), absl::StrCat("state ", i));
      }
      run.states[i] = *std::move(held);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const LoopOutput& rule = loop().outputs[i];
      const Tensor& part = run.body_results[static_cast<size_t>(rule.body_result)];
      if (rule.kind == LoopOutput::Kind::kLastValue) {
        results[i] = part;
        continue;
      }
      if (run.leaving.has_value()) {
        const auto all = static_cast<int64_t>(lengths.size());
        BW_RETURN_IF_ERROR(InOutput(i, run.collectors[i].AddRows(part, all, results[i])));
        continue;
      }
      if (!holds) {
        BW_RETURN_IF_ERROR(InOutput(i, run.collectors[i].Add(part, results[i])));
        continue;
      }
      const absl::StatusOr<Tensor> valid = HoldRows(part, Tensor(), lengths, position);
      BW_RETURN_IF_ERROR(InOutput(i, valid.status()));
      BW_RETURN_IF_ERROR(InOutput(i, run.collectors[i].Add(*valid, results[i])));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> GoesOn(const std::vector<Tensor>& body_results) const {
    if (loop().condition_result < 0 || condition_stays_) {
      return true;
    }
    return OneBool("the body's condition",
                   body_results[static_cast<size_t>(loop().condition_result)]);
  }

  // Resolves the slices against real extents; the number of parts, -1 if nothing is sliced.
  absl::StatusOr<int64_t> MakeSlicers(const std::vector<Tensor>& values, int64_t length,
                                      std::vector<Slicer>& slicers) const {
    int64_t parts = -1;
    for (const int index : body_->sliced()) {
      const LoopInput& rule = loop().inputs[static_cast<size_t>(index)];
      BW_ASSIGN_OR_RETURN(Slicer slicer,
                          Slicer::Make(rule, values[static_cast<size_t>(index)], length));
      if (parts >= 0 && parts != slicer.num_parts()) {
        return Invalid("input port ", rule.external_id, " has ", slicer.num_parts(),
                       " parts, another sliced input has ", parts);
      }
      parts = slicer.num_parts();
      slicers.push_back(std::move(slicer));
    }
    return parts;
  }

  const Tensor& LengthsOf(absl::Span<const Tensor* const> inputs) const {
    return *inputs[static_cast<size_t>(loop().lengths_input)];
  }

  // Outputs without a value are those of no iteration: empty, if their shape is known.
  absl::Status FillEmpty(absl::Span<const Tensor* const> inputs,
                         std::vector<Tensor>& results) const {
    if (std::all_of(results.begin(), results.end(),
                    [](const Tensor& result) { return result.has_value(); })) {
      return absl::OkStatus();
    }
    std::vector<InputInfo> infos;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool decides = static_cast<int>(i) == loop().trip_count_input ||
                           static_cast<int>(i) == loop().condition_input;
      infos.push_back(inputs[i]->has_value()
                          ? InputInfo{inputs[i]->dtype(), PartialShape(inputs[i]->shape()),
                                      decides ? inputs[i] : nullptr}
                          : given_[i]);
    }
    BW_ASSIGN_OR_RETURN(const std::vector<ValueInfo> outputs,
                        InferNodeOutputs(node_, infos, *operators_));
    for (size_t i = 0; i < results.size(); ++i) {
      const LoopOutput& rule = loop().outputs[i];
      if (results[i].has_value()) {
        continue;
      }
      const ValueInfo& info = outputs[static_cast<size_t>(rule.output)];
      if (rule.kind == LoopOutput::Kind::kLastValue && state_of_output_[i] < 0) {
        return Invalid("output ", rule.output,
                       " has no value: the loop ran no iteration, and it is not a state");
      }
      if (info.dtype == DType::kUndefined || !info.shape.is_static()) {
        return Invalid("output ", rule.output, ": the loop ran no iteration, and the shape ",
                       info.shape.ToString(), " of its output is not known");
      }
      results[i] = Tensor::Zeros(info.dtype, info.shape.dims());
    }
    return absl::OkStatus();
  }

  void Deliver(std::vector<Tensor>& results, absl::Span<Tensor> outputs) const {
    for (size_t i = 0; i < results.size(); ++i) {
      outputs[static_cast<size_t>(loop().outputs[i].output)] = std::move(results[i]);
    }
  }

  // Items::kApart: each item alone, then their outputs side by side.
  absl::Status RunApart(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                        const std::vector<Tensor>& values, absl::Span<Tensor> outputs) const {
    BW_ASSIGN_OR_RETURN(const int64_t batch, BatchExtent(loop(), values));
    BW_ASSIGN_OR_RETURN(const int64_t extent, SlicedExtent(loop(), values));
    std::vector<int64_t> lengths;
    if (loop().lengths_input >= 0) {
      BW_ASSIGN_OR_RETURN(lengths, ReadLengths(loop(), LengthsOf(inputs), values));
    }
    const auto count = loop().outputs.size();
    std::vector<std::vector<Tensor>> items(count);  // [output rule][item]
    std::vector<Tensor> results(count);
    for (int64_t item = 0; item < batch; ++item) {
      const int64_t length = lengths.empty() ? extent : lengths[static_cast<size_t>(item)];
      results.assign(count, Tensor());
      absl::Status status =
          RunOnce(context, inputs, ItemOf(loop(), values, item), length, {}, results);
      if (!status.ok()) {
        return Annotate(status, absl::StrCat("batch item ", item));
      }
      for (size_t i = 0; i < count; ++i) {
        items[i].push_back(std::move(results[i]));
      }
    }
    results.assign(count, Tensor());
    for (size_t i = 0; i < count; ++i) {
      const LoopOutput& rule = loop().outputs[i];
      const bool last_value = rule.kind == LoopOutput::Kind::kLastValue;
      const auto has_value = [](const Tensor& item) { return item.has_value(); };
      const auto first = std::find_if(items[i].begin(), items[i].end(), has_value);
      if (first == items[i].end() ||
          (last_value && !std::all_of(items[i].begin(), items[i].end(), has_value))) {
        continue;  // there were no iterations that could give it
      }
      int axis = -1;
      if (!last_value) {
        BW_ASSIGN_OR_RETURN(axis, NormalizeAxis(rule.axis, first->rank()));
      }
      absl::StatusOr<Tensor> stacked = StackItems(items[i], axis, extent);
      BW_RETURN_IF_ERROR(InOutput(i, stacked.status()));
      results[i] = *std::move(stacked);
    }
    BW_RETURN_IF_ERROR(FillEmpty(inputs, results));
    Deliver(results, outputs);
    return absl::OkStatus();
  }

  absl::Status InOutput(size_t rule, const absl::Status& status) const {
    return status.ok() ? status
                       : Annotate(status, absl::StrCat("output ", loop().outputs[rule].output));
  }

  const Node node_;  // with the loop as inference left it
  const OperatorSet* operators_;
  std::unique_ptr<LoopBody> body_;
  std::optional<CellLoop> cell_;      // if the body is one cell
  bool condition_stays_;              // condition_result is known to be true
  bool items_leave_;                  // kItemsLeave
  std::vector<int> state_of_output_;  // by output rule
  std::vector<bool> needs_input_;
  std::vector<InputInfo> given_;  // types and shapes known at load
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLoopKernel(const KernelRequest& request) {
  const std::shared_ptr<const Loop>& loop = request.node.loop;
  BW_CHECK(request.bodies.size() == 1 && request.bodies[0] != nullptr);
  const GraphInfo& info = *request.bodies[0];
  bool condition_stays = false;
  if (loop->condition_result >= 0) {
    const Node& result =
        loop->body.node(loop->body.results[static_cast<size_t>(loop->condition_result)]);
    const Tensor* const value = info.InputsOf(loop->body, result)[0].value;
    condition_stays = value != nullptr && value->dtype() == DType::kBool &&
                      value->num_elements() == 1 && *value->data<bool>();
  }
  BW_ASSIGN_OR_RETURN(std::unique_ptr<LoopBody> body,
                      LoopBody::Compile(loop, info, request.operators));
  return std::make_unique<LoopKernel>(request, std::move(body), condition_stays);
}

}  // namespace beamwright::ops
