#include "tests/engine/search/frames/expect_answers.h"

#include <cmath>

#include "gtest/gtest.h"

namespace beamwright::search::frames_testing {
namespace {

void ExpectTimes(const FrameHypothesis& answer, const NaiveSum& sum) {
  ASSERT_EQ(answer.times.size(), answer.labels.size());
  for (size_t i = 0; !sum.is_tied && i < answer.times.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(answer.times[i].first_frame, sum.times[i].frame);
    EXPECT_EQ(answer.times[i].duration, sum.times[i].duration);
    EXPECT_NEAR(answer.times[i].log_prob, sum.times[i].log_prob, 2e-5);
  }
}

}  // namespace

void ExpectAll(const std::vector<FrameHypothesis>& answers, const NaiveSums& sums, bool is_max,
               const NaiveGain& gain, double close) {
  const auto mass = [&](const NaiveSum& sum) {
    return is_max ? sum.best : std::log(sum.probability);
  };
  const std::vector<NaiveAnswer> ranked = Ranked(
      sums, [&](const Labels& labels, const NaiveSum& sum) { return mass(sum) + gain(labels); });
  ASSERT_EQ(answers.size(), ranked.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    const FrameHypothesis& answer = answers[i];
    const auto found = sums.find(answer.labels);
    ASSERT_NE(found, sums.end());
    const NaiveSum& sum = found->second;
    EXPECT_NEAR(answer.score, ranked[i].score, close);  // in the right place
    EXPECT_NEAR(answer.score, mass(sum) + gain(answer.labels), close);
    EXPECT_NEAR(answer.merged_log_prob, mass(sum), close);
    EXPECT_NEAR(answer.log_prob, sum.best, close);
    ExpectTimes(answer, sum);
  }
}

}  // namespace beamwright::search::frames_testing
