// How the load generator sends calls and counts them. A Run is one load; its Tally (tally.cc) holds
// the figures.
//
// 1. Send: a closed loop starts `concurrency` calls, and each answer starts the next (Finish,
//    StartNext). An open loop sends on this thread when calls are due: by ArrivalTimes
//    (SendOnSchedule) or by the times of a mix (Replay). A call that is due while `concurrency`
//    calls are in flight is skipped, and counted as skipped.
// 2. Start: the next source or line of the mix (Choose), its settings (Fill), and the call. Calls
//    that are due before the warm-up ends are made and not counted.
// 3. Finish, on a thread of the target: the answer goes into the tally with the time since the call
//    was due. In an open loop that includes the time by which it was sent late: a slow server
//    cannot hide by slowing its clients down (coordinated omission).
// 4. WaitForEnd: until no call is in flight. The run also ends after kHopelessFailures failures in
//    a row, and by `stop`.
//
// At rates from kOneThreadRate on, one thread both sends and takes answers (loops_), since threads
// that wake each other for each call would take the CPU time that a server on the same machine
// needs.
#include "client/load/load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"

namespace beamwright::client {

ArrivalTimes::ArrivalTimes(Arrivals kind, double rate, uint64_t seed)
    : kind_(kind), rate_(rate), random_(seed) {}

absl::Duration ArrivalTimes::Next() {
  if (kind_ == Arrivals::kEven) {
    // Counted, not added up: a thousand million gaps add up to rounding errors as well.
    return absl::Seconds(static_cast<double>(++count_) / rate_);
  }
  // Our own inversion: the standard's distributions differ between libraries.
  const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;  // below 1
  seconds_ -= std::log1p(-uniform) / rate_;
  return absl::Seconds(seconds_);
}

namespace {

// Failures in a row, without an answer between them, after which the run gives up. A server that is
// down fails calls as fast as they are made.
constexpr int kHopelessFailures = 1000;

// From this rate on, calls a second, an open loop sends and takes answers on one thread: at such
// rates, threads that wake each other for every call take as much time as the calls, time which a
// server on the same machine lacks. Below, a separate thread sees each answer at once.
constexpr double kOneThreadRate = 5000;
// How long an answer may wait for that thread.
constexpr std::chrono::microseconds kLookForAnswers(100);

absl::Status ValidateMix(const LoadOptions& options) {
  if (!options.mix.empty() && (options.batch != 1 || !options.sources.empty())) {
    return Invalid("a mix has its own sources, one a call");
  }
  if (options.sources.empty() && options.mix.empty()) {
    return Invalid("there are no sources to send");
  }
  if (options.replay && (options.mix.empty() || options.rate > 0)) {
    return Invalid("a replay takes its calls and their times from a mix, and no rate");
  }
  if (options.replay && !(options.speed > 0 && options.speed <= kMaxRate)) {
    return Invalid("speed is ", options.speed, "; above 0 is allowed");
  }
  if (!(options.cancel_share >= 0 && options.cancel_share <= 1)) {
    return Invalid("cancel_share is ", options.cancel_share, "; 0 to 1 are allowed");
  }
  return absl::OkStatus();
}

absl::Status Validate(const LoadOptions& options, const LoadTarget& target) {
  BW_RETURN_IF_ERROR(ValidateMix(options));
  if (options.batch < 1) {
    return Invalid("batch is ", options.batch, "; at least 1 is allowed");
  }
  if (options.concurrency < 1 || options.concurrency > target.most_in_flight()) {
    return Invalid("concurrency is ", options.concurrency, "; 1 to ", target.most_in_flight(),
                   " are allowed");
  }
  // The negation: NaN is refused too.
  if (!(options.rate >= 0 && options.rate <= kMaxRate)) {
    return Invalid("rate is ", options.rate, "; 0 to ", kMaxRate, " calls a second are allowed");
  }
  if (options.stream && options.batch > 1) {
    return Invalid("streams have one source each");
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
  Run(LoadTarget& target, const LoadOptions& options)
      : target_(target),
        options_(options),
        begin_(Clock::now()),
        warm_(begin_ + absl::ToChronoNanoseconds(options.warmup)),
        end_(warm_ + absl::ToChronoNanoseconds(options.duration)),
        tally_(warm_, options),
        chance_(options.seed) {
    loops_ = options.rate >= kOneThreadRate && target.SetLoop(true);
  }
  ~Run() {
    if (loops_) {
      target_.SetLoop(false);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

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

  bool open() const { return options_.rate > 0 || options_.replay; }

  void Send() {
    if (options_.replay) {
      Replay();
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

  // Open loop, on this thread: sends each call when it is due, whether earlier calls have ended or
  // not.
  void SendOnSchedule() {
    ArrivalTimes arrivals(options_.arrivals, options_.rate, options_.seed);
    Clock::time_point due;
    do {
      due = begin_ + absl::ToChronoNanoseconds(arrivals.Next());
      SleepUntil(std::min(due, end_));
    } while (Start(due));
  }

  void Replay() {
    for (const MixedCall& call : options_.mix) {
      const Clock::time_point due = begin_ + absl::ToChronoNanoseconds(call.at / options_.speed);
      SleepUntil(std::min(due, end_));
      if (!Start(due)) {
        return;
      }
    }
  }

  void SleepUntil(Clock::time_point time) {
    const std::chrono::microseconds look = loops_ ? kLookForAnswers : kLook;
    do {
      TakeAnswers();
      std::this_thread::sleep_until(std::min(time, Clock::now() + look));
    } while (!Stopped() && Clock::now() < time);
  }

  // Runs the callbacks of answers that have arrived, if this thread is to do that.
  void TakeAnswers() {
    while (loops_ && target_.RunOne(absl::InfinitePast())) {
    }
  }

  // Closed loop. Called on this thread and by callbacks.
  void StartNext() { Start(Clock::now()); }

  // Starts the call that is due at this time, or skips it. False: the run is over.
  bool Start(Clock::time_point due) {
    const bool counted = due >= warm_;
    LoadCall call;
    call.request = options_.request;
    call.request.clear_sources();
    const MixedCall* mixed = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (Over(due)) {
        return false;
      }
      if (open() && num_in_flight_ >= options_.concurrency) {
        if (counted) {
          tally_.Skipped();
        }
        if (options_.replay) {
          ++next_source_;
        }
        return true;
      }
      num_started_ += counted ? 1 : 0;
      ++num_in_flight_;
      mixed = Choose(call);
    }
    if (counted) {
      tally_.Sent(due, open() ? Clock::now() : due);
    }
    Fill(mixed, call);
    if (call.stream && counted) {
      call.on_first = [this, due] { tally_.FirstToken(due, Clock::now()); };
    }
    const bool cancels = call.settings.cancel_after != absl::InfiniteDuration();
    target_.Send(std::move(call), [this, due, counted, mixed,
                                   cancels](const absl::StatusOr<v1::DecodeResponse>& response) {
      if (counted && mixed != nullptr) {
        Check(*mixed, response);
      }
      Finish(due, counted, cancels, response);
    });
    return true;
  }

  // Adds the sources of the next call, and by chance makes it a cancelled one. Returns the line of
  // the mix; null without a mix.
  const MixedCall* Choose(LoadCall& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.cancel_share > 0 &&
        static_cast<double>(chance_() >> 11) * 0x1p-53 < options_.cancel_share) {
      call.settings.cancel_after = options_.cancel_after;
    }
    if (!options_.mix.empty()) {
      const MixedCall* const mixed = &options_.mix[next_source_];
      next_source_ = (next_source_ + 1) % options_.mix.size();
      return mixed;
    }
    for (int i = 0; i < options_.batch; ++i) {
      *call.request.add_sources() = options_.sources[next_source_];
      next_source_ = (next_source_ + 1) % options_.sources.size();
    }
    return nullptr;
  }

  void Fill(const MixedCall* mixed, LoadCall& call) const {
    call.timeout = options_.timeout;
    call.stream = options_.stream;
    call.on_first = [] {};
    if (mixed == nullptr) {
      return;
    }
    const absl::Duration by_chance = call.settings.cancel_after;
    call.settings = mixed->settings;
    call.settings.cancel_after = std::min(call.settings.cancel_after, by_chance);
    call.infer = mixed->infer.get();
    *call.request.add_sources() = mixed->source;
    call.request.mutable_options()->MergeFrom(mixed->options);
    if (mixed->timeout > absl::ZeroDuration()) {
      call.timeout = mixed->timeout;
    }
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

  void Finish(Clock::time_point due, bool counted, bool cancels,
              const absl::StatusOr<v1::DecodeResponse>& response) {
    const Clock::time_point now = Clock::now();
    const bool cancelled = response.status().code() == absl::StatusCode::kCancelled;
    if (cancelled && cancels && !Stopped()) {
      if (counted) {
        tally_.Cancelled(now);
      }
    } else {
      if (counted && !(cancelled && Stopped())) {
        tally_.Ended(due, now, response);
      }
      NoteFailuresInARow(response.status());
    }
    if (!open()) {
      StartNext();
    }
    // Last: the Run may be destroyed once no call is in flight.
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
      if (loops_) {
        target_.RunOne(absl::Now() + absl::FromChrono(kLook));
      }
      {
        absl::MutexLock lock(&mutex_);
        const auto wait = loops_ ? absl::ZeroDuration() : absl::FromChrono(kLook);
        if (mutex_.AwaitWithTimeout(absl::Condition(&idle), wait)) {
          return;
        }
      }
      // Each time: a call that was being started may have missed the last cancellation.
      if (Stopped()) {
        target_.CancelOutstanding();
      }
    }
  }

  // A signal handler can set a flag but not wake a thread: so look at it now and then.
  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr absl::Duration kTell = absl::Milliseconds(500);

  LoadTarget& target_;
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
  std::mt19937_64 chance_ ABSL_GUARDED_BY(mutex_);
  bool loops_ = false;  // at high rates: answers are taken on the thread that sends
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

absl::StatusOr<LoadReport> RunLoad(LoadTarget& target, const LoadOptions& options) {
  BW_RETURN_IF_ERROR(Validate(options, target));
  return Run(target, options).Execute();
}

absl::StatusOr<LoadReport> RunLoad(Client& client, const LoadOptions& options) {
  return RunLoad(*MakeNativeTarget(client), options);
}

// Sending a load until its figures are steady (load.h).

namespace {

constexpr size_t kSteadyParts = 5;
constexpr double kSteadyWithin = 0.1;
constexpr absl::Duration kLongestWarmUp = absl::Minutes(1);

}  // namespace

std::string WhyUnsteady(const std::vector<LoadInterval>& parts) {
  if (parts.size() < kSteadyParts + 1) {  // the last one is not over
    return "there were too few seconds with calls";
  }
  const auto end = parts.end() - 1;
  const auto begin = end - kSteadyParts;
  double calls = 0, p50 = 0;
  for (auto part = begin; part != end; ++part) {
    calls += static_cast<double>(part->num_calls) / kSteadyParts;
    p50 += absl::ToDoubleMilliseconds(part->p50) / kSteadyParts;
  }
  // What chance does to this number of arrivals, and about twice as much to the median of their
  // waits.
  const double by_chance = 3 / std::sqrt(std::max(1.0, calls));
  for (auto part = begin; part != end; ++part) {
    const double here = absl::ToDoubleMilliseconds(part->p50);
    if (std::abs(static_cast<double>(part->num_calls) - calls) >
        std::max(kSteadyWithin, by_chance) * calls) {
      return absl::StrFormat("in one second %d calls were answered, in five %.0f on average",
                             part->num_calls, calls);
    }
    if (std::abs(here - p50) > std::max(kSteadyWithin, 2 * by_chance) * p50) {
      return absl::StrFormat("in one second the median was %.3f ms, in five %.3f ms on average",
                             here, p50);
    }
  }
  return "";
}

absl::StatusOr<std::string> WarmUpUntilSteady(LoadTarget& target, const LoadOptions& options) {
  std::atomic<bool> stop{false};
  LoadOptions load = options;
  load.warmup = absl::ZeroDuration();
  load.duration = kLongestWarmUp;
  load.max_calls = 0;
  load.stop = &stop;
  std::string why = "there were too few seconds with calls";
  load.on_progress = [&](const LoadReport& report, absl::Duration left) {
    why = WhyUnsteady(report.timeline);
    if (options.on_progress) {
      options.on_progress(LoadReport(), left);
    }
    if (why.empty() || (options.stop != nullptr && options.stop->load())) {
      stop = true;
    }
  };
  BW_RETURN_IF_ERROR(RunLoad(target, load).status());
  return why;
}

}  // namespace beamwright::client
