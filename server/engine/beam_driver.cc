#include "server/engine/beam_driver.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/step_profile.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {
namespace {

// Below this many logits a parallel region costs more than the scan.
constexpr int64_t kParallelScan = 1 << 15;

}  // namespace

BeamDriver::BeamDriver(std::shared_ptr<const DecodeModel> model) : model_(std::move(model)) {
  for (int decoder = 0; decoder < model_->parts().num_decoders(); ++decoder) {
    runners_.emplace_back(model_->parts().decoder_parts(decoder));
  }
}

void BeamDriver::Join(std::unique_ptr<Request> request) {
  // Requests of a model are of its kind.
  requests_.emplace_back(static_cast<BeamRequest*>(request.release()));
}

void BeamDriver::DropDead(EngineObserver* observer) {
  const absl::Time now = absl::Now();
  const auto is_dead = [&](const std::unique_ptr<BeamRequest>& request) {
    if (request->is_answered) {
      return true;
    }
    const absl::Status status = request->CheckAlive(now);
    if (!status.ok()) {
      if (observer != nullptr && absl::IsCancelled(status)) {
        TellCancelled(*request, now, *observer);
      }
      request->Fail(status);
    }
    return !status.ok();
  };
  requests_.erase(std::remove_if(requests_.begin(), requests_.end(), is_dead), requests_.end());
  looked_ = now;
}

template <typename Which>
void BeamDriver::CutSearches(search::FinishReason reason, Which which) {
  Requests finished;
  for (auto& request : requests_) {
    if (which(*request) && !request->is_answered && !request->call.IsCancelled() &&
        request->search.has_value() && request->search->Cut(reason)) {
      TellProgress(*request);
      finished.push_back(std::move(request));
    }
  }
  requests_.erase(std::remove(requests_.begin(), requests_.end(), nullptr), requests_.end());
  Finish(finished);
}

absl::Status BeamDriver::RunDecoders(const ops::ExecutionContext& context, Underway* underway) {
  const bool reads_attention =
      std::any_of(requests_.begin(), requests_.end(),
                  [](const auto& request) { return request->reads_attention; });
  for (auto& request : requests_) {
    request->takes_part = !repeats_ || request->takes_part;
    request->step_rows = request->takes_part ? request->rows().num_rows() : 0;
  }
  for (size_t decoder = 0; decoder < runners_.size(); ++decoder) {
    runners_[decoder].Begin();
    for (auto& request : requests_) {
      if (request->takes_part && request->decoders[decoder].is_used) {
        runners_[decoder].Add(request->rows(), request->decoders[decoder].rows);
      }
    }
  }
  // From here on nothing is asked of the searches, so that others may cut them.
  under_way_.clear();
  for (const auto& request : requests_) {
    under_way_.push_back(request.get());
  }
  const Underway::Scope scope(underway, *model_, under_way_, this);
  BW_RETURN_IF_ERROR(FaultPoint("engine.step"));
  for (size_t decoder = 0; decoder < runners_.size(); ++decoder) {
    StepRunner& runner = runners_[decoder];
    if (runner.num_rows() == 0) {
      runner.Clear();
      continue;
    }
    BW_RETURN_IF_ERROR(runner.Run(context, decoder == 0 && reads_attention));
  }
  return absl::OkStatus();
}

absl::Status BeamDriver::MixMembers(size_t row, absl::Span<const float>& scores) {
  const DecodeModel::Parts& parts = model_->parts();
  RowBuffers& buffers = buffers_[row];
  buffers.parts.clear();
  // Every request uses every member, so that a row has one number in all of them.
  for (size_t member = 0; member < parts.member_weights.size(); ++member) {
    buffers.parts.push_back({runners_[member].Scores(static_cast<int>(row)),
                             runners_[member].kind(), parts.member_weights[member]});
  }
  BW_RETURN_IF_ERROR(ops::MixScores(absl::MakeSpan(buffers.parts), parts.mix_kind, buffers.scratch,
                                    buffers.mixed));
  buffers.members.clear();
  for (const ops::MixPart& part : buffers.parts) {
    buffers.members.push_back(
        {part.scores, part.shift, part.kind == ops::ScoreKind::kProbabilities});
  }
  scores = buffers.mixed;
  return absl::OkStatus();
}

