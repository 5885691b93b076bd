// A search explained from its trace (docs/decoding.md, 'Trace'): why the best hypothesis won, and
// where a given target was lost.
//
// 1. Follow walks the trace along a sequence of tokens. In step t it finds the candidates with
//    token t whose row continues a candidate of step t - 1 (NodesOf, RowsAfter); several rows may
//    hold the same tokens. From the best candidate of the last step it goes back to the first.
// 2. PathTable prints a line for each step of the path: rank, scores, the distance to the best
//    candidate, and what happened to the candidate (StepLine, Reason).
// 3. EndOfPath says in a sentence why the path ended: dropped by the beam (and which candidate had
//    the last place, WhoHadThePlace), by a threshold, not listed in the trace, or in the answer.
// 4. Blame compares the target's score with the winner's: if the target scores higher, the search
//    lost it; if not, the model prefers the answer. PartingOf shows the step at which the two
//    differ first.
//
// Traces come from a server and may be anything: no index of a trace is used without a check.
#include "client/cli/explanation.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "client/cli/answers.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
namespace {

// The path of a sequence of tokens through a search. Pointers are into the trace, which must
// outlive it.
struct FollowedPath {
  // Its candidate in each step from the first on. The last one is dropped, ended, or the last that
  // there is.
  std::vector<const v1::TraceCandidate*> candidates;
  // The tokens and the search went on, but the next step does not list the candidate.
  bool unlisted = false;
};

struct Node {
  const v1::TraceCandidate* candidate;
  size_t before;  // in the nodes of the step before
};

// By row: the node of the step before that it continues.
using Rows = std::map<int, size_t>;

std::vector<Node> NodesOf(const v1::TraceStep& step, int32_t token, bool first, const Rows& rows) {
  std::vector<Node> nodes;
  for (const v1::TraceCandidate& candidate : step.candidates()) {
    const auto row = rows.find(candidate.row());
    if (candidate.token() == token && (first || row != rows.end())) {
      nodes.push_back({&candidate, first ? 0 : row->second});
    }
  }
  return nodes;
}

Rows RowsAfter(const std::vector<Node>& nodes) {
  Rows rows;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].candidate->fate() == v1::TRACE_FATE_KEPT) {
      rows.emplace(nodes[i].candidate->next_row(), i);
    }
  }
  return rows;
}

// Of two candidates the path has the one of greater worth.
auto Worth(const v1::TraceCandidate& candidate, int answer) {
  return std::tuple(answer > 0 && candidate.answer() == answer, candidate.answer() > 0,
                    candidate.fate() == v1::TRACE_FATE_KEPT, candidate.has_score(),
                    candidate.rank_score());
}

// The path of `tokens`. Where several rows hold the same tokens (groups, samples), the path that
// goes furthest; of equal ones the path at place `answer` of the answer (0: any), else the one that
// ranks best. Reads nothing beyond the trace.
FollowedPath Follow(const v1::SearchTrace& trace, absl::Span<const int32_t> tokens, int answer) {
  FollowedPath path;
  std::vector<std::vector<Node>> steps;
  Rows rows;
  const size_t length = std::min(tokens.size(), static_cast<size_t>(trace.steps_size()));
  for (size_t t = 0; t < length && (t == 0 || !rows.empty()); ++t) {
    std::vector<Node> nodes = NodesOf(trace.steps(static_cast<int>(t)), tokens[t], t == 0, rows);
    if (nodes.empty()) {
      path.unlisted = true;
      break;
    }
    rows = RowsAfter(nodes);
    steps.push_back(std::move(nodes));
  }
  if (steps.empty()) {
    return path;
  }
  const auto& last = steps.back();
  size_t at = static_cast<size_t>(std::max_element(last.begin(), last.end(),
                                                   [&](const Node& a, const Node& b) {
                                                     return Worth(*a.candidate, answer) <
                                                            Worth(*b.candidate, answer);
                                                   }) -
                                  last.begin());
  for (auto nodes = steps.rbegin(); nodes != steps.rend(); ++nodes) {
    path.candidates.push_back((*nodes)[at].candidate);
    at = (*nodes)[at].before;
  }
  std::reverse(path.candidates.begin(), path.candidates.end());
  return path;
}

