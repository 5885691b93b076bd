// Counts the calls of a load test, from many threads: latencies from the time when a call was due,
// failures by code, tokens, and a timeline of intervals. Histograms are lock-free; the counters are
// under a lock.
//
// Latency counts from the intended time, not from when the call was sent: a client that waits for a
// slow server would otherwise measure only the calls that it got to send (coordinated omission).
// Calls that the server refuses are kept in a separate histogram, as a refusal is fast. Report
// computes percentiles without the lock, so that no call waits for them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/load/histogram.h"
#include "client/load/load.h"
#include "include/beamwright/client.h"

namespace beamwright::client {
namespace {

// Whether the server refuses a call for now: a cheap answer, and no fault.
bool IsRefusal(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable;
}

// Bounds of the report. Runs end when their calls have ended, which may be long after the last one
// was due.
constexpr size_t kMostModels = 8;
constexpr size_t kMaxTimeline = 10'000;

void CountOver(const std::vector<absl::Duration>& limits, absl::Duration took,
               std::vector<int64_t>& counts) {
  for (size_t i = 0; i < limits.size(); ++i) {
    counts[i] += took > limits[i] ? 1 : 0;
  }
}

}  // namespace

Percentiles PercentilesOf(const Histogram& histogram) {
  return {histogram.Percentile(0.50),
          histogram.Percentile(0.90),
          histogram.Percentile(0.99),
          histogram.max(),
          histogram.Percentile(0.999),
          histogram.Percentile(0.9999),
          histogram.Mean(),
          histogram.StandardDeviation()};
}

Tally::Tally(Clock::time_point begin, const LoadOptions& options)
    : begin_(begin),
      good_within_(options.good_within),
      interval_(LoadIntervalOf(options.duration)),
      limits_(options.limits),
      first_limits_(options.first_limits),
      last_end_(begin) {}

void Tally::SetPercentiles(LoadInterval& part) const {
  part.p50 = interval_latency_.Percentile(0.50);
  part.p99 = interval_latency_.Percentile(0.99);
}

LoadInterval& Tally::IntervalAt(Clock::time_point now) {
  std::vector<LoadInterval>& timeline = report_.timeline;
  const absl::Duration since = std::max(absl::ZeroDuration(), absl::FromChrono(now - begin_));
  const auto part = std::min(static_cast<size_t>(since / interval_), kMaxTimeline - 1);
  while (timeline.size() <= part) {
    if (!timeline.empty()) {
      SetPercentiles(timeline.back());
    }
    interval_latency_.Reset();
    LoadInterval& added = timeline.emplace_back();
    added.begin = static_cast<double>(timeline.size() - 1) * interval_;
    added.length = interval_;
    added.num_over.resize(limits_.size());
    added.num_first_over.resize(first_limits_.size());
  }
  return timeline.back();  // threads may end calls in another order than their times
}

void Tally::Sent(Clock::time_point intended, Clock::time_point sent) {
  lag_.Record(absl::FromChrono(sent - intended));
}

void Tally::Skipped() {
  absl::MutexLock lock(&mutex_);
  ++report_.num_skipped;
}

void Tally::Ended(Clock::time_point intended, Clock::time_point now,
                  const absl::StatusOr<v1::DecodeResponse>& response) {
  const absl::Duration latency = absl::FromChrono(now - intended);
  absl::MutexLock lock(&mutex_);
  last_end_ = std::max(last_end_, now);
  LoadInterval& part = IntervalAt(now);
  ++(response.ok() ? part.num_calls : part.num_failed);
  CountOver(limits_, response.ok() ? latency : absl::InfiniteDuration(), part.num_over);
  if (response.ok()) {
    interval_latency_.Record(latency);
  }
  if (response.ok()) {
    ++report_.num_calls;
    if (report_.models.size() < kMostModels && !response->model().empty()) {
      report_.models.insert(absl::StrCat(
          response->model(), response->version().empty() ? "" : " ", response->version(),
          response->numerics().empty() ? "" : absl::StrCat(" (", response->numerics(), ")")));
    }
    CountResults(*response, latency);
    return;
  }
  ++report_.failed_calls[response.status().code()];
  if (const auto sources = SourceErrorsOf(response.status()); sources.has_value()) {
    for (const v1::CodeCount& count : sources->counts()) {
      report_.failed_sources[static_cast<absl::StatusCode>(count.code())] += count.sources();
    }
  }
  NoteFailureLocked(response.status());
  if (IsRefusal(response.status().code())) {
    refused_.Record(latency);
  }
}

void Tally::Cancelled(Clock::time_point now) {
  absl::MutexLock lock(&mutex_);
  last_end_ = std::max(last_end_, now);
  ++report_.num_cancelled;
}

void Tally::FirstToken(Clock::time_point intended, Clock::time_point now) {
  const absl::Duration took = absl::FromChrono(now - intended);
  first_token_.Record(took);
  absl::MutexLock lock(&mutex_);
  CountOver(first_limits_, took, IntervalAt(now).num_first_over);
}

void Tally::CountResults(const v1::DecodeResponse& response, absl::Duration latency) {
  int num_decoded = 0;
  bool refused = false;
  for (const v1::Result& result : response.results()) {
    if (const absl::Status status = ResultStatus(result); !status.ok()) {
      ++report_.failed_sources[status.code()];
      NoteFailureLocked(status);
      refused = refused || IsRefusal(status.code());
      continue;
    }
    ++num_decoded;
    if (result.decoded().hypotheses_size() > 0) {
      report_.num_tokens += result.decoded().hypotheses(0).tokens_size();
    }
  }
  report_.num_sources += num_decoded;
  if (num_decoded > 0) {
    answered_.Record(latency);
  } else if (refused) {
    refused_.Record(latency);
  }
  const bool good = num_decoded == response.results_size() && latency <= good_within_;
  report_.num_good += good ? 1 : 0;
}

void Tally::Checked(const std::string& wrong) {
  absl::MutexLock lock(&mutex_);
  ++report_.num_checked;
  if (!wrong.empty() && ++report_.num_wrong == 1) {
    report_.first_wrong = wrong;
  }
}

void Tally::NoteFailure(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  NoteFailureLocked(status);
}

void Tally::NoteFailureLocked(const absl::Status& status) {
  if (report_.first_failure.ok()) {
    report_.first_failure = status;
  }
}

LoadReport Tally::Report() const {
  LoadReport report;
  {
    absl::MutexLock lock(&mutex_);
    report = report_;
    report.elapsed = absl::FromChrono(last_end_ - begin_);
    if (!report.timeline.empty()) {
      SetPercentiles(report.timeline.back());
    }
  }
  // Without the lock: percentiles take a millisecond, for which no call should wait.
  report.latency = PercentilesOf(answered_);
  report.latency_curve = answered_.Curve();
  report.latency_hdr = EncodeHdr(answered_.Counts());
  report.first_token = PercentilesOf(first_token_);
  report.refused = PercentilesOf(refused_);
  report.lag = PercentilesOf(lag_);
  return report;
}

}  // namespace beamwright::client
