// Reads the target prefix: its next token in the one row that there is.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_PREFIX_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_PREFIX_STRATEGY_H_

#include "engine/search/strategy.h"

namespace beamwright::search {

class PrefixStrategy final : public Strategy {
 public:
  // The token is watched.
  int candidates_per_row(const SearchOptions& /*options*/) const override { return 0; }
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  // FailedPrecondition, naming the token, if it has probability 0.
  absl::Status Choose(Step& step, Choice& choice) override;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_PREFIX_STRATEGY_H_
