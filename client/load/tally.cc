#include "client/load/tally.h"

#include <algorithm>

#include "client/errors.h"

namespace beamwright::client {
namespace {

// The server says that it will not do this now: a cheap answer, and no fault.
bool IsRefusal(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable;
}

Percentiles Of(const Histogram& histogram) {
  return {histogram.Percentile(0.50), histogram.Percentile(0.90), histogram.Percentile(0.99),
          histogram.max()};
}

}  // namespace

Tally::Tally(Clock::time_point begin, absl::Duration good_within)
    : begin_(begin), good_within_(good_within), last_end_(begin) {}

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
  if (response.ok()) {
    ++report_.num_calls;
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

void Tally::FirstToken(Clock::time_point intended, Clock::time_point now) {
  first_token_.Record(absl::FromChrono(now - intended));
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
  absl::MutexLock lock(&mutex_);
  LoadReport report = report_;
  report.elapsed = absl::FromChrono(last_end_ - begin_);
  report.latency = Of(answered_);
  report.first_token = Of(first_token_);
  report.refused = Of(refused_);
  report.lag = Of(lag_);
  return report;
}

}  // namespace beamwright::client
