#include "server/serving/partial_answer.h"

namespace beamwright::serving {

void TakeStable(const engine::DecodeModel& model, StablePrefix& prefix, v1::StableTokens& message) {
  message.set_position(static_cast<int>(prefix.num_taken));
  message.mutable_tokens()->Add(
      prefix.tokens.begin() + static_cast<std::ptrdiff_t>(prefix.num_taken), prefix.tokens.end());
  message.set_text(model.target().Decode(prefix.tokens));
  prefix.num_taken = prefix.tokens.size();
}

void SetProvisional(const engine::DecodeModel& model, absl::Span<const int32_t> tokens,
                    double score, v1::Hypothesis& message) {
  message.mutable_tokens()->Add(tokens.begin(), tokens.end());
  message.set_text(model.target().Decode(tokens));
  message.set_score(score);
}

}  // namespace beamwright::serving
