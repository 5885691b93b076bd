// WatchedCandidates: rows' candidates together with the tokens that the rows watched, for
// strategies that rank tokens whether or not they are among a row's best.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_WATCHED_CANDIDATES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_WATCHED_CANDIDATES_H_

#include <vector>

#include "absl/types/span.h"
#include "engine/search/row_search.h"
#include "engine/search/step.h"

namespace beamwright::search {

// One thread at a time; keeps its memory from step to step.
class WatchedCandidates {
 public:
  // What was watched, then the other candidates; in no order as a whole. A view until the next
  // call, like the next.
  absl::Span<const RowCandidates> Joined(const Step& step);
  // What was watched alone, best first.
  absl::Span<const RowCandidates> Only(const Step& step);

 private:
  struct List {
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<float> rank_scores;

    void Add(int32_t token, float log_prob, float rank_score);
  };

  void Start(const Step& step);
  static void AddWatched(const LiveRow& row, const RowCandidates& candidates, List& list);
  static void AddOthers(const LiveRow& row, const RowCandidates& candidates, List& list);
  void Sort(List& list);
  void AddView(const RowCandidates& candidates, const List& list);

  std::vector<List> lists_;
  std::vector<RowCandidates> views_;
  std::vector<Pair> ordered_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_WATCHED_CANDIDATES_H_
