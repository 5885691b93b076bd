// What is printed of a trace. Traces are written by hand; tests/e2e/explain_test.cc has real ones.
#include "client/cli/explanation.h"

#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A beam of two over a (3), b (4) and the end (1): "b" wins, "a b" is in the answer, "a a" is
// dropped in the second step, and a candidate c (5) in the first.
v1::Decoded Search() {
  v1::Decoded decoded;
  const bool parsed = google::protobuf::TextFormat::ParseFromString(R"(
    hypotheses { tokens: [4, 1] token_log_probs: [-0.5, -0.5] text: "b" log_prob: -1 score: -1 }
    hypotheses { tokens: [3, 4, 1] token_log_probs: [-0.25, -1, -0.75] text: "a b" score: -2 }
    steps: 3
    trace {
      token_texts { key: 1 value: "</s>" }
      token_texts { key: 3 value: "a" }
      token_texts { key: 4 value: "b" }
      steps {
        rows {}
        candidates { token: 3 log_prob: -0.25 rank_score: -0.25 rank: 1 fate: TRACE_FATE_KEPT next_row: 0 }
        candidates { token: 4 log_prob: -0.5 rank_score: -0.5 rank: 2 fate: TRACE_FATE_KEPT next_row: 1 }
        candidates { token: 5 log_prob: -3 rank_score: -3 rank: 3 fate: TRACE_FATE_BEAM }
        num_omitted: 7
      }
      steps {
        rows { token: 3 sum: -0.25 reward: 0.5 }
        rows { token: 4 sum: -0.5 }
        candidates { row: 1 token: 1 rank_score: -1 rank: 1 fate: TRACE_FATE_ANSWER score: -1 answer: 1 }
        candidates { row: 0 token: 4 log_prob: -1 rank_score: -1.25 rank: 2 fate: TRACE_FATE_KEPT next_row: 0 }
        candidates { row: 0 token: 3 log_prob: -2 rank_score: -2.25 rank: 3 fate: TRACE_FATE_BEAM }
      }
      steps {
        rows { token: 4 parent: 0 sum: -1.25 }
        candidates { row: 0 token: 1 rank_score: -2 rank: 1 fate: TRACE_FATE_ANSWER score: -2 answer: 2 }
      }
    })",
                                                                    &decoded);
  EXPECT_TRUE(parsed);
  for (v1::TraceStep& step : *decoded.mutable_trace()->mutable_steps()) {
    for (v1::TraceCandidate& candidate : *step.mutable_candidates()) {
      candidate.set_token_score(candidate.log_prob());
    }
  }
  return decoded;
}

v1::Hypothesis Target(std::initializer_list<int> tokens, double score) {
  v1::Hypothesis target;
  for (const int token : tokens) {
    target.add_tokens(token);
  }
  target.set_score(score);
  return target;
}

std::string Lost(const v1::Decoded& decoded, const v1::Hypothesis& target) {
  return WhyItLost(decoded, target, {});
}

TEST(ExplanationTest, TellsTheWinnersStepsAndWhereTheSecondParts) {
  EXPECT_EQ(
      WhyItWon(Search(), {}),
      "Why b won\n"
      "  step  rank   log-prob  rank score    behind  token     what became of it\n"
      "     1     2    -0.5000     -0.5000    0.2500  b         lives on\n"
      "     2     1     0.0000     -1.0000    0.0000  </s>      ended; in the answer, place 1, "
      "score -1.0000\n"
      "  It is 1.0000 ahead of place 2, a b. They part at step 1: b has log-prob -0.5000, a "
      "-0.2500.\n");
}

TEST(ExplanationTest, TellsWhoHadThePlaceOfATargetThatWasDropped) {
  const std::string text = Lost(Search(), Target({3, 3, 1}, -2.75));
  EXPECT_THAT(text, HasSubstr("What became of ids 3 3 1\n"));
  EXPECT_THAT(text, HasSubstr("rewards so far 0.5000"));
  EXPECT_THAT(
      text, HasSubstr("Lost at step 2: dropped: the beam was full of candidates that rank above "
                      "it. The last place went to \"a b\", rank score -1.2500, 1.0000 above it."));
  EXPECT_THAT(text, HasSubstr("scores -2.7500, 1.7500 below the best answer: the model prefers"));
}

TEST(ExplanationTest, TellsASearchErrorFromAModelsChoice) {
  EXPECT_THAT(Lost(Search(), Target({3, 3, 1}, -0.5)),
              HasSubstr("scores -0.5000, 0.5000 above the best answer: the search lost it"));
  EXPECT_THAT(WhyItLost(Search(), Target({3, 3, 1}, -0.5), {.comparable = false}),
              Not(HasSubstr("As a whole")));
}

