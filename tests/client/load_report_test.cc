// What load tests leave behind: reports, figures for programs, exit codes.
#include "client/cli/load_report.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cli/sources.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"
#include "tests/client/process.h"

namespace beamwright::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string InTemp(const std::string& name) { return ::testing::TempDir() + "load_report_" + name; }

ProcessResult LoadTest(const FakeServer& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"load-test", "--server", server.address(), "--warmup", "0",
                                       "--requests", "40"});
  return Beamwright(arguments);
}

void Check(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"/usr/bin/python3", "-c", script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ProcessResult result = RunProcess(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(LoadReportTest, PercentilesWithFewCallsBeyondAreMarked) {
  EXPECT_EQ(UncertainText(14),
            "         uncertain, with fewer than 100 calls beyond: p50, p90, p99, p99.9, p99.99\n");
  EXPECT_EQ(UncertainText(10'000),
            "         uncertain, with fewer than 100 calls beyond: p99.9, p99.99\n");
  EXPECT_EQ(UncertainText(1'000'000), "");
}

TEST(LoadReportTest, ASweepRunsEachLoadAndIsComparedWithItself) {
  FakeServer server;
  const ProcessResult json = LoadTest(server, {"--concurrency", "1,3..8", "--json", "a"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(server.requests().size(), 160u);
  const std::string base = InTemp("base.json");
  std::ofstream(base) << json.out;
  Check(R"py(
import json, sys
runs = json.load(open(sys.argv[1]))["runs"]
assert [run["concurrency"] for run in runs] == [1, 3, 6, 8], runs
for run in runs:
    ms = run["latency_ms"]
    assert run["answered_calls"] == 40 == run["latency_curve"][-1]["count"], run
    assert ms["p99"] <= ms["p99_9"] <= ms["p99_99"] <= ms["max"], ms
    assert 0 < ms["mean"] < ms["max"] and 0 < ms["deviation"] < ms["max"], ms
    assert sum(part["answered_calls"] for part in run["timeline"]) == 40, run
    assert run["error_share"] == 0 and run["client_cpus"] > 0, run)py",
        {base});
  const ProcessResult again =
      LoadTest(server, {"--concurrency", "3,5", "--csv", "--compare", base, "a"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("  3 in flight: calls/s "), HasSubstr(" %), p50 ms "),
                               HasSubstr("  5 in flight: not in the base")));
  const std::vector<std::string> lines = absl::StrSplit(again.out, '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], StartsWith("concurrency,rate,batch,"));
  EXPECT_THAT(lines[2], StartsWith("5,0,1,"));
  const auto count = [](const std::string& line) {
    return std::vector<std::string>(absl::StrSplit(line, ',')).size();
  };
  EXPECT_EQ(count(lines[0]), count(lines[1]));
}

TEST(LoadReportTest, TheHistogramIsInHdrHistogramsForm) {
  FakeServer server;
  const std::string file = InTemp("a.hdr");
  ASSERT_EQ(LoadTest(server, {"--histogram", file, "a"}).exit_code, 0);
  Check(R"py(
import re, sys
lines = open(sys.argv[1]).read().split("\n")
assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"], lines[0]
rows = [line.split() for line in lines[2:] if line and line[0] != "#"]
assert [len(row) for row in rows] == [4] * (len(rows) - 1) + [3], rows
assert float(rows[-1][1]) == 1 and int(rows[-1][2]) == 40, rows[-1]
for value, fraction, count, inverse in rows[:-1]:
    assert abs(float(fraction) - int(count) / 40) < 1e-9
    assert abs(float(inverse) - 1 / (1 - float(fraction))) < 0.01
assert rows == sorted(rows, key=lambda row: float(row[0]))
assert re.search(r"#\[Max     = +[0-9.]+, Total count    = +40\]", lines[-3]), lines)py",
        {file});
}

TEST(LoadReportTest, ConditionsDecideTheExitCode) {
  FakeServer server;
  // Half of the calls fail, and no condition asks for them.
  EXPECT_EQ(LoadTest(server, {"--fail-if", "max>1h, rate<=0", "a", "bad"}).exit_code, 0);
  const ProcessResult errors = LoadTest(server, {"--fail-if", "errors>49%", "a", "bad"});
  EXPECT_EQ(errors.exit_code, 1);
  EXPECT_THAT(errors.out, HasSubstr("calls answered"));
  EXPECT_THAT(errors.err, HasSubstr("--fail-if, 16 in flight: errors>49%: it was 0.5, and the"));
  EXPECT_EQ(LoadTest(server, {"--fail-if", "errors>50%", "a", "bad"}).exit_code, 0);
  EXPECT_EQ(LoadTest(server, {"--fail-if", "errors>=50%", "a", "bad"}).exit_code, 1);
  EXPECT_EQ(LoadTest(server, {"--fail-if", "p50<1h", "a"}).exit_code, 1);
  const ProcessResult none = LoadTest(server, {"--fail-if", "p99>1h", "bad"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("no call was answered"));
  EXPECT_EQ(
      Beamwright({"load-test", "--server", "127.0.0.1:1", "--fail-if", "p99>1h", "a"}).exit_code,
      1);
}

// Names and messages are shown, never obeyed.
TEST(LoadReportTest, ThePageHoldsNothingThatRuns) {
  FakeServer server(
      [](grpc::ServerContext&, const v1::DecodeRequest& request, v1::DecodeResponse& response) {
        if (request.sources(0).text() == "bad") {
          return grpc::Status(grpc::StatusCode::INTERNAL, "<img src=x onerror=alert(1)>\x1b[2J");
        }
        *response.add_results() = EchoResult(request.sources(0));
        return grpc::Status::OK;
      });
  const std::string file = InTemp("page.html");
  const ProcessResult result =
      LoadTest(server, {"--concurrency", "1,2", "--model", "</title><script>alert(1)</script>\x1b",
                        "--report", file, "a", "bad"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  Check(R"py(
import html.parser, re, sys
import xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
class Reader(html.parser.HTMLParser):
    names, texts = set(), []
    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        for name, value in attributes:
            assert not name.startswith("on") and name not in ("src", "href"), (tag, name)
    def handle_data(self, data):
        self.texts.append(data)
reader = Reader()
reader.feed(text)
assert not reader.names & {"script", "img", "iframe", "object", "link"}, reader.names
shown = "".join(reader.texts)
assert "</title><script>alert(1)</script>\\x1b" in shown and "<img src=x onerror=" in shown
assert "calls: INTERNAL" in shown and "\x1b" not in text and "http" not in shown.lower()
charts = re.findall(r"<svg viewBox=.0 0 720.*?</svg>", text, re.S)
assert len(charts) == 4, len(charts)
for chart in charts:
    tree.fromstring(chart))py",
        {file});
}

TEST(LoadReportTest, AServerThatDiesInTheMiddleLeavesWhatWasMeasured) {
  std::atomic<int> calls{0};
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    return ++calls > 2500 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")
                          : EchoAll(context, request, response);
  });
  const std::string page = InTemp("died.html");
  const ProcessResult result = Beamwright({"load-test", "--server", server.address(), "--warmup",
                                           "0", "--requests", "2000", "--concurrency", "1,2,4",
                                           "--fail-if", "p99>1h", "--report", page, "--json", "a"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("gave up, too many calls in a row failed: UNAVAILABLE: gone"));
  const std::string json = InTemp("died.json");
  std::ofstream(json) << result.out;
  Check(R"py(
import json, sys
first, second = json.load(open(sys.argv[1]))["runs"]
assert first["answered_calls"] == 2000 and not first["gave_up"], first
assert second["answered_calls"] == 500 and second["gave_up"], second
page = open(sys.argv[2]).read()
assert "UNAVAILABLE" in page and "2 in flight" in page and "4 in flight" not in page)py",
        {json, page});
}

TEST(LoadReportTest, AReportThatCannotBeWrittenIsSaidAfterTheFigures) {
  FakeServer server;
  const ProcessResult result = LoadTest(server, {"--report", "/no/such/folder/x.html", "a"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("40 calls answered"));
  EXPECT_THAT(result.err, HasSubstr("--report: cannot write /no/such/folder/x.html"));
}

TEST(LoadMixTest, CallsAreWhatTheirLinesSay) {
  absl::Mutex mutex;
  std::map<std::string, int> calls;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    const auto& metadata = context.client_metadata();
    const auto priority = metadata.find("beamwright-priority");
    const auto left = absl::FromChrono(context.deadline()) - absl::Now();
    const absl::MutexLock lock(&mutex);
    ++calls[absl::StrCat(SourceText(request.sources(0)), " beam ", request.options().beam_size(),
                         " best ", request.options().n_best(), " priority ",
                         priority == metadata.end()
                             ? "-"
                             : std::string(priority->second.data(), priority->second.size()),
                         left > absl::Minutes(10) ? " long" : "")];
    return EchoAll(context, request, response);
  });
  const std::string mix = InTemp("mix.jsonl");
  std::ofstream(mix) << R"({"source": "a", "options": {"beam_size": 7}, "priority": 1, "times": 3}
{"source": "b", "timeout": "1h", "hypotheses": [{"text": "B"}]}

{"ids": [3, 4], "options": {"n_best": 2}})";
  const ProcessResult result = LoadTest(server, {"--mix", mix, "--beam-size", "2", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\"checked_answers\": 8,"), HasSubstr("\"wrong_answers\": 0,")));
  EXPECT_THAT(calls,
              ::testing::UnorderedElementsAre(::testing::Pair("a beam 7 best 0 priority 1", 24),
                                              ::testing::Pair("b beam 2 best 0 priority - long", 8),
                                              ::testing::Pair("3 4 beam 2 best 2 priority -", 8)));
}

TEST(LoadMixTest, CallsAreGivenUpAndBelongToTenants) {
  absl::Mutex mutex;
  std::map<std::string, int> tenants;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    if (request.sources(0).text() == "gone") {
      // No client waits for this answer; a server that does not look would never end.
      while (!context.IsCancelled()) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      return grpc::Status(grpc::StatusCode::CANCELLED, "no call waits");
    }
    const auto& metadata = context.client_metadata();
    const auto tenant = metadata.find("beamwright-tenant");
    const absl::MutexLock lock(&mutex);
    ++tenants[tenant == metadata.end() ? "-"
                                       : std::string(tenant->second.data(), tenant->second.size())];
    return EchoAll(context, request, response);
  });
  const std::string mix = InTemp("tenants.jsonl");
  std::ofstream(mix) << R"({"source": "a", "tenant": "one", "times": 2}
{"source": "gone", "cancel_after": "5ms"}
{"source": "c"})";
  const ProcessResult result = LoadTest(server, {"--mix", mix, "--json", "--concurrency", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\"cancelled_calls\": 10,"), HasSubstr("\"answered_calls\": 30,"),
                    HasSubstr("\"failed_calls\": {}")));
  EXPECT_THAT(tenants, ::testing::UnorderedElementsAre(::testing::Pair("one", 20),
                                                       ::testing::Pair("-", 10)));
}

