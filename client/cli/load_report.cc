// Reports of load tests: the figures of a LoadReport as text for people, and as messages for --json
// and --compare.
//
// 1. ReportText: rate, goodput, latency, lag, counts and failures of one run. A percentile with
//    fewer than 100 calls beyond it is called uncertain (UncertainText), and a run in which this
//    machine was the bottleneck is called INVALID (WhyInvalid).
// 2. ServerText: the server's name and the counters of its metrics that grew during the run.
// 3. ReportMessage and SetLatency: the same figures as LoadTestReport, with the whole histogram, so
//    that later runs can be compared and runs of several machines merged.
// 4. TrialLine, MaxRateText and MaxRateMessage: the trials of a search for the highest rate and its
//    result.
// 5. LoadProgressLine: one line on a terminal while the run lasts.
//
// An example of ReportText, of an open loop:
//
//   20 calls/s due, evenly, of 1 source over 1 connection, 10.0 s
//   rate     20.0 sources/s, 20.0 calls/s, 411.2 tokens/s
//   latency  p50 3.120 ms, p90 4.001 ms, p99 6.514 ms, max 9.870 ms
//            p99.9 9.870 ms, p99.99 9.870 ms, mean 3.290 ms, deviation 0.611 ms
//            uncertain, with fewer than 100 calls beyond: p90, p99, p99.9, p99.99
//   lag      p50 0.051 ms, p90 0.080 ms, p99 0.211 ms, max 0.320 ms
//   counts   200 calls answered, 200 sources decoded
//
// Times are milliseconds in texts and in messages; shares are from 0 to 1 in messages and percent
// in texts.
#include "client/cli/load_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/answers.h"
#include "client/cli/flags.h"
#include "client/load/histogram.h"

