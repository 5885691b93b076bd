#include "server/serving/scorer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "server/serving/sources_call.h"
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

bool Aligns(Method method) { return method == Method::kAlign || method == Method::kHttpAlign; }

class ScoreCall : public SourcesCall<v1::ScoreRequest, v1::ScoreResponse> {
 public:
  ScoreCall(Core& core, const Caller& caller, ScoreDone done)
      : SourcesCall(core, caller, {Aligns(caller.method) ? "pairs" : "sources", ""},
                    std::move(done)) {}

 private:
  absl::Status Open(v1::ScoreRequest& request) override {
    BW_ASSIGN_OR_RETURN(model_, core_.models().Lookup(request.model(), request.version()));
    BW_RETURN_IF_ERROR(CheckSources(core_, *model_, request.sources_size(), "score", started_));
    return engine::CheckScoreOptions(*model_, request.options());
  }

  int CountSources(const v1::ScoreRequest& request) const override {
    return request.sources_size();
  }

  void StartSource(int source, v1::ScoreRequest& request, const engine::CallOptions& options,
                   v1::ScoreResult& result) override {
    core_.engine().Score(
        model_, std::move(*request.mutable_sources(source)), request.options(), options,
        [this, &result](absl::StatusOr<v1::Scored> scored) { Finish(std::move(scored), result); });
  }

  absl::Status InTerms(const absl::Status& status) const override {
    return Aligns(caller_.method) ? status::WithFields(status, InAlignTerms) : status;
  }

  void CountResults() override { core_.metrics().CountScored(*model_, response_); }
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

void Score(Core& core, absl::StatusOr<v1::ScoreRequest> request, const Caller& caller,
           ScoreDone done) {
  (new ScoreCall(core, caller, std::move(done)))->Start(std::move(request));
}

void Align(Core& core, absl::StatusOr<v1::AlignRequest> request, const Caller& caller,
           const AlignDone& done) {
  absl::StatusOr<v1::ScoreRequest> score =
      status::InvalidField("pairs", "is empty; there is nothing to align");
  if (!request.ok()) {
    score = request.status();
  } else if (!request->pairs().empty()) {
    score = ToScoreRequest(*std::move(request));
  }
  Score(core, std::move(score), caller, [done](absl::StatusOr<v1::ScoreResponse> response) {
    if (response.ok()) {
      done(ToAlignResponse(*std::move(response)));
    } else {
      done(response.status());
    }
  });
}

}  // namespace beamwright::serving
