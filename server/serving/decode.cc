// A call that decodes sources, for all protocols: Decode waits until the model is in memory
// (WithModel), DecodeJob moves the reading of long options to another thread (long_work), and Begin
// runs the call in three steps, marked below:
//
// 1. The request as a whole is checked, and its options are resolved once for all sources.
// 2. Each source goes to the engine.
// 3. When all sources are answered, they are counted, and the call gets its outcome. An answer that
//    is too large for a message, or cannot be converted to the caller's protocol, is a failure, and
//    is counted as one.
//
// Sources that a model fails on by its fault are counted for the quarantine, but only texts: ids
// and tensors are the caller's, and may be what the model fails on.
#include "server/serving/decode.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/model_registry.h"
#include "server/serving/sources_call.h"

namespace beamwright::serving {
namespace {

// Protobuf's limit.
constexpr size_t kMaxReplyBytes = std::numeric_limits<int32_t>::max();
status::SourceNames NamesOf(Method method) {
  return method == Method::kStreamDecode || method == Method::kHttpStreamDecode
             ? status::SourceNames{}
             : status::SourceNames{"sources", "source"};
}

// Bounds the options of a call times its sources: each source holds what it reads of the options'
// lists until it is answered, so that a call of many sources with long lists costs more than its
// size says.
absl::Status CheckLists(const v1::DecodeRequest& request) {
  constexpr int64_t kMostBytes = int64_t{1} << 23;
  const auto bytes = static_cast<int64_t>(request.options().ByteSizeLong());
  return bytes * request.sources_size() <= kMostBytes
             ? absl::OkStatus()
             : status::InvalidField("options", "have ", bytes, " bytes for each of ",
                                    request.sources_size(), " sources, together more than ",
                                    kMostBytes, "; send fewer sources a call");
}

using DecodeCall = SourcesCall<v1::DecodeResponse, v1::Decoded>;

// An answer that can't be sent is not a success.
absl::Status CheckConverts(const DecodeCall& call) {
  if (call.response().ByteSizeLong() > kMaxReplyBytes) {
    return status::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("the reply has ", call.response().ByteSizeLong(),
                         " bytes, more than a message can hold; send fewer sources a call")),
        status::reason::kReplyTooLarge);
  }
  return call.caller().convert == nullptr ? absl::OkStatus()
                                          : call.caller().convert(call.response());
}

absl::Status OutcomeOf(const DecodeCall& call) {
  if (call.caller().all_or_nothing && !call.IsCancelled()) {
    for (int i = 0; i < call.response().results_size(); ++i) {
      if (const v1::Result& result = call.response().results(i); result.has_error()) {
        return Annotate(status::FromRpcStatus(result.error()), absl::StrCat("source ", i));
      }
    }
  }
  const absl::Status outcome = call.Outcome();
  return outcome.ok() ? CheckConverts(call) : outcome;
}

// num_faults: sources that failed by fault of the model.
void CountResults(Core& core, const DecodeCall& call, int num_faults) {
  core.metrics().CountSources(call.model(), call.response());
  int decoded = 0;
  for (const v1::Result& result : call.response().results()) {
    decoded += result.has_decoded() ? 1 : 0;
  }
  core.quarantine().Count(call.model(), decoded, num_faults, SteadyNow());
}

// The call, on the thread that is to read its options.
void Begin(Core& core, absl::StatusOr<Job> given, const Caller& caller, DecodeDone done) {
  auto* const call = new DecodeCall(core, caller, NamesOf(caller.method), std::move(done));
  struct Begun {
    absl::StatusOr<Job> job;
    std::shared_ptr<const engine::ResolvedOptions> resolved;
  };
  const auto begun = std::make_shared<Begun>();
  begun->job = std::move(given);
  const auto num_faults = std::make_shared<std::atomic<int>>(0);
  // 1. The request as a whole: what is wrong with it, or its sources.
  const auto open = [&](ModelPtr& model) -> absl::StatusOr<std::vector<const v1::Source*>> {
    BW_RETURN_IF_ERROR(begun->job.status());
    model = begun->job->model;
    const v1::DecodeRequest& request = begun->job->request;
    BW_RETURN_IF_ERROR(
        CheckSources(core, *model, request.sources_size(), "decode", call->started()));
    BW_RETURN_IF_ERROR(CheckLists(request));
    BW_ASSIGN_OR_RETURN(begun->resolved, engine::ResolveOptions(*model, request.options()));
    return std::vector<const v1::Source*>(request.sources().pointer_begin(),
                                          request.sources().pointer_end());
  };
  // 2. A source goes to the engine.
  const auto start = [&core, begun, num_faults](int number, const engine::CallOptions& options,
                                                DecodeCall::Answer answer) {
    v1::Source& source = *begun->job->request.mutable_sources(number);
    // Ids and tensors are the caller's own, and may be what the model fails on.
    const bool is_text = source.has_text();
    core.engine().DecodeResolved(
        begun->job->model, std::move(source), begun->resolved, options,
        [num_faults, is_text, answer = std::move(answer)](absl::StatusOr<v1::Decoded> decoded) {
          *num_faults += is_text && absl::IsInternal(decoded.status()) ? 1 : 0;
          answer(std::move(decoded));
        });
  };
  // 3. All sources are answered.
  call->Run(open, start, [&core, num_faults](const DecodeCall& ended) {
    CountResults(core, ended, *num_faults);
    return OutcomeOf(ended);
  });
}

}  // namespace

absl::StatusOr<Job> MakeJob(const ModelRegistry& models,
                            absl::StatusOr<v1::DecodeRequest> request) {
  BW_RETURN_IF_ERROR(request.status());
  Job job;
  BW_ASSIGN_OR_RETURN(job.model, models.Lookup(request->model(), request->version()));
  job.request = *std::move(request);
  return job;
}

void DecodeJob(Core& core, absl::StatusOr<Job> job, const Caller& caller, DecodeDone done) {
  if (!job.ok() || !TakeLongToRead(*job->model, job->request.options())) {
    Begin(core, std::move(job), caller, std::move(done));
    return;
  }
  const auto held = std::make_shared<absl::StatusOr<Job>>(std::move(job));
  const absl::Status status =
      core.long_work().Post(caller, [&core, held, caller, done](const absl::Status& outcome) {
        Begin(core, outcome.ok() ? std::move(*held) : outcome, caller, done);
      });
  if (!status.ok()) {
    Begin(core, status, caller, std::move(done));
  }
}

void Decode(Core& core, absl::StatusOr<v1::DecodeRequest> request, const Caller& caller,
            DecodeDone done) {
  WithModel(
      core.models(), std::move(request), caller.deadline,
      [&core, caller, done = std::move(done)](absl::StatusOr<v1::DecodeRequest> ready) mutable {
        DecodeJob(core, MakeJob(core.models(), std::move(ready)), caller, std::move(done));
      });
}

}  // namespace beamwright::serving
