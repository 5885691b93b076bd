// One answer of a search.
#ifndef BEAMWRIGHT_SERVER_SEARCH_HYPOTHESIS_H_
#define BEAMWRIGHT_SERVER_SEARCH_HYPOTHESIS_H_

#include <cstdint>
#include <vector>

namespace beamwright::search {

enum class FinishReason : uint8_t {
  kEos,     // chose an end token; it is the last of `tokens`
  kLength,  // cut at the maximum length; there is no end token
};

struct Hypothesis {
  std::vector<int32_t> tokens;         // as generated, without the begin token
  std::vector<float> token_log_probs;  // one per token
  double sum = 0;                      // of token_log_probs, added in order in double precision
  double score = 0;                    // `sum` after the length penalty
  FinishReason reason = FinishReason::kEos;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_SERVER_SEARCH_HYPOTHESIS_H_
