// The part of BeamSearch that turns a step's candidates into the pairs that live on or finish.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/check.h"
#include "ops/base/status.h"
#include "server/search/beam_search.h"

namespace beamwright::search {
namespace {

bool RanksBefore(const Pair& a, const Pair& b) {
  if (a.rank != b.rank) {
    return a.rank > b.rank;
  }
  if (a.parent != b.parent) {
    return a.parent < b.parent;
  }
  return a.rank_score != b.rank_score ? a.rank_score > b.rank_score : a.token < b.token;
}

float LogProb(const RowCandidates& row, size_t candidate) {
  return std::min(row.log_probs[candidate], 0.0f);
}

float RankScore(const RowCandidates& row, size_t candidate) {
  return row.rank_scores.empty() ? LogProb(row, candidate) : row.rank_scores[candidate];
}

// Kool et al. 2019, appendix B.3: noise of a child, given that the largest of all children's is
// `largest`, moved so that the largest becomes the parent's.
double ConditionedNoise(double parent, double largest, double own) {
  const double difference = own - largest;
  if (difference == 0) {
    return parent;
  }
  const double v = parent - own + std::log1p(-std::exp(difference));
  return parent - std::max(0.0, v) - std::log1p(std::exp(-std::abs(v)));
}

}  // namespace

bool BeamSearch::IsOpen(const RowCandidates& list, size_t candidate, const Row& row) const {
  const float log_prob = list.log_probs[candidate];
  if (log_prob == kImpossible || RankScore(list, candidate) == kImpossible) {
    return false;
  }
  return options_.end_threshold == 0 || !IsEnd(list.tokens[candidate]) ||
         kind() == StepKind::kForcedEnd || row.best_other == kImpossible ||
         static_cast<double>(log_prob) >
             options_.end_threshold * static_cast<double>(row.best_other);
}

// What each row's pairs start from: its sum and rewards, and what it reads of its own list.
void BeamSearch::StartRanks(absl::Span<const RowCandidates> rows) {
  for (size_t r = 0; r < rows.size(); ++r) {
    Row& row = rows_[r];
    row.base = row.sum + row.reward + row.fused;
    if (pipeline_.gives_rewards()) {
      row.base += pipeline_.RankOffset(static_cast<int>(r));
    }
    row.best_other = kImpossible;
    for (size_t i = 0; options_.end_threshold != 0 && i < rows[r].tokens.size(); ++i) {
      if (!IsEnd(rows[r].tokens[i])) {
        row.best_other = std::max(row.best_other, LogProb(rows[r], i));
      }
    }
  }
}

Pair BeamSearch::MakePair(const RowCandidates& list, size_t candidate, int32_t row) const {
  const Row& parent = rows_[static_cast<size_t>(row)];
  Pair pair;
  pair.token = list.tokens[candidate];
  pair.parent = row;
  pair.log_prob = LogProb(list, candidate);
  pair.rank_score = RankScore(list, candidate);
  pair.rank = parent.base + static_cast<double>(pair.rank_score);
  pair.sum = parent.sum + static_cast<double>(pair.log_prob);
  pair.reward = parent.reward;
  pair.fused = parent.fused;
  TakeParts(list, pair);
  pair.group = std::max(parent.group, 0);
  return pair;
}

void BeamSearch::TakeParts(const RowCandidates& list, Pair& pair) const {
  const size_t num_scorers = options_.scorers.size();
  for (size_t i = 0; i < num_scorers; ++i) {
    pair.parts[i] = list.fused->score(i, pair.token);
    pair.fused +=
        static_cast<double>(options_.scorers[i].weight) * static_cast<double>(pair.parts[i]);
  }
  for (size_t i = 0; i < list.members.size(); ++i) {
    pair.parts[num_scorers + i] = list.members[i].log_prob(pair.token);
  }
}

template <typename Next>
void BeamSearch::Choose(Next next, int size, int group) {
  const size_t already = living_.size();
  List& list = ListOf(group);
  Pair pair;
  double lowest = 0;
  for (int rank = 0; living_.size() - already < static_cast<size_t>(size) && next(pair); ++rank) {
    lowest = rank == 0 ? pair.rank - options_.beam_threshold : lowest;
    if (pair.rank < lowest) {
      return;
    }
    const bool ends = IsEnd(pair.token);
    if (ends && rank >= size) {
      continue;
    }
    pair.group = group;
    if (pipeline_.gives_rewards()) {
      pair.reward += pipeline_.Reward(pair.parent, pair.token, pair.log_prob);
    }
    (ends ? finishing_ : living_).push_back(pair);
    list.best_pair_ends = list.best_pair_ends || (ends && rank == 0);
    if (ends && size == 1) {
      return;  // greedy search ends here
    }
  }
}

// Of pairs_, in their order.
void BeamSearch::ChooseSorted(int size, int group) {
  auto next = pairs_.begin();
  Choose(
      [&](Pair& pair) {
        if (next == pairs_.end()) {
          return false;
        }
        pair = *next++;
        return true;
      },
      size, group);
}

absl::Status BeamSearch::TakePairs(absl::Span<const RowCandidates> rows) {
  living_.clear();
  finishing_.clear();
  for (List& list : lists_) {
    list.best_pair_ends = false;
  }
  const StepKind step = kind();
  if (step == StepKind::kPrefix) {
    return TakePrefix(rows[0]);
  }
  const bool has_banks = !options_.constraints.required.empty();
  if (step == StepKind::kForcedEnd || has_banks) {
    rows = JoinWatched(rows);
  }
  StartRanks(rows);
  if (step == StepKind::kAlternatives) {
    TakeAlternatives(rows[0]);
  } else if (options_.sampling.kind == Sampling::kRandom) {
    TakeDraws(rows);
  } else if (options_.sampling.kind == Sampling::kWithoutReplacement) {
    TakeByNoise(rows);
  } else if (has_banks) {
    TakeByBank(rows);
  } else if (group_size_ < options_.beam_size) {
    TakeByGroup(rows);
  } else {
    TakeBest(rows);
  }
  return absl::OkStatus();
}

absl::Status BeamSearch::TakePrefix(const RowCandidates& row) {
  const int32_t token = options_.constraints.prefix[static_cast<size_t>(history_.num_steps())];
  const float log_prob = std::min(row.watched[0], 0.0f);
  if (log_prob == kImpossible) {
    return absl::FailedPreconditionError(absl::StrCat("target_prefix: the model gives token ",
                                                      token, ", number ", history_.num_steps(),
                                                      " of the prefix, probability 0"));
  }
  Pair pair;
  pair.token = token;
  pair.log_prob = log_prob;
  prefix_sum_ += static_cast<double>(log_prob);
  pair.sum = options_.constraints.score_prefix ? prefix_sum_ : 0;
  pair.reward = rows_[0].reward + pipeline_.Reward(0, token, log_prob);
  pair.fused = rows_[0].fused;
  TakeParts(row, pair);
  if (!options_.constraints.score_prefix) {
    pair.fused = 0;
  } else if (pair.fused == -std::numeric_limits<double>::infinity()) {
    return absl::FailedPreconditionError(absl::StrCat("target_prefix: fusion gives token ", token,
                                                      ", number ", history_.num_steps(),
                                                      " of the prefix, probability 0"));
  }
  pair.group = -1;
  living_.push_back(pair);
  return absl::OkStatus();
}

void BeamSearch::TakeAlternatives(const RowCandidates& row) {
  const double least = std::log(options_.constraints.alternative_min_prob);
  int left = options_.constraints.num_alternatives;
  for (size_t i = 0; i < row.tokens.size() && left > 0; ++i) {
    if (IsEnd(row.tokens[i]) || !IsOpen(row, i, rows_[0])) {
      continue;
    }
    --left;
    if (static_cast<double>(LogProb(row, i)) >= least) {
      Pair pair = MakePair(row, i, 0);
      pair.group = static_cast<int32_t>(living_.size());
      pair.reward += pipeline_.Reward(0, pair.token, pair.log_prob);
      living_.push_back(pair);
    }
  }
}

void BeamSearch::TakeDraws(absl::Span<const RowCandidates> rows) {
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].tokens.size(); ++i) {
      Pair pair = MakePair(rows[r], i, static_cast<int32_t>(r));
      pair.group = rows_[r].sample + static_cast<int32_t>(i);
      (IsEnd(pair.token) ? finishing_ : living_).push_back(pair);
    }
  }
}

