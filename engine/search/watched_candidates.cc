#include "engine/search/watched_candidates.h"

#include <algorithm>

namespace beamwright::search {

void WatchedCandidates::List::Add(int32_t token, float log_prob, float rank_score) {
  tokens.push_back(token);
  log_probs.push_back(log_prob);
  rank_scores.push_back(rank_score);
}

void WatchedCandidates::Start(const Step& step) {
  lists_.resize(std::max(lists_.size(), step.rows().size()));
  for (List& list : lists_) {
    list.tokens.clear();
    list.log_probs.clear();
    list.rank_scores.clear();
  }
  views_.clear();
}

void WatchedCandidates::AddWatched(const LiveRow& row, const RowCandidates& candidates,
                                   List& list) {
  for (size_t i = 0; i < row.watched.size(); ++i) {
    const int32_t token = row.watched[i];
    const float log_prob = std::min(candidates.watched[i], 0.0f);
    const float added =
        candidates.fused == nullptr ? 0 : candidates.fused->added()[static_cast<size_t>(token)];
    list.Add(token, log_prob, log_prob + added);
  }
}

void WatchedCandidates::AddOthers(const LiveRow& row, const RowCandidates& candidates, List& list) {
  for (size_t i = 0; i < candidates.tokens.size(); ++i) {
    const int32_t token = candidates.tokens[i];
    if (!std::binary_search(row.watched.begin(), row.watched.end(), token)) {
      const float log_prob = LogProb(candidates, i);
      list.Add(token, log_prob, candidates.fused == nullptr ? log_prob : RankScore(candidates, i));
    }
  }
}

void WatchedCandidates::Sort(List& list) {
  ordered_.clear();
  for (size_t i = 0; i < list.tokens.size(); ++i) {
    Pair& pair = ordered_.emplace_back();
    pair.token = list.tokens[i];
    pair.log_prob = list.log_probs[i];
    pair.rank_score = list.rank_scores[i];
  }
  std::sort(ordered_.begin(), ordered_.end(), RanksBefore);
  for (size_t i = 0; i < ordered_.size(); ++i) {
    list.tokens[i] = ordered_[i].token;
    list.log_probs[i] = ordered_[i].log_prob;
    list.rank_scores[i] = ordered_[i].rank_score;
  }
}

void WatchedCandidates::AddView(const RowCandidates& candidates, const List& list) {
  views_.push_back({list.tokens,
                    list.log_probs,
                    list.rank_scores,
                    {},
                    candidates.fused,
                    candidates.members,
                    {}});
}

absl::Span<const RowCandidates> WatchedCandidates::Joined(const Step& step) {
  Start(step);
  for (size_t r = 0; r < step.rows().size(); ++r) {
    AddWatched(step.rows()[r], step.candidates()[r], lists_[r]);
    AddOthers(step.rows()[r], step.candidates()[r], lists_[r]);
    AddView(step.candidates()[r], lists_[r]);
  }
  return views_;
}

absl::Span<const RowCandidates> WatchedCandidates::Only(const Step& step) {
  Start(step);
  for (size_t r = 0; r < step.rows().size(); ++r) {
    AddWatched(step.rows()[r], step.candidates()[r], lists_[r]);
    Sort(lists_[r]);
    AddView(step.candidates()[r], lists_[r]);
  }
  return views_;
}

}  // namespace beamwright::search
