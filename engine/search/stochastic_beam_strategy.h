// Sampling without replacement: stochastic beam search (Kool, van Hoof, Welling 2019). Pairs are
// ranked by noisy log-probabilities, of which the scan drew each row's best.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_STOCHASTIC_BEAM_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_STOCHASTIC_BEAM_STRATEGY_H_

#include <vector>

#include "engine/search/strategy.h"

namespace beamwright::search {

class StochasticBeamStrategy final : public Strategy {
 public:
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  std::vector<Pair> pairs_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_STOCHASTIC_BEAM_STRATEGY_H_