namespace beamwright::client {

namespace {

double PerSecond(int64_t count, const LoadReport& report) {
  const double seconds = absl::ToDoubleSeconds(report.elapsed);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

void SetCurve(const std::vector<PercentilePoint>& curve, LoadTestReport& message) {
  for (const PercentilePoint& point : curve) {
    CurvePoint& added = *message.add_latency_curve();
    added.set_fraction(point.fraction);
    added.set_ms(absl::ToDoubleMilliseconds(point.duration));
    added.set_count(static_cast<double>(point.count));
  }
}

std::string Counts(const std::map<absl::StatusCode, int64_t>& counts) {
  std::string text;
  for (const auto& [code, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", absl::StatusCodeToString(code), " ",
                    WithCommas(count));
  }
  return text;
}

// What was asked for, as the first words of a report: "16 calls in flight" (closed loop), "20
// calls/s due, evenly," (open loop), or the pace of a trace.
std::string What(const LoadOptions& options) {
  if (options.replay) {
    return options.speed == 1
               ? "calls at the times of the trace"
               : absl::StrFormat("calls at %g times the trace's pace", options.speed);
  }
  if (options.rate == 0) {
    return absl::StrCat(options.concurrency, options.stream ? " streams" : " calls", " in flight");
  }
  return absl::StrFormat("%g calls/s due, %s,", options.rate,
                         options.arrivals == Arrivals::kEven ? "evenly" : "Poisson arrivals");
}

// Two reasons why the figures say nothing about the server: this machine was busier than the
// server, or the warm-up never came to rest. Empty: neither.
std::string WhyInvalid(const LoadReport& report) {
  const std::string why =
      ClientBottleneck(report, static_cast<int>(std::thread::hardware_concurrency()));
  return why.empty() && !report.unsteady.empty()
             ? absl::StrCat("it was not steady after a minute of warm-up: ", report.unsteady)
             : why;
}

// Sources that were sent and have no answer; calls that failed count with their whole batch.
double ErrorShare(const LoadOptions& options, const LoadReport& report) {
  const double sources = static_cast<double>(report.num_calls + NumFailed(report)) * options.batch;
  return sources > 0 ? 1 - static_cast<double>(report.num_sources) / sources : 0;
}

}  // namespace

std::string PercentilesText(const Percentiles& times) {
  const auto ms = [](absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); };
  return absl::StrFormat("p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, max %.3f ms", ms(times.p50),
                         ms(times.p90), ms(times.p99), ms(times.max));
}

void SetPercentiles(const Percentiles& times, LatencyMs& message) {
  message.set_p50(absl::ToDoubleMilliseconds(times.p50));
  message.set_p90(absl::ToDoubleMilliseconds(times.p90));
  message.set_p99(absl::ToDoubleMilliseconds(times.p99));
  message.set_max(absl::ToDoubleMilliseconds(times.max));
  message.set_p99_9(absl::ToDoubleMilliseconds(times.p999));
  message.set_p99_99(absl::ToDoubleMilliseconds(times.p9999));
  message.set_mean(absl::ToDoubleMilliseconds(times.mean));
  message.set_deviation(absl::ToDoubleMilliseconds(times.deviation));
}

// A percentile is an estimate from the calls beyond it, and with fewer than 100 of them its
// relative error is more than a tenth (1 / sqrt(100)). With 5,000 calls 50 are beyond p99, so p99
// is uncertain and p90 is not.
std::string UncertainText(int64_t num_calls) {
  constexpr double kFewest = 100;
  constexpr std::pair<const char*, double> kBeyond[] = {
      {"p50", 0.5}, {"p90", 0.1}, {"p99", 0.01}, {"p99.9", 0.001}, {"p99.99", 0.0001}};
  std::vector<const char*> uncertain;
  for (const auto& [name, share] : kBeyond) {
    if (static_cast<double>(num_calls) * share < kFewest) {
      uncertain.push_back(name);
    }
  }
  return uncertain.empty() ? ""
                           : absl::StrCat("         uncertain, with fewer than 100 calls beyond: ",
                                          absl::StrJoin(uncertain, ", "), "\n");
}

// A line for each kind of figure, the kind in bold. Lines that would be empty are left out: goodput
// without --good-within, first tokens without --stream, refusals, lag of a closed loop (which has
// no due times), failures, checks.
std::string ReportText(const LoadOptions& options, int connections, const LoadReport& report) {
  const bool open = options.rate > 0 || options.replay;
  std::string text = absl::StrFormat(
      "%s of %d source%s over %d connection%s, %.1f s%s\n", What(options), options.batch,
      options.batch == 1 ? "" : "s", connections, connections == 1 ? "" : "s",
      absl::ToDoubleSeconds(report.elapsed), report.stopped ? " (interrupted)" : "");
  absl::StrAppendFormat(&text, "%s  %.1f sources/s, %.1f calls/s, %.1f tokens/s\n", Bold("rate   "),
                        PerSecond(report.num_sources, report), PerSecond(report.num_calls, report),
                        PerSecond(report.num_tokens, report));
  if (options.good_within != absl::InfiniteDuration()) {
    absl::StrAppendFormat(&text, "%s  %.1f calls/s within %s\n", Bold("goodput"),
                          PerSecond(report.num_good, report),
                          absl::FormatDuration(options.good_within));
  }
  absl::StrAppend(&text, Bold("latency"), "  ", PercentilesText(report.latency), "\n");
  absl::StrAppendFormat(&text,
                        "         p99.9 %.3f ms, p99.99 %.3f ms, mean %.3f ms, deviation %.3f ms\n",
                        absl::ToDoubleMilliseconds(report.latency.p999),
                        absl::ToDoubleMilliseconds(report.latency.p9999),
                        absl::ToDoubleMilliseconds(report.latency.mean),
                        absl::ToDoubleMilliseconds(report.latency.deviation));
  absl::StrAppend(&text, UncertainText(report.num_calls));
  if (options.stream) {
    absl::StrAppend(&text, Bold("stable "), "  ", PercentilesText(report.first_token),
                    " to the first token\n");
  }
  if (report.refused.max > absl::ZeroDuration()) {
    absl::StrAppend(&text, Bold("refused"), "  ", PercentilesText(report.refused), "\n");
  }
  if (open) {
    absl::StrAppend(&text, Bold("lag    "), "  ", PercentilesText(report.lag), "\n");
  }
  absl::StrAppend(&text, Bold("counts "), "  ", WithCommas(report.num_calls), " calls answered, ",
                  WithCommas(report.num_sources), " sources decoded");
  if (report.num_skipped > 0) {
    absl::StrAppend(&text, ", ", WithCommas(report.num_skipped),
                    " calls skipped: ", options.concurrency, " were in flight");
  }
  if (report.num_cancelled > 0) {
    absl::StrAppend(&text, ", ", WithCommas(report.num_cancelled), " calls cancelled as asked");
  }
  absl::StrAppend(&text, "\n");
  if (!report.failed_calls.empty()) {
    absl::StrAppend(&text, Bold("failed "), "  calls: ", Counts(report.failed_calls), "\n");
  }
  if (!report.failed_sources.empty()) {
    absl::StrAppend(&text, Bold("failed "), "  sources: ", Counts(report.failed_sources), "\n");
  }
  if (report.num_checked > 0) {
    absl::StrAppend(&text, Bold("checked"), "  ", WithCommas(report.num_checked), " answers, ",
                    WithCommas(report.num_wrong), " wrong\n");
  }
  if (const std::string why = WhyInvalid(report); !why.empty()) {
    absl::StrAppend(&text, Bold("INVALID"), "  ", why, "\n");
  }
  if (!report.first_failure.ok()) {
    absl::StrAppend(&text, "         first: ", CodeAndMessage(report.first_failure), "\n");
  }
  return text;
}

std::string ServerText(const LoadTestReport& run) {
  const MeasuredServer& server = run.server();
  std::string text;
  if (!server.name().empty() || !server.model().empty()) {
    absl::StrAppend(&text, Bold("server "), "  ", server.name(),
                    server.version().empty() ? "" : " ", server.version(),
                    server.model().empty() || server.name().empty() ? "" : ", ",
                    Printable(server.model()), "\n");
  }
  const std::map<std::string, double> metrics(run.server_metrics().begin(),
                                              run.server_metrics().end());
  for (const auto& [name, value] : metrics) {
    // Counters alone; gauges are in the JSON.
    const std::string family = name.substr(0, name.find('{'));
    if (absl::EndsWith(family, "_total") || absl::EndsWith(family, "_sum") ||
        absl::EndsWith(family, "_count")) {
      absl::StrAppendFormat(&text, "         %s %.9g\n", Printable(name), value);
    }
  }
  return text;
}

void SetLatency(const Histogram& latency, LoadTestReport& run) {
  SetPercentiles(PercentilesOf(latency), *run.mutable_latency_ms());
  SetCurve(latency.Curve(), run);
  run.set_latency_hdr(EncodeHdr(latency.Counts()));
}

// Every field that --compare, merging and the page of a run read. The names of status codes are
// keys of the maps of failures, so that a program needs no table of numbers.
LoadTestReport ReportMessage(const LoadOptions& options, int connections,
                             const LoadReport& report) {
  LoadTestReport message;
  message.set_concurrency(options.concurrency);
  message.set_connections(connections);
  message.set_batch(options.batch);
  message.set_rate(options.rate);
  message.set_elapsed_seconds(absl::ToDoubleSeconds(report.elapsed));
  message.set_answered_calls(static_cast<int32_t>(report.num_calls));
  message.set_good_calls(static_cast<int32_t>(report.num_good));
  message.set_skipped_calls(static_cast<int32_t>(report.num_skipped));
  message.set_decoded_sources(static_cast<int32_t>(report.num_sources));
  message.set_calls_per_second(PerSecond(report.num_calls, report));
  message.set_good_calls_per_second(PerSecond(report.num_good, report));
  message.set_sources_per_second(PerSecond(report.num_sources, report));
  message.set_tokens_per_second(PerSecond(report.num_tokens, report));
  SetPercentiles(report.latency, *message.mutable_latency_ms());
  SetPercentiles(report.refused, *message.mutable_refused_ms());
  SetPercentiles(report.lag, *message.mutable_lag_ms());
  if (options.stream) {
    SetPercentiles(report.first_token, *message.mutable_first_token_ms());
  }
  for (const auto& [code, count] : report.failed_calls) {
    (*message.mutable_failed_calls())[absl::StatusCodeToString(code)] = static_cast<int32_t>(count);
  }
  for (const auto& [code, count] : report.failed_sources) {
    (*message.mutable_failed_sources())[absl::StatusCodeToString(code)] =
        static_cast<int32_t>(count);
  }
  if (!report.first_failure.ok()) {
    message.set_first_failure(CodeAndMessage(report.first_failure));
  }
  SetCurve(report.latency_curve, message);
  for (const LoadInterval& part : report.timeline) {
    LoadTestInterval& added = *message.add_timeline();
    added.set_begin_seconds(absl::ToDoubleSeconds(part.begin));
    added.set_length_seconds(absl::ToDoubleSeconds(part.length));
    added.set_answered_calls(static_cast<int32_t>(part.num_calls));
    added.set_failed_calls(static_cast<int32_t>(part.num_failed));
    added.set_p50_ms(absl::ToDoubleMilliseconds(part.p50));
    added.set_p99_ms(absl::ToDoubleMilliseconds(part.p99));
  }
  message.set_invalid(WhyInvalid(report));
  message.set_error_share(ErrorShare(options, report));
  message.set_client_cpus(ClientCpus(report));
  message.set_checked_answers(static_cast<int32_t>(report.num_checked));
  message.set_wrong_answers(static_cast<int32_t>(report.num_wrong));
  message.set_first_wrong(report.first_wrong);
  message.set_latency_hdr(report.latency_hdr);
  message.set_cancelled_calls(static_cast<int32_t>(report.num_cancelled));
  message.set_replay(options.replay);
  message.set_gave_up(report.gave_up);
  message.set_stopped(report.stopped);
  return message;
}

namespace {

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kBroken:
      return "broken";
    case Verdict::kClient:
      return "client";
    case Verdict::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace

// An example: " 350.0 calls/s 20 s holds p99<50ms: 0.4 % beyond (0.2 to 0.7) of 1 %".
std::string TrialLine(const RateTrial& trial, const std::vector<SloClause>& slo) {
  std::string line = absl::StrFormat("  %9.1f calls/s %6.0f s  %-8s", trial.rate, trial.seconds,
                                     Name(trial.verdict));
  for (size_t i = 0; i < trial.clauses.size() && i < slo.size(); ++i) {
    const ShareBounds& bounds = trial.clauses[i];
    absl::StrAppendFormat(&line, "%s%s: %.3g %% beyond (%.2g to %.2g) of %g %%", i > 0 ? "; " : " ",
                          slo[i].text, 100 * bounds.share, 100 * bounds.lower, 100 * bounds.upper,
                          100 * slo[i].allowed);
  }
  if (trial.report.num_skipped > 0) {
    absl::StrAppend(&line, "; ", trial.report.num_skipped,
                    " calls were due while as many were in flight as can be");
  }
  return absl::StrCat(line, trial.confirms ? "  (a separate run)" : "", "\n");
}

// The first line is the result, the second what bounds it: this machine, the lowest rate that was
// not shown to hold, or nothing, as no higher rate was tried.
std::string MaxRateText(const MaxRate& found, const std::string& slo) {
  std::string text = absl::StrCat(Bold("max rate"), "  ");
  if (found.rate == 0) {
    absl::StrAppend(&text,
                    !found.failure.ok() ? "the server was gone before a rate was found at which "
                    : found.stopped     ? "interrupted before a rate was found at which "
                                        : "none of the rates tried was shown to hold ",
                    slo, "\n");
  } else {
    absl::StrAppendFormat(&text, "%.1f calls/s hold %s, with 95 %% confidence for each clause%s\n",
                          found.rate, slo,
                          found.confirmed ? "; a run that took no part in the search held as well"
                                          : "; no run apart from the search has confirmed it");
  }
  if (found.client_bound) {
    absl::StrAppend(&text,
                    "          above it this machine could not send enough: the server may do "
                    "more\n");
  } else if (found.broken_at > 0) {
    absl::StrAppendFormat(&text, "          at %.1f calls/s it was not shown to hold\n",
                          found.broken_at);
  } else if (found.rate > 0) {
    absl::StrAppend(&text, "          no higher rate was tried\n");
  }
  return text;
}

MaxRateReport MaxRateMessage(const MaxRate& found, const std::vector<SloClause>& slo,
                             const std::string& slo_text, const LoadOptions& load,
                             int connections) {
  MaxRateReport message;
  message.set_slo(slo_text);
  message.set_rate(found.rate);
  message.set_broken_at(found.broken_at);
  message.set_confirmed(found.confirmed);
  message.set_client_bound(found.client_bound);
  message.set_stopped(found.stopped);
  message.set_failure(found.failure.ok() ? "" : CodeAndMessage(found.failure));
  for (const RateTrial& trial : found.trials) {
    MaxRateTrial& added = *message.add_trials();
    added.set_rate(trial.rate);
    added.set_verdict(Name(trial.verdict));
    added.set_seconds(trial.seconds);
    added.set_confirms(trial.confirms);
    for (size_t i = 0; i < trial.clauses.size(); ++i) {
      SloShare& share = *added.add_clauses();
      share.set_clause(slo[i].text);
      share.set_share(trial.clauses[i].share);
      share.set_lower(trial.clauses[i].lower);
      share.set_upper(trial.clauses[i].upper);
      share.set_allowed(slo[i].allowed);
      share.set_calls(static_cast<int32_t>(trial.clauses[i].calls));
    }
    LoadOptions at_rate = load;
    at_rate.rate = trial.rate;
    *added.mutable_run() = ReportMessage(at_rate, connections, trial.report);
  }
  return message;
}

std::string LoadProgressText(const LoadReport& report, absl::Duration left) {
  const auto seconds = static_cast<int64_t>(std::ceil(absl::ToDoubleSeconds(left)));
  std::string text = left > absl::ZeroDuration() ? absl::StrCat(WithCommas(seconds), " s left")
                                                 : "waiting for the last answers";
  if (report.timeline.empty()) {
    return text + "   warming up";
  }
  // The last interval is still open, so that the one before it is shown. While there is one alone,
  // its rate counts from the begin of the run.
  const size_t parts = report.timeline.size();
  const LoadInterval& part = report.timeline[parts - (parts > 1 ? 2 : 1)];
  const double rate = parts > 1
                          ? static_cast<double>(part.num_calls) / absl::ToDoubleSeconds(part.length)
                          : static_cast<double>(report.num_calls) /
                                std::max(1e-3, absl::ToDoubleSeconds(report.elapsed));
  absl::StrAppendFormat(&text, "   %s calls/s   p50 %.1f ms   p99 %.1f ms",
                        WithCommas(static_cast<int64_t>(rate)),
                        absl::ToDoubleMilliseconds(part.p50), absl::ToDoubleMilliseconds(part.p99));
  return absl::StrCat(
      text, "   ", WithCommas(NumFailed(report)), " failed",
      report.num_skipped > 0 ? absl::StrCat(", ", WithCommas(report.num_skipped), " skipped") : "");
}

std::function<void(const LoadReport&, absl::Duration)> LoadProgressLine() {
  if (isatty(STDERR_FILENO) != 1) {
    return nullptr;
  }
  return [](const LoadReport& report, absl::Duration left) {
    std::cerr << "\r\x1b[K" << LoadProgressText(report, left) << std::flush;
  };
}

void EndLoadProgress() {
  if (isatty(STDERR_FILENO) == 1) {
    std::cerr << "\r\x1b[K" << std::flush;
  }
}

}  // namespace beamwright::client
