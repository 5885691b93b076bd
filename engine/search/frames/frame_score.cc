// Scores label sequences that are given: the log-probability of all their alignments together (the
// forward algorithm) and of the best alignment, with the frames of each label. CtcScorer for CTC,
// TransducerScorer for transducers; both take one frame after the other.
//
// CtcScorer has a state for each label and for the blank before, between and behind them: 2 n + 1.
// In a frame a state goes on, or is reached from the one before; a label is also reached from the
// label before it if the two differ, without a blank between. Advance adds the sums of these ways
// and notes which was the best (steps_); TraceBack follows the notes from the end.
#include "engine/search/frames/frame_score.h"

#include <algorithm>
#include <utility>

#include "engine/search/frames/log_prob_row.h"
#include "engine/search/row_search.h"
#include "ops/base/status.h"

namespace beamwright::search {

absl::Status CheckScoredLabels(const FrameOptions& options, const std::vector<int32_t>& labels) {
  if (labels.size() > static_cast<size_t>(kMaxLength)) {
    return Invalid("there are ", labels.size(), " labels, at most ", kMaxLength, " are allowed");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= options.vocabulary_size) {
      return Invalid("labels[", i, "] is ", labels[i],
                     ", must be in [0, vocabulary_size = ", options.vocabulary_size, ")");
    }
    if (labels[i] == options.blank) {
      return Invalid("labels[", i, "] is the blank, which is no label");
    }
  }
  return absl::OkStatus();
}

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

// Scores one known label sequence with a transducer: the log-probability of all alignments together
// (forward algorithm) and of the best alignment, with its times. The lattice has a node for each
// frame and each number of labels emitted ("place"):
//
//   blank moves to the next frame (or by a duration), a label to the next place
//
// 1. Advance takes the scores of one frame: for every place those of blank and of its next label.
//    It goes through the places in order; labels of this frame lead to the next place in the same
//    frame (EmitLabel), blanks and durations into later frames (Arrive).
// 2. `arriving` is a ring of the sums at coming frames, as far as the longest duration reaches.
//    With a cap on labels per frame, a place has a sum for each number of labels emitted in the
//    frame.
// 3. Arrivals keep, for the best alignment, how each node was reached; TraceBack follows them from
//    the end.

absl::StatusOr<TransducerScorer> TransducerScorer::Create(const FrameOptions& options,
                                                          std::vector<int32_t> labels) {
  BW_RETURN_IF_ERROR(Validate(options));
  BW_RETURN_IF_ERROR(CheckScoredLabels(options, labels));
  return TransducerScorer(options, std::move(labels));
}

TransducerScorer::TransducerScorer(const FrameOptions& options, std::vector<int32_t> labels)
    : options_(options),
      labels_(std::move(labels)),
      num_places_(labels_.size() + 1),
      num_ahead_(static_cast<size_t>(options.longest_duration()) + 1),
      cap_(static_cast<size_t>(options.max_symbols_per_frame)),
      arriving_(num_ahead_ * num_places_, {kLogZero, kLogZero}),
      arrivals_(num_ahead_ * num_places_) {
  if (options_.alignment_length_synchronous || cap_ > labels_.size()) {
    cap_ = 0;  // never reached
  }
  arriving(0, 0) = {0, 0};
}

absl::Status TransducerScorer::Check(absl::Span<const ScoredRow> rows) const {
  if (rows.size() != num_places_) {
    return Invalid("frame ", num_frames_, ": ", rows.size(), " rows for ", labels_.size(),
                   " labels, must be one more");
  }
  for (size_t place = 0; place < rows.size(); ++place) {
    const ScoredRow& row = rows[place];
    if (row.duration_log_probs.size() != options_.durations.size()) {
      return Invalid("frame ", num_frames_, ", row ", place, ": ", row.duration_log_probs.size(),
                     " durations of ", options_.durations.size());
    }
    bool is_good = row.blank_log_prob <= kRoundedUp &&
                   (place == labels_.size() || row.label_log_prob <= kRoundedUp);
    for (const float log_prob : row.duration_log_probs) {
      is_good = is_good && log_prob <= kRoundedUp;
    }
    if (!is_good) {
      return Invalid("frame ", num_frames_, ", row ", place,
                     ": a value is not a log-probability, which is at most 0");
    }
  }
  return absl::OkStatus();
}

absl::Status TransducerScorer::Advance(absl::Span<const ScoredRow> rows) {
  BW_RETURN_IF_ERROR(Check(rows));
  next_here_.clear();
  for (size_t place = 0; place < num_places_; ++place) {
    here_.swap(next_here_);
    next_here_.clear();
    ReadRow(place, rows[place]);
  }
  // The frame's place in the ring is that of a later one now.
  for (size_t place = 0; place < num_places_; ++place) {
    arriving(num_frames_, place) = {kLogZero, kLogZero};
  }
  arrivals_.resize(arrivals_.size() + num_places_);
  ++num_frames_;
  return absl::OkStatus();
}