TEST(ExplanationTest, TellsEachEndOfATarget) {
  EXPECT_THAT(Lost(Search(), Target({3, 4, 1}, -2)), HasSubstr("in the answer, at place 2."));
  EXPECT_THAT(Lost(Search(), Target({6, 1}, -9)),
              AllOf(HasSubstr("Lost at step 1: \"#6\" is not among the candidates"),
                    HasSubstr("7 more were dropped. --trace 1024 lists more.")));
  v1::Decoded decoded = Search();
  decoded.mutable_trace()->mutable_steps()->RemoveLast();
  EXPECT_THAT(Lost(decoded, Target({3, 4, 1}, -2)), HasSubstr("The search ended after step 2"));
  decoded.mutable_trace()->set_truncated(true);
  EXPECT_THAT(Lost(decoded, Target({3, 4, 1}, -2)), HasSubstr("The trace ends at step 2"));
  EXPECT_THAT(WhyItWon(decoded, {}), HasSubstr("The trace ends at step 2 of 3"));
  decoded.mutable_hypotheses(0)->set_prefix_length(1);
  EXPECT_THAT(Lost(decoded, Target({6, 1}, -9)),
              HasSubstr("Lost at step 1: the target prefix has \"b\" in its place."));
  decoded.mutable_trace()->clear_steps();
  EXPECT_THAT(Lost(decoded, Target({6, 1}, -9)), HasSubstr("The trace has no step."));
}

// Groups hold the same tokens in several rows.
TEST(ExplanationTest, FollowsTheRowThatCameFurthest) {
  v1::Decoded decoded = Search();
  v1::TraceStep& first = *decoded.mutable_trace()->mutable_steps(0);
  v1::TraceCandidate copy = first.candidates(0);
  copy.set_fate(v1::TRACE_FATE_BEAM);
  copy.clear_next_row();
  copy.set_rank_score(5);
  *first.add_candidates() = copy;
  EXPECT_THAT(Lost(decoded, Target({3, 4, 1}, -2)), HasSubstr("in the answer, at place 2."));
}

TEST(ExplanationTest, LongPathsLoseTheirMiddle) {
  v1::Decoded decoded;
  v1::Hypothesis& winner = *decoded.add_hypotheses();
  for (int i = 0; i < 100; ++i) {
    winner.add_tokens(i);
    v1::TraceStep& step = *decoded.mutable_trace()->add_steps();
    step.add_rows();
    v1::TraceCandidate& candidate = *step.add_candidates();
    candidate.set_token(i);
    candidate.set_fate(v1::TRACE_FATE_KEPT);
    candidate.set_next_row(0);
  }
  const std::string text = WhyItWon(decoded, {.max_steps = 4});
  EXPECT_THAT(text,
              AllOf(HasSubstr("  #1 "), HasSubstr("... 96 steps left out"), HasSubstr("  #98 "),
                    HasSubstr("  #99 "), Not(HasSubstr("  #2 ")), Not(HasSubstr("  #97 "))));
}

TEST(ExplanationTest, NothingThatAServerSendsSteersTheTerminalOrReadsBeyondTheTrace) {
  v1::Decoded decoded = Search();
  auto& trace = *decoded.mutable_trace();
  (*trace.mutable_token_texts())[4] =
      absl::StrCat("\x1b[2J\xc2\x9b", "31m", std::string(1000, 'x'));
  trace.add_scorers("\x1b]0;title\x07");
  for (v1::TraceStep& step : *trace.mutable_steps()) {
    for (v1::TraceCandidate& candidate : *step.mutable_candidates()) {
      candidate.add_scorer_log_probs(-1);
      candidate.add_scorer_log_probs(-1);
    }
    for (v1::TraceRow& row : *step.mutable_rows()) {
      row.set_parent(-7);
    }
  }
  trace.mutable_steps(0)->mutable_candidates(1)->set_row(12345);
  trace.mutable_steps(0)->mutable_candidates(0)->set_next_row(-1);
  trace.mutable_steps(1)->mutable_candidates(1)->set_row(-1);
  trace.mutable_steps(1)->mutable_candidates(2)->set_row(-1);
  for (const std::string& text :
       {WhyItWon(decoded, {}), Lost(decoded, Target({3, 4, 1}, -2)),
        Lost(decoded, Target({3, 3, 1}, -2)), Lost(decoded, Target({5}, -2))}) {
    EXPECT_LT(text.size(), 2000u);
    EXPECT_FALSE(absl::StrContains(text, "\x1b") || absl::StrContains(text, "\xc2\x9b") ||
                 absl::StrContains(text, "\x07"))
        << text;
  }
  EXPECT_THAT(WhyItWon(decoded, {}), HasSubstr("\\x1b[2J\\xc2\\x9b"));
}

}  // namespace
}  // namespace beamwright::client
