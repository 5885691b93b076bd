#include "server/search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

absl::Status CheckCandidates(const RowCandidates& row, int vocabulary_size) {
  if (row.tokens.size() != row.log_probs.size()) {
    return Invalid(row.tokens.size(), " tokens but ", row.log_probs.size(), " log-probabilities");
  }
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    const int32_t token = row.tokens[i];
    const float log_prob = row.log_probs[i];
    if (token < 0 || token >= vocabulary_size) {
      return Invalid("candidate ", i, " is token ", token, ", must be in [0, ", vocabulary_size,
                     ")");
    }
    if (!(log_prob <= kRoundedUp)) {
      return Invalid("the log-probability of token ", token, " is ", log_prob,
                     ", must be a number not above 0");
    }
    if (i > 0 && (log_prob > row.log_probs[i - 1] ||
                  (log_prob == row.log_probs[i - 1] && token <= row.tokens[i - 1]))) {
      return Invalid("candidate ", i, " (token ", token, ", ", log_prob,
                     ") does not come after candidate ", i - 1, " (token ", row.tokens[i - 1], ", ",
                     row.log_probs[i - 1], ") in best-first order");
    }
  }
  return absl::OkStatus();
}

float LogProb(const RowCandidates& row, int32_t candidate) {
  return std::min(row.log_probs[static_cast<size_t>(candidate)], 0.0f);
}

}  // namespace

absl::StatusOr<BeamSearch> BeamSearch::Create(const SearchOptions& options) {
  BW_RETURN_IF_ERROR(Validate(options));
  return BeamSearch(options);
}

BeamSearch::BeamSearch(const SearchOptions& options)
    : options_(options),
      scores_(options),
      history_(options.beam_size + options.n_best, options.max_length),
      pipeline_(options),
      tokens_({options.begin_token}),
      parents_({0}),
      sums_({0}) {
  std::vector<int32_t>& ends = options_.end_tokens;
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  rules_ = pipeline_.MakeRules(0, /*plain=*/false);
  const size_t beam_size = static_cast<size_t>(options.beam_size);
  tokens_.reserve(beam_size);
  parents_.reserve(beam_size);
  sums_.reserve(beam_size);
  best_.reserve(static_cast<size_t>(options.n_best));
  cursors_.reserve(beam_size);
  living_.reserve(beam_size);
  finishing_.reserve(beam_size);
}

int BeamSearch::candidates_per_row() const {
  if (options_.beam_size == 1) {
    return 1;
  }
  return std::min(options_.beam_size + static_cast<int>(options_.end_tokens.size()),
                  options_.vocabulary_size);
}

bool BeamSearch::IsEnd(int32_t token) const {
  return std::binary_search(options_.end_tokens.begin(), options_.end_tokens.end(), token);
}

absl::Status BeamSearch::Advance(absl::Span<const RowCandidates> rows) {
  if (done_) {
    return absl::FailedPreconditionError("the search is done");
  }
  const int step = history_.num_steps();
  if (rows.size() != tokens_.size()) {
    return Invalid("step ", step, ": candidates of ", rows.size(), " rows, must be of ",
                   tokens_.size());
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    if (absl::Status status = CheckCandidates(rows[row], options_.vocabulary_size); !status.ok()) {
      return Annotate(status, absl::StrCat("step ", step, ", row ", row));
    }
  }
  RankPairs(rows);
  AddStep();
  if (living_.empty() && num_finished_ == 0) {
    const std::string masks = pipeline_.MaskingOptions();
    End();
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", step, ": no live hypothesis has a token of positive probability left",
        masks.empty() ? "" : absl::StrCat(" under ", masks), ", and none has finished"));
  }
  if (history_.num_steps() == options_.max_length) {
    for (size_t row = 0; row < living_.size(); ++row) {
      Enter(living_[row], FinishReason::kLength, static_cast<int>(row));
    }
    End();
  } else if (MayStop()) {
    End();
  } else {
    pipeline_.Advance(parents_, tokens_);
    rules_ = pipeline_.MakeRules(history_.num_steps(), /*plain=*/false);
  }
  return absl::OkStatus();
}

void BeamSearch::RankPairs(absl::Span<const RowCandidates> rows) {
  // Each row's list is in order already, so a heap of one cursor per row ranks the pairs of all.
  const auto worse = [](const Cursor& a, const Cursor& b) {
    return a.sum != b.sum ? a.sum < b.sum : a.row > b.row;
  };
  const auto push = [&](int32_t row, int32_t candidate) {
    const RowCandidates& list = rows[static_cast<size_t>(row)];
    if (static_cast<size_t>(candidate) < list.tokens.size() &&
        list.log_probs[static_cast<size_t>(candidate)] != kNever) {
      cursors_.push_back(
          {sums_[static_cast<size_t>(row)] + LogProb(list, candidate), row, candidate});
      std::push_heap(cursors_.begin(), cursors_.end(), worse);
    }
  };
  cursors_.clear();
  living_.clear();
  finishing_.clear();
  best_pair_ends_ = false;
  for (size_t row = 0; row < rows.size(); ++row) {
    push(static_cast<int32_t>(row), 0);
  }
  const size_t beam_size = static_cast<size_t>(options_.beam_size);
  for (size_t rank = 0; !cursors_.empty() && living_.size() < beam_size; ++rank) {
    std::pop_heap(cursors_.begin(), cursors_.end(), worse);
    const Cursor top = cursors_.back();
    cursors_.pop_back();
    const RowCandidates& list = rows[static_cast<size_t>(top.row)];
    const Pair pair = {top.sum, top.row, list.tokens[static_cast<size_t>(top.candidate)],
                       LogProb(list, top.candidate)};
    if (!IsEnd(pair.token)) {
      living_.push_back(pair);
    } else if (rank < beam_size) {
      finishing_.push_back(pair);
      best_pair_ends_ = best_pair_ends_ || rank == 0;
    }
    push(top.row, top.candidate + 1);
  }
}

