// Calls that score given targets (Score), and calls that align a source to a target (Align), which
// are turned into calls of Score and back.
//
// WithModel waits for the model. ScoreNow then makes a ScoreCall, which runs the sources and
// collects their answers: `open` checks the request as a whole (Open), `start` gives one source to
// the engine, and the last function counts what was scored. Errors of an alignment are turned into
// the terms of its request (in_terms).
#include "server/serving/scorer.h"

#include <memory>
#include <utility>

#include "engine/align.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/serving/model_registry.h"
#include "server/serving/sources_call.h"

namespace beamwright::serving {
namespace {

bool Aligns(Method method) { return method == Method::kAlign || method == Method::kHttpAlign; }

using ScoreCall = SourcesCall<v1::ScoreResponse, v1::Scored>;

// The request as a whole: what is wrong with it, or its sources. Sets `model`.
absl::StatusOr<std::vector<const v1::Source*>> Open(Core& core, const ScoreCall& call,
                                                    const absl::StatusOr<v1::ScoreRequest>& given,
                                                    ModelPtr& model) {
  BW_RETURN_IF_ERROR(given.status());
  const v1::ScoreRequest& request = *given;
  BW_ASSIGN_OR_RETURN(model, core.models().Lookup(request.model(), request.version()));
  BW_RETURN_IF_ERROR(CheckSources(core, *model, request.sources_size(), "score", call.started()));
  if (Aligns(call.caller().method) && !model->config().has_decoder()) {
    return status::InvalidField(
        "model", "is searched by frames and has no attention; Score returns token_frames");
  }
  BW_RETURN_IF_ERROR(engine::CheckScoreOptions(*model, request.options()));
  std::vector<const v1::Source*> sources;
  for (const v1::ScoreSource& source : request.sources()) {
    sources.push_back(&source.source());
  }
  return sources;
}

// Scores the sources of a request whose model is in memory.
void ScoreNow(Core& core, absl::StatusOr<v1::ScoreRequest> given, const Caller& caller,
              ScoreDone done) {
  const bool aligns = Aligns(caller.method);
  // An error in the terms of the request that the client sent.
  const auto in_terms = [aligns](const absl::Status& status) {
    return aligns ? engine::InAlignTerms(status) : status;
  };
  auto* const call =
      new ScoreCall(core, caller, {aligns ? "pairs" : "sources", ""}, std::move(done));
  struct Begun {
    absl::StatusOr<v1::ScoreRequest> request;
    ModelPtr model;
  };
  const auto begun = std::make_shared<Begun>();
  begun->request = std::move(given);
  const auto open = [&](ModelPtr& model) -> absl::StatusOr<std::vector<const v1::Source*>> {
    auto sources = Open(core, *call, begun->request, model);
    begun->model = model;
    if (!sources.ok()) {
      return in_terms(sources.status());
    }
    return sources;
  };
  const auto start = [&core, begun, in_terms](int number, const engine::CallOptions& options,
                                              ScoreCall::Answer answer) {
    core.engine().Score(begun->model, std::move(*begun->request->mutable_sources(number)),
                        begun->request->options(), options,
                        [in_terms, answer = std::move(answer)](absl::StatusOr<v1::Scored> scored) {
                          if (!scored.ok()) {
                            scored = in_terms(scored.status());
                          }
                          answer(std::move(scored));
                        });
  };
  call->Run(open, start, [&core](const ScoreCall& ended) {
    core.metrics().CountScored(ended.model(), ended.response());
    return ended.Outcome();
  });
}

}  // namespace

void Score(Core& core, absl::StatusOr<v1::ScoreRequest> request, const Caller& caller,
           ScoreDone done) {
  WithModel(
      core.models(), std::move(request), caller.deadline,
      [&core, caller, done = std::move(done)](absl::StatusOr<v1::ScoreRequest> ready) mutable {
        ScoreNow(core, std::move(ready), caller, std::move(done));
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