// The tokens that `row` of `step` had chosen before, from the first one on.
std::vector<int32_t> TokensBefore(const v1::SearchTrace& trace, int step, int row) {
  std::vector<int32_t> tokens;
  for (; step > 0 && row >= 0 && row < trace.steps(step).rows_size(); --step) {
    tokens.push_back(trace.steps(step).rows(row).token());
    row = trace.steps(step).rows(row).parent();
  }
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

// The candidate that had the beam's last place before `dropped` in its step; null if missing.
const v1::TraceCandidate* LastKeptBefore(const v1::TraceStep& step,
                                         const v1::TraceCandidate& dropped) {
  const v1::TraceCandidate* kept = nullptr;
  for (const v1::TraceCandidate& candidate : step.candidates()) {
    if (&candidate == &dropped) {
      break;
    }
    if (candidate.rank() == 1) {
      kept = nullptr;  // candidates are listed by group, each counted from 1
    }
    if (candidate.fate() == v1::TRACE_FATE_KEPT) {
      kept = &candidate;
    }
  }
  return kept;
}

constexpr size_t kMaxTokenWidth = 24;  // characters
constexpr size_t kMaxPrefixTokens = 12;

absl::string_view Reason(v1::TraceFate fate) {
  switch (fate) {
    case v1::TRACE_FATE_KEPT:
      return "lives on";
    case v1::TRACE_FATE_ANSWER:
      return "ended; in the answer";
    case v1::TRACE_FATE_BEAM:
      return "dropped: the beam was full of candidates that rank above it";
    case v1::TRACE_FATE_BEAM_THRESHOLD:
      return "dropped: further below the best than beam_threshold allows";
    case v1::TRACE_FATE_END_BELOW_BEAM:
      return "dropped: an end token below as many candidates as the beam holds";
    case v1::TRACE_FATE_END_THRESHOLD:
      return "dropped: an end token that end_threshold did not allow";
    case v1::TRACE_FATE_IMPOSSIBLE:
      return "ruled out: its probability is 0, by the model or by an option";
    case v1::TRACE_FATE_END_OF_ALTERNATIVE:
      return "dropped: the first token of an alternative is not an end token";
    case v1::TRACE_FATE_ALTERNATIVE_MIN_PROB:
      return "dropped: less probable than alternative_min_prob";
    case v1::TRACE_FATE_ALTERNATIVE_DONE:
      return "dropped: its alternative had its answer already";
    case v1::TRACE_FATE_SCORE_THRESHOLD:
      return "ended with a score below score_threshold";
    case v1::TRACE_FATE_NOT_LISTED:
      return "ended, but n_best others stood above it";
    case v1::TRACE_FATE_REPLACED:
      return "ended; better ones took its place in the answer later";
    case v1::TRACE_FATE_STOPPED:
      return "was live when the search stopped";
    case v1::TRACE_FATE_INCOMPLETE:
      return "dropped: at the maximum length without all that it must contain";
    default:
      return "has a fate that this program does not know";
  }
}

// Cut to `width` characters; `shown` gets their number.
std::string Cut(absl::string_view text, size_t width, size_t& shown) {
  const std::string printable = Printable(text);
  size_t at = 0;
  for (shown = 0; at < printable.size() && shown < width; ++shown) {
    at += static_cast<size_t>(std::max(1, Utf8Length(absl::string_view(printable).substr(at))));
  }
  return at < printable.size() ? printable.substr(0, at) + "..." : printable;
}

std::string TokenText(const v1::SearchTrace& trace, int32_t token) {
  const auto text = trace.token_texts().find(token);
  size_t shown = 0;
  return text == trace.token_texts().end() ? absl::StrCat("#", token)
                                           : Cut(text->second, kMaxTokenWidth, shown);
}

std::string TokensText(const v1::SearchTrace& trace, const std::vector<int32_t>& tokens) {
  std::string text;
  const size_t first = tokens.size() - std::min(tokens.size(), kMaxPrefixTokens);
  for (size_t i = first; i < tokens.size(); ++i) {
    absl::StrAppend(&text, i == first && first > 0 ? "... " : "", i > first ? " " : "",
                    TokenText(trace, tokens[i]));
  }
  return text;
}

std::vector<int32_t> TokensOf(const v1::Hypothesis& hypothesis) {
  return {hypothesis.tokens().begin(), hypothesis.tokens().end()};
}

// The best rank score among the candidates of the step that could be chosen.
double BestRankScore(const v1::TraceStep& step) {
  double best = -std::numeric_limits<double>::infinity();
  for (const v1::TraceCandidate& candidate : step.candidates()) {
    if (candidate.rank() > 0) {
      best = std::max(best, candidate.rank_score());
    }
  }
  return best;
}

// The parts of the candidate's rank score besides log-probabilities, for people; empty without any.
std::string OtherParts(const v1::SearchTrace& trace, const v1::TraceStep& step,
                       const v1::TraceCandidate& candidate) {
  std::vector<std::pair<std::string, double>> parts = {
      {"added to the token", double{candidate.token_score()} - double{candidate.log_prob()}},
      {"diversity", candidate.diversity()}};
  if (candidate.row() >= 0 && candidate.row() < step.rows_size()) {
    const v1::TraceRow& row = step.rows(candidate.row());
    parts.insert(parts.begin(), {{"rewards so far", row.reward()},
                                 {"scorers so far", row.fused()},
                                 {"lent by hotwords", row.offset()}});
  }
  const int scorers = std::min(trace.scorers_size(), candidate.scorer_log_probs_size());
  for (int i = 0; i < scorers; ++i) {
    size_t shown = 0;
    parts.emplace_back(absl::StrCat("log-prob by ", Cut(trace.scorers(i), kMaxTokenWidth, shown)),
                       candidate.scorer_log_probs(i));
  }
  std::string text;
  for (const auto& [name, value] : parts) {
    if (value != 0 && value == value) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", absl::StrFormat("%.4f", value));
    }
  }
  return text;
}

