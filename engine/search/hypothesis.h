// One answer of a search.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_HYPOTHESIS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_HYPOTHESIS_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace beamwright::search {

// The log-probability of a token that cannot be chosen.
inline constexpr float kImpossible = -std::numeric_limits<float>::infinity();

enum class FinishReason : uint8_t {
  kEos,       // chose an end token; it is the last of `tokens`
  kLength,    // ended by the maximum length; the last token is an end token only if one was forced
  kDeadline,  // was under way when the search was cut (BeamSearch::Cut), for one of two reasons
  kShutdown,
  kStop,  // its last token completes a stop string
};

struct TopToken {
  int32_t token = 0;
  float log_prob = 0;
  friend bool operator==(const TopToken&, const TopToken&) = default;
};

struct Hypothesis {
  std::vector<int32_t> tokens;         // the target prefix, then as generated; no begin token
  std::vector<float> token_log_probs;  // one per token
  // Alternatives to each token, best first, the token itself among them if it is one of the best;
  // empty unless asked for.
  std::vector<std::vector<TopToken>> top_tokens;
  int prefix_length = 0;  // tokens that the request gave
  double prefix_sum = 0;  // of their log-probabilities
  double sum = 0;  // of the other log-probabilities, added in order in double precision; if the
                   // prefix is scored, of all
  double coverage = 0;  // coverage penalty, <= 0
  // The row of the step that each token was chosen from: what of a step belongs to the hypothesis.
  std::vector<int32_t> rows;
  double reward = 0;                // what options added to it (Processor::Reward)
  std::vector<double> scorer_sums;  // by scorer: what it said of the tokens that `sum` is over
  std::vector<double> member_sums;  // the same by decoder of an ensemble
  // Sum, reward and weighted scorers' sums after word reward and length penalty, plus coverage.
  double score = 0;
  int traced = -1;  // the number of its last token's candidate in the trace
  FinishReason reason = FinishReason::kEos;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_HYPOTHESIS_H_