TEST(LoadMixTest, AShareOfTheCallsIsGivenUpByChance) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    // Each call takes long enough to be given up.
    for (int i = 0; i < 20 && !context.IsCancelled(); ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return EchoAll(context, request, response);
  });
  const ProcessResult result =
      LoadTest(server, {"--cancel", "50%:1ms", "--concurrency", "20", "--json", "a"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  Check(R"py(
import json, sys
run = json.loads(sys.argv[1])
assert run["answered_calls"] + run["cancelled_calls"] == 40, run
assert 5 < run["cancelled_calls"] < 35, run)py",
        {result.out});
}

TEST(LoadMixTest, ATraceIsReplayedAtItsTimes) {
  FakeServer server;
  const std::string trace = InTemp("trace.jsonl");
  std::ofstream(trace) << R"({"source": "late", "at": "0.8s"}
{"source": "first", "at": "0s"}
{"source": "twice", "at": "200ms", "times": 2})";
  const ProcessResult result = Beamwright(
      {"load-test", "--server", server.address(), "--mix", trace, "--speed", "2", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> order;
  for (const v1::DecodeRequest& request : server.requests()) {
    order.push_back(request.sources(0).text());
  }
  EXPECT_THAT(order, ::testing::ElementsAre("first", "twice", "twice", "late"));
  Check(R"py(
import json, sys
run = json.loads(sys.argv[1])
assert run["replay"] and run["answered_calls"] == 4 and run["rate"] == 0, run
assert run["elapsed_seconds"] >= 0.4, run)py",
        {result.out});
  EXPECT_THAT(Beamwright({"load-test", "--mix", trace, "--rate", "3"}).err,
              HasSubstr("a trace says itself when calls are due"));
  std::ofstream(trace) << "{\"source\": \"a\", \"at\": \"1s\"}\n{\"source\": \"b\"}";
  EXPECT_THAT(Beamwright({"load-test", "--mix", trace}).err, HasSubstr("either every line says"));
}

