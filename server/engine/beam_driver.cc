#include "server/engine/beam_driver.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "server/engine/finalise.h"
#include "server/engine/reply.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// [a rows + b rows, ...]
Tensor Concatenate(const Tensor& a, const Tensor& b) {
  if (!a.has_value()) {
    return b;
  }
  ops::Shape shape = a.shape();
  shape[0] += b.dim(0);
  Tensor result(a.dtype(), shape);
  std::memcpy(result.mutable_bytes(), a.bytes(), static_cast<size_t>(a.num_bytes()));
  std::memcpy(result.mutable_bytes() + a.num_bytes(), b.bytes(),
              static_cast<size_t>(b.num_bytes()));
  return result;
}

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
  Requests alive;
  for (auto& request : requests_) {
    const absl::Status status = request->CheckAlive(now);
    if (status.ok()) {
      alive.push_back(std::move(request));
    } else {
      request->Fail(status);
    }
  }
  requests_ = std::move(alive);
}

void BeamDriver::CollectRows() {
  parents_.clear();
  tokens_.clear();
  rows_per_request_.clear();
  states_.resize(static_cast<size_t>(model_->parts().body->num_states()));
  int64_t old_rows = states_.empty() || !states_[0].has_value() ? 0 : states_[0].dim(0);
  for (auto& request : requests_) {
    if (request->first_row < 0) {
      request->first_row = static_cast<int>(old_rows++);
      for (size_t i = 0; i < states_.size(); ++i) {
        states_[i] = Concatenate(states_[i], request->start.states[i]);
      }
    }
    const search::BeamSearch& search = *request->search;
    for (const int32_t parent : search.parents()) {
      parents_.push_back(request->first_row + parent);
    }
    tokens_.insert(tokens_.end(), search.tokens().begin(), search.tokens().end());
    rows_per_request_.push_back(search.num_rows());
  }
}

absl::Status BeamDriver::RunBody(const ops::ExecutionContext& context) {
  std::vector<ops::LoopBody::RequestValues*> values;
  for (auto& request : requests_) {
    values.push_back(&request->start.values);
  }
  const Tensor slice = model_->parts().TokenTensor(tokens_);
  const ops::LoopBody::RowStep step{values, rows_per_request_, parents_, {&slice, 1}};
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
  const DecodeModel::Parts& parts = model_->parts();
  const Tensor& logits = results_[static_cast<size_t>(parts.logits_result)];
  const auto rows = static_cast<int>(tokens_.size());
  const int64_t vocabulary = parts.vocabulary_size;
  scans_.resize(std::max(scans_.size(), tokens_.size()));
  candidate_lists_.resize(scans_.size());
  std::vector<absl::Status> statuses(tokens_.size());
  std::vector<const search::BeamSearch*> owners;
  std::vector<int> own_rows;
  for (const auto& request : requests_) {
    for (int row = 0; row < request->search->num_rows(); ++row) {
      owners.push_back(&*request->search);
      own_rows.push_back(row);
    }
  }
  const int threads = rows * vocabulary < kParallelScan ? 1 : context.num_threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (int row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const absl::Span<const float> scores(logits.data<float>() + row * vocabulary,
                                         static_cast<size_t>(vocabulary));
    statuses[at] = ops::ScanRow(scores, parts.logits_kind,
                                owners[at]->rules()[static_cast<size_t>(own_rows[at])],
                                owners[at]->candidates_per_row(), scans_[at]);
  }
  Requests running;
  Requests finished;
  size_t row = 0;
  std::vector<search::RowCandidates> candidates;
  for (auto& request : requests_) {
    request->first_row = static_cast<int>(row);
    candidates.clear();
    absl::Status status;
    for (int own = 0; own < request->search->num_rows(); ++own, ++row) {
      if (status.ok() && !statuses[row].ok()) {
        status = absl::InternalError(
            absl::StrCat("step ", request->search->history().num_steps(), ", row ", own,
                         ": the model's scores: ", statuses[row].message()));
      }
      candidates.push_back(Candidates(row));
    }
    if (status.ok()) {
      status = request->search->Advance(candidates);
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
      running.push_back(std::move(request));
    }
  }
  requests_ = std::move(running);
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
    CollectRows();
    const absl::Status status = RunBody(context);
    if (status.ok()) {
      AdvanceSearches(context);
    } else {
      FailAll(status);
    }
  }
  if (requests_.empty()) {
    states_.clear();
  }
}

}  // namespace beamwright::engine
