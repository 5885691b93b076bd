#include "engine/beam/reply.h"

#include <cmath>
#include <utility>

#include "engine/beam/trace_reply.h"
#include "engine/request/answer_facts.h"
#include "engine/request/answer_text.h"

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

v1::FinishReason ReasonOf(search::FinishReason reason) {
  switch (reason) {
    case search::FinishReason::kEos:
      return v1::FINISH_REASON_EOS;
    case search::FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case search::FinishReason::kDeadline:
      return v1::FINISH_REASON_DEADLINE;
    case search::FinishReason::kShutdown:
      return v1::FINISH_REASON_SHUTDOWN;
    case search::FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

std::string TextOf(const BeamRequest& request, const search::Hypothesis& hypothesis) {
  return AnswerText(request.model->target(), hypothesis.tokens,
                    static_cast<size_t>(hypothesis.prefix_length),
                    request.search_options().stop_strings.get(), /*unfinished=*/false);
}

void FillHypothesis(const BeamRequest& request, const search::Hypothesis& hypothesis,
                    v1::Hypothesis& out) {
  out.mutable_tokens()->Add(hypothesis.tokens.begin(), hypothesis.tokens.end());
  out.mutable_token_log_probs()->Add(hypothesis.token_log_probs.begin(),
                                     hypothesis.token_log_probs.end());
  out.set_text(TextOf(request, hypothesis));
  out.set_log_prob(hypothesis.sum);
  out.set_score(hypothesis.score);
  out.set_prefix_length(hypothesis.prefix_length);
  out.set_prefix_log_prob(hypothesis.prefix_sum);
  out.set_reward(hypothesis.reward);
  out.set_coverage(hypothesis.coverage);
  for (size_t i = 0; i < hypothesis.scorer_sums.size(); ++i) {
    const search::ScorerWeight& scorer = request.search_options().scorers[i];
    v1::ScorerPart& part = *out.add_scorer_parts();
    part.set_name(scorer.name);
    part.set_weight(scorer.weight);
    part.set_log_prob(hypothesis.scorer_sums[i]);
  }
  for (size_t i = 0; i < hypothesis.member_sums.size(); ++i) {
    v1::MemberPart& part = *out.add_member_parts();
    part.set_weight(request.model->parts().member_weights[i]);
    part.set_log_prob(hypothesis.member_sums[i]);
  }
  for (const std::vector<search::TopToken>& tops : hypothesis.top_tokens) {
    v1::TopTokens& list = *out.add_top_tokens();
    for (const search::TopToken& top : tops) {
      list.add_tokens(top.token);
      list.add_log_probs(top.log_prob);
    }
  }
  out.set_finish_reason(ReasonOf(hypothesis.reason));
  const bool soft = request.wants_attention == v1::ATTENTION_SOFT;
  if (soft || request.wants_attention == v1::ATTENTION_HARD) {
    request.attention.Describe(hypothesis, soft, out);
  }
}

}  // namespace

v1::Decoded MakeReply(const BeamRequest& request, std::vector<search::Hypothesis> found) {
  v1::Decoded decoded;
  const std::vector<search::Hypothesis> hypotheses =
      DistinctTexts(request, std::move(found),
                    [&](const search::Hypothesis& one) { return TextOf(request, one); });
  for (const search::Hypothesis& hypothesis : hypotheses) {
    FillHypothesis(request, hypothesis, *decoded.add_hypotheses());
  }
  if (request.wants_lattice) {
    AddLattice(request.search->history(), request.beam_size, *decoded.mutable_lattice());
  }
  if (request.search->trace() != nullptr) {
    AddTrace(*request.search, request.model->target(), hypotheses, *decoded.mutable_trace());
  }
  FillFacts(request, decoded);
  decoded.set_steps(request.search->num_steps());
  if (request.first_token != absl::InfinitePast()) {
    decoded.set_first_token_ms(absl::ToDoubleMilliseconds(request.first_token - request.accepted));
  }
  return decoded;
}

v1::Scored MakeScored(const BeamRequest& request) {
  v1::Scored scored;
  for (const search::Hypothesis& result : request.scorer->results()) {
    v1::ScoredTarget& target = *scored.add_targets();
    FillHypothesis(request, result, *target.mutable_hypothesis());
    target.set_perplexity(std::exp(-result.sum / static_cast<double>(result.tokens.size())));
  }
  FillFacts(request, scored);
  return scored;
}

}  // namespace beamwright::engine
