#include "engine/beam/trace_reply.h"

#include <string>

namespace beamwright::engine {
namespace {

v1::TraceFate FateOf(search::Fate fate) {
  switch (fate) {
    case search::Fate::kKept:
      return v1::TRACE_FATE_KEPT;
    case search::Fate::kAnswer:
      return v1::TRACE_FATE_ANSWER;
    case search::Fate::kBeam:
      return v1::TRACE_FATE_BEAM;
    case search::Fate::kBeamThreshold:
      return v1::TRACE_FATE_BEAM_THRESHOLD;
    case search::Fate::kEndBelowBeam:
      return v1::TRACE_FATE_END_BELOW_BEAM;
    case search::Fate::kEndThreshold:
      return v1::TRACE_FATE_END_THRESHOLD;
    case search::Fate::kNoProbability:
      return v1::TRACE_FATE_IMPOSSIBLE;
    case search::Fate::kEndOfAlternative:
      return v1::TRACE_FATE_END_OF_ALTERNATIVE;
    case search::Fate::kAlternativeMinProb:
      return v1::TRACE_FATE_ALTERNATIVE_MIN_PROB;
    case search::Fate::kAlternativeDone:
      return v1::TRACE_FATE_ALTERNATIVE_DONE;
    case search::Fate::kScoreThreshold:
      return v1::TRACE_FATE_SCORE_THRESHOLD;
    case search::Fate::kNotListed:
      return v1::TRACE_FATE_NOT_LISTED;
    case search::Fate::kReplaced:
      return v1::TRACE_FATE_REPLACED;
    case search::Fate::kStopped:
      return v1::TRACE_FATE_STOPPED;
    case search::Fate::kIncomplete:
      return v1::TRACE_FATE_INCOMPLETE;
  }
  return v1::TRACE_FATE_UNSPECIFIED;
}

void AddRow(const search::TracedRow& row, v1::TraceStep& step) {
  v1::TraceRow& out = *step.add_rows();
  out.set_parent(row.parent);
  out.set_token(row.token);
  out.set_sum(row.sum);
  out.set_reward(row.reward);
  out.set_fused(row.fused);
  out.set_offset(row.offset);
  out.set_group(row.group);
}

void AddCandidate(const search::TracedCandidate& candidate, size_t num_scorers,
                  v1::TraceStep& step) {
  v1::TraceCandidate& out = *step.add_candidates();
  out.set_row(candidate.row);
  out.set_token(candidate.token);
  out.set_log_prob(candidate.log_prob);
  out.set_token_score(candidate.rank_score);
  out.set_diversity(candidate.diversity);
  out.set_rank_score(candidate.rank);
  out.set_rank(candidate.place);
  out.set_fate(FateOf(candidate.fate));
  if (candidate.next_row >= 0) {
    out.set_next_row(candidate.next_row);
  }
  if (candidate.ended) {
    out.set_score(candidate.score);
  }
  out.mutable_scorer_log_probs()->Add(
      candidate.scorers.begin(), candidate.scorers.begin() + static_cast<int64_t>(num_scorers));
}

// Which place in the answer each number of the trace has.
void AddPlaces(const std::vector<search::Hypothesis>& hypotheses, v1::SearchTrace& out) {
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    int left = hypotheses[i].traced;
    for (int step = 0; left >= 0 && step < out.steps_size(); ++step) {
      v1::TraceStep& at = *out.mutable_steps(step);
      if (left < at.candidates_size()) {
        at.mutable_candidates(left)->set_answer(static_cast<int32_t>(i) + 1);
      }
      left -= at.candidates_size();
    }
  }
}

}  // namespace

void AddTrace(const search::BeamSearch& search, const bundle::TextCodec& target,
              const std::vector<search::Hypothesis>& hypotheses, v1::SearchTrace& out) {
  for (const search::ScorerWeight& scorer : search.options().scorers) {
    out.add_scorers(scorer.name);
  }
  const auto add_text = [&](int32_t token) {
    google::protobuf::Map<int32_t, std::string>& texts = *out.mutable_token_texts();
    if (!texts.contains(token)) {
      texts[token] = target.TokenText(token);
    }
  };
  for (const search::TracedStep& step : search.trace()->steps()) {
    v1::TraceStep& to = *out.add_steps();
    for (const search::TracedRow& row : step.rows) {
      AddRow(row, to);
      add_text(row.token);
    }
    for (const search::TracedCandidate& candidate : step.candidates) {
      AddCandidate(candidate, search.options().scorers.size(), to);
      add_text(candidate.token);
    }
    to.set_num_omitted(step.num_omitted);
  }
  out.set_truncated(search.trace()->truncated());
  AddPlaces(hypotheses, out);
}

}  // namespace beamwright::engine
