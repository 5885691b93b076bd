#include "server/engine/reply.h"

#include "absl/time/clock.h"

namespace beamwright::engine {
namespace {

void AddLattice(const search::SlotHistory& history, int beam_size, v1::Lattice& lattice) {
  for (int step = 0; step < history.num_steps(); ++step) {
    v1::LatticeStep& out = *lattice.add_steps();
    for (int slot = 0; slot < history.num_slots(); ++slot) {
      if (history.slot_id(step, slot) == slot) {
        out.add_parents(history.slot_parent(step, slot));
        out.add_tokens(history.token(step, slot));
        out.add_log_probs(history.log_prob(step, slot));
        out.set_num_live(out.num_live() + (slot < beam_size ? 1 : 0));
      }
    }
  }
}

}  // namespace

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
    out.set_prefix_length(hypothesis.prefix_length);
    out.set_prefix_log_prob(hypothesis.prefix_sum);
    out.set_reward(hypothesis.reward);
    const std::vector<search::ScorerWeight>& scorers = request.search->options().scorers;
    for (size_t i = 0; i < scorers.size(); ++i) {
      v1::ScorerPart& part = *out.add_scorer_parts();
      part.set_name(scorers[i].name);
      part.set_weight(scorers[i].weight);
      part.set_log_prob(hypothesis.scorer_sums[i]);
    }
    for (const std::vector<search::TopToken>& tops : hypothesis.top_tokens) {
      v1::TopTokens& list = *out.add_top_tokens();
      for (const search::TopToken& top : tops) {
        list.add_tokens(top.token);
        list.add_log_probs(top.log_prob);
      }
    }
    out.set_finish_reason(hypothesis.reason == search::FinishReason::kEos
                              ? v1::FINISH_REASON_EOS
                              : v1::FINISH_REASON_LENGTH);
  }
  if (request.wants_lattice) {
    AddLattice(request.search->history(), request.beam_size, *decoded.mutable_lattice());
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
