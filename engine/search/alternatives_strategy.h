// Takes the most probable first tokens of a hypothesis, one alternative each, which are groups
// from then on (docs/decoding.md, 'Alternatives').
#ifndef BEAMWRIGHT_ENGINE_SEARCH_ALTERNATIVES_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_ALTERNATIVES_STRATEGY_H_

#include "engine/search/strategy.h"

namespace beamwright::search {

class AlternativesStrategy final : public Strategy {
 public:
  int candidates_per_row(const SearchOptions& options) const override;
  absl::Status Choose(Step& step, Choice& choice) override;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_ALTERNATIVES_STRATEGY_H_