std::string StepLine(const v1::SearchTrace& trace, int step, const v1::TraceCandidate& candidate) {
  const v1::TraceStep& traced = trace.steps(step);
  const std::string token = TokenText(trace, candidate.token());
  std::string line = absl::StrFormat("  %4d  %4s  %9.4f  %10.4f  %8.4f  %-8s  %s", step + 1,
                                     candidate.rank() > 0 ? absl::StrCat(candidate.rank()) : "-",
                                     candidate.log_prob(), candidate.rank_score(),
                                     BestRankScore(traced) - candidate.rank_score(), token,
                                     Reason(candidate.fate()));
  if (candidate.answer() > 0) {
    absl::StrAppend(&line, ", place ", candidate.answer());
  }
  if (candidate.has_score()) {
    absl::StrAppendFormat(&line, ", score %.4f", candidate.score());
  }
  const std::string parts = OtherParts(trace, traced, candidate);
  return absl::StrCat(line, "\n", parts.empty() ? "" : absl::StrCat("        ", parts, "\n"));
}

std::string PathTable(const v1::SearchTrace& trace, const FollowedPath& path,
                      const ExplanationOptions& options) {
  if (path.candidates.empty()) {
    return "";
  }
  std::string table =
      "  step  rank   log-prob  rank score    behind  token     what became of it\n";
  const auto count = static_cast<int>(path.candidates.size());
  const int left_out = std::max(0, count - options.max_steps);
  const int head = (count - left_out) / 2;
  for (int i = 0; i < count; ++i) {
    if (left_out > 0 && i == head) {
      absl::StrAppend(&table, "  ... ", left_out, left_out == 1 ? " step" : " steps",
                      " left out (--steps)\n");
      i += left_out;
    }
    absl::StrAppend(&table, StepLine(trace, i, *path.candidates[static_cast<size_t>(i)]));
  }
  return table;
}

// The first step at which two hypotheses differ, and the log-probability of each token there.
std::string PartingOf(const v1::SearchTrace& trace, const v1::Hypothesis& winner,
                      const v1::Hypothesis& other) {
  const int length = std::min(winner.tokens_size(), other.tokens_size());
  int at = 0;
  while (at < length && winner.tokens(at) == other.tokens(at)) {
    ++at;
  }
  if (at >= length || at >= winner.token_log_probs_size() || at >= other.token_log_probs_size()) {
    return "";
  }
  return absl::StrFormat("They part at step %d: %s has log-prob %.4f, %s %.4f.", at + 1,
                         TokenText(trace, winner.tokens(at)), winner.token_log_probs(at),
                         TokenText(trace, other.tokens(at)), other.token_log_probs(at));
}

std::string WhoHadThePlace(const v1::SearchTrace& trace, int step,
                           const v1::TraceCandidate& dropped) {
  const v1::TraceCandidate* kept = LastKeptBefore(trace.steps(step), dropped);
  if (kept == nullptr) {
    return "";
  }
  std::vector<int32_t> tokens = TokensBefore(trace, step, kept->row());
  tokens.push_back(kept->token());
  return absl::StrFormat(" The last place went to \"%s\", rank score %.4f, %.4f above it.",
                         TokensText(trace, tokens), kept->rank_score(),
                         kept->rank_score() - dropped.rank_score());
}

