// Conditions on the figures of a load test, as flags write them: "p99>50ms,errors>1%".
// ParseConditions reads them with the unit of each figure: times, shares in percent, or calls per
// second; FailedCondition returns the first condition that a report fulfils, for --fail-if.
//
// ParseSlo reads promises, which are the other way round ("p99<50ms"), as shares of calls that may
// be slower or fail: "p99<50ms" allows one call in a hundred to take longer.
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/answers.h"
#include "client/cli/load_flags.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

enum class Unit { kTime, kShare, kRate };

struct Figure {
  absl::string_view name;
  Unit unit;
  double (*value)(const LoadTestReport&);
};

constexpr std::array<Figure, 12> kFigures = {{
    {"p50", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().p50(); }},
    {"p90", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().p90(); }},
    {"p99", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().p99(); }},
    {"p99.9", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().p99_9(); }},
    {"p99.99", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().p99_99(); }},
    {"max", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().max(); }},
    {"mean", Unit::kTime, [](const LoadTestReport& r) { return r.latency_ms().mean(); }},
    {"first", Unit::kTime, [](const LoadTestReport& r) { return r.first_token_ms().p99(); }},
    {"errors", Unit::kShare, [](const LoadTestReport& r) { return r.error_share(); }},
    {"error", Unit::kShare, [](const LoadTestReport& r) { return r.error_share(); }},
    {"rate", Unit::kRate, [](const LoadTestReport& r) { return r.calls_per_second(); }},
    {"goodput", Unit::kRate, [](const LoadTestReport& r) { return r.good_calls_per_second(); }},
}};

bool ParseLimit(absl::string_view text, Unit unit, double& limit) {
  if (unit == Unit::kTime) {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration)) {
      return false;
    }
    limit = absl::ToDoubleMilliseconds(duration);
  } else if (unit == Unit::kShare && absl::ConsumeSuffix(&text, "%")) {
    if (!absl::SimpleAtod(text, &limit)) {
      return false;
    }
    limit /= 100;
  } else if (unit == Unit::kShare) {
    return absl::SimpleAtod(text, &limit) && limit == 0;  // nothing but 0 says what it is without %
  } else if (!absl::SimpleAtod(text, &limit)) {
    return false;
  }
  return std::isfinite(limit) && limit >= 0;
}

absl::StatusOr<LoadCondition> ParseCondition(absl::string_view text) {
  const size_t at = text.find_first_of("<>");
  const absl::string_view name = absl::StripAsciiWhitespace(text.substr(0, at));
  const auto* const figure = std::find_if(kFigures.begin(), kFigures.end(),
                                          [&](const Figure& each) { return each.name == name; });
  LoadCondition condition{.text = std::string(text)};
  if (at != absl::string_view::npos && figure != kFigures.end()) {
    condition.name = std::string(name);
    condition.value = figure->value;
    condition.below = text[at] == '<';
    absl::string_view limit = text.substr(at + 1);
    condition.equal = absl::ConsumePrefix(&limit, "=");
    if (ParseLimit(absl::StripAsciiWhitespace(limit), figure->unit, condition.limit)) {
      return condition;
    }
  }
  return Invalid(
      "\"", Printable(text),
      "\" is not a condition; allowed are p50, p90, p99, p99.9, p99.99, max, mean and first with "
      "a time (p99>50ms), errors with a share (errors>1%), rate and goodput with calls a "
      "second (rate<100), and >, >=, < and <=");
}

}  // namespace

absl::StatusOr<std::vector<LoadCondition>> ParseConditions(absl::string_view text) {
  std::vector<LoadCondition> conditions;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    BW_ASSIGN_OR_RETURN(conditions.emplace_back(),
                        ParseCondition(absl::StripAsciiWhitespace(piece)));
  }
  return conditions;
}

absl::StatusOr<std::vector<SloClause>> ParseSlo(absl::string_view text) {
  constexpr std::pair<absl::string_view, double> kShares[] = {{"p50", 0.5},       {"p90", 0.1},
                                                              {"p99", 0.01},      {"p99.9", 0.001},
                                                              {"p99.99", 0.0001}, {"first", 0.01}};
  BW_ASSIGN_OR_RETURN(const std::vector<LoadCondition> conditions, ParseConditions(text));
  std::vector<SloClause> clauses;
  for (const LoadCondition& condition : conditions) {
    SloClause& clause = clauses.emplace_back();
    clause.text = condition.text;
    const auto* const share =
        std::find_if(std::begin(kShares), std::end(kShares),
                     [&](const auto& each) { return each.first == condition.name; });
    const bool errors = condition.name == "errors" || condition.name == "error";
    if (!condition.below || condition.limit <= 0 || (!errors && share == std::end(kShares))) {
      return Invalid("\"", Printable(condition.text),
                     "\" is not a promise that can be shown; allowed are p50, p90, p99, p99.9, "
                     "p99.99 and first below a time (p99<50ms), and errors below a share above 0 "
                     "(errors<0.1%)");
    }
    if (errors) {
      clause.of = SloClause::Of::kErrors;
      clause.allowed = condition.limit;
    } else {
      clause.of = condition.name == "first" ? SloClause::Of::kFirstTokens : SloClause::Of::kAnswers;
      clause.allowed = share->second;
      clause.limit = absl::Milliseconds(condition.limit);
    }
  }
  return clauses;
}

absl::Status CheckFirstTokens(const std::vector<LoadCondition>& conditions,
                              const std::vector<SloClause>& slo, bool stream) {
  const bool asked = std::any_of(conditions.begin(), conditions.end(),
                                 [](const LoadCondition& each) { return each.name == "first"; }) ||
                     std::any_of(slo.begin(), slo.end(), [](const SloClause& each) {
                       return each.of == SloClause::Of::kFirstTokens;
                     });
  return asked && !stream
             ? Invalid("'first' is the time to the first token of a stream; add --stream")
             : absl::OkStatus();
}

std::string FailedCondition(const std::vector<LoadCondition>& conditions,
                            const LoadTestReport& report) {
  for (const LoadCondition& condition : conditions) {
    if (report.answered_calls() == 0) {
      return absl::StrCat(condition.text, ": no call was answered");
    }
    const double value = condition.value(report);
    const bool beyond = condition.below ? value < condition.limit : value > condition.limit;
    if (beyond || (condition.equal && value == condition.limit)) {
      return absl::StrFormat("%s: it was %.6g, and the limit is %.6g", condition.text, value,
                             condition.limit);
    }
  }
  return "";
}

}  // namespace beamwright::client