absl::Status BeamDriver::ScoreRow(size_t row) {
  const RowOwner& owner = owners_[row];
  search::FusedRow& fused = buffers_[row].fused;
  const auto vocabulary = static_cast<size_t>(model_->parts().vocabulary_size);
  for (size_t i = 0; i < owner.request->scorers.size(); ++i) {
    const RequestScorer& scorer = owner.request->scorers[i];
    const absl::Span<float> scores = fused.Scores(i, vocabulary);
    if (scorer.rows != nullptr) {
      scorer.rows->Score(owner.row, scores);
      continue;
    }
    const StepRunner& runner = runners_[static_cast<size_t>(scorer.decoder)];
    const int first = owner.request->decoders[static_cast<size_t>(scorer.decoder)].rows.first_row;
    BW_RETURN_IF_ERROR(Annotate(
        ops::ToLogProbs(runner.Scores(first + owner.row), runner.kind(), scores), scorer.name));
  }
  fused.Join(owner.request->search_options().scorers);
  return absl::OkStatus();
}

absl::Status BeamDriver::MakeRules(size_t row) {
  const RowOwner& owner = owners_[row];
  RowRules& rules = buffers_[row].rules;
  if (owner.request->is_answered) {
    rules = RowRules();  // its search may have no rows any more
    return absl::OkStatus();
  }
  rules = owner.request->rows().rules()[static_cast<size_t>(owner.row)];
  if (!owner.request->scorers.empty()) {
    BW_RETURN_IF_ERROR(ScoreRow(row));
    rules.added = buffers_[row].fused.added();
  }
  return absl::OkStatus();
}

absl::Status BeamDriver::ScanRow(size_t row) {
  const DecodeModel::Parts& parts = model_->parts();
  const RowOwner& owner = owners_[row];
  const search::RowSearch& search = owner.request->rows();
  absl::Span<const float> scores = runners_[0].Scores(static_cast<int>(row));
  ops::ScoreKind kind = parts.logits_kind;
  if (!parts.member_weights.empty()) {
    BW_RETURN_IF_ERROR(MixMembers(row, scores));
    kind = ops::ScoreKind::kLogits;
  }
  BW_RETURN_IF_ERROR(MakeRules(row));
  return ops::ScanRow(scores, kind, buffers_[row].rules, search.candidates_per_row(), scans_[row]);
}

void BeamDriver::ScanRows(const ops::ExecutionContext& context) {
  const PhaseScope phase(Phase::kSelection);
  owners_.clear();
  for (const auto& request : requests_) {
    for (int row = 0; row < request->step_rows; ++row) {
      owners_.push_back({request.get(), row});
    }
  }
  scans_.resize(std::max(scans_.size(), owners_.size()));
  buffers_.resize(scans_.size());
  candidate_lists_.resize(scans_.size());
  statuses_.resize(owners_.size());
  const auto rows = static_cast<int>(owners_.size());
  const DecodeModel::Parts& parts = model_->parts();
  // An ensemble mixes whole rows of scores; otherwise the model's own are scanned as they are made.
  const bool in_panels = parts.member_weights.empty() && runners_[0].projection() != nullptr;
  const bool is_light = in_panels && parts.scorers.empty();
  const int64_t work = is_light ? 0 : int64_t{rows} * parts.vocabulary_size;
  const int threads = work < kParallelScan ? 1 : context.num_threads;
  for (size_t decoder = in_panels ? 1 : 0; decoder < runners_.size(); ++decoder) {
    if (runners_[decoder].num_rows() > 0) {
      runners_[decoder].ComputeScores(context);
    }
  }
  ops::ParallelFor(threads, rows, [&](int64_t row) {
    const auto at = static_cast<size_t>(row);
    statuses_[at] = in_panels ? MakeRules(at) : ScanRow(at);
  });
  if (in_panels) {
    ScanPanels(context);
  }
}

void BeamDriver::ScanPanels(const ops::ExecutionContext& context) {
  scanned_.resize(owners_.size());
  for (size_t row = 0; row < owners_.size(); ++row) {
    scanned_[row] = {&buffers_[row].rules, owners_[row].request->rows().candidates_per_row(),
                     &scans_[row], absl::OkStatus()};
  }
  runners_[0].projection()->Scan(context.num_threads, runners_[0].hidden(),
                                 absl::MakeSpan(scanned_), panels_);
  for (size_t row = 0; row < owners_.size(); ++row) {
    if (statuses_[row].ok()) {
      statuses_[row] = scanned_[row].status;
    }
  }
}