TEST(LoadMixTest, AWrongAnswerFailsTheRunWhateverElseIsAsked) {
  FakeServer server;
  const std::string mix = InTemp("wrong.jsonl");
  std::ofstream(mix) << R"({"source": "a", "hypotheses": [{"text": "A"}]}
{"source": "b", "hypotheses": [{"tokens": [1], "text": "B"}]})";
  const ProcessResult result = LoadTest(server, {"--mix", mix, "--fail-if", "errors>99%"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("checked  40 answers, 20 wrong"));
  EXPECT_THAT(result.err, HasSubstr("20 of 40 answers are wrong; first: source \"b\": expected"));
}

TEST(LoadMixTest, SaysWhichLineIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "line 1 of FILE: it must have one of source, ids and infer"},
      {"{\"source\": \"a\"}\n{\"source\": \"a\", \"ids\": [1]}", "line 2 of FILE: it must have"},
      {"{\"infer\": {\"inputs\": []}}", "line 1 of FILE: infer: inputs is empty"},
      {"{\"source\": \"a\", \"cancel_after\": \"0s\"}", "cancel_after \"0s\" is not a duration"},
      {"{\"source\": \"a\", \"at\": \"-1s\"}", "at \"-1s\" is not a duration from 0 to"},
      {"\n\nnot json\x1b[2J", "line 3 of FILE: Unexpected token."},
      {"{\"source\": \"a\", \"beam\": 3}", "line 1 of FILE: beam: Cannot find field."},
      {"{\"source\": \"a\xff\"}", "line 1 of FILE: not UTF-8"},
      {"{\"source\": \"a\", \"priority\": 4}", "priority is 4; 1 to 3 are allowed"},
      {"{\"source\": \"a\", \"times\": -1}", "times is -1; 1 to 1000 are allowed"},
      {"{\"source\": \"a\", \"timeout\": \"soon\"}", "timeout \"soon\" is not a duration"},
      {"", "FILE has no call"},
  };
  const std::string mix = InTemp("bad.jsonl");
  for (const auto& [text, message] : cases) {
    std::ofstream(mix) << text;
    const ProcessResult result = Beamwright({"load-test", "--mix", mix});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_THAT(absl::StrReplaceAll(result.err, {{mix, "FILE"}}),
                AllOf(HasSubstr("--mix: "), HasSubstr(message), Not(HasSubstr("\x1b"))));
  }
  EXPECT_THAT(Beamwright({"load-test", "--mix", "/no/such"}).err,
              HasSubstr("cannot read /no/such"));
  EXPECT_THAT(Beamwright({"load-test", "--mix", mix, "a"}).err, HasSubstr("has its own sources"));
}

