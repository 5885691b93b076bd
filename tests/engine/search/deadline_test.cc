// When a search ends: by its stop rule, and cut at a deadline.

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/search/plain_case.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/reference_search.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {

// A search that is cut at its deadline, against the naive one that never meant to go further.

namespace {

using search::BeamSearch;
using search::FinishReason;
using search::SearchOptions;
using Tokens = std::vector<int32_t>;

SearchOptions Options(Random& random) {
  SearchOptions options;
  options.vocabulary_size = 6;
  options.end_tokens = {0, 3};
  options.max_length = 12;
  options.beam_size = random.In(1, 5);
  options.n_best = random.In(1, options.beam_size);
  options.length_penalty = static_cast<search::LengthPenalty>(random.In(0, 2));
  options.alpha = random.In(-4, 8) / 4.0;
  options.stop = search::StopMode::kNever;
  options.may_be_cut = true;
  return options;
}

// Runs and cuts after `steps`; whether the search was cut (else it had ended before).
bool RunAndCut(const RawModel& model, int steps, BeamSearch& search) {
  bool cut = false;
  DriveHooks hooks;
  hooks.after_step = [&](const std::vector<Tokens>&) {
    cut = cut ||
          (!search.done() && search.num_steps() == steps && search.Cut(FinishReason::kDeadline));
  };
  EXPECT_TRUE(StepRows(model, hooks, search).ok());
  return cut;
}

// What finished, then what was under way, each in its order.
TEST(DeadlineTest, AnswersWhatIsKnownFinishedFirst) {
  int cuts = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    SearchOptions options = Options(random);
    const TableModel table(seed, 6, TableModel::Kind::kSoftmax);
    const auto log_probs = [&](const Tokens& tokens) {
      return PlainLogSoftmax(table.LogProbs(tokens, {}));
    };
    const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
    const int steps = random.In(1, 8);
    BeamSearch search = *BeamSearch::Create(options);
    if (!RunAndCut(model, steps, search)) {
      continue;
    }
    ++cuts;
    const auto n_best = static_cast<size_t>(options.n_best);
    options.max_length = steps;
    options.n_best = 1000;  // all that there is
    std::vector<ReferenceHypothesis> expected = ReferenceSearch(log_probs, options).hypotheses;
    std::stable_partition(expected.begin(), expected.end(),
                          [](const ReferenceHypothesis& h) { return h.ends; });
    expected.resize(std::min(expected.size(), n_best));
    const auto actual = CollectDriven(search);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->hypotheses.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual->hypotheses[i].tokens, expected[i].tokens) << i;
      EXPECT_EQ(actual->hypotheses[i].sum, expected[i].sum) << i;
      EXPECT_NEAR(actual->hypotheses[i].score, expected[i].score, 1e-9) << i;
      EXPECT_EQ(actual->hypotheses[i].reason,
                expected[i].ends ? FinishReason::kEos : FinishReason::kDeadline);
    }
  }
  EXPECT_GT(cuts, 1000);
}

TEST(DeadlineTest, NothingIsKnownBeforeTheFirstTokenBehindThePrefix) {
  SearchOptions options;
  options.vocabulary_size = 4;
  options.end_tokens = {0};
  options.max_length = 5;
  options.constraints.prefix = {1, 2};
  BeamSearch search = *BeamSearch::Create(options);
  EXPECT_FALSE(search.Cut(FinishReason::kDeadline));
  const TableModel table(1, 4, TableModel::Kind::kSoftmax);
  const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
  DriveHooks hooks;
  int refused = 0;
  hooks.after_step = [&](const std::vector<Tokens>&) {
    if (search.num_steps() <= 2) {
      EXPECT_FALSE(search.Cut(FinishReason::kDeadline));
      ++refused;
    }
  };
  ASSERT_TRUE(StepRows(model, hooks, search).ok());
  EXPECT_EQ(refused, 2);
  EXPECT_FALSE(search.Cut(FinishReason::kDeadline)) << "it is done";
}

// A hypothesis that breaks a promise is not an answer, late or not.
TEST(DeadlineTest, WhatDoesNotMeetItsConstraintsIsNotReturned) {
  SearchOptions options;
  options.vocabulary_size = 5;
  options.end_tokens = {0};
  options.max_length = 6;
  options.constraints.required = {{1, 2, 3}};
  const TableModel table(7, 5, TableModel::Kind::kSoftmax);
  const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
  BeamSearch search = *BeamSearch::Create(options);
  EXPECT_FALSE(RunAndCut(model, 2, search));
  search = *BeamSearch::Create(options);
  ASSERT_TRUE(RunAndCut(model, 4, search));
  const auto answer = CollectDriven(search);
  ASSERT_TRUE(answer.ok());
  for (const search::Hypothesis& hypothesis : answer->hypotheses) {
    const Tokens phrase = {1, 2, 3};
    EXPECT_NE(std::search(hypothesis.tokens.begin(), hypothesis.tokens.end(), phrase.begin(),
                          phrase.end()),
              hypothesis.tokens.end());
  }
}

}  // namespace

// O3: when a search ends. `safe` answers what `never` answers, in fewer steps; more patience never
// lowers the best score. (Under all options together: option_laws_test.cc.)

namespace {

using search::SearchOptions;
using search::StopMode;

// And the rule must be worth having: a tenth of the steps saved over all cases.
TEST(StopRuleTest, SafeEqualsNeverInFewerSteps) {
  int64_t safe_steps = 0;
  int64_t never_steps = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.max_length += 6;
    options.stop = StopMode::kNever;
    const auto never = DrivePlain(c, options);
    options.stop = StopMode::kSafe;
    const auto safe = DrivePlain(c, options);
    ASSERT_EQ(safe.status().code(), never.status().code());
    if (!safe.ok()) {
      continue;
    }
    EXPECT_LE(safe->steps, never->steps);
    safe_steps += safe->steps;
    never_steps += never->steps;
    ASSERT_EQ(safe->hypotheses.size(), never->hypotheses.size());
    for (size_t i = 0; i < safe->hypotheses.size(); ++i) {
      EXPECT_EQ(safe->hypotheses[i].tokens, never->hypotheses[i].tokens);
      EXPECT_EQ(safe->hypotheses[i].score, never->hypotheses[i].score);
      EXPECT_EQ(safe->hypotheses[i].reason, never->hypotheses[i].reason);
    }
  }
  EXPECT_LT(safe_steps * 10, never_steps * 9);
}

TEST(StopRuleTest, MorePatienceNeverLowersTheBestScore) {
  for (uint64_t seed = 1; seed <= 800 && !HasFailure(); ++seed) {
    const PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.stop = StopMode::kCount;
    double best = -std::numeric_limits<double>::infinity();
    int steps = 0;
    for (const double patience : {0.25, 0.5, 1.0, 1.5, 3.0}) {
      options.patience = patience;
      const auto result = DrivePlain(c, options);
      if (!result.ok()) {
        break;
      }
      ASSERT_FALSE(result->hypotheses.empty());
      EXPECT_GE(result->hypotheses[0].score, best);
      EXPECT_GE(result->steps, steps);
      best = result->hypotheses[0].score;
      steps = result->steps;
    }
  }
}

}  // namespace

}  // namespace beamwright::search_testing
