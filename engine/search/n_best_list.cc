// The scores of hypotheses (ScoreTable, Coverage), and where a search keeps its tokens
// (SlotHistory) and its complete hypotheses (NBestList).
//
// A history is a table [steps, slots]: each slot holds a token and the slot of the step before that
// it continues; slots that a step does not use continue themselves. A hypothesis is its last slot
// and its length, so that entering the list copies no tokens. Live rows use the first slots,
// entries of the list those from first_slot_ on: an entry that falls out of the list leaves its
// slot to the one that takes its place.
//
// Entries are sorted by score, then the shorter first, then by their tokens from the beginning
// (ComparePaths follows both paths back and remembers the earliest difference). Equal hypotheses
// enter once.
#include "engine/search/n_best_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {

// Scores of hypotheses: the sum of log-probabilities and rewards, divided by a norm of the length,
// less the coverage penalty. Bound is the best score that a row can still reach, which the stop
// rules compare with the list: without rewards its sum divided by the largest norm that is left,
// with rewards the maximum over all lengths, each with the most that rewards may add until then.
//
// Coverage adds up each source position's attention over the steps (AddStep); Penalty is low where
// positions got less than 1 in all.

namespace {

// Far above what rounding does to sums of kMaxLength rewards, far below what distinguishes scores.
constexpr double kHair = 1e-9;

}  // namespace

double LengthNorm(LengthPenalty penalty, double alpha, double n) {
  return penalty == LengthPenalty::kNone
             ? 1
             : std::pow(penalty == LengthPenalty::kPow ? n : (5 + n) / 6, alpha);
}

ScoreTable::ScoreTable(const SearchOptions& options, const Gains& gains)
    : gains_(gains),
      word_reward_(options.word_reward),
      offset_(options.constraints.score_prefix ? static_cast<int>(options.constraints.prefix.size())
                                               : 0),
      max_length_(options.max_length),
      min_length_(options.processors.min_length) {
  if (options.length_penalty == LengthPenalty::kNone) {
    return;
  }
  const size_t size = static_cast<size_t>(offset_) + static_cast<size_t>(max_length_) + 1;
  norms_.assign(size, 1);
  for (size_t length = 1; length < size; ++length) {
    norms_[length] = LengthNorm(options.length_penalty, options.alpha, static_cast<double>(length));
  }
  largest_from_ = norms_;
  for (size_t length = size - 1; length-- > 1;) {
    largest_from_[length] = std::max(largest_from_[length], largest_from_[length + 1]);
  }
}

double ScoreTable::Bound(double total, int length) const {
  // A hypothesis that reaches max_length may be cut there however short it should not be.
  const int first = std::min(std::max(length, min_length_) + 1, max_length_);
  if (word_reward_ == 0 && !gains_.any) {
    return largest_from_.empty() ? total
                                 : total / largest_from_[static_cast<size_t>(first + offset_)];
  }
  double bound = -std::numeric_limits<double>::infinity();
  for (int n = first; n <= max_length_; ++n) {
    bound = std::max(bound, ScoreAt(total + gains_.most * (n - length), n + offset_));
  }
  return gains_.any ? bound + kHair * (1 + std::abs(bound)) : bound;
}

// sums_ of a row: those of its parent, plus this step's attention.
absl::Status Coverage::AddStep(absl::Span<const int32_t> parents,
                               absl::Span<const RowCandidates> rows) {
  if (!wanted()) {
    return absl::OkStatus();
  }
  const bool is_first = sums_.empty();
  if (is_first) {
    num_positions_ = rows.empty() ? 0 : rows[0].attention.size();
  }
  next_.resize(rows.size() * num_positions_);
  for (size_t row = 0; row < rows.size(); ++row) {
    const absl::Span<const float> attention = rows[row].attention;
    if (attention.size() != num_positions_ || attention.empty()) {
      return Invalid("row ", row, " has attention over ", attention.size(),
                     " source positions, must be over ", std::max<size_t>(num_positions_, 1));
    }
    for (size_t i = 0; i < num_positions_; ++i) {
      if (!(attention[i] >= 0) || !std::isfinite(attention[i])) {
        return Invalid("row ", row, ": the attention to source position ", i, " is ", attention[i],
                       ", must be a number of at least 0");
      }
      const double before =
          is_first ? 0 : sums_[static_cast<size_t>(parents[row]) * num_positions_ + i];
      next_[row * num_positions_ + i] = before + static_cast<double>(attention[i]);
    }
  }
  sums_.swap(next_);
  return absl::OkStatus();
}

