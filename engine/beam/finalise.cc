// From the end of a search to its answer.
//
// 1. Finalise gathers the n-best lists of several searches by one run of GatherTree, the operator
//    by which exported models follow parents back, over all their slots; Collect then makes each
//    search's hypotheses of its paths, in parallel.
// 2. MakeReply leaves out hypotheses with equal texts if the request asks for it and fills the
//    message: tokens, text, scores and their parts, attention, words, lattice, trace and state for
//    the next call.
// 3. Answer does both for all requests that ended in a step and gives each its reply; a request
//    that only scores targets needs no GatherTree (GiveScored).

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "beamwright/v1/decode.pb.h"
#include "engine/beam/beam_request.h"
#include "engine/bundle/text_codec.h"
#include "engine/request/answers.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/kernels/parallel.h"
#include "ops/loop/operators.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// GatherTree's end token: no slot has this number. A real token would do harm: several tokens may
// end a hypothesis, and one may stand inside a prefix.
constexpr int32_t kNoSlot = -1;

// Of a path's element, as ops/kernels/parallel.h counts it.
constexpr int64_t kWorkToCollect = 2000;

const ops::Kernel& GatherTreeKernel() {
  static const ops::Kernel* const kernel = [] {
    ops::Node node;
    node.op = "GatherTree";
    node.name = "n-best";
    const auto info = [](int rank) {
      return ops::InputInfo{ops::DType::kI32,
                            ops::PartialShape(ops::Shape(static_cast<size_t>(rank), -1)), nullptr};
    };
    const std::vector<ops::InputInfo> inputs = {info(3), info(3), info(1), info(0)};
    absl::StatusOr<std::unique_ptr<ops::Kernel>> made =
        ops::Operators().Find("GatherTree")->make({node, inputs, ops::Operators()});
    BW_CHECK(made.ok());
    return made->release();
  }();
  return *kernel;
}

// Copies a search's [steps, slots] into its columns of a [time, request, slot] tensor.
void CopyColumns(absl::Span<const int32_t> from, int num_slots, int64_t row, int64_t stride,
                 int32_t* to) {
  for (size_t step = 0; step * static_cast<size_t>(num_slots) < from.size(); ++step) {
    std::copy_n(from.data() + step * static_cast<size_t>(num_slots), num_slots,
                to + static_cast<int64_t>(step) * stride + row);
  }
}

}  // namespace

// Searches with fewer steps or slots than the largest are filled up with kNoSlot; `lengths` says
// where each ends.
std::vector<absl::StatusOr<std::vector<search::Hypothesis>>> Finalise(
    const ops::ExecutionContext& context, absl::Span<const search::BeamSearch* const> searches) {
  int64_t steps = 0;
  int64_t slots = 0;
  for (const search::BeamSearch* search : searches) {
    steps = std::max<int64_t>(steps, search->history().num_steps());
    slots = std::max<int64_t>(slots, search->num_slots());
  }
  const auto count = static_cast<int64_t>(searches.size());
  const ops::Shape shape = {steps, count, slots};
  Tensor ids(ops::DType::kI32, shape);
  Tensor parents = Tensor::Zeros(ops::DType::kI32, shape);
  std::fill_n(ids.mutable_data<int32_t>(), ids.num_elements(), kNoSlot);
  Tensor lengths(ops::DType::kI32, {count});
  for (int64_t i = 0; i < count; ++i) {
    const search::SlotHistory& history = searches[static_cast<size_t>(i)]->history();
    CopyColumns(history.slot_ids(), history.num_slots(), i * slots, count * slots,
                ids.mutable_data<int32_t>());
    CopyColumns(history.slot_parents(), history.num_slots(), i * slots, count * slots,
                parents.mutable_data<int32_t>());
    lengths.mutable_data<int32_t>()[i] = history.num_steps();
  }
  const Tensor end = Tensor::Scalar(kNoSlot);
  Tensor paths;
  const absl::Status status =
      GatherTreeKernel().Run(context, {&ids, &parents, &lengths, &end}, absl::MakeSpan(&paths, 1));
  std::vector<absl::StatusOr<std::vector<search::Hypothesis>>> lists(searches.size());
  ops::ParallelFor(
      context.num_threads, count, paths.num_elements() * kWorkToCollect, [&](int64_t i) {
        const auto at = static_cast<size_t>(i);
        if (!status.ok()) {
          lists[at] = absl::InternalError(status.message());
          return;
        }
        lists[at] = searches[at]->Collect(
            {paths.span<int32_t>().subspan(static_cast<size_t>(i * slots)), count * slots});
      });
  return lists;
}