void BeamDriver::AdvanceSearches() {
  Requests finished;
  size_t num_running = 0;
  size_t row = 0;
  AttentionRows attention = runners_[0].Attention();
  for (auto& request : requests_) {
    const int num_rows = request->step_rows;
    if (request->is_answered) {
      row += static_cast<size_t>(num_rows);
      continue;
    }
    if (!request->takes_part) {
      requests_[num_running++] = std::move(request);
      continue;
    }
    request->row_steps += num_rows;
    const absl::Status status = Advance(row, attention, *request);
    row += static_cast<size_t>(num_rows);
    if (!status.ok()) {
      request->Fail(status);
      continue;
    }
    if (request->call.timeline != nullptr) {
      request->call.timeline->Step();
    }
    TellProgress(*request);
    if (request->rows().done()) {
      finished.push_back(std::move(request));
    } else {
      requests_[num_running++] = std::move(request);
    }
  }
  requests_.resize(num_running);
  num_done_ += static_cast<int64_t>(finished.size());
  Finish(finished);
}

absl::Status BeamDriver::Advance(size_t first_row, AttentionRows& attention, BeamRequest& request) {
  const int num_rows = request.step_rows;
  if (request.reads_attention) {
    BW_RETURN_IF_ERROR(
        request.attention.AddStep(attention, static_cast<int64_t>(first_row), num_rows));
  }
  candidates_.clear();
  for (int own = 0; own < num_rows; ++own) {
    const size_t row = first_row + static_cast<size_t>(own);
    if (!statuses_[row].ok()) {
      return absl::InternalError(absl::StrCat("step ", request.rows().num_steps(), ", row ", own,
                                              ": the model's scores: ", statuses_[row].message()));
    }
    candidates_.push_back(Candidates(row));
    if (request.reads_attention) {
      candidates_.back().attention = request.attention.last(own);
    }
  }
  const absl::Status status = request.Advance(candidates_);
  // The caller did nothing wrong when a model's score is no log-probability.
  return absl::IsInvalidArgument(status) ? absl::InternalError(status.message()) : status;
}

search::RowCandidates BeamDriver::Candidates(size_t row) {
  CandidateList& list = candidate_lists_[row];
  list.tokens.clear();
  list.log_probs.clear();
  list.rank_scores.clear();
  for (const ops::Candidate& candidate : scans_[row].best) {
    list.tokens.push_back(candidate.token);
    list.log_probs.push_back(candidate.log_prob);
    list.rank_scores.push_back(candidate.rank_score);
  }
  const bool is_fused = !owners_[row].request->scorers.empty();
  return {list.tokens,
          list.log_probs,
          list.rank_scores,
          scans_[row].watched,
          is_fused ? &buffers_[row].fused : nullptr,
          buffers_[row].members,
          {}};
}

void BeamDriver::End(const absl::Status& why) {
  CutSearches(search::FinishReason::kShutdown, [](const BeamRequest& r) { return r.may_be_cut; });
  for (auto& request : requests_) {
    request->Fail(why);
  }
  requests_.clear();
}

void BeamDriver::EndStep(const absl::Status& status, const Underway* underway) {
  const bool is_interrupted =
      absl::IsCancelled(status) && underway != nullptr && underway->was_interrupted();
  const bool any_left = std::any_of(requests_.begin(), requests_.end(),
                                    [](const auto& request) { return !request->is_answered; });
  if (!is_interrupted || !any_left) {
    FailAll(absl::InternalError(status.message()));
    return;
  }
  repeats_ = true;
  for (StepRunner& runner : runners_) {
    runner.Repeat();
  }
}

absl::Duration BeamDriver::Step(const ops::ExecutionContext& context, EngineObserver* observer,
                                Underway* underway) {
  most_bytes_ = std::max(most_bytes_, reserved().bytes);
  const absl::Time now = absl::Now();
  CutSearches(search::FinishReason::kDeadline,
              [now](const BeamRequest& r) { return now >= r.cut_at; });
  DropDead(observer);
  repeats_ = repeats_ && std::any_of(requests_.begin(), requests_.end(),
                                     [](const auto& request) { return request->takes_part; });
  absl::Duration selection;
  if (!requests_.empty()) {
    const PhaseScope phase(Phase::kOther);
    const auto start = StepProfile::Clock::now();
    const absl::Status status = RunDecoders(context, underway);
    if (status.ok()) {
      const PhaseScope search_phase(Phase::kSearch);
      const absl::Time scan = observer == nullptr ? absl::Time() : absl::Now();
      ScanRows(context);
      selection = observer == nullptr ? absl::Duration() : absl::Now() - scan;
      AdvanceSearches();
      repeats_ = false;
    } else {
      EndStep(status, underway);
    }
    if (StepProfile* const profile = StepProfile::current(); profile != nullptr) {
      profile->AddStep(StepProfile::Clock::now() - start);
    }
  }
  if (requests_.empty()) {
    for (StepRunner& runner : runners_) {
      runner.Clear();
    }
  }
  return selection;
}

}  // namespace beamwright::engine
