// Answers of searches by frames: a transducer's, CTC's or tagger's hypotheses with the frames of
// their tokens (MakeHypotheses), the reply to a decode request (MakeFrameReply), and the scores of
// given targets (MakeFrameScored).

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/frames/frame_request.h"
#include "engine/model/parts.h"
#include "engine/request/answers.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {
namespace {

void FillTokens(const FrameRequest& request, absl::Span<const int32_t> labels,
                absl::Span<const search::LabelTime> times, v1::Hypothesis& out) {
  out.mutable_tokens()->Add(labels.begin(), labels.end());
  out.set_text(request.model->target().Decode(labels));
  // A tagger's label has its position as its place.
  const bool is_tagger = request.model->parts().frames->kind == search::FrameKind::kTags;
  for (const search::LabelTime& time : times) {
    out.add_token_log_probs(time.log_prob);
    if (is_tagger) {
      continue;
    }
    out.add_token_frames(static_cast<int32_t>(time.first_frame));
    out.add_token_durations(time.duration);
  }
}

void FillHypothesis(const FrameRequest& request, const search::FrameHypothesis& hypothesis,
                    v1::Hypothesis& out) {
  FillTokens(request, hypothesis.labels, hypothesis.times, out);
  out.set_log_prob(hypothesis.merged_log_prob);
  out.set_alignment_log_prob(hypothesis.log_prob);
  out.set_score(hypothesis.score);
  out.set_reward(hypothesis.reward);
  out.set_finish_reason(request.reason);
  const search::FrameOptions& options = request.plan->options();
  for (size_t i = 0; i < hypothesis.scorer_sums.size(); ++i) {
    v1::ScorerPart& part = *out.add_scorer_parts();
    const size_t by_label = i - std::min(i, options.scorers.size());
    const bool with_rows = i < options.scorers.size();
    part.set_name(with_rows ? options.scorers[i].name : options.label_scorers[by_label].name);
    part.set_weight(with_rows ? options.scorers[i].weight : options.label_scorers[by_label].weight);
    part.set_log_prob(hypothesis.scorer_sums[i]);
  }
}

// Of a request that is done, and searches.
v1::Decoded MakeFrameReply(const FrameRequest& request) {
  v1::Decoded decoded;
  for (v1::Hypothesis& hypothesis : MakeHypotheses(request)) {
    *decoded.add_hypotheses() = std::move(hypothesis);
  }
  if (request.wants_words) {
    FillWords(*request.model, *decoded.mutable_hypotheses());
  }
  if (request.is_scoring && request.is_scored()) {
    const std::vector<search::FrameScore> scores = request.Scores();
    for (int i = 0; i < decoded.hypotheses_size(); ++i) {
      decoded.mutable_hypotheses(i)->set_full_log_prob(
          scores[static_cast<size_t>(i)].full_log_prob);
    }
  }
  FillFacts(request, decoded);
  decoded.set_steps(static_cast<int32_t>(request.num_frames));
  if (request.first_token != absl::InfinitePast()) {
    decoded.set_first_token_ms(absl::ToDoubleMilliseconds(request.first_token - request.accepted));
  }
  return decoded;
}

// Of a request that is done, and whose targets were given.
v1::Scored MakeFrameScored(const FrameRequest& request) {
  v1::Scored scored;
  const std::vector<search::FrameScore> scores = request.Scores();
  for (size_t i = 0; i < request.targets.size(); ++i) {
    v1::ScoredTarget& target = *scored.add_targets();
    v1::Hypothesis& hypothesis = *target.mutable_hypothesis();
    FillTokens(request, request.targets[i], scores[i].times, hypothesis);
    hypothesis.set_log_prob(scores[i].full_log_prob);
    hypothesis.set_score(scores[i].full_log_prob);
    hypothesis.set_full_log_prob(scores[i].full_log_prob);
    hypothesis.set_alignment_log_prob(scores[i].best_log_prob);
    hypothesis.set_finish_reason(request.reason);
    const double tokens = std::max<double>(1, static_cast<double>(request.targets[i].size()));
    target.set_perplexity(std::exp(-scores[i].full_log_prob / tokens));
  }
  FillFacts(request, scored);
  return scored;
}

}  // namespace

std::vector<v1::Hypothesis> MakeHypotheses(const FrameRequest& request) {
  std::vector<v1::Hypothesis> hypotheses;
  for (const search::FrameHypothesis& hypothesis : request.found) {
    FillHypothesis(request, hypothesis, hypotheses.emplace_back());
  }
  return hypotheses;
}

void FrameRequest::Answer() {
  FaultPoint("engine.reply").IgnoreError();
  if (call.timeline != nullptr) {
    call.timeline->searched = SteadyNow();
  }
  const auto give = [this](auto reply) {
    if (call.timeline != nullptr) {
      call.timeline->written = SteadyNow();
    }
    Give(std::move(reply));
  };
  if (is_stream()) {
    source.source_length = static_cast<int>(num_frames);
  }
  if (frame_search() == nullptr) {
    give(MakeFrameScored(*this));
  } else {
    give(MakeFrameReply(*this));
  }
}

}  // namespace beamwright::engine
