#include "client/cli/max_rate_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/connection.h"
#include "client/cli/load_report.h"
#include "client/cli/terminal.h"

namespace beamwright::client {
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

}  // namespace beamwright::client
