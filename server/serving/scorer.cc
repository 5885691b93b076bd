#include "server/serving/scorer.h"

#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "server/serving/source_errors.h"
#include "server/serving/wire_status.h"
#include "server/status/error_details.h"
#include "server/status/fault.h"

namespace beamwright::serving {
namespace {

// The field of the AlignRequest that "targets[0].text" and its like, of the request to score that
// was made of it, stand for.
std::string InAlignTerms(absl::string_view field) {
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"targets[0]", "target"},
      {"targets", "target"},
      {"sources", "pairs"},
      {"options.attention", "model"}};
  for (const auto& [scored, aligned] : kNames) {
    if (absl::ConsumePrefix(&field, scored)) {
      return absl::StrCat(aligned, field);
    }
  }
  return std::string(field);
}

// One call; deletes itself when it is answered.
class ScoreCall {
 public:
  ScoreCall(Decoder& decoder, const Caller& caller, ScoreDone done)
      : decoder_(decoder),
        caller_(caller),
        aligns_(caller.method == Method::kAlign || caller.method == Method::kHttpAlign),
        done_(std::move(done)),
        started_(absl::Now()) {}

  void Start(absl::StatusOr<v1::ScoreRequest> request) {
    absl::Status status = InTerms(Prepare(request));
    if (status.ok()) {
      ScoreAll(*request);
    } else if (!decoder_.state().Hold([this, status] { Answer(status); })) {
      Answer(std::move(status));
    }
  }

 private:
  absl::Status Prepare(const absl::StatusOr<v1::ScoreRequest>& request) {
    try {
      return Check(request);
    } catch (const std::bad_alloc&) {
      return status::OutOfMemory();
    }
  }

  // Looks at the call as a whole, and makes room for the answer.
  absl::Status Check(const absl::StatusOr<v1::ScoreRequest>& request) {
    BW_RETURN_IF_ERROR(FaultPoint("call.admit"));
    BW_RETURN_IF_ERROR(decoder_.state().CheckAccepting());
    BW_RETURN_IF_ERROR(request.status());
    BW_ASSIGN_OR_RETURN(model_, decoder_.models().Lookup(request->model(), request->version()));
    BW_RETURN_IF_ERROR(decoder_.CheckSources(*model_, request->sources_size(), "score", started_));
    BW_RETURN_IF_ERROR(engine::CheckScoreOptions(*model_, request->options()));
    response_.set_model(model_->name());
    response_.set_version(model_->version());
    response_.set_numerics(model_->numerics());
    return absl::OkStatus();
  }

  void ScoreAll(v1::ScoreRequest& request) {
    engine::CallOptions options = decoder_.EngineOptions(caller_);
    const int num_sources = request.sources_size();
    timelines_ = decoder_.MakeTimelines(caller_.context, num_sources);
    // All there before the first source is admitted: the engine's thread fills them as they come.
    std::vector<v1::ScoreResult*> results;
    for (int i = 0; i < num_sources; ++i) {
      results.push_back(response_.add_results());
    }
    // One more than sources, so that the call can't end while this loop still uses it.
    num_open_ = num_sources + 1;
    for (int i = 0; i < num_sources; ++i) {
      v1::ScoreResult* const result = results[static_cast<size_t>(i)];
      options.timeline =
          i < static_cast<int>(timelines_.size()) ? &timelines_[static_cast<size_t>(i)] : nullptr;
      decoder_.engine().Score(model_, std::move(*request.mutable_sources(i)), request.options(),
                              options, [this, result](absl::StatusOr<v1::Scored> scored) {
                                Fill(std::move(scored), *result);
                                Release();
                              });
    }
    if (--num_open_ == 0) {
      Answer(Outcome());
    }
  }

  void Fill(absl::StatusOr<v1::Scored> scored, v1::ScoreResult& result) {
    if (scored.ok()) {
      *result.mutable_scored() = *std::move(scored);
    } else {
      *result.mutable_error() = decoder_.OnWire(InTerms(scored.status()));
    }
  }

  // An error in the terms of the request that the client sent.
  absl::Status InTerms(const absl::Status& status) const {
    return aligns_ ? status::WithFields(status, InAlignTerms) : status;
  }

