// beamwright load-merge: one report of load tests that ran side by side, on several machines say.
//
// MergeRuns adds counts and rates (AddCounts), and the timelines second by second (AddTimeline).
// Percentiles do not add up: those of all runs together are computed from the sum of their
// histograms, which the JSON of a run holds whole. A run that does not count (INVALID) makes the
// merged one not count.
//
// Example: two clients at 500 calls/s each, of which one measured p99 of 8 ms and the other 12 ms.
// Together they are 1,000 calls/s; p99 is somewhere between, and only the two histograms say where.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/load_report.h"
#include "client/cli/output.pb.h"
#include "client/load/histogram.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

void AddCounts(const LoadTestReport& run, LoadTestReport& merged) {
  merged.set_concurrency(merged.concurrency() + run.concurrency());
  merged.set_connections(merged.connections() + run.connections());
  merged.set_rate(merged.rate() + run.rate());
  merged.set_answered_calls(merged.answered_calls() + run.answered_calls());
  merged.set_decoded_sources(merged.decoded_sources() + run.decoded_sources());
  merged.set_good_calls(merged.good_calls() + run.good_calls());
  merged.set_skipped_calls(merged.skipped_calls() + run.skipped_calls());
  merged.set_cancelled_calls(merged.cancelled_calls() + run.cancelled_calls());
  merged.set_checked_answers(merged.checked_answers() + run.checked_answers());
  merged.set_wrong_answers(merged.wrong_answers() + run.wrong_answers());
  merged.set_calls_per_second(merged.calls_per_second() + run.calls_per_second());
  merged.set_good_calls_per_second(merged.good_calls_per_second() + run.good_calls_per_second());
  merged.set_sources_per_second(merged.sources_per_second() + run.sources_per_second());
  merged.set_tokens_per_second(merged.tokens_per_second() + run.tokens_per_second());
  merged.set_client_cpus(merged.client_cpus() + run.client_cpus());
  merged.set_elapsed_seconds(std::max(merged.elapsed_seconds(), run.elapsed_seconds()));
  merged.set_replay(merged.replay() || run.replay());
  merged.set_stopped(merged.stopped() || run.stopped());
  merged.set_gave_up(merged.gave_up() || run.gave_up());
  for (const auto& [code, count] : run.failed_calls()) {
    (*merged.mutable_failed_calls())[code] += count;
  }
  for (const auto& [code, count] : run.failed_sources()) {
    (*merged.mutable_failed_sources())[code] += count;
  }
  if (merged.first_failure().empty()) {
    merged.set_first_failure(run.first_failure());
  }
}

void AddTimeline(const LoadTestReport& run, LoadTestReport& merged) {
  for (int i = 0; i < run.timeline_size(); ++i) {
    if (i == merged.timeline_size()) {
      LoadTestInterval& added = *merged.add_timeline();
      added.set_begin_seconds(run.timeline(i).begin_seconds());
      added.set_length_seconds(run.timeline(i).length_seconds());
    }
    LoadTestInterval& part = *merged.mutable_timeline(i);
    part.set_answered_calls(part.answered_calls() + run.timeline(i).answered_calls());
    part.set_failed_calls(part.failed_calls() + run.timeline(i).failed_calls());
  }
}

int64_t Failed(const LoadTestReport& run) {
  int64_t failed = 0;
  for (const auto& [code, count] : run.failed_calls()) {
    failed += count;
  }
  return failed;
}

// Counts and rates added up; latency out of the histograms together, the timeline second by second
// without percentiles, which do not add up. `names` are the runs' for errors. InvalidArgument: a
// run without a histogram, or with one of other buckets.
absl::StatusOr<LoadTestReport> MergeRuns(const std::vector<LoadTestReport>& runs,
                                         const std::vector<std::string>& names) {
  LoadTestReport merged;
  Histogram latency;
  std::set<std::string> models, invalid;
  double sent = 0, missed = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const LoadTestReport& run = runs[i];
    AddCounts(run, merged);
    AddTimeline(run, merged);
    auto counts = DecodeHdr(run.latency_hdr());
    BW_RETURN_IF_ERROR(
        Annotate(counts.status(), absl::StrCat(Printable(names[i]), ", latency_hdr")));
    const double max_ms = run.latency_ms().max();
    if (!latency.Add(*counts, absl::Milliseconds(max_ms) + absl::Nanoseconds(500))) {
      return Invalid(Printable(names[i]), ", latency_hdr: the histogram has other buckets");
    }
    if (!run.server().model().empty()) {
      models.insert(run.server().model());
    }
    if (!run.invalid().empty()) {
      invalid.insert(absl::StrCat(Printable(names[i]), ": ", run.invalid()));
    }
    const double here = (run.answered_calls() + static_cast<double>(Failed(run))) * run.batch();
    sent += here;
    missed += run.error_share() * here;
  }
  merged.set_batch(runs.front().batch());
  merged.set_protocol(runs.front().protocol());
  *merged.mutable_server() = runs.front().server();
  merged.mutable_server()->set_model(absl::StrJoin(models, ", "));
  merged.set_invalid(absl::StrJoin(invalid, "; "));
  merged.set_error_share(sent > 0 ? missed / sent : 0);
  merged.set_merged_runs(static_cast<int32_t>(runs.size()));
  SetLatency(latency, merged);
  return merged;
}

