// What further scorers say of one row's next token, joined with their weights into what
// the row's ranks gain (docs/decoding.md, 'Fusion'); and what each decoder of an ensemble says. The
// search asks nothing of them itself: the code that runs the model runs them too, and moves their
// states as the search moves rows.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FUSION_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FUSION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::search {

inline constexpr int kMaxScorers = 4;  // that count in one request
inline constexpr int kMaxMembers = 8;  // decoders of an ensemble
// Log-probabilities that are subtracted count no lower: else a token would win by being impossible,
// and what a hypothesis can still gain would have no bound.
inline constexpr float kLeastSubtracted = -20;

struct ScorerWeight {
  std::string name;
  float weight = 1;  // finite, not 0
};

// One row's scores; keep it from step to step, so that steady steps allocate nothing. One thread at
// a time.
class FusedRow {
 public:
  // To be filled with scorer `index`'s natural-log probabilities of all tokens, for each index,
  // before Join. Values above 0 count as 0.
  absl::Span<float> Scores(size_t index, size_t vocabulary_size);

  // added() = the sum over scorers, in order and in f32, of weight * log-probability.
  void Join(absl::Span<const ScorerWeight> scorers);

  absl::Span<const float> added() const { return added_; }
  // What scorer `index` said of the token, as it counts.
  float score(size_t index, int32_t token) const {
    return scores_[index][static_cast<size_t>(token)];
  }

 private:
  std::array<std::vector<float>, kMaxScorers> scores_;
  std::vector<float> added_;
};

// One decoder of an ensemble behind one row: a view of its scores in this step.
struct MemberScores {
  absl::Span<const float> scores;
  float shift = 0;         // log-probability = score - shift; or
  bool are_probs = false;  // = log(score)

  // Natural logarithm, at most 0.
  float log_prob(int32_t token) const;
};

// What is reported of a token besides its log-probability: of each scorer, then of each member.
using TokenParts = std::array<float, kMaxScorers + kMaxMembers>;

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FUSION_H_
