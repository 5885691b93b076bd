// A model in the caller's process: the part of the library that decodes, scores and aligns without
// a server. Load compiles the bundle, tries it and starts an engine; Decode, Score and Align start
// all sources of a request and wait until all are answered (AnswerAll), with the same responses as
// the server's.
//
// Load runs on a thread that ends with it, so that the caller's thread gets no OpenMP threads,
// which a fork would leave behind. The engine refuses no request for its deadline in advance: a
// server does so because another one may be in time, and here there is no other.
#include "library/process_model.h"

#include <system_error>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/bundle/repository.h"
#include "engine/load_model.h"
#include "engine/request/answers.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"

namespace beamwright::library {
namespace {

void Put(v1::Decoded decoded, v1::Result& result) {
  *result.mutable_decoded() = std::move(decoded);
}
void Put(v1::Scored scored, v1::ScoreResult& result) {
  *result.mutable_scored() = std::move(scored);
}

absl::Status AsTheyAre(const absl::Status& status) { return status; }

// The differences between calls that decode, score and align.
struct Terms {
  status::SourceNames names;                            // of sources in the request
  absl::Status (*of)(const absl::Status&) = AsTheyAre;  // an error in the request's terms
};
constexpr Terms kSources = {{"sources", "source"}};
constexpr Terms kScored = {{"sources", ""}};
constexpr Terms kPairs = {{"pairs", ""}, engine::InAlignTerms};

// Starts every source by start(source, done) and waits until all are answered.
template <typename Response, typename Start>
absl::StatusOr<Response> AnswerAll(const engine::DecodeModel& model, int num_sources,
                                   const Terms& terms, const Start& start) {
  Response response;
  response.set_model(model.name());
  response.set_version(model.version());
  response.set_numerics(model.numerics());
  response.mutable_results()->Reserve(num_sources);
  absl::BlockingCounter open(num_sources);
  for (int i = 0; i < num_sources; ++i) {
    start(i, [&open, &terms, &result = *response.add_results()](auto answer) {
      if (answer.ok()) {
        Put(*std::move(answer), result);
      } else {
        *result.mutable_error() = status::ToRpcStatus(terms.of(answer.status()));
      }
      open.DecrementCount();
    });
  }
  open.Wait();
  BW_RETURN_IF_ERROR(status::OutcomeOf(response.results(), terms.names));
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessModel>> ProcessModel::Load(const std::string& path,
                                                                 const LoadOptions& options) {
  absl::StatusOr<std::unique_ptr<ProcessModel>> model = absl::InternalError("not loaded");
  try {
    std::thread([&] { model = LoadHere(path, options); }).join();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", error.what()));
  }
  return model;
}

absl::StatusOr<std::unique_ptr<ProcessModel>> ProcessModel::LoadHere(const std::string& path,
                                                                     const LoadOptions& options) {
  BW_ASSIGN_OR_RETURN(const bundle::ModelFolder folder, bundle::FindModel(path));
  BW_RETURN_IF_ERROR(folder.listed);
  const std::string& bundle = folder.versions[0].path;
  engine::CompileOptions compile;
  compile.precision = options.precision;
  BW_ASSIGN_OR_RETURN(ModelPtr model, engine::LoadModel(bundle, {}, compile));
  BW_RETURN_IF_ERROR(
      Annotate(engine::TryModel(model, bundle, {}, {options.golden_requests, /*warm_up_rows=*/1}),
               absl::StrCat("bundle '", bundle, "'")));
  engine::EngineOptions engine_options;
  engine_options.num_threads = options.num_threads;
  engine_options.num_streams = engine::EngineOptions::kStreamsAsWorkIs;
  engine_options.max_rows = options.max_rows;
  // A forecast spares a server work that another one may do in time. Here is no other.
  engine_options.forecast_deadlines = false;
  BW_ASSIGN_OR_RETURN(auto engine, engine::Engine::Start(engine_options));
  return absl::WrapUnique(new ProcessModel(std::move(model), std::move(engine)));
}

absl::Status ProcessModel::CheckName(const std::string& name, const std::string& version) const {
  if ((!name.empty() && name != model_->name()) ||
      (!version.empty() && version != model_->version())) {
    return absl::NotFoundError(absl::StrCat("Request for unknown model: '", name, "' version '",
                                            version, "' is not found; loaded: '", model_->name(),
                                            "' version '", model_->version(), "'"));
  }
  return absl::OkStatus();
}

engine::CallOptions ProcessModel::CallOf(absl::Time deadline) {
  engine::CallOptions call;
  call.deadline = deadline;
  call.call = next_call_++;
  return call;
}

absl::StatusOr<v1::DecodeResponse> ProcessModel::Decode(v1::DecodeRequest request,
                                                        absl::Time deadline) {
  BW_RETURN_IF_ERROR(CheckName(request.model(), request.version()));
  BW_RETURN_IF_ERROR(engine::CheckNumSources(request.sources_size(), "decode"));
  BW_ASSIGN_OR_RETURN(const auto options, engine::ResolveOptions(*model_, request.options()));
  const engine::CallOptions call = CallOf(deadline);
  return AnswerAll<v1::DecodeResponse>(
      *model_, request.sources_size(), kSources, [&](int source, engine::DecodeCallback done) {
        engine_->DecodeResolved(model_, std::move(*request.mutable_sources(source)), options, call,
                                std::move(done));
      });
}

absl::StatusOr<v1::ScoreResponse> ProcessModel::Score(v1::ScoreRequest request,
                                                      absl::Time deadline) {
  return ScoreAs(std::move(request), deadline, /*aligns=*/false);
}

absl::StatusOr<v1::AlignResponse> ProcessModel::Align(v1::AlignRequest request,
                                                      absl::Time deadline) {
  BW_ASSIGN_OR_RETURN(v1::ScoreRequest score, engine::ToScoreRequest(std::move(request)));
  BW_ASSIGN_OR_RETURN(v1::ScoreResponse response,
                      ScoreAs(std::move(score), deadline, /*aligns=*/true));
  return engine::ToAlignResponse(std::move(response));
}

absl::StatusOr<v1::ScoreResponse> ProcessModel::ScoreAs(v1::ScoreRequest request,
                                                        absl::Time deadline, bool aligns) {
  const Terms& terms = aligns ? kPairs : kScored;
  BW_RETURN_IF_ERROR(CheckName(request.model(), request.version()));
  BW_RETURN_IF_ERROR(terms.of(engine::CheckNumSources(request.sources_size(), "score")));
  BW_RETURN_IF_ERROR(terms.of(engine::CheckScoreOptions(*model_, request.options())));
  const engine::CallOptions call = CallOf(deadline);
  return AnswerAll<v1::ScoreResponse>(
      *model_, request.sources_size(), terms, [&](int source, engine::ScoreCallback done) {
        engine_->Score(model_, std::move(*request.mutable_sources(source)), request.options(), call,
                       std::move(done));
      });
}

}  // namespace beamwright::library
