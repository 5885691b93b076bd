// Random sampling: each row is a sample and takes the token that the scan drew for it; the first
// row draws the first tokens of all samples.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_RANDOM_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_RANDOM_STRATEGY_H_

#include "engine/search/strategy.h"

namespace beamwright::search {

class RandomStrategy final : public Strategy {
 public:
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_RANDOM_STRATEGY_H_
