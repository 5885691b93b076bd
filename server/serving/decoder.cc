#include "server/serving/decoder.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "server/serving/source_errors.h"
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

}  // namespace

// One call; deletes itself when it is answered.
class Decoder::Call {
 public:
  Call(Decoder& decoder, const Caller& caller, Done done)
      : decoder_(decoder), caller_(caller), done_(std::move(done)), started_(absl::Now()) {}

  void Start(absl::StatusOr<Job> job) {
    absl::Status status = Prepare(job);
    if (status.ok()) {
      DecodeAll(job->request);
      return;
    }
    if (!decoder_.state_.Hold([this, status] { Answer(status); })) {
      Answer(std::move(status));
    }
  }

 private:
  absl::Status Prepare(absl::StatusOr<Job>& job) {
    try {
      return Check(job);
    } catch (const std::bad_alloc&) {
      return status::OutOfMemory();
    }
  }

  // Looks at the call as a whole, and makes room for the answer.
  absl::Status Check(absl::StatusOr<Job>& job) {
    BW_RETURN_IF_ERROR(FaultPoint("call.admit"));
    BW_RETURN_IF_ERROR(decoder_.state_.CheckAccepting());
    BW_RETURN_IF_ERROR(job.status());
    model_ = std::move(job->model);
    const v1::DecodeRequest& request = job->request;
    BW_RETURN_IF_ERROR(decoder_.CheckSources(*model_, request.sources_size(), "decode", started_));
    BW_ASSIGN_OR_RETURN(options_, engine::ResolveOptions(*model_, request.options()));
    response_.set_model(model_->name());
    response_.set_version(model_->version());
    response_.set_numerics(model_->numerics());
    return absl::OkStatus();
  }

  void DecodeAll(v1::DecodeRequest& request) {
    engine::CallOptions options = decoder_.EngineOptions(caller_);
    options.progress = caller_.progress;
    options.wants_provisional = caller_.wants_provisional;
    const int num_sources = request.sources_size();
    // All there before the first source is admitted: the engine's thread fills them as they come.
    for (int i = 0; i < num_sources; ++i) {
      response_.add_results();
    }
    std::vector<v1::Result*> results;
    for (v1::Result& result : *response_.mutable_results()) {
      results.push_back(&result);
    }
    timelines_ = decoder_.MakeTimelines(caller_.context, num_sources);
    // One more than sources, so that the call can't end while this loop still uses it.
    num_open_ = num_sources + 1;
    for (int i = 0; i < num_sources; ++i) {
      v1::Result* result = results[static_cast<size_t>(i)];
      options.timeline =
          i < static_cast<int>(timelines_.size()) ? &timelines_[static_cast<size_t>(i)] : nullptr;
      const bool is_text = request.sources(i).has_text();
      decoder_.engine_.DecodeResolved(
          model_, std::move(*request.mutable_sources(i)), options_, options,
          [this, result, is_text](absl::StatusOr<v1::Decoded> decoded) {
            // Ids and tensors are the caller's own, and may be what the model fails on.
            num_faults_ += is_text && absl::IsInternal(decoded.status()) ? 1 : 0;
            Fill(std::move(decoded), *result);
            Release();
          });
    }
    if (--num_open_ == 0) {
      Answer(Converted(Outcome()));
    }
  }

  void Fill(absl::StatusOr<v1::Decoded> decoded, v1::Result& result) {
    if (decoded.ok()) {
      *result.mutable_decoded() = *std::move(decoded);
    } else {
      *result.mutable_error() = decoder_.OnWire(decoded.status());
    }
  }

  void Release() {
    if (--num_open_ == 0) {
      decoder_.Reply(response_.results_size(), [this] { Answer(Converted(Outcome())); });
    }
  }

  // An answer that can't be sent is no success.
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

  absl::Status Outcome() const {
    if (caller_.cancelled != nullptr && caller_.cancelled->cancelled()) {
      return caller_.cancelled->Outcome(caller_.deadline, absl::Now());
    }
    for (int i = 0; caller_.all_or_nothing && i < response_.results_size(); ++i) {
      if (const v1::Result& result = response_.results(i); result.has_error()) {
        return Annotate(FromRpcStatus(result.error()), absl::StrCat("source ", i));
      }
    }
    return OutcomeOf(response_.results(), NamesOf(caller_.method));
  }

  void Answer(absl::Status status) {
    Work work{response_.results_size(), &response_, timelines_};
    for (const v1::Result& result : response_.results()) {
      work.queue_ms += result.decoded().queue_ms();
      work.compute_ms += result.decoded().compute_ms();
    }
    work.num_failed = CountErrors(response_.results());
    decoder_.CountCall(caller_, model_.get(), status, started_, work);
    if (response_.results_size() > 0) {
      decoder_.metrics_.CountSources(*model_, response_);
      CountFaults();
    } else {
      decoder_.metrics_.CountRejection(status);
    }
    if (status.ok()) {
      done_(std::move(response_));
    } else {
      done_(std::move(status));
    }
    delete this;
  }

  void CountFaults() {
    int decoded = 0;
    for (const v1::Result& result : response_.results()) {
      decoded += result.has_decoded() ? 1 : 0;
    }
    decoder_.quarantine_.Count(*model_, decoded, num_faults_, absl::Now());
  }

  Decoder& decoder_;
  const Caller caller_;
  const Done done_;
  const absl::Time started_;
  ModelPtr model_;
  std::shared_ptr<const engine::ResolvedOptions> options_;
  v1::DecodeResponse response_;
  std::vector<engine::Timeline> timelines_;  // of the first sources, if somebody traces them
  std::atomic<int> num_open_{0};
  std::atomic<int> num_faults_{0};  // of the model
};

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
  (new Call(*this, caller, std::move(done)))->Start(std::move(job));
}

}  // namespace beamwright::serving
