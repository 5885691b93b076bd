#include "client/load/load.h"

#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/load/histogram.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

// Failures in a row, without an answer between them, after which there is nothing to measure. A
// server that is down fails calls as fast as they are made.
constexpr int kHopelessFailures = 1000;

absl::Status Validate(const LoadOptions& options) {
  if (options.sources.empty()) {
    return Invalid("there are no sources to send");
  }
  if (options.batch < 1) {
    return Invalid("batch is ", options.batch, "; at least 1 is allowed");
  }
  if (options.concurrency < 1 || options.concurrency > kMaxConcurrency) {
    return Invalid("concurrency is ", options.concurrency, "; 1 to ", kMaxConcurrency,
                   " are allowed");
  }
  if (options.max_calls < 0) {
    return Invalid("max_calls is ", options.max_calls, "; at least 0 is allowed");
  }
  for (const auto& [name, value] :
       {std::pair("warmup", options.warmup), std::pair("duration", options.duration),
        std::pair("timeout", options.timeout)}) {
    if (value < absl::ZeroDuration() || value > kMaxLoadDuration) {
      return Invalid(name, " is ", absl::FormatDuration(value), "; 0 to ",
                     absl::FormatDuration(kMaxLoadDuration), " are allowed");
    }
  }
  return absl::OkStatus();
}

// Not the wall clock, which may be set while we measure.
using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(Client& client, const LoadOptions& options)
      : client_(client),
        options_(options),
        warm_(Clock::now() + absl::ToChronoNanoseconds(options.warmup)),
        end_(warm_ + absl::ToChronoNanoseconds(options.duration)),
        last_answer_(warm_) {}

  LoadReport Execute() {
    for (int i = 0; i < options_.concurrency; ++i) {
      StartCall();
    }
    WaitForEnd();
    absl::MutexLock lock(&mutex_);
    report_.elapsed = absl::FromChrono(last_answer_ - warm_);
    report_.p50 = latencies_.Percentile(0.50);
    report_.p90 = latencies_.Percentile(0.90);
    report_.p99 = latencies_.Percentile(0.99);
    report_.max = latencies_.max();
    return report_;
  }

 private:
  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  // Starts a call unless the run is over. Called on this thread and by callbacks.
  void StartCall() {
    const Clock::time_point now = Clock::now();
    const bool counted = now >= warm_;
    v1::DecodeRequest request = options_.request;
    {
      absl::MutexLock lock(&mutex_);
      if (now >= end_ || Stopped() || report_.gave_up ||
          (options_.max_calls > 0 && num_started_ >= options_.max_calls)) {
        return;
      }
      num_started_ += counted ? 1 : 0;
      ++num_in_flight_;
      request.clear_sources();
      for (int i = 0; i < options_.batch; ++i) {
        *request.add_sources() = options_.sources[next_source_];
        next_source_ = (next_source_ + 1) % options_.sources.size();
      }
    }
    client_.DecodeAsync(std::move(request), absl::Now() + options_.timeout,
                        [this, now, counted](absl::StatusOr<v1::DecodeResponse> response) {
                          Finish(now, counted, response);
                        });
  }

  void Finish(Clock::time_point started, bool counted,
              const absl::StatusOr<v1::DecodeResponse>& response) {
    const Clock::time_point now = Clock::now();
    const bool cancelled_by_us =
        Stopped() && response.status().code() == absl::StatusCode::kCancelled;
    if (counted && response.ok()) {
      latencies_.Record(absl::FromChrono(now - started));
    }
    {
      absl::MutexLock lock(&mutex_);
      if (counted && !cancelled_by_us) {
        last_answer_ = now;
        Count(response);
      }
      NoteFailuresInARow(response.status());
    }
    StartCall();
    // Last: afterwards the run may be over and gone.
    absl::MutexLock lock(&mutex_);
    --num_in_flight_;
  }

  void Count(const absl::StatusOr<v1::DecodeResponse>& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!response.ok()) {
      ++report_.failed_calls[response.status().code()];
      NoteFirstFailure(response.status());
      return;
    }
    ++report_.num_calls;
    for (const v1::Result& result : response->results()) {
      const absl::Status status = ResultStatus(result);
      if (status.ok()) {
        ++report_.num_sources;
      } else {
        ++report_.failed_sources[status.code()];
        NoteFirstFailure(status);
      }
    }
  }

  void NoteFirstFailure(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (report_.first_failure.ok()) {
      report_.first_failure = status;
    }
  }

  void NoteFailuresInARow(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!FailsEveryCall(status.code())) {
      failures_in_a_row_ = 0;
    } else if (++failures_in_a_row_ >= kHopelessFailures && !Stopped()) {
      report_.gave_up = true;
      NoteFirstFailure(status);
    }
  }

  void WaitForEnd() {
    // A signal handler can set a flag but not wake a thread: so look at it now and then.
    constexpr absl::Duration kLook = absl::Milliseconds(50);
    const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_in_flight_ == 0; };
    while (true) {
      {
        absl::MutexLock lock(&mutex_);
        if (mutex_.AwaitWithTimeout(absl::Condition(&idle), kLook)) {
          report_.stopped = Stopped();
          return;
        }
      }
      // Each time: a call that was being started may have missed the last one.
      if (Stopped()) {
        client_.CancelOutstanding();
      }
    }
  }

  Client& client_;
  const LoadOptions& options_;
  const Clock::time_point warm_;
  const Clock::time_point end_;
  Histogram latencies_;
  absl::Mutex mutex_;
  LoadReport report_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point last_answer_ ABSL_GUARDED_BY(mutex_);
  size_t next_source_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_started_ ABSL_GUARDED_BY(mutex_) = 0;  // counted calls only
  int num_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int failures_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<LoadReport> RunLoad(Client& client, const LoadOptions& options) {
  BW_RETURN_IF_ERROR(Validate(options));
  return Run(client, options).Execute();
}

}  // namespace beamwright::client
