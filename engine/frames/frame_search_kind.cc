// Makes the requests of searches by frames: NewRequest chooses the kind (transducer, tagger, CTC),
// and three functions prepare one:
//
// 1. MakeRequest: a whole source. Its price is that of all its frames (SetPrice).
// 2. MakeStreamRequest: a stream, for models whose encoder reads chunk by chunk, or whose frames
//    come from outside. It begins with a small price, which grows with the segment
//    (FrameRequest::MakeRoom).
// 3. MakeScoreRequest: known targets.
//
// MakeDriver makes what steps the requests of a model: a stepper (predictor and joiner, or columns
// of scores) and, for chunks, an encoder.
//
// Then the answers of their searches.
#include "engine/frames/frame_search_kind.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/frames/frame_driver.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/frame_request_kinds.h"
#include "engine/frames/transducer_stepper.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/request/answers.h"
#include "engine/request/request.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {
namespace {

std::unique_ptr<FrameRequest> NewRequest(std::shared_ptr<const DecodeModel> model,
                                         const CallOptions& call) {
  std::unique_ptr<FrameRequest> request;
  if (model->parts().frames->transducer != nullptr) {
    request = std::make_unique<TransducerRequest>();
  } else if (model->parts().frames->kind == search::FrameKind::kTags) {
    request = std::make_unique<TagRequest>();
  } else {
    request = std::make_unique<CtcRequest>();
  }
  request->Accept(call);
  if (const EncoderPart* const encoder = model->parts().chunk_encoder(); encoder != nullptr) {
    request->chunks = std::make_unique<ChunkedSource>(*encoder->streaming);
  }
  request->model = std::move(model);
  return request;
}

// Sets how many rows, steps and bytes the request takes.
absl::Status SetPrice(const EngineOptions& limits, int rows, FrameRequest& request) {
  const int length = request.source.source_length;
  request.beam_size = rows;
  request.price_bytes = PriceFrames(request);
  request.max_steps = CountFrameSteps(request);
  request.knows_steps = request.model->parts().frames->ctc.has_value();
  if (request.call.timeline != nullptr) {
    request.call.timeline->beam_size = rows;
  }
  if (rows > limits.max_rows) {
    return TooLarge("rows", rows, limits.max_rows, "the number of hypotheses or targets");
  }
  return request.price_bytes <= limits.max_bytes
             ? absl::OkStatus()
             : TooLarge("bytes", request.price_bytes, limits.max_bytes,
                        absl::StrCat("the source's length (", length, ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Request>> FrameSearchKind::MakeRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model, PreparedSource source,
    const ResolvedOptions& options, const CallOptions& call) const {
  std::unique_ptr<FrameRequest> request = NewRequest(model, call);
  request->source = std::move(source);
  request->plan = options.frames;
  request->scoring = options.frames->options();
  request->wants_full_sum = options.merged.full_sum();
  request->SetUpScorers();
  BW_RETURN_IF_ERROR(SetPrice(limits, options.frames->options().beam_size, *request));
  if (options.merged.deadline_result() == v1::DEADLINE_RESULT_BEST_SO_FAR) {
    request->MayBeCut();
  }
  request->most_texts =
      options.merged.distinct() == v1::DISTINCT_TEXT ? options.merged.n_best() : 0;
  request->wants_words = options.merged.words();
  request->StartSearch();
  return request;
}

absl::StatusOr<std::unique_ptr<Request>> FrameSearchKind::MakeStreamRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
    const ResolvedOptions& options, const CallOptions& call) const {
  if (model->reads_whole_source()) {
    return status::InvalidField("model",
                                "has an encoder that reads the whole source; pieces are taken for "
                                "one that reads chunk by chunk (encoder.streaming), or as frames "
                                "of one that runs elsewhere");
  }
  if (options.merged.full_sum()) {
    return status::InvalidField("options.full_sum", "needs the whole source; Decode has it");
  }
  std::unique_ptr<FrameRequest> request = NewRequest(model, call);
  request->plan = options.frames;
  request->scoring = options.frames->options();
  request->SetUpScorers();
  request->most_frames = MaxSourceLength(*model);
  for (const search::EndpointRule& rule : call.endpoint) {
    if (!rule.needs_label && rule.min_trailing_blanks == 0) {
      request->most_frames = std::min(request->most_frames, rule.min_frames);
    }
  }
  request->beam_size = options.frames->options().beam_size;
  request->price_bytes = PriceStream(*request, 0);
  request->max_steps = 1;
  if (request->call.timeline != nullptr) {
    request->call.timeline->beam_size = request->beam_size;
  }
  // It grows with the segment (FrameRequest::MakeRoom).
  const int64_t first = PriceStream(*request, std::min(request->most_frames, kFewestPricedFrames));
  if (first > MostNewStreamBytes(limits.max_bytes)) {
    return TooLarge("bytes", first, MostNewStreamBytes(limits.max_bytes),
                    "the number of hypotheses");
  }
  if (options.merged.deadline_result() == v1::DEADLINE_RESULT_BEST_SO_FAR) {
    request->MayBeCut();
  }
  request->most_texts =
      options.merged.distinct() == v1::DISTINCT_TEXT ? options.merged.n_best() : 0;
  request->wants_words = options.merged.words();
  request->StartSearch();
  return request;
}

absl::StatusOr<std::unique_ptr<Request>> FrameSearchKind::MakeScoreRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
    const v1::ScoreSource& source, const v1::ScoreOptions& options, const CallOptions& call) const {
  std::unique_ptr<FrameRequest> request = NewRequest(model, call);
  BW_ASSIGN_OR_RETURN(request->scoring, ResolveFrameScoring(*model, options));
  BW_ASSIGN_OR_RETURN(request->targets, ReadFrameTargets(*model, source.targets()));
  BW_ASSIGN_OR_RETURN(request->source, PrepareSource(*model, source.source()));
  BW_RETURN_IF_ERROR(SetPrice(limits, static_cast<int>(request->targets.size()), *request));
  request->is_scoring = true;
  BW_RETURN_IF_ERROR(request->StartScoring());
  return request;
}

std::unique_ptr<Driver> FrameSearchKind::MakeDriver(
    std::shared_ptr<const DecodeModel> model) const {
  std::unique_ptr<FrameStepper> stepper;
  if (const auto& transducer = model->parts().frames->transducer; transducer != nullptr) {
    stepper = std::make_unique<TransducerStepper>(model->parts());
  } else {
    stepper = std::make_unique<ColumnStepper>(model->parts());
  }
  std::unique_ptr<ChunkEncoder> encoder;
  if (model->parts().chunk_encoder() != nullptr) {
    encoder = std::make_unique<ChunkEncoder>(model->parts());
  }
  return std::make_unique<FrameDriver>(std::move(model), std::move(stepper), std::move(encoder));
}

// Answers of searches by frames: a transducer's, CTC's or tagger's hypotheses with the frames of
// their tokens (MakeHypotheses), the reply to a decode request (MakeFrameReply), and the scores of
// given targets (MakeFrameScored).

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
