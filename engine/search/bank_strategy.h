// Required sequences: rows that have met more of their tokens are ranked apart from rows that have
// met fewer, each number a bank, and the beam is dealt out to the banks in turn (docs/decoding.md,
// 'Required sequences').
#ifndef BEAMWRIGHT_ENGINE_SEARCH_BANK_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_BANK_STRATEGY_H_

#include <array>
#include <utility>
#include <vector>

#include "engine/search/strategy.h"
#include "engine/search/watched_candidates.h"

namespace beamwright::search {

class BankStrategy final : public Strategy {
 public:
  // More than the default: watched tokens may be among the best of a row without belonging to its
  // other ones.
  int candidates_per_row(const SearchOptions& options) const override;
  // Watched: the tokens that lead to another bank.
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  // Best of the highest bank, best of the next, and so on to the lowest; then the second of each.
  void DealOut();

  WatchedCandidates watched_;
  std::vector<Pair> pairs_;
  std::vector<std::pair<int, int>> bank_turns_;   // bank, pairs of it so far
  std::vector<std::array<int, 3>> turn_of_pair_;  // turn, -bank, index into pairs_
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_BANK_STRATEGY_H_
