#include "server/engine/beam_driver.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "ops/base/step_profile.h"
#include "server/engine/finalise.h"
#include "server/engine/reply.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// Below this many logits a parallel region costs more than the scan.
constexpr int64_t kParallelScan = 1 << 15;

}  // namespace

int BeamDriver::reserved_rows() const {
  int rows = 0;
  for (const auto& request : requests_) {
    rows += request->beam_size;
  }
  return rows;
}

int64_t BeamDriver::reserved_bytes() const {
  int64_t bytes = 0;
  for (const auto& request : requests_) {
    bytes += request->price_bytes;
  }
  return bytes;
}

void BeamDriver::Join(std::unique_ptr<Request> request) { requests_.push_back(std::move(request)); }

void BeamDriver::DropDead() {
  const absl::Time now = absl::Now();
  const auto is_dead = [now](const std::unique_ptr<Request>& request) {
    const absl::Status status = request->CheckAlive(now);
    if (!status.ok()) {
      request->Fail(status);
    }
    return !status.ok();
  };
  requests_.erase(std::remove_if(requests_.begin(), requests_.end(), is_dead), requests_.end());
}

void BeamDriver::CollectRows() {
  parents_.clear();
  tokens_.clear();
  rows_per_request_.clear();
  values_.clear();
  starts_.clear();
  states_.resize(static_cast<size_t>(model_->parts().body->num_states()));
  int64_t old_rows = states_.empty() || !states_[0].has_value() ? 0 : states_[0].dim(0);
  for (auto& request : requests_) {
    if (request->first_row < 0) {
      request->first_row = static_cast<int>(old_rows++);
      starts_.push_back(&request->start.states);
    }
    values_.push_back(&request->start.values);
    const search::BeamSearch& search = *request->search;
    for (const int32_t parent : search.parents()) {
      parents_.push_back(request->first_row + parent);
    }
    tokens_.insert(tokens_.end(), search.tokens().begin(), search.tokens().end());
    rows_per_request_.push_back(search.num_rows());
  }
}

absl::Status BeamDriver::RunBody(const ops::ExecutionContext& context) {
  model_->parts().FillTokens(tokens_, token_tensor_);
  const ops::LoopBody::RowStep step{
      values_, rows_per_request_, parents_, {&token_tensor_, 1}, starts_};
  BW_RETURN_IF_ERROR(model_->parts().body->StepRows(context, step, scratch_, states_, results_));
  const Tensor& logits = results_[static_cast<size_t>(model_->parts().logits_result)];
  const auto expected = static_cast<int64_t>(tokens_.size()) * model_->parts().vocabulary_size;
  if (!logits.has_value() || logits.num_elements() != expected) {
    return absl::InternalError(absl::StrCat("the step gave logits ", ops::ToString(logits.shape()),
                                            " for ", tokens_.size(), " rows of ",
                                            model_->parts().vocabulary_size, " tokens"));
  }
  return absl::OkStatus();
}

void BeamDriver::AdvanceSearches(const ops::ExecutionContext& context) {
  const PhaseScope search_phase(Phase::kSearch);
  const DecodeModel::Parts& parts = model_->parts();
  const Tensor& logits = results_[static_cast<size_t>(parts.logits_result)];
  const auto rows = static_cast<int>(tokens_.size());
  const int64_t vocabulary = parts.vocabulary_size;
  scans_.resize(std::max(scans_.size(), tokens_.size()));
  candidate_lists_.resize(scans_.size());
  statuses_.resize(tokens_.size());
  owners_.clear();
  for (const auto& request : requests_) {
    for (int row = 0; row < request->search->num_rows(); ++row) {
      owners_.push_back({&*request->search, static_cast<size_t>(row)});
    }
  }
  const int threads = rows * vocabulary < kParallelScan ? 1 : context.num_threads;
  {
    const PhaseScope phase(Phase::kSelection);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int row = 0; row < rows; ++row) {
      const auto at = static_cast<size_t>(row);
      const absl::Span<const float> scores(logits.data<float>() + row * vocabulary,
                                           static_cast<size_t>(vocabulary));
      const RowOwner& owner = owners_[at];
      statuses_[at] = ops::ScanRow(scores, parts.logits_kind, owner.search->rules()[owner.row],
                                   owner.search->candidates_per_row(), scans_[at]);
    }
  }
  Requests finished;
  size_t num_running = 0;
  size_t row = 0;
  for (auto& request : requests_) {
    request->first_row = static_cast<int>(row);
    candidates_.clear();
    absl::Status status;
    for (int own = 0; own < request->search->num_rows(); ++own, ++row) {
      if (status.ok() && !statuses_[row].ok()) {
        status = absl::InternalError(
            absl::StrCat("step ", request->search->history().num_steps(), ", row ", own,
                         ": the model's scores: ", statuses_[row].message()));
      }
      candidates_.push_back(Candidates(row));
    }
    if (status.ok()) {
      status = request->search->Advance(candidates_);
      // The caller did nothing wrong when a model's score is no log-probability.
      if (status.code() == absl::StatusCode::kInvalidArgument) {
        status = absl::InternalError(status.message());
      }
    }
    if (!status.ok()) {
      request->Fail(status);
    } else if (request->search->done()) {
      finished.push_back(std::move(request));
    } else {
      requests_[num_running++] = std::move(request);
    }
  }
  requests_.resize(num_running);
  Finish(std::move(finished));
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
  return {list.tokens, list.log_probs, list.rank_scores, scans_[row].watched};
}

void BeamDriver::Finish(Requests finished) {
  if (finished.empty()) {
    return;
  }
  std::vector<const search::BeamSearch*> searches;
  for (const auto& request : finished) {
    searches.push_back(&*request->search);
  }
  const auto lists = Finalise(ops::ExecutionContext(), searches);
  for (size_t i = 0; i < finished.size(); ++i) {
    if (lists[i].ok()) {
      finished[i]->done(MakeReply(*finished[i], *lists[i]));
    } else {
      finished[i]->Fail(lists[i].status());
    }
  }
}

void BeamDriver::FailAll(const absl::Status& status) {
  for (auto& request : requests_) {
    request->Fail(absl::InternalError(status.message()));
  }
  requests_.clear();
}

void BeamDriver::Step(const ops::ExecutionContext& context) {
  DropDead();
  if (!requests_.empty()) {
    const PhaseScope phase(Phase::kOther);
    const auto start = StepProfile::Clock::now();
    CollectRows();
    const absl::Status status = RunBody(context);
    if (status.ok()) {
      AdvanceSearches(context);
    } else {
      FailAll(status);
    }
    if (StepProfile* const profile = StepProfile::current(); profile != nullptr) {
      profile->AddStep(StepProfile::Clock::now() - start);
    }
  }
  if (requests_.empty()) {
    states_.clear();
  }
}

}  // namespace beamwright::engine
