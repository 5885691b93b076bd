// A round of all running transducer requests, each of which is at its own frame:
//
//   1. ListLabels: which label histories are new, of searches and of targets that are scored.
//   2. RunPredictor: one run over all of them; SlotPool keeps the results. A stateless predictor
//      is run once for each context, which requests share (ContextTable).
//   3. scorers_, internal_: language models and the internal model, over the same histories.
//   4. ListRows, RunJoiner: a row for each live hypothesis; one run over all rows.
//   5. Advance: rules of each row, one scan of the scores of all rows, then each request's search,
//      or its scorers, in parallel.
//
// RunModel is 1 to 4. A request may have been answered between RunModel and Advance.
#include "engine/frames/transducer_stepper.h"

#include <algorithm>
#include <utility>

#include "engine/frames/label_models.h"
#include "ops/base/status.h"
#include "ops/kernels/panel_scan.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// Rows of targets that one request's scoring computes in a round, or those of one target.
constexpr size_t kScoredRows = 256;

// What is kept of a stateless predictor for unused contexts.
constexpr int64_t kIdleContextBytes = int64_t{16} << 20;

TransducerRequest& AsTransducer(FrameRequest& request) {
  return static_cast<TransducerRequest&>(request);
}

// Of the predictor: as the bundle starts them, one row each.
std::vector<Tensor> StartStates(const TransducerPart& part) {
  std::vector<Tensor> states;
  for (const ops::ValueInfo& info : part.graphs.predictor->states()) {
    ops::Shape shape = info.shape.dims();
    shape[0] = 1;
    Tensor& state = states.emplace_back(Tensor::Zeros(info.dtype, std::move(shape)));
    const auto fill = [value = part.state_constants[states.size() - 1], &state](auto* data) {
      std::fill_n(data, state.num_elements(), static_cast<std::decay_t<decltype(*data)>>(value));
    };
    if (info.dtype == ops::DType::kF32) {
      fill(state.mutable_data<float>());
    } else if (info.dtype == ops::DType::kI64) {
      fill(state.mutable_data<int64_t>());
    }
  }
  return states;
}

// What the joiner reads of it.
std::vector<ops::ValueInfo> OutputInfos(const TransducerPart& part) {
  std::vector<ops::ValueInfo> infos;
  for (int i = 0; i < part.num_outputs(); ++i) {
    infos.push_back(part.graphs.predictor->result(part.graphs.first_output + i));
  }
  return infos;
}

// The targets that a request scores in this round: [first, end).
size_t EndOfRound(const TransducerRequest& request) {
  size_t rows = 0;
  size_t target = request.next_target;
  for (; target < request.scored.size() && (rows == 0 || rows < kScoredRows); ++target) {
    rows += request.scored[target].slots.size();
  }
  return target;
}

}  // namespace

TransducerStepper::TransducerStepper(const DecodeModel::Parts& parts)
    : part_(*parts.frames->transducer),
      pool_(StartStates(part_), OutputInfos(part_)),
      contexts_(pool_, static_cast<size_t>(kIdleContextBytes / pool_.slot_bytes())),
      scorers_(parts),
      internal_(part_) {}

// The labels of a context move one place to the left; the new one is the last.
void TransducerStepper::EnterContext(int32_t parent, int32_t token, int32_t& slot) {
  const auto size = static_cast<size_t>(part_.context_size);
  if (parent == SlotPool::kStart) {
    context_.assign(size, part_.context_start);
  } else {
    const absl::Span<const int32_t> before = contexts_.context(parent);
    context_.assign(before.begin(), before.end());
  }
  context_.erase(context_.begin());
  context_.push_back(token);
  HoldContext(slot);
}

// A context that several hypotheses, or requests, reach in this round is listed once for the run.
void TransducerStepper::HoldContext(int32_t& slot) {
  const int32_t old = std::exchange(slot, contexts_.Hold(context_));
  if (old >= 0) {
    contexts_.Release(old);
  }
  if (contexts_.NeedsRun(slot, run_)) {
    tokens_.insert(tokens_.end(), context_.begin(), context_.end());
    targets_.push_back(slot);
  }
}

