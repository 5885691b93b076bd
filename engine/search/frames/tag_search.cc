// Searches the best label sequences of a tagger, with or without a CRF. Each position has a score
// per label (and a CRF a score per pair of neighbours), which the lattice normalises (TagLattice).
//
// 1. SetScores gives the lattice all scores; Advance does a part of the work per call, so that a
//    long source does not hold up others.
// 2. With a CRF, FindMost goes backwards: for each position and label the best energy that can
//    still follow.
// 3. ReadPosition goes forwards with a beam: a candidate's rank is its energy so far plus the best
//    that can follow. This bound is exact, so that the beam finds the n best sequences.
// 4. Keep adds the best candidates as entries of a tree (parent, label).
//
// AddStableLabels goes back from the beam to where all its entries have the same ancestor: labels
// up to there cannot change any more. `order` keeps entries of equal rank in the order of their
// labels, so that results do not depend on sorting.
#include "engine/search/frames/tag_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/search/frames/log_prob_row.h"
#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {

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

namespace {

std::vector<int32_t> OpenLabels(const FrameOptions& options, bool at_begin) {
  std::vector<int32_t> open = options.shortlist;
  if (open.empty()) {
    open.resize(static_cast<size_t>(options.vocabulary_size));
    std::iota(open.begin(), open.end(), 0);
  }
  std::vector<bool> is_closed(static_cast<size_t>(options.vocabulary_size));
  for (const int32_t label : options.suppressed) {
    is_closed[static_cast<size_t>(label)] = true;
  }
  for (const int32_t label : options.suppressed_at_begin) {
    is_closed[static_cast<size_t>(label)] = is_closed[static_cast<size_t>(label)] || at_begin;
  }
  open.erase(std::remove_if(open.begin(), open.end(),
                            [&](int32_t label) { return is_closed[static_cast<size_t>(label)]; }),
             open.end());
  return open;
}

}  // namespace

TagSearch::TagSearch(std::shared_ptr<const FramePlan> plan, const TagTransitions* transitions)
    : plan_(std::move(plan)),
      lattice_(plan_->options(), transitions),
      open_(OpenLabels(plan_->options(), false)),
      open_first_(OpenLabels(plan_->options(), true)) {
  BW_CHECK(plan_->options().kind == FrameKind::kTags);
}

absl::Status TagSearch::SetScores(absl::Span<const float> scores) {
  BW_RETURN_IF_ERROR(lattice_.SetScores(scores));
  if (lattice_.has_transitions()) {
    most_.assign(scores.size(), kLogZero);
  }
  return absl::OkStatus();
}

absl::Span<const FrameRow> TagSearch::rows() const {
  static constexpr FrameRow kRow;
  return lattice_.num_positions() == 0 || done() ? absl::Span<const FrameRow>()
                                                 : absl::MakeConstSpan(&kRow, 1);
}

absl::Span<const int32_t> TagSearch::Open(int64_t position) const {
  const TokenSequence& prefix = plan_->options().prefix;
  if (position < static_cast<int64_t>(prefix.size())) {
    return absl::MakeConstSpan(prefix).subspan(static_cast<size_t>(position), 1);
  }
  return position == 0 ? open_first_ : open_;
}

void TagSearch::FindMost(int64_t position) {
  const bool is_last = position + 1 == lattice_.num_positions();
  for (const int32_t label : Open(position)) {
    double most = is_last ? lattice_.Last(label) : kLogZero;
    for (const int32_t next : is_last ? absl::Span<const int32_t>() : Open(position + 1)) {
      most = std::max(most, lattice_.Energy(position + 1, label, next) + Most(position + 1, next));
    }
    most_[static_cast<size_t>(position * lattice_.num_labels() + label)] = most;
  }
}

absl::Status TagSearch::Advance(int64_t count) {
  if (!lattice_.is_ready()) {
    return lattice_.Advance(count);
  }
  const int64_t positions = lattice_.num_positions();
  if (static_cast<int64_t>(plan_->options().prefix.size()) > positions) {
    return absl::FailedPreconditionError(
        absl::StrCat("target_prefix has ", plan_->options().prefix.size(),
                     " labels, the source has ", positions, " positions"));
  }
  for (; count > 0 && lattice_.has_transitions() && num_ranked_ < positions; --count) {
    FindMost(positions - 1 - num_ranked_++);
  }
  for (; count > 0 && num_read_ < positions; --count) {
    BW_RETURN_IF_ERROR(ReadPosition());
  }
  return absl::OkStatus();
}

