#include "server/serving/scorer.h"

#include <utility>

#include "engine/align.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/serving/sources_call.h"
#include "server/serving/with_model.h"

namespace beamwright::serving {
namespace {

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
    if (Aligns(caller_.method) && !model_->config().has_decoder()) {
      return status::InvalidField(
          "model", "is searched by frames and has no attention; Score returns token_frames");
    }
    return engine::CheckScoreOptions(*model_, request.options());
  }

  int CountSources(const v1::ScoreRequest& request) const override {
    return request.sources_size();
  }
  const v1::Source& SourceOf(const v1::ScoreRequest& request, int source) const override {
    return request.sources(source).source();
  }

  void StartSource(int source, v1::ScoreRequest& request, const engine::CallOptions& options,
                   v1::ScoreResult& result) override {
    core_.engine().Score(
        model_, std::move(*request.mutable_sources(source)), request.options(), options,
        [this, &result](absl::StatusOr<v1::Scored> scored) { Finish(std::move(scored), result); });
  }

  absl::Status InTerms(const absl::Status& status) const override {
    return Aligns(caller_.method) ? engine::InAlignTerms(status) : status;
  }

  void CountResults() override { core_.metrics().CountScored(*model_, response_); }
};

}  // namespace

void Score(Core& core, absl::StatusOr<v1::ScoreRequest> request, const Caller& caller,
           ScoreDone done) {
  WithModel(
      core.models(), std::move(request), caller.deadline,
      [&core, caller, done = std::move(done)](absl::StatusOr<v1::ScoreRequest> ready) mutable {
        (new ScoreCall(core, caller, std::move(done)))->Start(std::move(ready));
      });
}

void Align(Core& core, absl::StatusOr<v1::AlignRequest> request, const Caller& caller,
           const AlignDone& done) {
  absl::StatusOr<v1::ScoreRequest> score =
      request.ok() ? engine::ToScoreRequest(*std::move(request)) : request.status();
  Score(core, std::move(score), caller, [done](absl::StatusOr<v1::ScoreResponse> response) {
    if (response.ok()) {
      done(engine::ToAlignResponse(*std::move(response)));
    } else {
      done(response.status());
    }
  });
}

}  // namespace beamwright::serving