void BeamSearch::AddStep() {
  history_.AddStep();
  tokens_.clear();
  parents_.clear();
  sums_.clear();
  for (size_t row = 0; row < living_.size(); ++row) {
    const Pair& pair = living_[row];
    history_.Set(static_cast<int>(row), pair.parent, pair.token, pair.log_prob);
    tokens_.push_back(pair.token);
    parents_.push_back(pair.parent);
    sums_.push_back(pair.sum);
  }
  for (const Pair& pair : finishing_) {
    ++num_finished_;
    Enter(pair, FinishReason::kEos, -1);
  }
}

void BeamSearch::Enter(const Pair& pair, FinishReason reason, int live_slot) {
  const int length = history_.num_steps();
  const double score = scores_.Normalise(pair.sum, length);
  const auto place = std::partition_point(best_.begin(), best_.end(), [&](const Entry& entry) {
    return !Precedes(pair, score, length, entry);
  });
  const bool full = best_.size() == static_cast<size_t>(options_.n_best);
  if (full && place == best_.end()) {
    return;
  }
  const auto offset = place - best_.begin();
  int slot = live_slot;
  if (reason == FinishReason::kEos) {
    slot = full ? best_.back().slot : options_.beam_size + static_cast<int>(best_.size());
    history_.Set(slot, pair.parent, pair.token, pair.log_prob);
  }
  if (full) {
    best_.pop_back();
  }
  best_.insert(best_.begin() + offset, {score, pair.sum, length, slot, reason});
}

bool BeamSearch::Precedes(const Pair& pair, double score, int length, const Entry& entry) const {
  if (score != entry.score) {
    return score > entry.score;
  }
  if (length != entry.length) {
    return length < entry.length;
  }
  // Of equal length: both are about the history's last step.
  const int last = length - 1;
  const int order =
      history_.ComparePaths(last - 1, pair.parent, history_.slot_parent(last, entry.slot));
  return order != 0 ? order < 0 : pair.token < history_.token(last, entry.slot);
}

bool BeamSearch::MayStop() const {
  if (sums_.empty() || (options_.beam_size == 1 && num_finished_ > 0)) {
    return true;
  }
  switch (options_.stop) {
    case StopMode::kSafe:
      // Row 0 has the largest sum. On equal score the list's hypothesis wins: it is shorter than
      // all that is still to come.
      return best_.size() == static_cast<size_t>(options_.n_best) &&
             best_.back().score >= scores_.Bound(sums_[0], history_.num_steps());
    case StopMode::kFirst:
      return best_pair_ends_;
    case StopMode::kCount:
      return static_cast<double>(num_finished_) >=
             std::max(1.0, std::round(options_.beam_size * options_.patience));
    case StopMode::kNever:
      break;
  }
  return false;
}

void BeamSearch::End() {
  done_ = true;
  tokens_.clear();
  parents_.clear();
  sums_.clear();
  rules_ = {};
}

absl::StatusOr<std::vector<Hypothesis>> BeamSearch::Collect(const SlotPaths& paths) const {
  if (!done_) {
    return absl::FailedPreconditionError("the search is not done");
  }
  const int64_t steps = history_.num_steps();
  if (paths.stride < num_slots() ||
      static_cast<int64_t>(paths.slots.size()) < (steps - 1) * paths.stride + num_slots()) {
    return absl::InternalError(absl::StrCat("paths of ", paths.slots.size(), " elements, stride ",
                                            paths.stride, ", are too small for ", steps,
                                            " steps of ", num_slots(), " slots"));
  }
  std::vector<Hypothesis> result(best_.size());
  for (size_t i = 0; i < best_.size(); ++i) {
    const Entry& entry = best_[i];
    Hypothesis& hypothesis = result[i];
    hypothesis.sum = entry.sum;
    hypothesis.score = entry.score;
    hypothesis.reason = entry.reason;
    hypothesis.tokens.reserve(static_cast<size_t>(entry.length));
    hypothesis.token_log_probs.reserve(static_cast<size_t>(entry.length));
    for (int step = 0; step < entry.length; ++step) {
      const int slot = paths.slots[static_cast<size_t>(step * paths.stride + entry.slot)];
      if (slot < 0 || slot >= num_slots() || history_.slot_id(step, slot) != slot) {
        return absl::InternalError(absl::StrCat("paths[", step, ", ", entry.slot, "] is ", slot,
                                                ", a slot without a token in that step"));
      }
      hypothesis.tokens.push_back(history_.token(step, slot));
      hypothesis.token_log_probs.push_back(history_.log_prob(step, slot));
    }
  }
  return result;
}

}  // namespace beamwright::search