void TransducerStepper::Enter(int32_t parent, int32_t label, int32_t& slot) {
  const int32_t token = label < 0 ? part_.start_token : label;
  if (part_.context_size > 0) {
    EnterContext(parent, token, slot);
    return;
  }
  slot = slot < 0 ? pool_.Allocate() : slot;
  tokens_.push_back(token);
  parents_.push_back(parent);
  targets_.push_back(slot);
}

// 1. A search lists its new histories (label_steps), each with the slot of the history that it
//    continues; the first of a stream may have labels before it (last_tokens). A request that
//    scores enters one label more of each target in each round, until the predictor has run for all
//    of them.
void TransducerStepper::ListLabels(TransducerRequest& request) {
  if (!request.is_scoring) {
    const search::TransducerSearch& search = *request.search;
    if (search.rows().empty()) {
      return;
    }
    request.slots.resize(static_cast<size_t>(search.num_slots()), -1);
    for (const search::LabelStep& step : search.label_steps()) {
      if (step.parent_slot < 0 && !request.last_tokens.empty()) {
        context_ = request.last_tokens;
        HoldContext(request.slots[static_cast<size_t>(step.slot)]);
        continue;
      }
      Enter(step.parent_slot < 0 ? SlotPool::kStart
                                 : request.slots[static_cast<size_t>(step.parent_slot)],
            step.label, request.slots[static_cast<size_t>(step.slot)]);
    }
    return;
  }
  FreeSlots(request.slots);
  for (size_t i = 0; i < request.scored.size(); ++i) {
    TransducerRequest::Scored& target = request.scored[i];
    const size_t next = target.num_predicted;
    if (next > request.targets[i].size()) {
      continue;
    }
    if (target.slots.size() == next) {
      target.slots.push_back(-1);
    }
    Enter(next == 0 ? SlotPool::kStart : target.slots[next - 1],
          next == 0 ? -1 : request.targets[i][next - 1], target.slots[next]);
    predicted_targets_.push_back(&target);
  }
}

// 2. The states in the pool are read in place; the run's results replace them in states_, from
//    where they are scattered into the slots.
absl::Status TransducerStepper::RunPredictor(const ops::ExecutionContext& context) {
  if (targets_.empty()) {
    return absl::OkStatus();
  }
  const ops::RowGraph& predictor = *part_.graphs.predictor;
  const ops::ValueInfo& info = predictor.inputs()[0];
  ops::Shape shape = info.shape.dims();
  shape[0] = static_cast<int64_t>(targets_.size());
  token_tensor_.Resize(info.dtype, shape);
  if (info.dtype == ops::DType::kI64) {
    std::copy(tokens_.begin(), tokens_.end(), token_tensor_.mutable_data<int64_t>());
  } else {
    std::copy(tokens_.begin(), tokens_.end(), token_tensor_.mutable_data<int32_t>());
  }
  if (predictor.states().empty()) {
    CountRows(targets_.size(), parents_);
  }
  states_ = pool_.states();  // shared, and left as they are
  const absl::Status status = predictor.Run(context, {&token_tensor_, 1}, parents_,
                                            predictor_scratch_, states_, predicted_);
  if (!status.ok()) {
    states_.clear();
    return Annotate(status, "predictor");
  }
  pool_.Scatter(
      targets_, states_,
      absl::MakeConstSpan(predicted_).subspan(static_cast<size_t>(part_.graphs.first_output)));
  for (const int32_t slot : targets_) {
    if (part_.context_size > 0) {
      contexts_.SetReady(slot);
    }
  }
  return absl::OkStatus();
}

TransducerStepper::Row& TransducerStepper::AddRow(const TransducerRequest& request, int64_t frame,
                                                  int32_t slot) {
  if (num_rows_ == rows_.size()) {
    rows_.emplace_back();
  }
  Row& row = rows_[num_rows_++];
  row.request = &request;
  row.frame = frame;
  row.slot = slot;
  return row;
}

