#include "engine/search/frames/ctc_scorer.h"

#include <algorithm>
#include <utility>

#include "engine/search/frames/log_add.h"
#include "engine/search/frames/log_prob_row.h"
#include "ops/base/status.h"

namespace beamwright::search {

absl::StatusOr<CtcScorer> CtcScorer::Create(const FrameOptions& options,
                                            std::vector<int32_t> labels) {
  BW_RETURN_IF_ERROR(Validate(options));
  BW_RETURN_IF_ERROR(CheckScoredLabels(options, labels));
  return CtcScorer(options, std::move(labels));
}

CtcScorer::CtcScorer(const FrameOptions& options, std::vector<int32_t> labels)
    : options_(options),
      labels_(std::move(labels)),
      states_(2 * labels_.size() + 1, {kLogZero, kLogZero}),
      next_states_(states_.size()) {
  states_[0] = {0, 0};  // as if a blank had come before the first frame
}

absl::Status CtcScorer::Advance(absl::Span<const float> log_probs) {
  BW_RETURN_IF_ERROR(LogProbRow::Check(options_, log_probs, num_frames_));
  const LogProbRow row(options_, log_probs);
  for (size_t state = 0; state < states_.size(); ++state) {
    const bool is_label = state % 2 == 1;
    const size_t label = state / 2;
    const double here = is_label ? row.label(labels_[label]) : row.blank();
    // A label goes on, follows the blank, or another label.
    const size_t most_steps = is_label && label > 0 && labels_[label] != labels_[label - 1] ? 2
                              : state > 0                                                   ? 1
                                                                                            : 0;
    State next = states_[state];
    uint8_t steps = 0;
    for (size_t back = 1; back <= most_steps; ++back) {
      const State& before = states_[state - back];
      next.sum = LogAdd(next.sum, before.sum);
      if (before.best > next.best) {
        next.best = before.best;
        steps = static_cast<uint8_t>(back);
      }
    }
    next_states_[state] = {next.sum + here, next.best + here};
    steps_.push_back(steps);
    if (is_label) {
      log_probs_.push_back(static_cast<float>(here));
    }
  }
  states_.swap(next_states_);
  ++num_frames_;
  return absl::OkStatus();
}

std::vector<LabelTime> CtcScorer::TraceBack(size_t state) const {
  std::vector<LabelTime> times(labels_.size());
  for (int64_t frame = num_frames_ - 1; frame >= 0; --frame) {
    const auto at = static_cast<size_t>(frame);
    if (state % 2 == 1) {
      LabelTime& time = times[state / 2];
      time.first_frame = frame;
      ++time.duration;
      time.log_prob += log_probs_[at * labels_.size() + state / 2];
    }
    state -= steps_[at * states_.size() + state];
  }
  return times;
}

FrameScore CtcScorer::Result() const {
  size_t last = states_.size() - 1;
  FrameScore score = {states_[last].sum, states_[last].best, {}};
  if (last > 0) {
    score.full_log_prob = LogAdd(score.full_log_prob, states_[last - 1].sum);
    last -= states_[last - 1].best > score.best_log_prob ? 1 : 0;
    score.best_log_prob = states_[last].best;
  }
  if (score.best_log_prob > kLogZero) {
    score.times = TraceBack(last);
  }
  return score;
}

}  // namespace beamwright::search