// The lines for people.
std::string MergedText(const LoadTestReport& merged) {
  const LatencyMs& ms = merged.latency_ms();
  std::string text = absl::StrFormat(
      "%d load tests together, %.1f s\n%s  %.1f sources/s, %.1f calls/s, %.1f tokens/s\n"
      "%s  p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, max %.3f ms\n"
      "         p99.9 %.3f ms, p99.99 %.3f ms, mean %.3f ms, deviation %.3f ms\n"
      "%s%s  %s calls answered, %s sources decoded, %s calls failed\n",
      merged.merged_runs(), merged.elapsed_seconds(), Bold("rate   "), merged.sources_per_second(),
      merged.calls_per_second(), merged.tokens_per_second(), Bold("latency"), ms.p50(), ms.p90(),
      ms.p99(), ms.max(), ms.p99_9(), ms.p99_99(), ms.mean(), ms.deviation(),
      UncertainText(merged.answered_calls()), Bold("counts "), WithCommas(merged.answered_calls()),
      WithCommas(merged.decoded_sources()), WithCommas(Failed(merged)));
  if (!merged.invalid().empty()) {
    absl::StrAppend(&text, Bold("INVALID"), "  ", merged.invalid(), "\n");
  }
  return text;
}

struct MergeFlags {
  std::vector<std::string> files;
  bool json = false;
  std::string report, histogram;
};

absl::StatusOr<LoadTestReport> MergeFiles(const std::vector<std::string>& files) {
  std::vector<LoadTestReport> runs;
  for (const std::string& file : files) {
    BW_ASSIGN_OR_RETURN(const LoadTestSweep sweep, ReadSweep(file));
    if (sweep.runs_size() != 1) {
      return Invalid(file, " has ", sweep.runs_size(), " loads; files of one load are merged");
    }
    runs.push_back(sweep.runs(0));
  }
  return MergeRuns(runs, files);
}

int Merge(const CLI::App& command, const MergeFlags& flags) {
  const auto merged = MergeFiles(flags.files);
  if (!merged.ok()) {
    return UsageError(command, merged.status().message());
  }
  std::cout << (flags.json ? ToJson(*merged, /*pretty=*/true) : MergedText(*merged));
  absl::Status status;
  if (!flags.histogram.empty()) {
    status = Annotate(WriteHistogram(flags.histogram, *merged), "--histogram");
  }
  if (status.ok() && !flags.report.empty()) {
    LoadTestSweep sweep;
    *sweep.add_runs() = *merged;
    const LoadPageHead head = {.server = merged->server().address(),
                               .model = merged->server().model(),
                               .setup = absl::StrCat(flags.files.size(), " load tests together"),
                               .time = merged->server().time()};
    status = Annotate(WriteFile(flags.report, LoadPage(head, sweep)), "--report");
  }
  return status.ok() ? kExitOk : Failure(command, status.message());
}

}  // namespace

Command AddLoadMergeCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "load-merge", "Add up load tests that ran at the same time, from their --json output.");
  auto flags = std::make_shared<MergeFlags>();
  app->add_option("FILE", flags->files, "What 'load-test --json' printed, one load each.")
      ->required()
      ->group("Input");
  app->add_flag("--json", flags->json, "Print the report as JSON.")->group("Output");
  app->add_option("--report", flags->report, "Write tables and charts as one HTML page.")
      ->type_name("FILE")
      ->group("Output");
  app->add_option("--histogram", flags->histogram,
                  "Write the distribution of latency as HdrHistogram's percentile text, or as its "
                  "log where the name ends in .hlog.")
      ->type_name("FILE")
      ->group("Output");
  app->footer(
      "Counts and histograms are added up, rates too: the loads must have run side by side.\n"
      "Percentiles are those of all calls together, never a mean of percentiles.\n"
      "Example:\n"
      "  beamwright load-merge one.json two.json --report both.html");
  return {app, [app, flags] { return Merge(*app, *flags); }};
}

}  // namespace beamwright::client
