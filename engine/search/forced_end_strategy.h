// The last step of a search whose hypotheses must close: only end tokens are left, among which
// another strategy chooses.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FORCED_END_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FORCED_END_STRATEGY_H_

#include "engine/search/strategy.h"
#include "engine/search/watched_candidates.h"

namespace beamwright::search {

class ForcedEndStrategy final : public Strategy {
 public:
  // `chooser` must live as long.
  explicit ForcedEndStrategy(Strategy& chooser) : chooser_(chooser) {}

  // End tokens are watched.
  int candidates_per_row(const SearchOptions& /*options*/) const override { return 0; }
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  Strategy& chooser_;
  WatchedCandidates watched_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FORCED_END_STRATEGY_H_