std::string Saved(const std::string& name, const std::string& text) {
  std::ofstream(InTemp(name)) << text;
  return InTemp(name);
}

TEST(LoadMergeTest, AddsUpWhatRanSideBySide) {
  FakeServer server;
  const std::string one = Saved("one.json", LoadTest(server, {"--json", "a"}).out);
  const std::string two =
      Saved("two.json", LoadTest(server, {"--json", "--concurrency", "3", "a"}).out);
  const std::string hlog = InTemp("both.hlog"), page = InTemp("both.html");
  const ProcessResult merged =
      Beamwright({"load-merge", one, two, "--json", "--histogram", hlog, "--report", page});
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  const ProcessResult full = RunProcess(
      {"/bin/sh", "-c", "exec " BEAMWRIGHT_PROGRAM " load-merge --json \"$0\" > /dev/full", one});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_EQ(full.err, "beamwright load-merge: cannot write to standard output\n");
  Check(R"py(
import json, sys
one, two, merged = (json.load(open(path)) for path in sys.argv[1:4])
assert merged["answered_calls"] == 80 and merged["concurrency"] == 19 and merged["merged_runs"] == 2
assert abs(merged["calls_per_second"] - one["calls_per_second"] - two["calls_per_second"]) < 1e-6
ms = merged["latency_ms"]
assert ms["max"] == max(one["latency_ms"]["max"], two["latency_ms"]["max"])
assert min(r["latency_ms"]["p50"] for r in (one, two)) <= ms["p50"] <= max(r["latency_ms"]["p50"] for r in (one, two))
assert merged["latency_curve"][-1]["count"] == 80
log = open(sys.argv[4]).read().splitlines()
assert log[0] == "#[Histogram log format version 1.3]" and log[-1].endswith("," + merged["latency_hdr"]), log
assert "2 load tests together" in open(sys.argv[5]).read())py",
        {one, two, Saved("merged.json", merged.out), hlog, page});
  EXPECT_THAT(Beamwright({"load-merge", one, two}).out,
              AllOf(HasSubstr("2 load tests together"), HasSubstr("80 calls answered")));
}

