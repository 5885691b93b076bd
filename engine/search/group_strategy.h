// Groups of rows that are ranked apart: of diverse beam search (Vijayakumar et al. 2016), where a
// group pays for tokens that earlier ones chose, and those of alternatives.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_GROUP_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_GROUP_STRATEGY_H_

#include <vector>

#include "engine/search/strategy.h"

namespace beamwright::search {

class GroupStrategy final : public Strategy {
 public:
  // num_groups divides the beam size.
  explicit GroupStrategy(int num_groups) : num_groups_(num_groups) {}

  // The default is enough: penalties concern at most beam_size tokens besides a group's own.
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  int num_groups_;
  std::vector<Pair> pairs_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_GROUP_STRATEGY_H_
