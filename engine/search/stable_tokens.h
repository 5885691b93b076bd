// StableTokens: which tokens of a search's answer can no longer change (docs/decoding.md,
// 'Streaming'): those with which all hypotheses begin that may be in the answer yet.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_STABLE_TOKENS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_STABLE_TOKENS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/search/beam_search.h"

namespace beamwright::search {

// Follows one search. One thread at a time.
class StableTokens {
 public:
  // Tokens that became stable.
  struct Piece {
    int sample = 0;    // of random sampling, whose samples are stable each for itself; else 0
    int position = 0;  // of the first token in a hypothesis, the target prefix included
    std::vector<int32_t> tokens;
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  // To be called after each step, at least after the last one: pieces, each not empty, that go on
  // where earlier ones ended. Costs rows x steps since the last stable token.
  std::vector<Piece> Update(const BeamSearch& search);

 private:
  // Common beginning of the hypotheses that end at these (step, slot), beyond `known` tokens.
  static std::vector<int32_t> CommonTokens(const SlotHistory& history,
                                           const std::vector<BeamSearch::Head>& heads, int sample,
                                           int known);

  std::vector<int> num_stable_;  // by sample
  std::vector<BeamSearch::Head> heads_;
};

// The hypothesis that would be first if the search ended now, by score alone: its tokens. Empty
// before the first step. `best` is set to it.
std::vector<int32_t> BestTokensSoFar(const BeamSearch& search, BeamSearch::Head& best);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_STABLE_TOKENS_H_