// 4. Rows of targets: one for each number of labels emitted so far, with two watched scores, blank
//    and next label. They begin once the predictor has run for all labels of all targets,
//    kScoredRows or one target at a time.
void TransducerStepper::ListRows(const TransducerRequest& request) {
  if (!request.is_scoring) {
    for (const search::FrameRow& row : request.search->rows()) {
      AddRow(request, row.frame, request.slots[static_cast<size_t>(row.slot)]);
    }
    return;
  }
  const bool is_predicted =
      std::all_of(request.scored.begin(), request.scored.end(), [&request](const auto& target) {
        const auto number = static_cast<size_t>(&target - request.scored.data());
        return target.num_predicted == request.targets[number].size() + 1;
      });
  const size_t end = is_predicted ? EndOfRound(request) : request.next_target;
  for (size_t i = request.next_target; i < end; ++i) {
    const TransducerRequest::Scored& target = request.scored[i];
    for (size_t u = 0; u < target.slots.size(); ++u) {
      const search::TokenSequence& labels = request.targets[i];
      AddRow(request, target.next_frame, target.slots[u]).watched = {
          part_.blank, u < labels.size() ? labels[u] : part_.blank};
    }
  }
}

absl::Status TransducerStepper::RunJoiner(const ops::ExecutionContext& context) {
  if (num_rows_ == 0) {
    return absl::OkStatus();
  }
  const ops::Transducer& graphs = part_.graphs;
  FillJoinerInputs(
      graphs, pool_, static_cast<int64_t>(num_rows_),
      [this](int64_t number, int result) {
        const Row& row = rows_[static_cast<size_t>(number)];
        return TensorRow{row.request->frames[static_cast<size_t>(result)],
                         row.frame - row.request->first_held};
      },
      [this](int64_t number) { return rows_[static_cast<size_t>(number)].slot; }, inputs_);
  CountRows(num_rows_, own_rows_);
  return Annotate(graphs.joiner->Run(context, inputs_, own_rows_, joiner_scratch_, none_, joined_),
                  "joiner");
}

absl::Status TransducerStepper::RunModel(const ops::ExecutionContext& context,
                                         absl::Span<FrameRequest* const> requests) {
  ++run_;
  parents_.clear();
  tokens_.clear();
  targets_.clear();
  predicted_targets_.clear();
  for (FrameRequest* const request : requests) {
    ListLabels(AsTransducer(*request));
  }
  BW_RETURN_IF_ERROR(RunPredictor(context));
  for (TransducerRequest::Scored* const target : predicted_targets_) {
    ++target->num_predicted;
  }
  BW_RETURN_IF_ERROR(scorers_.Run(context, requests));
  internal_.Begin();
  for (FrameRequest* const request : requests) {
    internal_.List(AsTransducer(*request));
  }
  BW_RETURN_IF_ERROR(Annotate(internal_.Run(context, pool_), "joiner"));
  num_rows_ = 0;
  first_rows_.clear();
  for (FrameRequest* const request : requests) {
    first_rows_.push_back(num_rows_);
    ListRows(AsTransducer(*request));
  }
  first_rows_.push_back(num_rows_);
  return RunJoiner(context);
}

// 5. What the scan looks for in each row: a search's candidates under its rules, or the two watched
//    scores of a target.
void TransducerStepper::SetRules(const TransducerRequest& request, absl::Span<Row> rows) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    if (!request.is_scoring) {
      row.rules = request.search->rules()[i];
      row.k = request.search->candidates_per_row();
      continue;
    }
    row.k = 0;
    row.rules = RowRules();
    row.rules.watched = row.watched;
    row.rules.temperature = static_cast<float>(request.scoring.temperature);
  }
}

void TransducerStepper::ScanScores(int64_t number, Row& row) const {
  const auto tokens = static_cast<size_t>(part_.num_columns);
  const auto width = static_cast<size_t>(part_.graphs.num_columns);
  const ops::ScoreKind kind = part_.graphs.joiner->score_kind();
  const absl::Span<const float> scores(joined_[0].data<float>() + number * part_.graphs.num_columns,
                                       width);
  row.status = ops::ScanRow(scores.first(tokens), kind, row.rules, row.k, row.found);
  if (row.status.ok() && tokens < width) {
    row.durations.resize(width - tokens);
    row.status = Annotate(
        ops::ToLogProbs(scores.subspan(tokens), kind, absl::MakeSpan(row.durations)), "durations");
  }
}

