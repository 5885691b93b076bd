#include "server/engine/reply.h"

#include "absl/time/clock.h"

namespace beamwright::engine {

v1::Decoded MakeReply(const Request& request, const std::vector<search::Hypothesis>& hypotheses) {
  v1::Decoded decoded;
  for (const search::Hypothesis& hypothesis : hypotheses) {
    v1::Hypothesis& out = *decoded.add_hypotheses();
    out.mutable_tokens()->Add(hypothesis.tokens.begin(), hypothesis.tokens.end());
    out.mutable_token_log_probs()->Add(hypothesis.token_log_probs.begin(),
                                       hypothesis.token_log_probs.end());
    out.set_text(request.model->target().Decode(hypothesis.tokens));
    out.set_log_prob(hypothesis.sum);
    out.set_score(hypothesis.score);
    out.set_finish_reason(hypothesis.reason == search::FinishReason::kEos
                              ? v1::FINISH_REASON_EOS
                              : v1::FINISH_REASON_LENGTH);
  }
  decoded.set_source_length(request.source.source_length);
  decoded.set_steps(request.search->history().num_steps());
  decoded.mutable_unknown_positions()->Add(request.source.unknown_positions.begin(),
                                           request.source.unknown_positions.end());
  decoded.set_queue_ms(absl::ToDoubleMilliseconds(request.started - request.accepted));
  decoded.set_compute_ms(absl::ToDoubleMilliseconds(absl::Now() - request.started));
  return decoded;
}

}  // namespace beamwright::engine