// One sentence or two on how the target's path ended.
std::string EndOfPath(const v1::Decoded& decoded, const v1::Hypothesis& target,
                      const FollowedPath& path, bool drawn) {
  const v1::SearchTrace& trace = decoded.trace();
  const auto length = static_cast<int>(path.candidates.size());
  const v1::Hypothesis& winner = decoded.hypotheses(0);
  if (path.unlisted && length < winner.prefix_length()) {
    return absl::StrCat("Lost at step ", length + 1, ": the target prefix has \"",
                        TokenText(trace, winner.tokens(length)), "\" in its place.");
  }
  if (path.unlisted && drawn) {
    return absl::StrCat("Lost at step ", length + 1, ": no sample drew \"",
                        TokenText(trace, target.tokens(length)), "\" there.");
  }
  if (path.unlisted) {
    const int omitted = trace.steps(length).num_omitted();
    std::string text =
        absl::StrCat("Lost at step ", length + 1, ": \"", TokenText(trace, target.tokens(length)),
                     "\" is not among the candidates that the trace lists");
    if (omitted > 0) {
      return absl::StrCat(text, "; ", omitted, " more were dropped. --trace 1024 lists more.");
    }
    return absl::StrCat(text, ": the model ranks too many other tokens above it there.");
  }
  if (length == 0) {
    return "The trace has no step.";
  }
  const v1::TraceCandidate& last = *path.candidates.back();
  if (last.answer() > 0) {
    return absl::StrCat("It is in the answer, at place ", last.answer(), ".");
  }
  if (last.fate() == v1::TRACE_FATE_KEPT) {
    return trace.truncated()
               ? absl::StrCat("The trace ends at step ", length,
                              ", at its largest size; what came later is unknown.")
               : absl::StrCat("The search ended after step ", length, ", before it was complete.");
  }
  std::string text = absl::StrCat("Lost at step ", length, ": ", Reason(last.fate()), ".");
  if (last.fate() == v1::TRACE_FATE_BEAM) {
    absl::StrAppend(&text, WhoHadThePlace(trace, length - 1, last));
  }
  return text;
}

// Whether the model or the search is to blame.
std::string Blame(const v1::Hypothesis& winner, const v1::Hypothesis& target) {
  const double ahead = winner.score() - target.score();
  if (ahead >= 0) {
    return absl::StrFormat(
        "As a whole it scores %.4f, %.4f below the best answer: the model prefers the answer, and "
        "a "
        "wider beam would not make it win.",
        target.score(), ahead);
  }
  return absl::StrFormat(
      "As a whole it scores %.4f, %.4f above the best answer: the search lost it on the way; a "
      "wider "
      "beam (--beam-size) may find it.",
      target.score(), -ahead);
}

}  // namespace

std::string WhyItWon(const v1::Decoded& decoded, const ExplanationOptions& options) {
  const v1::Hypothesis& winner = decoded.hypotheses(0);
  const FollowedPath path = Follow(decoded.trace(), TokensOf(winner), 1);
  std::string text =
      absl::StrCat(Bold(options.drawn ? absl::StrCat("How ", HypothesisText(winner), " was drawn")
                                      : absl::StrCat("Why ", HypothesisText(winner), " won")),
                   "\n", PathTable(decoded.trace(), path, options));
  if (decoded.trace().truncated()) {
    absl::StrAppend(&text, "  The trace ends at step ", decoded.trace().steps_size(), " of ",
                    decoded.steps(), ", at its largest size; a smaller --trace holds more.\n");
  }
  if (decoded.hypotheses_size() > 1 && !options.drawn) {
    const v1::Hypothesis& second = decoded.hypotheses(1);
    absl::StrAppendFormat(&text, "  It is %.4f ahead of place 2, %s. %s\n",
                          winner.score() - second.score(), HypothesisText(second),
                          PartingOf(decoded.trace(), winner, second));
  }
  return text;
}

std::string WhyItLost(const v1::Decoded& decoded, const v1::Hypothesis& target,
                      const ExplanationOptions& options) {
  const v1::Hypothesis& winner = decoded.hypotheses(0);
  const FollowedPath path = Follow(decoded.trace(), TokensOf(target), 0);
  const bool won = !path.candidates.empty() && path.candidates.back()->answer() == 1;
  std::string text = absl::StrCat(Bold(absl::StrCat("What became of ", HypothesisText(target))),
                                  "\n", PathTable(decoded.trace(), path, options), "  ",
                                  EndOfPath(decoded, target, path, options.drawn), "\n");
  if (options.comparable && !won) {
    absl::StrAppend(&text, "  ", Blame(winner, target), "\n");
    if (const std::string parting = PartingOf(decoded.trace(), winner, target); !parting.empty()) {
      absl::StrAppend(&text, "  ", parting, "\n");
    }
  }
  return text;
}

}  // namespace beamwright::client
