// Probabilities of sequences of labels. The header has the formulas; here is how they are computed:
//
// 1. SetScores checks the scores of all positions.
// 2. Advance reads positions from the last to the first (ReadPosition). With transitions it finds
//    behind(position, label), the log-sum over all that may follow the label. Without, it finds
//    what makes the scores a distribution again after division by the temperature.
// 3. At the end log_sum_ is the log-sum over all sequences.
//
// Then the log-probability of a label, given the label before it, is Energy + behind(position,
// label) - behind(position - 1, before); at position 0 log_sum_ is subtracted. Over a sequence the
// terms cancel but for its energy and log_sum_, which is the log-probability of the sequence.
#include "engine/search/frames/tag_lattice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/search/frames/log_add.h"
#include "engine/search/frames/log_prob_row.h"
#include "ops/base/status.h"

namespace beamwright::search {
namespace {

double LogSum(absl::Span<const double> values) {
  const double largest = *std::max_element(values.begin(), values.end());
  if (largest == kLogZero) {
    return kLogZero;
  }
  double sum = 0;
  for (const double value : values) {
    sum += std::exp(value - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

absl::Status TagLattice::SetScores(absl::Span<const float> scores) {
  if (scores.empty() || scores.size() % labels() != 0) {
    return Invalid(scores.size(), " scores are no positions of ", labels(), " labels");
  }
  const auto positions = static_cast<int64_t>(scores.size() / labels());
  for (int64_t position = 0; position < positions; ++position) {
    const auto row = scores.subspan(static_cast<size_t>(position) * labels(), labels());
    if (!has_transitions()) {
      BW_RETURN_IF_ERROR(LogProbRow::Check(*options_, row, position));
      continue;
    }
    for (size_t label = 0; label < row.size(); ++label) {
      if (!(row[label] < std::numeric_limits<float>::infinity())) {
        return Invalid("frame ", position, ", token ", label, ": ", row[label],
                       " is not a number below infinity");
      }
    }
  }
  scores_ = scores;
  num_positions_ = positions;
  num_read_ = 0;
  if (has_transitions()) {
    behind_.resize(scores.size());
  } else {
    norms_.resize(static_cast<size_t>(positions));
  }
  scratch_.resize(labels());
  return absl::OkStatus();
}

double TagLattice::Between(int32_t before, int32_t label) const {
  return static_cast<double>(transitions_->between[static_cast<size_t>(before) * labels() +
                                                   static_cast<size_t>(label)]) /
         options_->temperature;
}

double TagLattice::Last(int32_t label) const {
  return has_transitions() ? static_cast<double>(transitions_->last[static_cast<size_t>(label)]) /
                                 options_->temperature
                           : 0;
}

void TagLattice::ReadPosition(int64_t position) {
  const int32_t count = options_->vocabulary_size;
  if (!has_transitions()) {
    double norm = 0;
    if (options_->temperature != 1) {
      for (int32_t label = 0; label < count; ++label) {
        scratch_[static_cast<size_t>(label)] = at(position, label);
      }
      norm = LogSum(scratch_);
    }
    norms_[static_cast<size_t>(position)] = norm;
    return;
  }
  if (position + 1 == num_positions_) {
    for (int32_t label = 0; label < count; ++label) {
      behind(position, label) = Last(label);
    }
    return;
  }
  for (int32_t label = 0; label < count; ++label) {
    for (int32_t next = 0; next < count; ++next) {
      scratch_[static_cast<size_t>(next)] =
          Between(label, next) + at(position + 1, next) + behind(position + 1, next);
    }
    behind(position, label) = LogSum(scratch_);
  }
}

absl::Status TagLattice::Advance(int64_t count) {
  for (; count > 0 && num_read_ < num_positions_; --count, ++num_read_) {
    ReadPosition(num_positions_ - 1 - num_read_);
  }
  if (!is_ready() || !has_transitions()) {
    return absl::OkStatus();
  }
  for (int32_t label = 0; label < options_->vocabulary_size; ++label) {
    scratch_[static_cast<size_t>(label)] = Energy(0, -1, label) + behind(0, label);
  }
  log_sum_ = LogSum(scratch_);
  return log_sum_ > kLogZero ? absl::OkStatus()
                             : absl::FailedPreconditionError(
                                   "no sequence of labels has a probability above 0: scores or "
                                   "transitions of -infinity rule all of them out");
}

double TagLattice::Energy(int64_t position, int32_t before, int32_t label) const {
  if (!has_transitions()) {
    return std::min(at(position, label) - norms_[static_cast<size_t>(position)], 0.0);
  }
  const double transition =
      before < 0 ? static_cast<double>(transitions_->first[static_cast<size_t>(label)]) /
                       options_->temperature
                 : Between(before, label);
  return at(position, label) + transition;
}

double TagLattice::LogProb(int64_t position, int32_t before, int32_t label) const {
  const double energy = Energy(position, before, label);
  if (!has_transitions()) {
    return energy;
  }
  const double all = position == 0 ? log_sum_ : behind(position - 1, before);
  // A label that nothing may follow has no sequence to give its place to.
  return all == kLogZero ? kLogZero : std::min(energy + behind(position, label) - all, 0.0);
}

FrameScore TagLattice::ScoreOf(absl::Span<const int32_t> labels) const {
  FrameScore score;
  score.full_log_prob = score.best_log_prob = kLogZero;
  if (static_cast<int64_t>(labels.size()) != num_positions_) {
    return score;
  }
  double sum = 0;
  int32_t before = -1;
  for (int64_t position = 0; position < num_positions_; ++position) {
    const int32_t label = labels[static_cast<size_t>(position)];
    const double log_prob = LogProb(position, before, label);
    score.times.push_back({position, 1, static_cast<float>(log_prob)});
    sum += log_prob;
    before = label;
  }
  score.full_log_prob = score.best_log_prob = sum;
  return score;
}

}  // namespace beamwright::search