// here_ has what the place before emitted in this frame: with a cap one element for each number of
// labels, else one at most.
void TransducerScorer::ReadRow(size_t place, const ScoredRow& row) {
  const InFrame arrived = {arriving(num_frames_, place), 0};
  if (cap_ > 0) {
    here_.insert(here_.begin(), arrived);
  } else if (here_.empty()) {
    here_.push_back(arrived);
  } else {
    here_[0].sums.sum = LogAdd(here_[0].sums.sum, arrived.sums.sum);
    if (arrived.sums.best >= here_[0].sums.best) {
      here_[0].sums.best = arrived.sums.best;
      here_[0].run = 0;
    }
  }
  const double raw_blank = std::min(row.blank_log_prob, 0.0f);
  const double shift = BlankPenaltyShift(raw_blank, options_.blank_penalty);
  const double blank = raw_blank - options_.blank_penalty - shift;
  const double label = std::min(static_cast<double>(row.label_log_prob) - shift, 0.0);
  for (const InFrame& from : here_) {
    if (options_.durations.empty()) {
      Arrive(1, place, from, blank, false);
    }
    for (size_t i = 0; i < options_.durations.size(); ++i) {
      const double log_prob = blank + std::min(row.duration_log_probs[i], 0.0f);
      Arrive(std::max(options_.durations[i], 1), place, from, log_prob, false);
    }
    if (place < labels_.size()) {
      EmitLabel(place, from, label, row);
    }
  }
}

void TransducerScorer::EmitLabel(size_t place, const InFrame& from, double log_prob,
                                 const ScoredRow& row) {
  const bool ends_frame = cap_ > 0 && static_cast<size_t>(from.run) + 1 == cap_;
  const int least = ends_frame ? 1 : 0;
  double in_frame = kLogZero;
  if (options_.durations.empty() && ends_frame) {
    Arrive(1, place + 1, from, log_prob, true);
  } else if (options_.durations.empty()) {
    in_frame = log_prob;
  }
  for (size_t i = 0; i < options_.durations.size(); ++i) {
    const int frames = std::max(options_.durations[i], least);
    const double both = log_prob + std::min(row.duration_log_probs[i], 0.0f);
    if (frames > 0) {
      Arrive(frames, place + 1, from, both, true);
    } else {
      in_frame = both;
    }
  }
  if (!ends_frame) {
    EmitInFrame(from, in_frame);
  }
  // One element a frame and label, whatever came before it.
  const size_t number = static_cast<size_t>(num_frames_) * labels_.size() + place;
  in_frame_.resize(std::max(in_frame_.size(), number + 1));
  if (!ends_frame) {
    in_frame_[number] = static_cast<float>(in_frame);
  }
}

void TransducerScorer::EmitInFrame(const InFrame& from, double log_prob) {
  next_here_.push_back({{from.sums.sum + log_prob, from.sums.best + log_prob}, from.run + 1});
}

// From `from`, by blank or by a label, to `place` at a frame that is `frames` later.
void TransducerScorer::Arrive(int frames, size_t place, const InFrame& from, double log_prob,
                              bool by_label) {
  Sums& sums = arriving(num_frames_ + frames, place);
  sums.sum = LogAdd(sums.sum, from.sums.sum + log_prob);
  if (from.sums.best + log_prob > sums.best) {
    sums.best = from.sums.best + log_prob;
    arrivals_[static_cast<size_t>(num_frames_ + frames) * num_places_ + place] = {
        frames, from.run, static_cast<float>(log_prob), by_label};
  }
}

std::vector<LabelTime> TransducerScorer::TraceBack(int64_t frame) const {
  std::vector<LabelTime> times(labels_.size());
  const int32_t told = options_.durations.empty() ? 1 : 0;  // of a label that takes no frame
  size_t place = labels_.size();
  while (frame > 0) {
    const Arrival& arrival = arrivals_[static_cast<size_t>(frame) * num_places_ + place];
    frame -= arrival.frames;
    if (arrival.by_label) {
      times[--place] = {frame, std::max(arrival.frames, told), arrival.label_log_prob};
    }
    for (int32_t i = 0; i < arrival.run; ++i) {
      --place;
      const size_t number = static_cast<size_t>(frame) * labels_.size() + place;
      times[place] = {frame, told, in_frame_[number]};
    }
  }
  return times;
}

FrameScore TransducerScorer::Result() const {
  FrameScore score = {kLogZero, kLogZero, {}};
  int64_t end = -1;
  for (size_t ahead = 0; ahead + 1 < num_ahead_ || ahead == 0; ++ahead) {
    const int64_t frame = num_frames_ + static_cast<int64_t>(ahead);
    const Sums& sums = arriving(frame, labels_.size());
    score.full_log_prob = LogAdd(score.full_log_prob, sums.sum);
    if (sums.best > score.best_log_prob) {
      score.best_log_prob = sums.best;
      end = frame;
    }
  }
  if (end >= 0) {
    score.times = TraceBack(end);
  }
  return score;
}

}  // namespace beamwright::search
