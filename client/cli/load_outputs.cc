// The files that a load test writes and reads: CSV, one line a run; HdrHistogram's text of
// percentiles and its log (.hlog), for plots and tools of others; and JSON of an earlier run
// (ReadSweep), with which Comparison compares, run by run of the same rate and concurrency.
#include "client/cli/load_outputs.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/load_page.h"
#include "client/cli/terminal.h"
#include "google/protobuf/util/json_util.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

const LoadTestReport* SameLoad(const LoadTestSweep& base, const LoadTestReport& run) {
  const auto found =
      std::find_if(base.runs().begin(), base.runs().end(), [&](const LoadTestReport& each) {
        return each.rate() == run.rate() && each.concurrency() == run.concurrency();
      });
  return found == base.runs().end() ? nullptr : &*found;
}

std::string Change(double before, double now) {
  return before > 0 ? absl::StrFormat("%.4g -> %.4g (%+.1f %%)", before, now,
                                      100 * (now - before) / before)
                    : absl::StrFormat("%.4g -> %.4g", before, now);
}

}  // namespace

std::string LoadCsv(const LoadTestSweep& sweep) {
  std::string csv =
      "concurrency,rate,batch,elapsed_seconds,answered_calls,calls_per_second,good_calls_per_"
      "second,"
      "sources_per_second,tokens_per_second,p50_ms,p90_ms,p99_ms,p99_9_ms,p99_99_ms,max_ms,mean_ms,"
      "deviation_ms,error_share,skipped_calls,client_cpus,valid\n";
  for (const LoadTestReport& run : sweep.runs()) {
    const LatencyMs& ms = run.latency_ms();
    absl::StrAppendFormat(&csv, "%d,%g,%d,%.3f,%d,%.3f,%.3f,%.3f,%.3f,", run.concurrency(),
                          run.rate(), run.batch(), run.elapsed_seconds(), run.answered_calls(),
                          run.calls_per_second(), run.good_calls_per_second(),
                          run.sources_per_second(), run.tokens_per_second());
    absl::StrAppendFormat(&csv, "%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.6f,%d,%.3f,%s\n",
                          ms.p50(), ms.p90(), ms.p99(), ms.p99_9(), ms.p99_99(), ms.max(),
                          ms.mean(), ms.deviation(), run.error_share(), run.skipped_calls(),
                          run.client_cpus(), run.invalid().empty() ? "yes" : "no");
  }
  return csv;
}

std::string HdrPercentiles(const LoadTestReport& run) {
  std::string text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n";
  for (const CurvePoint& point : run.latency_curve()) {
    absl::StrAppendFormat(&text, "%12.3f %2.12f %10.0f", point.ms(), point.fraction(),
                          point.count());
    absl::StrAppend(&text, point.fraction() < 1
                               ? absl::StrFormat(" %14.2f\n", 1 / (1 - point.fraction()))
                               : "\n");
  }
  const double count = run.latency_curve().empty() ? 0 : run.latency_curve().rbegin()->count();
  absl::StrAppendFormat(&text, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
                        run.latency_ms().mean(), run.latency_ms().deviation());
  absl::StrAppendFormat(&text, "#[Max     = %12.3f, Total count    = %12.0f]\n",
                        run.latency_ms().max(), count);
  // Its own: buckets are doublings, each with 1,024 parts (client/load/histogram.h).
  return text + "#[Buckets =           22, SubBuckets     =         1024]\n";
}

absl::Status WriteHistogram(const std::string& path, const LoadTestReport& run) {
  if (!absl::EndsWith(path, ".hlog")) {
    return WriteFile(path, HdrPercentiles(run));
  }
  // Values are microseconds; the interval's greatest is in milliseconds.
  return WriteFile(
      path, absl::StrFormat("#[Histogram log format version 1.3]\n"
                            "#[MaxValueDivisor: 1000.0]\n"
                            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
                            "\"Interval_Compressed_Histogram\"\n"
                            "0.000,%.3f,%.3f,%s\n",
                            run.elapsed_seconds(), run.latency_ms().max(), run.latency_hdr()));
}

absl::StatusOr<LoadTestSweep> ReadSweep(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string json(std::istreambuf_iterator<char>(file), {});
  if (!file || json.empty()) {
    return Invalid("cannot read ", Printable(path));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of other versions
  LoadTestSweep sweep;
  LoadTestReport run;
  const auto as_sweep = google::protobuf::util::JsonStringToMessage(json, &sweep, options);
  if (as_sweep.ok() && !sweep.runs().empty()) {
    return sweep;
  }
  const auto as_run = google::protobuf::util::JsonStringToMessage(json, &run, options);
  if (!as_run.ok() || run.concurrency() <= 0) {
    return Invalid(Printable(path), " is not what 'beamwright load-test --json' prints",
                   as_run.ok() ? "" : absl::StrCat(": ", Printable(std::string(as_run.message()))));
  }
  LoadTestSweep one;
  *one.add_runs() = run;
  return one;
}

std::string Comparison(const LoadTestSweep& base, const LoadTestSweep& sweep) {
  std::string text = absl::StrCat(Bold("compared"), "\n");
  for (const LoadTestReport& run : sweep.runs()) {
    const LoadTestReport* before = SameLoad(base, run);
    if (before == nullptr) {
      absl::StrAppend(&text, "  ", LoadName(run), ": not in the base\n");
      continue;
    }
    absl::StrAppend(
        &text, "  ", LoadName(run), ": calls/s ",
        Change(before->calls_per_second(), run.calls_per_second()), ", p50 ms ",
        Change(before->latency_ms().p50(), run.latency_ms().p50()), ", p99 ms ",
        Change(before->latency_ms().p99(), run.latency_ms().p99()), ", errors ",
        absl::StrFormat("%.2f %% -> %.2f %%", 100 * before->error_share(), 100 * run.error_share()),
        run.invalid().empty() && before->invalid().empty() ? "" : ", INVALID", "\n");
  }
  return text;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : Invalid("cannot write ", Printable(path));
}

}  // namespace beamwright::client