void BeamSearch::TakeBest(absl::Span<const RowCandidates> rows) {
  // Each row's list is in order already, so a heap of one cursor per row ranks the pairs of all.
  const auto worse = [](const Cursor& a, const Cursor& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.row > b.row;
  };
  const auto push = [&](int32_t r, size_t candidate) {
    const RowCandidates& list = rows[static_cast<size_t>(r)];
    const Row& row = rows_[static_cast<size_t>(r)];
    while (candidate < list.tokens.size() && !IsOpen(list, candidate, row)) {
      ++candidate;
    }
    if (candidate < list.tokens.size()) {
      cursors_.push_back({row.base + static_cast<double>(RankScore(list, candidate)), r,
                          static_cast<int32_t>(candidate)});
      std::push_heap(cursors_.begin(), cursors_.end(), worse);
    }
  };
  cursors_.clear();
  for (size_t r = 0; r < rows.size(); ++r) {
    push(static_cast<int32_t>(r), 0);
  }
  Choose(
      [&](Pair& pair) {
        if (cursors_.empty()) {
          return false;
        }
        std::pop_heap(cursors_.begin(), cursors_.end(), worse);
        const Cursor top = cursors_.back();
        cursors_.pop_back();
        const auto candidate = static_cast<size_t>(top.candidate);
        pair = MakePair(rows[static_cast<size_t>(top.row)], candidate, top.row);
        push(top.row, candidate + 1);
        return true;
      },
      options_.beam_size, 0);
}

