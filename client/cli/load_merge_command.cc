// beamwright load-merge: one report of load tests that ran side by side, on several machines say.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/load_merge.h"
#include "client/cli/load_outputs.h"
#include "client/cli/load_page.h"
#include "client/cli/load_report.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

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
