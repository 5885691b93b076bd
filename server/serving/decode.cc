#include "server/serving/decode.h"

#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "engine/status/error_details.h"
#include "engine/status/fault.h"
#include "engine/status/source_errors.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/sources_call.h"
#include "server/serving/with_model.h"

namespace beamwright::serving {
namespace {

// Protobuf's limit.
constexpr size_t kMaxReplyBytes = std::numeric_limits<int32_t>::max();
status::SourceNames NamesOf(Method method) {
  return method == Method::kStreamDecode || method == Method::kHttpStreamDecode
             ? status::SourceNames{}
             : status::SourceNames{"sources", "source"};
}

// Each source of a call holds what it reads of the options' lists until it is answered. A call of
// many sources with long lists costs more than its own size says.
absl::Status CheckLists(const v1::DecodeRequest& request) {
  constexpr int64_t kMostBytes = int64_t{1} << 23;
  const auto bytes = static_cast<int64_t>(request.options().ByteSizeLong());
  return bytes * request.sources_size() <= kMostBytes
             ? absl::OkStatus()
             : status::InvalidField("options", "have ", bytes, " bytes for each of ",
                                    request.sources_size(), " sources, together more than ",
                                    kMostBytes, "; send fewer sources a call");
}

class DecodeCall : public SourcesCall<Job, v1::DecodeResponse> {
 public:
  DecodeCall(Core& core, const Caller& caller, Done done)
      : SourcesCall(core, caller, NamesOf(caller.method), std::move(done)) {}

 private:
  absl::Status Open(Job& job) override {
    model_ = std::move(job.model);
    BW_RETURN_IF_ERROR(
        CheckSources(core_, *model_, job.request.sources_size(), "decode", started_));
    BW_RETURN_IF_ERROR(CheckLists(job.request));
    BW_ASSIGN_OR_RETURN(options_, engine::ResolveOptions(*model_, job.request.options()));
    return absl::OkStatus();
  }

  int CountSources(const Job& job) const override { return job.request.sources_size(); }
  const v1::Source& SourceOf(const Job& job, int source) const override {
    return job.request.sources(source);
  }

  void StartSource(int source, Job& job, const engine::CallOptions& options,
                   v1::Result& result) override {
    v1::Source& given = *job.request.mutable_sources(source);
    const bool is_text = given.has_text();
    core_.engine().DecodeResolved(model_, std::move(given), options_, options,
                                  [this, &result, is_text](absl::StatusOr<v1::Decoded> decoded) {
                                    // Ids and tensors are the caller's own, and may be what the
                                    // model fails on.
                                    num_faults_ +=
                                        is_text && absl::IsInternal(decoded.status()) ? 1 : 0;
                                    Finish(std::move(decoded), result);
                                  });
  }

  absl::Status Outcome() const override {
    for (int i = 0; caller_.all_or_nothing && !IsCancelled() && i < response_.results_size(); ++i) {
      if (const v1::Result& result = response_.results(i); result.has_error()) {
        return Annotate(status::FromRpcStatus(result.error()), absl::StrCat("source ", i));
      }
    }
    return Converted(SourcesCall::Outcome());
  }

  // An answer that can't be sent is not a success.
  absl::Status Converted(absl::Status status) const {
    if (status.ok() && response_.ByteSizeLong() > kMaxReplyBytes) {
      status = status::WithReason(
          absl::ResourceExhaustedError(
              absl::StrCat("the reply has ", response_.ByteSizeLong(),
                           " bytes, more than a message can hold; send fewer sources a call")),
          status::reason::kReplyTooLarge);
    }
    if (status.ok() && caller_.convert != nullptr) {
      status = caller_.convert(response_);
    }
    return status;
  }

  void CountResults() override {
    core_.metrics().CountSources(*model_, response_);
    int decoded = 0;
    for (const v1::Result& result : response_.results()) {
      decoded += result.has_decoded() ? 1 : 0;
    }
    core_.quarantine().Count(*model_, decoded, num_faults_, SteadyNow());
  }

  std::shared_ptr<const engine::ResolvedOptions> options_;
  std::atomic<int> num_faults_{0};  // of the model
};

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
  (new DecodeCall(core, caller, std::move(done)))->Start(std::move(job));
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
