// The search on small scripts whose answers can be worked out by hand, and on wrong input.

#include "engine/search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/plain_case.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/search_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::BeamSearch;
using search::FinishReason;
using search::RowCandidates;
using search::SearchOptions;
using search::StopMode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Tokens: 0 ends, the rest are letters.
SearchOptions Options(int beam_size, int vocabulary_size, int max_length) {
  SearchOptions options;
  options.beam_size = beam_size;
  options.vocabulary_size = vocabulary_size;
  options.max_length = max_length;
  options.begin_token = vocabulary_size;
  options.end_tokens = {0};
  return options;
}

using Script = std::map<std::vector<int32_t>, std::vector<float>>;

absl::StatusOr<DrivenResult> Play(const Script& script, const SearchOptions& options) {
  return Drive([&](const auto& prefix, const auto&) { return script.at(prefix); }, options);
}

BeamSearch Make(const SearchOptions& options) {
  auto search = BeamSearch::Create(options);
  EXPECT_TRUE(search.ok()) << search.status();
  return *std::move(search);
}

absl::Status AdvanceOne(BeamSearch& search, const std::vector<int32_t>& tokens,
                        const std::vector<float>& log_probs) {
  return search.Advance({RowCandidates{tokens, log_probs}});
}

TEST(BeamSearchTest, StartsWithOneRowThatReadsTheBeginToken) {
  SearchOptions options = Options(4, 10, 5);
  options.banned_tokens = {7, 3};
  const BeamSearch search = Make(options);
  EXPECT_FALSE(search.done());
  EXPECT_EQ(search.num_rows(), 1);
  EXPECT_THAT(search.tokens(), ElementsAre(10));
  EXPECT_THAT(search.parents(), ElementsAre(0));
  EXPECT_EQ(search.num_slots(), 5);
  ASSERT_EQ(search.rules().size(), 1u);
  ASSERT_EQ(search.rules()[0].edits.size(), 2u);
  EXPECT_EQ(search.rules()[0].edits[0].token, 7);
  EXPECT_EQ(search.rules()[0].edits[0].kind, EditKind::kExclude);
}

TEST(BeamSearchTest, RulesSurviveAMove) {
  SearchOptions options = Options(4, 10, 5);
  options.banned_tokens = {7};
  BeamSearch first = Make(options);
  const BeamSearch second = std::move(first);
  ASSERT_EQ(second.rules().size(), 1u);
  EXPECT_EQ(second.rules()[0].edits[0].token, 7);
}

TEST(BeamSearchTest, AsksForOneCandidateMorePerEndToken) {
  SearchOptions options = Options(4, 10, 5);
  EXPECT_EQ(Make(options).candidates_per_row(), 5);
  options.end_tokens = {0, 1, 1};  // a repeated end token counts once
  EXPECT_EQ(Make(options).candidates_per_row(), 6);
  options.vocabulary_size = 3;
  EXPECT_EQ(Make(options).candidates_per_row(), 3);
  options.beam_size = 1;
  EXPECT_EQ(Make(options).candidates_per_row(), 1);
}

TEST(BeamSearchTest, TiesGoToTheBetterParentThenToTheLowerToken) {
  BeamSearch search = Make(Options(3, 5, 5));
  ASSERT_TRUE(AdvanceOne(search, {4, 1, 2}, {-1, -2, -2}).ok());
  EXPECT_THAT(search.tokens(), ElementsAre(4, 1, 2));
  // Sums: row 0: -3 (3), -3 (4); row 1: -3 (1), -3 (2); row 2: -3 (1).
  const std::vector<int32_t> a = {3, 4}, b = {1, 2}, c = {1};
  const std::vector<float> two = {-2, -2}, one = {-1, -1}, single = {-1};
  ASSERT_TRUE(search.Advance({RowCandidates{a, two}, {b, one}, {c, single}}).ok());
  EXPECT_THAT(search.parents(), ElementsAre(0, 0, 1));
  EXPECT_THAT(search.tokens(), ElementsAre(3, 4, 1));
}

