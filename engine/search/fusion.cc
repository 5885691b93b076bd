#include "engine/search/fusion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/check.h"
#include "ops/base/vector_isa.h"

namespace beamwright::search {

absl::Span<float> FusedRow::Scores(size_t index, size_t vocabulary_size) {
  scores_[index].resize(vocabulary_size);
  return absl::MakeSpan(scores_[index]);
}

void FusedRow::Join(absl::Span<const ScorerWeight> scorers) {
  BW_DCHECK(!scorers.empty() && scorers.size() <= kMaxScorers);
  const size_t count = scores_[0].size();
  added_.resize(count);
  float* const added = added_.data();
  for (size_t index = 0; index < scorers.size(); ++index) {
    float* const scores = scores_[index].data();
    const float weight = scorers[index].weight;
    const float least = weight < 0 ? kLeastSubtracted : -std::numeric_limits<float>::infinity();
    const bool is_first = index == 0;
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t i = 0; i < count; ++i) {
        float score = scores[i];
        score = score > 0 ? 0 : score;  // NaN stays, for the scan to find
        score = score < least ? least : score;
        scores[i] = score;
        added[i] = is_first ? weight * score : added[i] + weight * score;
      }
    });
  }
}

float MemberScores::log_prob(int32_t token) const {
  const float score = scores[static_cast<size_t>(token)];
  return std::min(are_probs ? std::log(score) : score - shift, 0.0f);
}

}  // namespace beamwright::search