// The pairs of a group's rows, in no order; of all rows, if group is -1.
void BeamSearch::CollectPairs(absl::Span<const RowCandidates> rows, int group) {
  pairs_.clear();
  for (size_t r = 0; r < rows.size(); ++r) {
    if (group >= 0 && rows_[r].group >= 0 && (rows_[r].group != group || IsDone(rows_[r]))) {
      continue;
    }
    for (size_t i = 0; i < rows[r].tokens.size(); ++i) {
      if (IsOpen(rows[r], i, rows_[r])) {
        pairs_.push_back(MakePair(rows[r], i, static_cast<int32_t>(r)));
      }
    }
  }
}

void BeamSearch::TakeByGroup(absl::Span<const RowCandidates> rows) {
  for (int group = 0; group < options_.beam_size / group_size_; ++group) {
    CollectPairs(rows, group);
    for (Pair& pair : pairs_) {
      if (options_.num_groups > 1) {
        const auto chosen = std::count_if(living_.begin(), living_.end(), [&](const Pair& other) {
          return other.token == pair.token;
        });
        pair.rank -= options_.diversity_penalty * static_cast<double>(chosen);
      }
    }
    std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
    ChooseSorted(group_size_, group);
  }
}

// Adds the watched tokens to each row's candidates, or, at a forced end, puts them in their place.
absl::Span<const RowCandidates> BeamSearch::JoinWatched(absl::Span<const RowCandidates> rows) {
  joined_.resize(std::max(joined_.size(), rows.size()));
  joined_views_.clear();
  const bool replace = kind() == StepKind::kForcedEnd;
  for (size_t r = 0; r < rows.size(); ++r) {
    const absl::Span<const int32_t> watched = rules_[r].watched;
    Joined& joined = joined_[r];
    joined.tokens.clear();
    joined.log_probs.clear();
    joined.rank_scores.clear();
    const FusedRow* const fused = rows[r].fused;
    for (size_t i = 0; i < watched.size(); ++i) {
      joined.tokens.push_back(watched[i]);
      joined.log_probs.push_back(std::min(rows[r].watched[i], 0.0f));
      joined.rank_scores.push_back(
          joined.log_probs.back() +
          (fused == nullptr ? 0 : fused->added()[static_cast<size_t>(watched[i])]));
    }
    for (size_t i = 0; !replace && i < rows[r].tokens.size(); ++i) {
      if (!std::binary_search(watched.begin(), watched.end(), rows[r].tokens[i])) {
        joined.tokens.push_back(rows[r].tokens[i]);
        joined.log_probs.push_back(LogProb(rows[r], i));
        joined.rank_scores.push_back(fused == nullptr ? LogProb(rows[r], i)
                                                      : RankScore(rows[r], i));
      }
    }
    if (replace) {  // in order, as the other kinds of ranking expect it
      ordered_.clear();
      for (size_t i = 0; i < joined.tokens.size(); ++i) {
        Pair& pair = ordered_.emplace_back();
        pair.token = joined.tokens[i];
        pair.log_prob = joined.log_probs[i];
        pair.rank_score = joined.rank_scores[i];
      }
      std::sort(ordered_.begin(), ordered_.end(), RanksBefore);
      for (size_t i = 0; i < ordered_.size(); ++i) {
        joined.tokens[i] = ordered_[i].token;
        joined.log_probs[i] = ordered_[i].log_prob;
        joined.rank_scores[i] = ordered_[i].rank_score;
      }
    }
    joined_views_.push_back(
        {joined.tokens, joined.log_probs, joined.rank_scores, {}, fused, rows[r].members, {}});
  }
  return joined_views_;
}

