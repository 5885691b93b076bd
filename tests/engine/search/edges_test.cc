// Values at the very edge of what an option lets through.
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
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