// If the joiner leaves out its last product, the product with the vocabulary and the scan run in
// one pass (VocabularyProjection::Scan); else each row's scores are scanned by themselves.
void TransducerStepper::Scan(const ops::ExecutionContext& context) {
  const ops::VocabularyProjection* const projection = part_.graphs.joiner->projection();
  if (projection != nullptr) {
    in_panels_.clear();
    for (size_t i = 0; i < num_rows_; ++i) {
      in_panels_.push_back({&rows_[i].rules, rows_[i].k, &rows_[i].found, {}});
    }
    const auto count = static_cast<int64_t>(num_rows_);
    projection->Scan(context,
                     {joined_[0].data<float>(), count, projection->depth(), projection->depth()},
                     absl::MakeSpan(in_panels_), panels_);
    for (size_t i = 0; i < num_rows_; ++i) {
      rows_[i].status = in_panels_[i].status;
    }
  } else {
    const auto count = static_cast<int64_t>(num_rows_);
    ops::ParallelFor(context.num_threads, count, count * part_.graphs.num_columns * 8,
                     [&](int64_t i) { ScanScores(i, rows_[static_cast<size_t>(i)]); });
  }
  for (size_t i = 0; i < num_rows_; ++i) {
    Row& row = rows_[i];
    row.labels.clear();
    row.log_probs.clear();
    for (const ops::Candidate& candidate : row.found.best) {
      row.labels.push_back(candidate.token);
      row.log_probs.push_back(candidate.log_prob);
    }
  }
}

absl::Status TransducerStepper::Advance(TransducerRequest& request, absl::Span<const Row> rows) {
  for (const Row& row : rows) {
    BW_RETURN_IF_ERROR(Annotate(row.status, absl::StrCat("frame ", row.frame)));
  }
  if (!request.is_scoring) {
    BW_RETURN_IF_ERROR(request.label_status);
    request.candidates.clear();
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      request.candidates.push_back({row.labels, row.log_probs, row.found.watched, row.durations,
                                    request.label_row(request.search->rows()[i].slot)});
    }
    return rows.empty() ? absl::OkStatus() : request.search->Advance(request.candidates);
  }
  std::vector<search::ScoredRow>& scored = request.scored_rows;
  while (!rows.empty()) {
    TransducerRequest::Scored& target = request.scored[request.next_target];
    scored.clear();
    for (const Row& row : rows.first(target.slots.size())) {
      scored.push_back({row.found.watched[0], row.found.watched[1], row.durations});
    }
    BW_RETURN_IF_ERROR(target.scorer.Advance(scored));
    ++target.next_frame;
    rows.remove_prefix(target.slots.size());
    request.next_target = (request.next_target + 1) % request.scored.size();
  }
  return absl::OkStatus();
}

void TransducerStepper::Advance(const ops::ExecutionContext& context,
                                absl::Span<FrameRequest* const> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t first = first_rows_[i];
    // Of a search that was answered meanwhile nothing is asked.
    const absl::Span<Row> rows = absl::MakeSpan(rows_).subspan(first, first_rows_[i + 1] - first);
    if (requests[i]->is_answered) {
      for (Row& row : rows) {
        row.rules = RowRules();
        row.k = 0;
      }
    } else {
      SetRules(AsTransducer(*requests[i]), rows);
    }
  }
  if (num_rows_ > 0) {
    Scan(context);
  }
  constexpr int64_t kWorkPerRow = 1 << 13;
  const auto count = static_cast<int64_t>(requests.size());
  ops::ParallelFor(context.num_threads, count, static_cast<int64_t>(num_rows_) * kWorkPerRow,
                   [&](int64_t number) {
                     const auto i = static_cast<size_t>(number);
                     FrameRequest& request = *requests[i];
                     if (!request.is_answered) {
                       const size_t first = first_rows_[i];
                       request.status = Advance(
                           AsTransducer(request),
                           absl::MakeConstSpan(rows_).subspan(first, first_rows_[i + 1] - first));
                     }
                   });
}

void TransducerStepper::FreeSlots(std::vector<int32_t>& slots) {
  for (const int32_t slot : slots) {
    if (slot >= 0) {
      part_.context_size > 0 ? contexts_.Release(slot) : pool_.Free(slot);
    }
  }
  slots.clear();
}

void TransducerStepper::Leave(FrameRequest& request) {
  FreeSlots(AsTransducer(request).slots);
  scorers_.Leave(request);
  for (TransducerRequest::Scored& target : AsTransducer(request).scored) {
    FreeSlots(target.slots);
  }
}

}  // namespace beamwright::engine