// Best of the highest bank, best of the next, and so on to the lowest; then the second of each.
void BeamSearch::TakeByBank(absl::Span<const RowCandidates> rows) {
  CollectPairs(rows, -1);
  for (Pair& pair : pairs_) {
    pair.bank = pipeline_.BankAfter(pair.parent, pair.token);
  }
  std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
  // A pair's turn is its place among those of its own bank; few banks are there at a time.
  ordered_.clear();
  std::vector<std::pair<int, int>>& turns = bank_turns_;
  turns.clear();
  turn_of_pair_.clear();
  for (const Pair& pair : pairs_) {
    auto it = std::find_if(turns.begin(), turns.end(),
                           [&](const auto& turn) { return turn.first == pair.bank; });
    if (it == turns.end()) {
      turns.push_back({pair.bank, 0});
      it = turns.end() - 1;
    }
    turn_of_pair_.push_back({it->second++, -pair.bank, static_cast<int>(turn_of_pair_.size())});
  }
  std::sort(turn_of_pair_.begin(), turn_of_pair_.end());
  size_t next = 0;
  Choose(
      [&](Pair& pair) {
        if (next == turn_of_pair_.size()) {
          return false;
        }
        pair = pairs_[static_cast<size_t>(turn_of_pair_[next++][2])];
        return true;
      },
      options_.beam_size, 0);
}

void BeamSearch::TakeByNoise(absl::Span<const RowCandidates> rows) {
  CollectPairs(rows, -1);
  for (Pair& pair : pairs_) {
    // A row's first candidate has the largest noisy log-probability of all its tokens.
    const Row& row = rows_[static_cast<size_t>(pair.parent)];
    const float largest = rows[static_cast<size_t>(pair.parent)].rank_scores[0];
    pair.rank = ConditionedNoise(row.rank, row.sum + static_cast<double>(largest),
                                 row.sum + static_cast<double>(pair.rank_score));
  }
  std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
  ChooseSorted(options_.beam_size, 0);
}

}  // namespace beamwright::search