  void Release() {
    if (--num_open_ == 0) {
      decoder_.Reply(response_.results_size(), [this] { Answer(Outcome()); });
    }
  }

  absl::Status Outcome() const {
    if (caller_.cancelled != nullptr && caller_.cancelled->cancelled()) {
      return caller_.cancelled->Outcome(caller_.deadline, absl::Now());
    }
    return OutcomeOf(response_.results(), {aligns_ ? "pairs" : "sources", ""});
  }

  void Answer(absl::Status status) {
    Metrics& metrics = decoder_.metrics();
    Decoder::Work work{response_.results_size(), nullptr, timelines_};
    for (const v1::ScoreResult& result : response_.results()) {
      work.queue_ms += result.scored().queue_ms();
      work.compute_ms += result.scored().compute_ms();
    }
    work.num_failed = CountErrors(response_.results());
    decoder_.CountCall(caller_, model_.get(), status, started_, work);
    if (response_.results_size() > 0) {
      metrics.CountScored(*model_, response_);
    } else {
      metrics.CountRejection(status);
    }
    if (status.ok()) {
      done_(std::move(response_));
    } else {
      done_(std::move(status));
    }
    delete this;
  }

  Decoder& decoder_;
  const Caller caller_;
  const bool aligns_;  // errors are in the terms of an AlignRequest
  const ScoreDone done_;
  const absl::Time started_;
  ModelPtr model_;
  v1::ScoreResponse response_;
  std::vector<engine::Timeline> timelines_;  // as a Decoder::Call's
  std::atomic<int> num_open_{0};
};

v1::ScoreRequest ToScoreRequest(v1::AlignRequest request) {
  v1::ScoreRequest score;
  score.set_model(request.model());
  score.set_version(request.version());
  for (v1::AlignPair& pair : *request.mutable_pairs()) {
    v1::ScoreSource& source = *score.add_sources();
    *source.mutable_source() = std::move(*pair.mutable_source());
    *source.add_targets() = std::move(*pair.mutable_target());
  }
  score.mutable_options()->set_end_token(false);
  score.mutable_options()->set_attention(request.soft() ? v1::ATTENTION_SOFT : v1::ATTENTION_HARD);
  return score;
}

v1::AlignResponse ToAlignResponse(v1::ScoreResponse response) {
  v1::AlignResponse answer;
  answer.set_model(response.model());
  answer.set_version(response.version());
  answer.set_numerics(response.numerics());
  for (v1::ScoreResult& result : *response.mutable_results()) {
    v1::AlignResult& out = *answer.add_results();
    if (result.has_error()) {
      *out.mutable_error() = std::move(*result.mutable_error());
      continue;
    }
    v1::Hypothesis& hypothesis = *result.mutable_scored()->mutable_targets(0)->mutable_hypothesis();
    v1::Alignment& alignment = *out.mutable_alignment();
    alignment.mutable_tokens()->Swap(hypothesis.mutable_tokens());
    alignment.mutable_positions()->Swap(hypothesis.mutable_alignment());
    if (hypothesis.has_attention()) {
      *alignment.mutable_attention() = std::move(*hypothesis.mutable_attention());
    }
    alignment.set_source_length(result.scored().source_length());
  }
  return answer;
}

}  // namespace

void Score(Decoder& decoder, absl::StatusOr<v1::ScoreRequest> request, const Caller& caller,
           ScoreDone done) {
  (new ScoreCall(decoder, caller, std::move(done)))->Start(std::move(request));
}

void Align(Decoder& decoder, absl::StatusOr<v1::AlignRequest> request, const Caller& caller,
           const AlignDone& done) {
  absl::StatusOr<v1::ScoreRequest> score =
      status::InvalidField("pairs", "is empty; there is nothing to align");
  if (!request.ok()) {
    score = request.status();
  } else if (!request->pairs().empty()) {
    score = ToScoreRequest(*std::move(request));
  }
  Score(decoder, std::move(score), caller, [done](absl::StatusOr<v1::ScoreResponse> response) {
    if (response.ok()) {
      done(ToAlignResponse(*std::move(response)));
    } else {
      done(response.status());
    }
  });
}

}  // namespace beamwright::serving