TEST(LoadMergeTest, SaysWhichFileItCannotAddUp) {
  FakeServer server;
  std::string json = LoadTest(server, {"--json", "a"}).out;
  const std::string good = Saved("good.json", json);
  const std::string bad = Saved(
      "bad.json", absl::StrReplaceAll(json, {{"\"latency_hdr\": \"HIST", "\"latency_hdr\": \"H"}}));
  EXPECT_THAT(Beamwright({"load-merge", good, bad}).err,
              AllOf(HasSubstr("bad.json, latency_hdr: "), HasSubstr("not in HdrHistogram's")));
  const std::string sweep =
      Saved("sweep.json", LoadTest(server, {"--json", "--concurrency", "1,2", "a"}).out);
  EXPECT_THAT(Beamwright({"load-merge", sweep}).err, HasSubstr("has 2 loads"));
}

TEST(LineChartTest, LeavesOutWhatCannotBeDrawn) {
  Chart chart;
  chart.y.logarithmic = true;
  EXPECT_THAT(ChartSvg(chart),
              AllOf(HasSubstr("<svg"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  chart.lines = {{"a", {{0, 0}, {1, 5}, {1.0 / 0.0, 3}, {2, 50}, {3, 0.0 / 0.0}}}};
  const std::string svg = ChartSvg(chart);
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  // From 1 to 100 on a logarithmic axis: two points of the four, half a decade from its ends each.
  EXPECT_THAT(svg, HasSubstr("d=\"M"));
  const size_t path = svg.find("class=\"line line0\" d=\"") + 22;
  const std::string points = svg.substr(path, svg.find('"', path) - path);
  EXPECT_EQ(std::count(points.begin(), points.end(), 'L'), 1) << points;
}

TEST(LoadProgressTest, TellsOfTheLastWholePart) {
  LoadReport report;
  EXPECT_EQ(LoadProgressText(report, absl::Milliseconds(1500)), "2 s left   warming up");
  report.timeline = {{.length = absl::Seconds(1),
                      .num_calls = 1234,
                      .p50 = absl::Milliseconds(2),
                      .p99 = absl::Milliseconds(30)},
                     {.length = absl::Seconds(1), .num_calls = 3}};
  report.failed_calls[absl::StatusCode::kUnavailable] = 5;
  EXPECT_EQ(LoadProgressText(report, absl::ZeroDuration()),
            "waiting for the last answers   1,234 calls/s   p50 2.0 ms   p99 30.0 ms   5 failed");
  report.num_skipped = 2;
  EXPECT_THAT(LoadProgressText(report, absl::Seconds(9)), HasSubstr("5 failed, 2 skipped"));
}

// The line is for a terminal; elsewhere standard error stays empty (see the tests of commands).
TEST(LoadProgressTest, IsShownOnATerminalAndCleared) {
  FakeServer server;
  Check(R"py(
import os, pty, subprocess, sys
master, slave = pty.openpty()
run = subprocess.Popen([sys.argv[1], "load-test", "--server", sys.argv[2], "--warmup", "0",
                        "--duration", "1200ms", "a"], stderr=slave, stdout=subprocess.PIPE)
out = run.communicate()[0]
os.close(slave)
shown = os.read(master, 1 << 16).decode()
assert run.returncode == 0 and b"calls answered" in out and b"left" not in out
assert "s left" in shown and " calls/s   p50 " in shown and shown.endswith("\r\x1b[K"), shown)py",
        {BEAMWRIGHT_PROGRAM, server.address()});
}

}  // namespace
}  // namespace beamwright::client
