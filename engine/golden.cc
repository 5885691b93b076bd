// Replays a bundle's golden.jsonl at load: requests with the answers that the bundle's author got.
// A model that answers otherwise is not served.
//
// 1. ReadGoldens reads at most max_requests lines, spread over the file: source, options, expected
//    hypotheses, and the numerics class in which they were found.
// 2. DecodeAll decodes all in an engine of one thread.
// 3. Difference compares the first hypothesis. In the same numerics class its tokens and score must
//    be equal. In another, other tokens are accepted if the first and the second expected scores
//    are closer than a margin, since rounding may exchange them.
#include "engine/golden.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/options/request_lines.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// Scores of hypotheses that lie nearer to each other than this may change places when sums are
// rounded otherwise: in f32, and where weights have fewer bits.
constexpr double kMargin = 1e-3;
constexpr double kReducedMargin = 0.1;

struct Golden {
  int line = 0;
  v1::Source source;
  v1::DecodeOptions options;
  v1::Decoded expected;  // hypotheses only
  std::string numerics;
  absl::StatusOr<v1::Decoded> answer;
};

absl::StatusOr<std::vector<Golden>> ReadGoldens(const std::string& content, int max_requests) {
  BW_ASSIGN_OR_RETURN(std::vector<RequestLine> lines, ReadRequestLines(content, max_requests));
  std::vector<Golden> goldens;
  for (RequestLine& line : lines) {
    Golden& golden = goldens.emplace_back();
    golden.line = line.number;
    absl::Status status = ReadField(line.fields, "hypotheses", true, golden.expected);
    if (status.ok() && golden.expected.hypotheses().empty()) {
      status = Invalid("field 'hypotheses': is empty");
    }
    BW_RETURN_IF_ERROR(Annotate(status, absl::StrCat("line ", line.number)));
    const auto numerics = line.fields.fields().find("numerics");
    if (numerics != line.fields.fields().end()) {
      golden.numerics = numerics->second.string_value();
    }
    golden.source = std::move(line.source);
    golden.options = std::move(line.options);
  }
  return goldens;
}

void DecodeAll(const std::shared_ptr<const DecodeModel>& model, Engine& engine,
               std::vector<Golden>& goldens) {
  absl::BlockingCounter left(static_cast<int>(goldens.size()));
  for (Golden& golden : goldens) {
    engine.Decode(model, golden.source, golden.options, {},
                  [&golden, &left](absl::StatusOr<v1::Decoded> decoded) {
                    golden.answer = std::move(decoded);
                    left.DecrementCount();
                  });
  }
  left.Wait();
}

std::string Tokens(const v1::Hypothesis& hypothesis) {
  return absl::StrCat("[", absl::StrJoin(hypothesis.tokens(), " "), "]");
}

// What is wrong with the answer; empty: nothing.
std::string Difference(const Golden& golden, const std::string& numerics) {
  if (!golden.answer.ok()) {
    return std::string(golden.answer.status().message());
  }
  if (golden.answer->hypotheses().empty()) {
    return "no hypothesis";
  }
  const v1::Hypothesis& want = golden.expected.hypotheses(0);
  const v1::Hypothesis& got = golden.answer->hypotheses(0);
  const bool same_class = !golden.numerics.empty() && golden.numerics == numerics;
  if (Tokens(got) == Tokens(want)) {
    return same_class && got.score() != want.score()
               ? absl::StrCat("score ", got.score(), ", expected ", want.score(),
                              " in the same numerics class")
               : "";
  }
  const double margin = absl::StartsWith(numerics, "f32") ? kMargin : kReducedMargin;
  // Without a second hypothesis the scores of the two answers decide.
  const double second =
      golden.expected.hypotheses_size() > 1 ? golden.expected.hypotheses(1).score() : got.score();
  if (!same_class && std::abs(want.score() - second) < margin) {
    return "";
  }
  return absl::StrCat("tokens ", Tokens(got), ", expected ", Tokens(want));
}

}  // namespace

absl::Status ReplayGolden(const std::shared_ptr<const DecodeModel>& model,
                          const std::string& content, int max_requests,
                          const Interruption* interruption) {
  absl::StatusOr<std::vector<Golden>> goldens = ReadGoldens(content, max_requests);
  if (!goldens.ok()) {
    return Annotate(goldens.status(), "golden.jsonl");
  }
  EngineOptions options;
  options.num_threads = 1;
  options.interruption = interruption;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Start(options));
  DecodeAll(model, *engine, *goldens);
  int num_wrong = 0;
  std::string first;
  for (const Golden& golden : *goldens) {
    const std::string difference = Difference(golden, model->numerics());
    if (!difference.empty() && ++num_wrong == 1) {
      first = absl::StrCat("line ", golden.line, ": ", difference);
    }
  }
  return num_wrong == 0 ? absl::OkStatus()
                        : absl::FailedPreconditionError(absl::StrCat(
                              "golden.jsonl: ", first, " (", num_wrong, " of ", goldens->size(),
                              " requests are answered otherwise than the bundle says)"));
}

}  // namespace beamwright::engine
