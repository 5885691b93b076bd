#include "client/load/load.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/load/tally.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

// Failures in a row, without an answer between them, after which there is nothing to measure. A
// server that is down fails calls as fast as they are made.
constexpr int kHopelessFailures = 1000;

// From this rate on, calls a second, an open loop sends and takes answers on one thread: at such
// rates, threads that wake each other for every call take as much time as the calls, time which a
// server on the same machine lacks. Below, a thread of its own sees each answer at once.
constexpr double kOneThreadRate = 5000;
// How long an answer may lie there meanwhile.
constexpr std::chrono::microseconds kLookForAnswers(100);

absl::Status Validate(const LoadOptions& options) {
  if (!options.mix.empty() && (options.stream || options.batch != 1 || !options.sources.empty())) {
    return Invalid("a mix has its own sources, one a call, and no streams");
  }
  if (options.sources.empty() && options.mix.empty()) {
    return Invalid("there are no sources to send");
  }
  if (options.batch < 1) {
    return Invalid("batch is ", options.batch, "; at least 1 is allowed");
  }
  if (options.concurrency < 1 || options.concurrency > kMaxConcurrency) {
    return Invalid("concurrency is ", options.concurrency, "; 1 to ", kMaxConcurrency,
                   " are allowed");
  }
  // The negation: NaN is refused too.
  if (!(options.rate >= 0 && options.rate <= kMaxRate)) {
    return Invalid("rate is ", options.rate, "; 0 to ", kMaxRate, " calls a second are allowed");
  }
  if (options.stream &&
      (options.rate > 0 || options.batch > 1 || options.concurrency > kMaxStreams)) {
    return Invalid("streams have one source each, no rate, and a concurrency of at most ",
                   kMaxStreams);
  }
  if (options.good_within < absl::ZeroDuration()) {
    return Invalid("good_within is ", absl::FormatDuration(options.good_within),
                   "; at least 0 is allowed");
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

using Clock = Tally::Clock;

std::string HypothesisWords(const v1::Hypothesis& hypothesis) {
  return hypothesis.text().empty() ? absl::StrCat("ids ", absl::StrJoin(hypothesis.tokens(), " "))
                                   : hypothesis.text();
}

class Run {
 public:
  Run(Client& client, const LoadOptions& options)
      : client_(client),
        options_(options),
        begin_(Clock::now()),
        warm_(begin_ + absl::ToChronoNanoseconds(options.warmup)),
        end_(warm_ + absl::ToChronoNanoseconds(options.duration)),
        tally_(warm_, options.good_within, LoadIntervalOf(options.duration)) {
    if (options.rate >= kOneThreadRate) {
      answers_.emplace(client);
    }
  }

  LoadReport Execute() {
    const double cpu_before = ProcessCpuSeconds();
    absl::Notification over;
    std::thread progress;
    if (options_.on_progress) {
      progress = std::thread([&] { TellProgress(over); });
    }
    Send();
    WaitForEnd();
    over.Notify();
    if (progress.joinable()) {
      progress.join();
    }
    LoadReport report = tally_.Report();
    report.cpu_time = absl::Seconds(ProcessCpuSeconds() - cpu_before);
    report.wall_time = absl::FromChrono(Clock::now() - begin_);
    absl::MutexLock lock(&mutex_);
    report.gave_up = gave_up_;
    report.stopped = Stopped();
    return report;
  }

 private:
  void TellProgress(absl::Notification& over) {
    while (!over.WaitForNotificationWithTimeout(kTell)) {
      const auto left = absl::FromChrono(end_ - Clock::now());
      options_.on_progress(tally_.Report(), std::max(absl::ZeroDuration(), left));
    }
  }

  void Send() {
    if (options_.stream) {
      RunStreams();
    } else if (options_.rate > 0) {
      SendOnSchedule();
    } else {
      for (int i = 0; i < options_.concurrency; ++i) {
        StartNext();
      }
    }
  }

  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  bool Over(Clock::time_point due) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return due >= end_ || Stopped() || gave_up_ ||
           (options_.max_calls > 0 && num_started_ >= options_.max_calls);
  }

  // Open loop, on this thread: each call when it is due, whatever became of those before.
  void SendOnSchedule() {
    ArrivalTimes arrivals(options_.arrivals, options_.rate, options_.seed);
    Clock::time_point due;
    do {
      due = begin_ + absl::ToChronoNanoseconds(arrivals.Next());
      SleepUntil(std::min(due, end_));
    } while (Start(due));
  }

  void SleepUntil(Clock::time_point time) {
    const std::chrono::microseconds look = answers_ ? kLookForAnswers : kLook;
    do {
      TakeAnswers();
      std::this_thread::sleep_until(std::min(time, Clock::now() + look));
    } while (!Stopped() && Clock::now() < time);
  }

  // Those that are there, if that is this thread's to do.
  void TakeAnswers() {
    while (answers_ && answers_->RunOne(absl::InfinitePast())) {
    }
  }

  // Closed loop. Called on this thread and by callbacks.
  void StartNext() { Start(Clock::now()); }

  // As many streams as are wanted at the same time, one after another on each thread.
  void RunStreams() {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.concurrency; ++i) {
      threads.emplace_back([this] {
        while (RunStream()) {
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  // False: the run is over.
  bool RunStream() {
    const Clock::time_point due = Clock::now();
    const bool counted = due >= warm_;
    v1::StreamDecodeRequest request;
    request.set_model(options_.request.model());
    request.set_version(options_.request.version());
    *request.mutable_options() = options_.request.options();
    {
      absl::MutexLock lock(&mutex_);
      if (Over(due)) {
        return false;
      }
      num_started_ += counted ? 1 : 0;
      *request.mutable_source() = options_.sources[next_source_];
      next_source_ = (next_source_ + 1) % options_.sources.size();
    }
    if (counted) {
      tally_.Sent(due, due);
    }
    bool has_token = false;
    v1::DecodeResponse answer;
    const absl::Status status = client_.StreamDecode(
        request, absl::Now() + options_.timeout, [&](const v1::StreamDecodeResponse& message) {
          if (!has_token && message.stable_size() > 0) {
            has_token = true;
            if (counted) {
              tally_.FirstToken(due, Clock::now());
            }
          }
          if (message.has_decoded()) {
            *answer.add_results()->mutable_decoded() = message.decoded();
          }
          return !Stopped();
        });
    Count(due, counted,
          status.ok() ? absl::StatusOr<v1::DecodeResponse>(std::move(answer)) : status);
    return true;
  }

  // Starts the call that is due at this time, or skips it. False: the run is over.
  bool Start(Clock::time_point due) {
    const bool counted = due >= warm_;
    v1::DecodeRequest request = options_.request;
    const MixedCall* mixed = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (Over(due)) {
        return false;
      }
      if (options_.rate > 0 && num_in_flight_ >= options_.concurrency) {
        if (counted) {
          tally_.Skipped();
        }
        return true;
      }
      num_started_ += counted ? 1 : 0;
      ++num_in_flight_;
      request.clear_sources();
      if (!options_.mix.empty()) {
        mixed = &options_.mix[next_source_];
        next_source_ = (next_source_ + 1) % options_.mix.size();
      }
      for (int i = 0; mixed == nullptr && i < options_.batch; ++i) {
        *request.add_sources() = options_.sources[next_source_];
        next_source_ = (next_source_ + 1) % options_.sources.size();
      }
    }
    if (counted) {
      tally_.Sent(due, options_.rate > 0 ? Clock::now() : due);
    }
    absl::Duration timeout = options_.timeout;
    if (mixed != nullptr) {
      *request.add_sources() = mixed->source;
      request.mutable_options()->MergeFrom(mixed->options);
      timeout = mixed->timeout > absl::ZeroDuration() ? mixed->timeout : timeout;
    }
    client_.DecodeAsync(
        std::move(request), absl::Now() + timeout,
        [this, due, counted, mixed](const absl::StatusOr<v1::DecodeResponse>& response) {
          if (counted && mixed != nullptr) {
            Check(*mixed, response);
          }
          Finish(due, counted, response);
        },
        mixed == nullptr ? 0 : mixed->priority);
    return true;
  }

  void Check(const MixedCall& call, const absl::StatusOr<v1::DecodeResponse>& response) {
    const v1::Hypothesis& expected = call.expected;
    const bool by_tokens = !expected.tokens().empty();
    if ((!by_tokens && expected.text().empty()) || !response.ok() ||
        response->results_size() != 1 || !response->results(0).has_decoded()) {
      return;
    }
    const v1::Decoded& decoded = response->results(0).decoded();
    const v1::Hypothesis best =
        decoded.hypotheses().empty() ? v1::Hypothesis() : decoded.hypotheses(0);
    const bool right = by_tokens ? std::equal(best.tokens().begin(), best.tokens().end(),
                                              expected.tokens().begin(), expected.tokens().end())
                                 : best.text() == expected.text();
    tally_.Checked(right ? ""
                         : absl::StrCat("source \"", call.source.text(), "\": expected \"",
                                        HypothesisWords(expected), "\", got \"",
                                        HypothesisWords(best), "\""));
  }

  void Count(Clock::time_point due, bool counted,
             const absl::StatusOr<v1::DecodeResponse>& response) {
    const Clock::time_point now = Clock::now();
    const bool cancelled_by_us =
        Stopped() && response.status().code() == absl::StatusCode::kCancelled;
    if (counted && !cancelled_by_us) {
      tally_.Ended(due, now, response);
    }
    NoteFailuresInARow(response.status());
  }

  void Finish(Clock::time_point due, bool counted,
              const absl::StatusOr<v1::DecodeResponse>& response) {
    Count(due, counted, response);
    if (options_.rate == 0) {
      StartNext();
    }
    // Last: afterwards the run may be over and gone.
    absl::MutexLock lock(&mutex_);
    --num_in_flight_;
  }

  void NoteFailuresInARow(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (!FailsEveryCall(status)) {
      failures_in_a_row_ = 0;
    } else if (++failures_in_a_row_ >= kHopelessFailures && !Stopped()) {
      gave_up_ = true;
      tally_.NoteFailure(status);
    }
  }

  void WaitForEnd() {
    const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_in_flight_ == 0; };
    while (true) {
      if (answers_) {
        answers_->RunOne(absl::Now() + absl::FromChrono(kLook));
      }
      {
        absl::MutexLock lock(&mutex_);
        const auto wait = answers_ ? absl::ZeroDuration() : absl::FromChrono(kLook);
        if (mutex_.AwaitWithTimeout(absl::Condition(&idle), wait)) {
          return;
        }
      }
      // Each time: a call that was being started may have missed the last one.
      if (Stopped()) {
        client_.CancelOutstanding();
      }
    }
  }

  // A signal handler can set a flag but not wake a thread: so look at it now and then.
  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr absl::Duration kTell = absl::Milliseconds(500);

  Client& client_;
  const LoadOptions& options_;
  const Clock::time_point begin_;
  const Clock::time_point warm_;
  const Clock::time_point end_;
  Tally tally_;
  absl::Mutex mutex_;
  size_t next_source_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_started_ ABSL_GUARDED_BY(mutex_) = 0;  // counted calls only
  int num_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int failures_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<CallbackLoop> answers_;  // at high rates
};

}  // namespace

int64_t NumFailed(const LoadReport& report) {
  int64_t failed = 0;
  for (const auto& [code, count] : report.failed_calls) {
    failed += count;
  }
  return failed;
}

double ClientCpus(const LoadReport& report) {
  return report.wall_time > absl::ZeroDuration()
             ? absl::FDivDuration(report.cpu_time, report.wall_time)
             : 0;
}

absl::Duration LoadIntervalOf(absl::Duration duration) {
  return std::max(absl::Seconds(1), absl::Ceil(duration / 600, absl::Seconds(1)));
}

absl::StatusOr<LoadReport> RunLoad(Client& client, const LoadOptions& options) {
  BW_RETURN_IF_ERROR(Validate(options));
  return Run(client, options).Execute();
}

}  // namespace beamwright::client