// From the end of a search to the message of its answer.

namespace {

// Some microseconds, as ops/kernels/parallel.h counts them.
constexpr int64_t kWorkToAnswer = 500'000;

// The message that a search's trace is answered in.

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

// The search is done and has a trace; `hypotheses` are its answer.
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

// Slots that hold a token in their step, with their parents; slots that only continue themselves
// are left out. The first beam_size of a step are its live rows.
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

// Parts of the sum (scorers, members of an ensemble) are named as in the bundle, so that a caller
// can weigh them again.
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

// found: the n-best list, of which the reply may leave equal texts out.
v1::Decoded MakeReply(const BeamRequest& request, std::vector<search::Hypothesis> found) {
  v1::Decoded decoded;
  const std::vector<search::Hypothesis> hypotheses =
      DistinctTexts(request, std::move(found),
                    [&](const search::Hypothesis& one) { return TextOf(request, one); });
  for (const search::Hypothesis& hypothesis : hypotheses) {
    FillHypothesis(request, hypothesis, *decoded.add_hypotheses());
  }
  if (request.wants_words) {
    FillWords(*request.model, *decoded.mutable_hypotheses());
  }
  if (request.wants_lattice) {
    AddLattice(request.search->history(), request.beam_size, *decoded.mutable_lattice());
  }
  if (request.search->trace() != nullptr) {
    AddTrace(*request.search, request.model->target(), hypotheses, *decoded.mutable_trace());
  }
  FillFacts(request, decoded);
  decoded.set_steps(request.search->num_steps());
  decoded.set_cached_prefix_length(request.num_cached);
  if (request.returned.has_value()) {
    decoded.set_state(WriteState(*request.model, request.state_key, *request.returned));
  }
  if (request.first_token != absl::InfinitePast()) {
    decoded.set_first_token_ms(absl::ToDoubleMilliseconds(request.first_token - request.accepted));
  }
  return decoded;
}

// Of a request whose targets are all scored.
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

void GiveScored(BeamRequest& request) {
  v1::Scored reply = MakeScored(request);
  if (request.call.timeline != nullptr) {
    request.call.timeline->written = SteadyNow();
  }
  request.Give(std::move(reply));
}

}  // namespace

void Answer(const ops::ExecutionContext& context, absl::Span<BeamRequest* const> requests) {
  if (requests.empty()) {
    return;
  }
  FaultPoint("engine.reply").IgnoreError();
  std::vector<const search::BeamSearch*> searches;
  std::vector<BeamRequest*> decoded;
  for (BeamRequest* const request : requests) {
    if (request->call.timeline != nullptr) {
      request->call.timeline->searched = SteadyNow();
    }
    if (request->scorer.has_value()) {
      GiveScored(*request);
    } else {
      searches.push_back(&*request->search);
      decoded.push_back(request);
    }
  }
  if (decoded.empty()) {
    return;
  }
  auto lists = Finalise(context, searches);
  std::vector<v1::Decoded> replies(decoded.size());
  const auto count = static_cast<int64_t>(decoded.size());
  ops::ParallelFor(context.num_threads, count, count * kWorkToAnswer, [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    if (lists[i].ok()) {
      replies[i] = MakeReply(*decoded[i], *std::move(lists[i]));
      if (decoded[i]->call.timeline != nullptr) {
        decoded[i]->call.timeline->written = SteadyNow();
      }
    }
  });
  for (size_t i = 0; i < decoded.size(); ++i) {
    if (lists[i].ok()) {
      decoded[i]->Give(std::move(replies[i]));
    } else {
      decoded[i]->Fail(lists[i].status());
    }
  }
}

}  // namespace beamwright::engine
