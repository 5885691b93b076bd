#include "engine/search/options.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "engine/search/n_best_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/naive_search.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"

namespace beamwright::search {
namespace {

using ::testing::HasSubstr;

SearchOptions Valid() {
  SearchOptions options;
  options.vocabulary_size = 10;
  options.max_length = 20;
  options.end_tokens = {2};
  options.banned_tokens = {0, 1};
  return options;
}

TEST(SearchOptionsTest, AcceptsUsualAndExtremeValues) {
  EXPECT_TRUE(Validate(Valid()).ok());
  SearchOptions options = Valid();
  options.beam_size = options.n_best = kMaxBeamSize;
  options.max_length = kMaxLength;
  options.alpha = -kMaxAbsAlpha;
  options.begin_token = 10;  // read, never chosen
  options.end_tokens.clear();
  EXPECT_TRUE(Validate(options).ok());
}

TEST(SearchOptionsTest, RefusesEachWrongFieldByName) {
  const struct {
    std::function<void(SearchOptions&)> change;
    std::string message;
  } cases[] = {
      {[](SearchOptions& o) { o.beam_size = o.n_best = 0; }, "beam_size is 0, must be in [1, 256]"},
      {[](SearchOptions& o) { o.beam_size = 257; }, "beam_size is 257"},
      {[](SearchOptions& o) { o.n_best = 5; }, "n_best is 5, must be in [1, beam_size = 4]"},
      {[](SearchOptions& o) { o.n_best = 0; }, "n_best is 0"},
      {[](SearchOptions& o) { o.length_penalty = static_cast<LengthPenalty>(9); },
       "length_penalty is 9"},
      {[](SearchOptions& o) { o.alpha = 10.5; }, "alpha is 10.5, must be in [-10, 10]"},
      {[](SearchOptions& o) { o.alpha = std::nan(""); }, "alpha is nan"},
      {[](SearchOptions& o) { o.stop = static_cast<StopMode>(9); }, "stop is 9"},
      {[](SearchOptions& o) { o.patience = 0; }, "patience is 0"},
      {[](SearchOptions& o) { o.patience = std::numeric_limits<double>::infinity(); },
       "patience is inf"},
      {[](SearchOptions& o) { o.max_length = 0; }, "max_length is 0, must be in [1, 65536]"},
      {[](SearchOptions& o) { o.vocabulary_size = 0; }, "vocabulary_size is 0"},
      {[](SearchOptions& o) { o.begin_token = -1; }, "begin_token is -1"},
      {[](SearchOptions& o) {
         o.end_tokens = {2, 10};
       },
       "end_tokens[1] is 10, must be in [0, vocabulary_size = 10)"},
      {[](SearchOptions& o) { o.banned_tokens = {-1}; }, "banned_tokens[0] is -1"},
      {[](SearchOptions& o) {
         o.banned_tokens = {0, 2};
       },
       "banned_tokens[1] is 2, which is an end token"},
  };
  for (const auto& c : cases) {
    SearchOptions options = Valid();
    c.change(options);
    const absl::Status status = Validate(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(SearchOptionsTest, NamesAllWrongFieldsAtOnce) {
  SearchOptions options = Valid();
  options.n_best = 9;
  options.patience = -1;
  options.max_length = -3;
  const std::string message(Validate(options).message());
  EXPECT_THAT(message, HasSubstr("n_best is 9"));
  EXPECT_THAT(message, HasSubstr("patience is -1"));
  EXPECT_THAT(message, HasSubstr("max_length is -3"));
}

TEST(ScoreTableTest, KnownValues) {
  SearchOptions options = Valid();
  EXPECT_EQ(ScoreTable(options).Normalise(-6, 4), -6);
  EXPECT_EQ(ScoreTable(options).Bound(-6, 4), -6);
  options.length_penalty = LengthPenalty::kPow;
  EXPECT_EQ(ScoreTable(options).Normalise(-6, 4), -1.5);
  EXPECT_EQ(ScoreTable(options).Bound(-6, 4), -6.0 / 20);
  options.length_penalty = LengthPenalty::kGnmt;
  EXPECT_EQ(ScoreTable(options).Normalise(-6, 7), -3);
  options.alpha = 2;
  EXPECT_EQ(ScoreTable(options).Normalise(-6, 7), -1.5);
  options.alpha = -1;
  EXPECT_EQ(ScoreTable(options).Bound(-6, 6), -12);  // the next length is the most favourable
}

// A bound that is too low would stop a search that could still improve; one that no length reaches
// would run longer than needed.
TEST(ScoreTableTest, BoundIsTheLargestScoreOfAnyLengthToCome) {
  SearchOptions options = Valid();
  for (const LengthPenalty penalty :
       {LengthPenalty::kNone, LengthPenalty::kPow, LengthPenalty::kGnmt}) {
    for (const double alpha : {-10.0, -0.7, 0.0, 1e-17, 0.6, 1.0, 10.0}) {
      options.length_penalty = penalty;
      options.alpha = alpha;
      const ScoreTable table(options);
      for (int length = 0; length < options.max_length; ++length) {
        double largest = table.Normalise(-7.3, length + 1);
        for (int next = length + 2; next <= options.max_length; ++next) {
          largest = std::max(largest, table.Normalise(-7.3, next));
        }
        EXPECT_EQ(table.Bound(-7.3, length), largest) << alpha << " at " << length;
      }
    }
  }
}

}  // namespace

}  // namespace beamwright::search

namespace beamwright::search_testing {

// The search with all its options against the naive one, over ten thousand random requests.

namespace {

using search::FinishReason;
using search::Hypothesis;

void ExpectSame(const std::vector<Hypothesis>& actual,
                const std::vector<NaiveHypothesis>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(actual[i].token_log_probs, expected[i].token_log_probs) << i;
    EXPECT_EQ(actual[i].sum, expected[i].sum) << i;
    EXPECT_NEAR(actual[i].score, expected[i].score, 1e-9 * (1 + std::abs(expected[i].score))) << i;
    EXPECT_NEAR(actual[i].reward, expected[i].reward, 1e-9) << i;
    EXPECT_EQ(actual[i].scorer_sums.empty(), expected[i].scorer_sums.empty()) << i;
    for (size_t k = 0; k < expected[i].scorer_sums.size(); ++k) {
      EXPECT_EQ(actual[i].scorer_sums[k], expected[i].scorer_sums[k]) << i << ", scorer " << k;
    }
    EXPECT_EQ(actual[i].reason == FinishReason::kLength, expected[i].cut) << i;
  }
}

// Returns whether the search had an answer.
bool Compare(uint64_t seed, int sparsity) {
  const RandomCase c = MakeRandomCase(seed, sparsity);
  if (!Validate(c.request.options).ok()) {
    return false;
  }
  SCOPED_TRACE(c.name);
  const NaiveResult expected = NaiveSearch(c.model, c.request);
  const auto actual =
      DriveRaw(c.model, c.request.options, static_cast<int>(seed % 3), c.request.scorers);
  if (expected.dead) {
    EXPECT_EQ(actual.status().code(), absl::StatusCode::kFailedPrecondition) << actual.status();
    return false;
  }
  EXPECT_TRUE(actual.ok()) << actual.status();
  if (!actual.ok()) {
    return false;
  }
  ExpectSame(actual->hypotheses, expected.hypotheses);
  EXPECT_LE(actual->steps, expected.steps);
  return true;
}

TEST(RandomOptionsTest, FewOptionsAtATime) {
  int answered = 0;
  for (uint64_t seed = 1; seed <= 5000 && !HasFailure(); ++seed) {
    answered += Compare(seed, 8) ? 1 : 0;
  }
  EXPECT_GT(answered, 3000);
}

TEST(RandomOptionsTest, ManyOptionsAtATime) {
  int answered = 0;
  for (uint64_t seed = 5001; seed <= 10000 && !HasFailure(); ++seed) {
    answered += Compare(seed, 4) ? 1 : 0;
  }
  EXPECT_GT(answered, 1500);
}

}  // namespace

}  // namespace beamwright::search_testing