TEST(BeamSearchTest, AnEndTokenBelowTheBeamIsDropped) {
  SearchOptions options = Options(2, 4, 2);
  options.n_best = 2;
  options.stop = StopMode::kNever;
  // Step 0: the end token ranks third of four, behind two letters: no hypothesis.
  const Script script = {{{}, {-3, -1, -2, -4}},
                         {{1}, {kImpossible, -1, kImpossible, kImpossible}},
                         {{2}, {kImpossible, -1, kImpossible, kImpossible}}};
  const auto result = Play(script, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_finished, 0);
  ASSERT_EQ(result->hypotheses.size(), 2u);
  EXPECT_THAT(result->hypotheses[0].tokens, ElementsAre(1, 1));
  EXPECT_THAT(result->hypotheses[1].tokens, ElementsAre(2, 1));
  EXPECT_EQ(result->hypotheses[1].reason, FinishReason::kLength);
}

// At equal score the list prefers the lexicographically smaller sequence, although the other one
// had the better rank in the step; and it does so for the only slot there is.
TEST(BeamSearchTest, EqualScoresInTheListAreInLexicographicOrder) {
  SearchOptions options = Options(2, 3, 2);
  options.stop = StopMode::kNever;
  const Script script = {{{}, {-9, -2, -1}},
                         {{2}, {-2, kImpossible, kImpossible}},
                         {{1}, {-1, kImpossible, kImpossible}}};
  const auto result = Play(script, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->hypotheses.size(), 1u);
  EXPECT_THAT(result->hypotheses[0].tokens, ElementsAre(1, 0));
  EXPECT_EQ(result->num_finished, 2);
}

TEST(BeamSearchTest, AtEqualScoreAnEarlierEndWinsOverALaterOne) {
  SearchOptions options = Options(2, 2, 3);
  options.n_best = 2;
  options.stop = StopMode::kNever;
  const Script script = {{{}, {-1, -1}}, {{1}, {0, -1}}, {{1, 1}, {0, -5}}};
  const auto result = Play(script, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->hypotheses.size(), 2u);
  EXPECT_THAT(result->hypotheses[0].tokens, ElementsAre(0));
  EXPECT_THAT(result->hypotheses[1].tokens, ElementsAre(1, 0));
}

TEST(BeamSearchTest, CutRowsCompeteWithFinishedOnesOnEqualTerms) {
  SearchOptions options = Options(2, 3, 1);
  const auto result = Play({{{}, {-2, -1, -3}}}, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->hypotheses.size(), 1u);
  EXPECT_THAT(result->hypotheses[0].tokens, ElementsAre(1));
  EXPECT_EQ(result->hypotheses[0].reason, FinishReason::kLength);
}

TEST(BeamSearchTest, AnEarlyStopDiscardsLiveRows) {
  SearchOptions options = Options(3, 3, 9);
  options.n_best = 3;
  options.stop = StopMode::kFirst;
  const auto result = Play({{{}, {-1, -2, -3}}}, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 1);
  ASSERT_EQ(result->hypotheses.size(), 1u);
  EXPECT_THAT(result->hypotheses[0].tokens, ElementsAre(0));
}