double Coverage::Penalty(int row) const {
  if (!wanted()) {
    return 0;
  }
  double sum = 0;
  for (size_t i = 0; i < num_positions_; ++i) {
    const double got = sums_[static_cast<size_t>(row) * num_positions_ + i];
    sum += std::log(std::clamp(got, kLeastCoverage, 1.0));
  }
  return weight_ * sum;
}

namespace {

constexpr int kFirstReservedSteps = 32;

}  // namespace

SlotHistory::SlotHistory(int num_slots, int max_steps, int num_parts)
    : num_slots_(num_slots), max_steps_(max_steps), num_parts_(num_parts) {}

void SlotHistory::AddStep() {
  BW_DCHECK(num_steps_ < max_steps_);
  const size_t size = Index(num_steps_ + 1, 0);
  if (size > slot_ids_.capacity()) {
    // Doubles, but never beyond what max_steps_ takes: that is what the request was priced at.
    const size_t reserved =
        Index(std::min(max_steps_, std::max(kFirstReservedSteps, 2 * num_steps_)), 0);
    slot_ids_.reserve(reserved);
    slot_parents_.reserve(reserved);
    tokens_.reserve(reserved);
    log_probs_.reserve(reserved);
    parts_.reserve(reserved * static_cast<size_t>(num_parts_));
  }
  slot_ids_.resize(size, -1);
  slot_parents_.resize(size);
  std::iota(slot_parents_.end() - num_slots_, slot_parents_.end(), 0);
  tokens_.resize(size, -1);
  log_probs_.resize(size, 0);
  parts_.resize(size * static_cast<size_t>(num_parts_), 0);
  ++num_steps_;
}

void SlotHistory::Set(int slot, int parent, int32_t token, float log_prob,
                      absl::Span<const float> parts) {
  BW_DCHECK(num_steps_ > 0 && slot >= 0 && slot < num_slots_ && parent >= 0 && parent < num_slots_);
  const size_t index = Index(num_steps_ - 1, slot);
  slot_ids_[index] = slot;
  slot_parents_[index] = parent;
  tokens_[index] = token;
  log_probs_[index] = log_prob;
  std::copy_n(parts.begin(), num_parts_, parts_.begin() + static_cast<int64_t>(index) * num_parts_);
}

int SlotHistory::ComparePaths(int step, int a, int b) const {
  int order = 0;
  for (; step >= 0 && a != b; --step) {
    const int32_t token_a = token(step, a);
    const int32_t token_b = token(step, b);
    if (token_a != token_b) {
      order = token_a < token_b ? -1 : 1;  // the earliest difference decides: it is seen last
    }
    a = slot_parent(step, a);
    b = slot_parent(step, b);
  }
  return order;
}

// Below 0: `own`, which would end with `pair`, is listed before `other`.
int NBestList::Compare(const Pair& pair, const ListEntry& own, const ListEntry& other,
                       const SlotHistory& history) {
  if (own.key != other.key) {
    return own.key > other.key ? -1 : 1;
  }
  if (own.length != other.length) {
    return own.length < other.length ? -1 : 1;
  }
  // Of equal length: both are about the history's last step.
  const int last = own.length - 1;
  const int order =
      history.ComparePaths(last - 1, pair.parent, history.slot_parent(last, other.slot));
  return order != 0 ? order : pair.token - history.token(last, other.slot);
}

bool NBestList::Enter(const Pair& pair, ListEntry entry, int live_slot, SlotHistory& history) {
  entry.length = history.num_steps();
  const auto place = std::partition_point(
      entries_.begin(), entries_.end(),
      [&](const ListEntry& other) { return Compare(pair, entry, other, history) >= 0; });
  const bool is_full = full();
  if (is_full && place == entries_.end()) {
    return false;
  }
  // Two groups of a search may find the same hypothesis.
  if (place != entries_.begin() && Compare(pair, entry, *(place - 1), history) == 0) {
    return false;
  }
  const auto offset = place - entries_.begin();
  entry.slot = live_slot;
  if (live_slot < 0) {
    entry.slot = is_full ? entries_.back().slot : first_slot_ + static_cast<int>(entries_.size());
    history.Set(entry.slot, pair.parent, pair.token, pair.log_prob, pair.parts);
  }
  if (is_full) {
    entries_.pop_back();
  }
  entries_.insert(entries_.begin() + offset, entry);
  return true;
}

void NBestList::Append(const NBestList& other) {
  for (const ListEntry& entry : other.entries_) {
    if (full()) {
      return;
    }
    entries_.push_back(entry);
  }
}

}  // namespace beamwright::search
