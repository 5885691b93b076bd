#include "server/serving/decoder.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "server/serving/source_errors.h"
#include "server/serving/sources_call.h"
#include "server/serving/wire_status.h"
#include "server/status/error_details.h"
#include "server/status/fault.h"

namespace beamwright::serving {
namespace {

// Protobuf's limit.
constexpr size_t kMaxReplyBytes = std::numeric_limits<int32_t>::max();
// Enough to see where a call's time goes.
constexpr int kMaxTimelines = 8;

SourceNames NamesOf(Method method) {
  return method == Method::kStreamDecode || method == Method::kHttpStreamDecode
             ? SourceNames{}
             : SourceNames{"sources", "source"};
}

class DecodeCall : public SourcesCall<Job, v1::DecodeResponse> {
 public:
  DecodeCall(Decoder& decoder, const Caller& caller, Done done)
      : SourcesCall(decoder, caller, NamesOf(caller.method), std::move(done)) {}

 private:
  absl::Status Open(Job& job) override {
    model_ = std::move(job.model);
    BW_RETURN_IF_ERROR(
        decoder_.CheckSources(*model_, job.request.sources_size(), "decode", started_));
    BW_ASSIGN_OR_RETURN(options_, engine::ResolveOptions(*model_, job.request.options()));
    return absl::OkStatus();
  }

  int CountSources(const Job& job) const override { return job.request.sources_size(); }

  void StartSource(int source, Job& job, const engine::CallOptions& options,
                   v1::Result& result) override {
    v1::Source& given = *job.request.mutable_sources(source);
    const bool is_text = given.has_text();
    decoder_.engine().DecodeResolved(model_, std::move(given), options_, options,
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
        return Annotate(FromRpcStatus(result.error()), absl::StrCat("source ", i));
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
    decoder_.metrics().CountSources(*model_, response_);
    int decoded = 0;
    for (const v1::Result& result : response_.results()) {
      decoded += result.has_decoded() ? 1 : 0;
    }
    decoder_.quarantine().Count(*model_, decoded, num_faults_, absl::Now());
  }

  std::shared_ptr<const engine::ResolvedOptions> options_;
  std::atomic<int> num_faults_{0};  // of the model
};

}  // namespace

absl::StatusOr<Job> Decoder::MakeJob(v1::DecodeRequest request) const {
  Job job;
  BW_ASSIGN_OR_RETURN(job.model, models_.Lookup(request.model(), request.version()));
  job.request = std::move(request);
  return job;
}

void Decoder::CountCall(const Caller& caller, const engine::DecodeModel* model,
                        const absl::Status& status, absl::Time started, const Work& work) {
  const absl::Time now = absl::Now();
  metrics_.CountCall(caller.method, model, status.code(), now - started);
  for (CallObserver* observer : observers_) {
    observer->OnCall({ProtocolOf(caller.method), NameOf(caller.method), caller.context,
                      model == nullptr ? "" : model->name(),
                      model == nullptr ? "" : model->version(), status, started, now,
                      work.num_sources, work.response, work.timelines, work.queue_ms,
                      work.compute_ms, work.num_failed});
  }
}

std::vector<engine::Timeline> Decoder::MakeTimelines(const CallContext& context,
                                                     int num_sources) const {
  const bool wanted =
      std::any_of(observers_.begin(), observers_.end(),
                  [&](const CallObserver* observer) { return observer->WantsTimelines(context); });
  return std::vector<engine::Timeline>(
      static_cast<size_t>(wanted ? std::min(num_sources, kMaxTimelines) : 0));
}

void Decoder::Refuse(const absl::Status& status, const Caller& caller) {
  CountCall(caller, nullptr, status, absl::Now(), {});
  metrics_.CountRejection(status);
}

absl::Status Decoder::CheckSources(const engine::DecodeModel& model, int num_sources,
                                   const char* verb, absl::Time now) {
  if (num_sources == 0) {
    return status::InvalidField("sources", "is empty; there is nothing to ", verb);
  }
  if (num_sources > kMaxSources) {
    return status::InvalidField("sources", "has ", num_sources, " entries; at most ", kMaxSources,
                                " are allowed in a call");
  }
  return quarantine_.Check(model, now);
}

engine::CallOptions Decoder::EngineOptions(const Caller& caller) {
  engine::CallOptions options;
  options.cancelled = caller.cancelled;
  options.deadline = caller.deadline;
  options.tenant = caller.tenant;
  options.priority = caller.priority;
  options.progress = caller.progress;
  options.wants_provisional = caller.wants_provisional;
  options.call = next_call_.fetch_add(1, std::memory_order_relaxed);
  return options;
}

void Decoder::Reply(int num_sources, std::function<void()> reply) {
  if (num_sources == 1 && engine_.idle()) {
    reply();
  } else {
    replies_.Post(std::move(reply));
  }
}

void Decoder::Decode(absl::StatusOr<Job> job, const Caller& caller, Done done) {
  (new DecodeCall(*this, caller, std::move(done)))->Start(std::move(job));
}

}  // namespace beamwright::serving