// The safe rule compares the best live sum, however low, with the last entry of a full list. On an
// equal score the entry stays, because it is shorter, so the search ends in that step.
TEST(BeamSearchTest, ASafeSearchEndsInTheStepInWhichNoLiveRowCanBeListed) {
  const auto steps = [](float end, float letter) {
    SearchOptions options = Options(2, 2, 3);
    options.stop = StopMode::kSafe;
    const Script script = {{{}, {end, letter}}, {{1}, {-9, 0}}, {{1, 1}, {-9, 0}}};
    const auto result = Play(script, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result->steps;
  };
  for (const float end : {-1.0f, -6.0f, -100.0f}) {
    EXPECT_EQ(steps(end, end), 1) << end;
    EXPECT_EQ(steps(end, end - 0.5f), 1) << end;
    EXPECT_EQ(steps(end, end + 0.5f), 3) << end;
  }
}

TEST(BeamSearchTest, ASafeSearchGivesUpWhenAllLiveRowsAreBelowTheThreshold) {
  SearchOptions options = Options(2, 2, 3);
  options.n_best = 2;  // the list is never full
  options.stop = StopMode::kSafe;
  options.score_threshold = -7;
  const auto result = Play({{{}, {-6, -8}}}, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 1);
}

TEST(BeamSearchTest, TheHeuristicLooksAtPresentLengthsAlone) {
  SearchOptions options = Options(2, 3, 4);
  options.length_penalty = search::LengthPenalty::kPow;
  const Script script = {
      {{}, {-1, -0.1f, -2}},
      {{1}, {-1.5f, -2.1f, -9}},  // [1, 1] scores -1.1, less than the end at once
      {{1, 1}, {-9, -0.01f, -9}},
      {{1, 1, 1}, {-0.01f, -9, -9}},
  };
  const auto best = [&](StopMode stop) {
    options.stop = stop;
    const auto result = Drive(
        [&](const auto& prefix, const auto&) {
          const auto found = script.find(prefix);
          return found == script.end() ? std::vector<float>(3, -9) : found->second;
        },
        options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result->hypotheses.at(0).tokens;
  };
  EXPECT_THAT(best(StopMode::kHeuristic), ElementsAre(1, 0));
  EXPECT_THAT(best(StopMode::kSafe), ElementsAre(1, 1, 1, 0));
}

TEST(BeamSearchTest, PatienceIsRoundedAndAtLeastOne) {
  SearchOptions options = Options(2, 2, 9);
  options.stop = StopMode::kCount;
  const auto steps = [&](double patience) {
    options.patience = patience;
    const auto result = Drive(
        [](const auto&, const auto&) {
          return std::vector<float>{-1, -0.5f};
        },
        options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result->steps;
  };
  EXPECT_EQ(steps(0.01), 1);  // one hypothesis finishes in each step
  EXPECT_EQ(steps(0.7), 1);
  EXPECT_EQ(steps(0.75), 2);
  EXPECT_EQ(steps(1), 2);
  EXPECT_EQ(steps(2), 4);
  EXPECT_EQ(steps(100), 9);
}

TEST(BeamSearchTest, ARowWithoutCandidatesDiesAndTheOthersGoOn) {
  BeamSearch search = Make(Options(2, 4, 5));
  ASSERT_TRUE(AdvanceOne(search, {1, 2}, {-1, -2}).ok());
  const std::vector<int32_t> a = {1, 2}, b = {3};
  const std::vector<float> impossible = {kImpossible, kImpossible}, one = {-1};
  ASSERT_TRUE(search.Advance({RowCandidates{a, impossible}, {b, one}}).ok());
  EXPECT_THAT(search.tokens(), ElementsAre(3));
  EXPECT_THAT(search.parents(), ElementsAre(1));
  // An empty list means the same, and nothing has finished.
  const absl::Status status = search.Advance({RowCandidates{}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("step 2"));
  EXPECT_TRUE(search.done());
  const std::vector<int32_t> paths = WalkPaths(search.history());
  const auto hypotheses = search.Collect({paths, search.num_slots()});
  ASSERT_TRUE(hypotheses.ok());
  EXPECT_THAT(*hypotheses, IsEmpty());
}

TEST(BeamSearchTest, WhenAllRowsDieWhatFinishedIsTheAnswer) {
  SearchOptions options = Options(2, 3, 9);
  options.n_best = 2;
  const Script script = {{{}, {-1, -2, kImpossible}},
                         {{1}, {kImpossible, kImpossible, kImpossible}}};
  const auto result = Play(script, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 2);
  ASSERT_EQ(result->hypotheses.size(), 1u);
  EXPECT_THAT(result->hypotheses[0].tokens, ElementsAre(0));
}

TEST(BeamSearchTest, RefusesWrongCandidatesAndStaysAsItWas) {
  BeamSearch search = Make(Options(2, 4, 5));
  const auto message = [&](const std::vector<int32_t>& tokens, const std::vector<float>& values) {
    const absl::Status status = AdvanceOne(search, tokens, values);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({1, 2}, {-1, kNan}), HasSubstr("step 0, row 0: the log-probability of token "
                                                     "2 is nan"));
  EXPECT_THAT(message({1}, {kNan}), HasSubstr("token 1 is nan"));
  EXPECT_THAT(message({1}, {0.5f}), HasSubstr("is 0.5, must be a number not above 0"));
  EXPECT_THAT(message({1}, {-kImpossible}), HasSubstr("inf"));
  EXPECT_THAT(message({4}, {-1}), HasSubstr("token 4, must be in [0, 4)"));
  EXPECT_THAT(message({-1}, {-1}), HasSubstr("token -1"));
  EXPECT_THAT(message({1, 2}, {-2, -1}), HasSubstr("candidate 1"));
  EXPECT_THAT(message({2, 1}, {-1, -1}), HasSubstr("best-first"));
  EXPECT_THAT(message({1, 1}, {-1, -1}), HasSubstr("best-first"));
  EXPECT_THAT(message({1, 2}, {-1}), HasSubstr("2 tokens but 1"));
  EXPECT_EQ(search.Advance({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(search.history().num_steps(), 0);
  EXPECT_EQ(search.num_rows(), 1);
  EXPECT_TRUE(AdvanceOne(search, {1, 2}, {-1, -2}).ok());
}

TEST(BeamSearchTest, ALogProbabilityRoundedAboveZeroCountsAsZero) {
  BeamSearch search = Make(Options(1, 4, 1));
  ASSERT_TRUE(AdvanceOne(search, {1}, {1e-6f}).ok());
  const std::vector<int32_t> paths = WalkPaths(search.history());
  const auto result = search.Collect({paths, search.num_slots()});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)[0].sum, 0);
  EXPECT_EQ((*result)[0].token_log_probs[0], 0);
}

TEST(BeamSearchTest, CollectReadsAWiderTensorAndRefusesForeignPaths) {
  BeamSearch search = Make(Options(2, 4, 2));
  EXPECT_EQ(search.Collect({}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(AdvanceOne(search, {1, 2}, {-1, -2}).ok());
  const std::vector<int32_t> a = {3}, b = {0};
  const std::vector<float> minus_two = {-2}, half = {-0.5f};
  ASSERT_TRUE(search.Advance({RowCandidates{a, minus_two}, {b, half}}).ok());
  EXPECT_EQ(search.Advance({}).code(), absl::StatusCode::kFailedPrecondition);
  std::vector<int32_t> paths = WalkPaths(search.history());
  // As in [time, request, slot]: another request's slots after ours, and one step more.
  std::vector<int32_t> wide(30, 99);
  for (size_t step = 0; step < 2; ++step) {
    std::copy_n(paths.begin() + static_cast<int64_t>(step) * 3, 3,
                wide.begin() + static_cast<int64_t>(step) * 10);
  }
  const auto result = search.Collect({wide, 10});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->size(), 1u);
  EXPECT_THAT((*result)[0].tokens, ElementsAre(2, 0));
  EXPECT_THAT((*result)[0].token_log_probs, ElementsAre(-2, -0.5f));
  EXPECT_EQ(search.Collect({absl::MakeConstSpan(paths).first(5), 3}).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(search.Collect({paths, 2}).status().code(), absl::StatusCode::kInternal);
  for (const int32_t bad : {-1, 3, 2}) {  // 2: the finished slot, at rest in step 0
    std::vector<int32_t> broken = paths;
    broken[2] = bad;
    EXPECT_EQ(search.Collect({broken, 3}).status().code(), absl::StatusCode::kInternal) << bad;
  }
}

}  // namespace

// O4: a beam of one is greedy search, whatever the stop mode.

namespace {

using search::FinishReason;
using search::SearchOptions;

TEST(GreedyTest, BeamOneIsAnArgmaxLoopInEveryStopMode) {
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    const PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.beam_size = options.n_best = 1;
    std::vector<int32_t> tokens;
    bool ends = false;
    bool dead = false;
    while (!ends && !dead && static_cast<int>(tokens.size()) < options.max_length) {
      const std::vector<float> log_probs = c.model.LogProbs(tokens, options.banned_tokens);
      const auto best = std::max_element(log_probs.begin(), log_probs.end());
      dead = std::isinf(*best);
      tokens.push_back(static_cast<int32_t>(best - log_probs.begin()));
      ends = std::count(options.end_tokens.begin(), options.end_tokens.end(), tokens.back()) > 0;
    }
    const auto actual = DrivePlain(c, options);
    if (dead) {
      EXPECT_EQ(actual.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->hypotheses.size(), 1u);
    EXPECT_EQ(actual->hypotheses[0].tokens, tokens);
    EXPECT_EQ(actual->hypotheses[0].reason, ends ? FinishReason::kEos : FinishReason::kLength);
  }
}

}  // namespace

// Values at the very edge of what an option lets through.

namespace {

search::SearchOptions EdgeOptions() {
  search::SearchOptions options;
  options.vocabulary_size = 6;
  options.end_tokens = {0};
  options.max_length = 5;
  options.beam_size = 3;
  options.n_best = 3;
  return options;
}

TEST(EdgesTest, AScoreEqualToTheThresholdIsListed) {
  const TableModel table(4, 6, TableModel::Kind::kSoftmax);
  const RawModel model = [&](const std::vector<int32_t>& tokens) {
    return table.LogProbs(tokens, {});
  };
  search::SearchOptions options = EdgeOptions();
  options.stop = search::StopMode::kNever;
  const auto all = DriveRaw(model, options);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->hypotheses.size(), 3u);
  const double second = all->hypotheses[1].score;
  for (const auto stop : {search::StopMode::kNever, search::StopMode::kSafe}) {
    options.stop = stop;
    options.score_threshold = second;
    const auto listed = DriveRaw(model, options);
    ASSERT_TRUE(listed.ok()) << listed.status();
    EXPECT_EQ(listed->hypotheses.size(), 2u);
    options.score_threshold = std::nextafter(second, 0);
    const auto fewer = DriveRaw(model, options);
    ASSERT_TRUE(fewer.ok()) << fewer.status();
    EXPECT_EQ(fewer->hypotheses.size(), 1u);
  }
}

// Required tokens that are a row's best ones take no places from its others: with all candidates
// the answer is the same.
TEST(EdgesTest, RequiredTokensLeaveARowEnoughOtherCandidates) {
  constexpr int kVocabularySize = 20;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const TableModel table(seed, kVocabularySize, TableModel::Kind::kSoftmax);
    for (const int num_required : {1, 4, 6}) {
      search::SearchOptions options = EdgeOptions();
      options.vocabulary_size = kVocabularySize;
      options.beam_size = options.n_best = 4;
      options.max_length = num_required + 3;
      for (int token = 1; token <= num_required; ++token) {
        options.constraints.required.push_back({token});
      }
      const RawModel model = [&](const std::vector<int32_t>& tokens) {
        std::vector<float> scores = table.LogProbs(tokens, {});
        for (int token = 1; token <= num_required; ++token) {
          scores[static_cast<size_t>(token)] += 6;
        }
        return scores;
      };
      const auto given = DriveRaw(model, options);
      const auto all = DriveRaw(model, options, /*extra_candidates=*/kVocabularySize);
      ASSERT_TRUE(given.ok() && all.ok()) << given.status() << all.status();
      ASSERT_EQ(given->hypotheses.size(), all->hypotheses.size());
      for (size_t i = 0; i < all->hypotheses.size(); ++i) {
        EXPECT_EQ(given->hypotheses[i].tokens, all->hypotheses[i].tokens)
            << "seed " << seed << ", " << num_required << " required, hypothesis " << i;
      }
    }
  }
}

// No alternative begins with an end token, and a forced one has no separate step in a single one.
TEST(EdgesTest, AlternativesNeedAStepForTheirForcedEnd) {
  search::SearchOptions options = EdgeOptions();
  options.constraints.num_alternatives = 3;
  options.at_limit = search::AtLimit::kForceEnd;
  options.max_length = 1;
  const absl::Status refused = Validate(options);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("at_limit force-end and num_alternatives"), std::string::npos)
      << refused;
  options.max_length = 2;
  const TableModel table(4, 6, TableModel::Kind::kSoftmax);
  const auto result = DriveRaw(
      [&](const std::vector<int32_t>& tokens) { return table.LogProbs(tokens, {}); }, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->hypotheses.size(), 3u);
  for (const search::Hypothesis& hypothesis : result->hypotheses) {
    EXPECT_EQ(hypothesis.tokens.size(), 2u);
    EXPECT_EQ(hypothesis.tokens.back(), 0);
  }
  options.max_length = 1;
  options.at_limit = search::AtLimit::kCut;
  EXPECT_TRUE(Validate(options).ok());
}

}  // namespace

}  // namespace beamwright::search_testing