absl::Status TagSearch::ReadPosition() {
  candidates_.clear();
  const auto beam = static_cast<size_t>(plan_->options().beam_size);
  const auto try_all = [&](int32_t parent) {
    const Entry before = parent < 0 ? Entry() : entries_[static_cast<size_t>(parent)];
    for (const int32_t label : Open(num_read_)) {
      const double energy = before.energy + lattice_.Energy(num_read_, before.label, label);
      const double rank = energy + Most(num_read_, label);
      if (rank > kLogZero) {
        candidates_.push_back({rank, energy, parent, label});
      }
    }
  };
  if (num_read_ == 0) {
    try_all(-1);
  }
  for (size_t i = begins_.empty() ? 0 : begins_.back(); i < entries_.size(); ++i) {
    try_all(static_cast<int32_t>(i));
  }
  if (candidates_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no label can follow at position ", num_read_,
                     ": all that the options and the transitions leave has probability 0"));
  }
  const auto better = [this](const Candidate& a, const Candidate& b) {
    if (a.rank != b.rank) {
      return a.rank > b.rank;
    }
    if (a.parent != b.parent) {
      return entries_[static_cast<size_t>(a.parent)].order <
             entries_[static_cast<size_t>(b.parent)].order;
    }
    return a.label < b.label;
  };
  const size_t kept = std::min(beam, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                    candidates_.end(), better);
  Keep(absl::MakeConstSpan(candidates_).subspan(0, kept));
  return absl::OkStatus();
}

void TagSearch::Keep(absl::Span<const Candidate> candidates) {
  const size_t begin = entries_.size();
  for (const Candidate& candidate : candidates) {
    const Entry before =
        candidate.parent < 0 ? Entry() : entries_[static_cast<size_t>(candidate.parent)];
    const double log_prob = lattice_.LogProb(num_read_, before.label, candidate.label);
    entries_.push_back({candidate.parent, candidate.label, candidate.energy,
                        before.log_prob + log_prob, static_cast<float>(log_prob), 0});
  }
  std::vector<size_t> sorted(candidates.size());
  std::iota(sorted.begin(), sorted.end(), begin);
  std::sort(sorted.begin(), sorted.end(), [this](size_t a, size_t b) {
    const auto order = [this](size_t i) {
      const int32_t parent = entries_[i].parent;
      return parent < 0 ? 0 : entries_[static_cast<size_t>(parent)].order;
    };
    return order(a) != order(b) ? order(a) < order(b) : entries_[a].label < entries_[b].label;
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    entries_[sorted[i]].order = static_cast<int32_t>(i);
  }
  begins_.push_back(begin);
  ++num_read_;
}

void TagSearch::AddStableLabels(std::vector<int32_t>& labels) const {
  if (begins_.empty()) {
    return;
  }
  // Goes back to where all entries of the beam have one ancestor.
  std::vector<int32_t> at(entries_.size() - begins_.back());
  std::iota(at.begin(), at.end(), static_cast<int32_t>(begins_.back()));
  if (done()) {
    at.resize(std::min(at.size(), static_cast<size_t>(plan_->options().n_best)));
  }
  auto length = static_cast<size_t>(num_read_);
  while (length > labels.size() &&
         std::any_of(at.begin(), at.end(), [&at](int32_t entry) { return entry != at[0]; })) {
    for (int32_t& entry : at) {
      entry = entries_[static_cast<size_t>(entry)].parent;
    }
    --length;
  }
  if (length <= labels.size()) {
    return;
  }
  const size_t known = labels.size();
  labels.resize(length);
  for (int32_t entry = at[0]; length > known; --length) {
    labels[length - 1] = entries_[static_cast<size_t>(entry)].label;
    entry = entries_[static_cast<size_t>(entry)].parent;
  }
}

std::vector<FrameHypothesis> TagSearch::Results() const {
  std::vector<FrameHypothesis> results;
  const auto n_best = static_cast<size_t>(plan_->options().n_best);
  for (size_t i = begins_.empty() ? 0 : begins_.back();
       i < entries_.size() && results.size() < n_best; ++i) {
    FrameHypothesis& hypothesis = results.emplace_back();
    hypothesis.labels.resize(static_cast<size_t>(num_read_));
    hypothesis.times.resize(static_cast<size_t>(num_read_));
    auto entry = static_cast<int32_t>(i);
    for (int64_t position = num_read_ - 1; position >= 0; --position) {
      const Entry& one = entries_[static_cast<size_t>(entry)];
      hypothesis.labels[static_cast<size_t>(position)] = one.label;
      hypothesis.times[static_cast<size_t>(position)] = {position, 1, one.step_log_prob};
      entry = one.parent;
    }
    hypothesis.log_prob = hypothesis.merged_log_prob = hypothesis.score = entries_[i].log_prob;
  }
  return results;
}

}  // namespace beamwright::search
