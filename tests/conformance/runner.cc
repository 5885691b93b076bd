// conformance_runner SUITE [--skips=FILE] [--shard=I/N] [--covers-registry] [NAME...]
//
// Runs every case of a suite (tests/conformance/suite.h), or those whose names contain one of the
// NAMEs, and prints a line for each. Exit code 0 if all is as it should be: every case passes, or
// is on the skip list and fails without a crash; every line of the skip list is needed; and, with
// --covers-registry, every operator has a case or is listed as uncovered. 77, by which ctest knows
// a skipped test, if there is no such suite.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "tests/conformance/suite.h"
#include "tests/conformance/worker.h"

namespace beamwright::ops {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNoSuite = 77;
constexpr unsigned kLimitSeconds = 120;

struct Arguments {
  std::string suite;
  std::string skips;
  size_t shard = 0;
  size_t num_shards = 1;
  bool covers_registry = false;
  std::vector<std::string> names;
};

bool ParseArguments(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    if (absl::ConsumePrefix(&text, "--skips=")) {
      arguments.skips = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--shard=")) {
      const std::vector<std::string> parts = absl::StrSplit(text, '/');
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &arguments.shard) ||
          !absl::SimpleAtoi(parts[1], &arguments.num_shards) ||
          arguments.shard >= arguments.num_shards) {
        return false;
      }
    } else if (text == "--covers-registry") {
      arguments.covers_registry = true;
    } else if (absl::StartsWith(text, "-")) {
      return false;
    } else if (arguments.suite.empty()) {
      arguments.suite = std::string(text);
    } else {
      arguments.names.emplace_back(text);
    }
  }
  return !arguments.suite.empty();
}

std::vector<Case> Select(const std::vector<Case>& cases, const Arguments& arguments) {
  std::vector<Case> selected;
  for (size_t i = arguments.shard; i < cases.size(); i += arguments.num_shards) {
    const auto named = [&](const std::string& name) {
      return absl::StrContains(cases[i].name, name);
    };
    if (arguments.names.empty() ||
        std::any_of(arguments.names.begin(), arguments.names.end(), named)) {
      selected.push_back(cases[i]);
    }
  }
  return selected;
}

struct Counts {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
};

void Report(const Case& test, const Outcome& outcome, const std::string& skip_reason,
            Counts& counts) {
  const bool passed = outcome.error.empty();
  if (skip_reason.empty() ? passed : !passed && !outcome.crashed) {
    ++(passed ? counts.passed : counts.skipped);
    std::printf("%s %s%s%s\n", passed ? "pass" : "skip", test.name.c_str(), passed ? "" : ": ",
                skip_reason.c_str());
    return;
  }
  ++counts.failed;
  const std::string why =
      passed ? absl::StrCat("passes, but is on the skip list (", skip_reason, ")") : outcome.error;
  std::printf("FAIL %s: %s\n", test.name.c_str(), why.c_str());
}

// Counts and prints what is wrong with the lists themselves.
int CheckLists(const Arguments& arguments, const std::vector<Case>& cases, const SkipList& skips) {
  int faults = 0;
  for (const std::string& line : skips.Unused(cases)) {
    ++faults;
    std::printf("FAIL %s: '%s' matches no case\n", arguments.skips.c_str(), line.c_str());
  }
  if (arguments.covers_registry) {
    for (const std::string& op : UncoveredOperators(cases)) {
      if (!skips.ListsAsUncovered(op)) {
        ++faults;
        std::printf("FAIL %s: no case has the operator\n", op.c_str());
      }
    }
  }
  return faults;
}

absl::StatusOr<Counts> RunSuite(const Arguments& arguments) {
  BW_ASSIGN_OR_RETURN(const std::vector<Case> cases, ReadSuite(arguments.suite));
  BW_ASSIGN_OR_RETURN(const SkipList skips, SkipList::Read(arguments.skips));
  Counts counts;
  counts.failed = CheckLists(arguments, cases, skips);
  const std::vector<Case> selected = Select(cases, arguments);
  const std::vector<Outcome> outcomes = RunInChildren(
      selected.size(), [&](size_t i) { return RunCase(selected[i]); }, kLimitSeconds);
  for (size_t i = 0; i < selected.size(); ++i) {
    Report(selected[i], outcomes[i], skips.ReasonFor(selected[i]), counts);
  }
  return counts;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!ParseArguments(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: conformance_runner SUITE [--skips=FILE] [--shard=I/N] [NAME...]\n");
    return kUsage;
  }
  if (!std::filesystem::exists(arguments.suite)) {
    std::printf("no suite %s: ./dev test generates it\n", arguments.suite.c_str());
    return kNoSuite;
  }
  const absl::StatusOr<Counts> counts = RunSuite(arguments);
  if (!counts.ok()) {
    std::fprintf(stderr, "%s\n", counts.status().ToString().c_str());
    return kFailed;
  }
  std::printf("%d passed, %d failed, %d skipped\n", counts->passed, counts->failed,
              counts->skipped);
  return counts->failed == 0 && counts->passed > 0 ? 0 : kFailed;
}

}  // namespace
}  // namespace beamwright::ops

int main(int argc, char** argv) { return beamwright::ops::Main(argc, argv); }
