// Taggers against every sequence of labels, written out.
#include "engine/search/frames/tag_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::search {
namespace {

using Labels = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kLabels = 3;
constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Case {
  FrameOptions options;
  bool has_transitions = false;
  TagTransitions transitions;
  std::vector<float> scores;

  const TagTransitions* crf() const { return has_transitions ? &transitions : nullptr; }
  int64_t positions() const { return static_cast<int64_t>(scores.size()) / kLabels; }
};

std::vector<float> Numbers(std::mt19937& random, size_t count) {
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> numbers(count);
  std::generate(numbers.begin(), numbers.end(), [&] { return uniform(random); });
  return numbers;
}

Case RandomCase(std::mt19937& random, int positions, bool has_transitions) {
  Case one;
  one.options.kind = FrameKind::kTags;
  one.options.vocabulary_size = kLabels;
  one.options.blank = -1;
  one.options.beam_size = 1 + static_cast<int>(random() % 9);
  one.options.n_best = one.options.beam_size;
  one.options.temperature = random() % 2 == 0 ? 1 : 0.7;
  one.scores = Numbers(random, static_cast<size_t>(positions * kLabels));
  one.has_transitions = has_transitions;
  one.transitions = {Numbers(random, kLabels * kLabels), Numbers(random, kLabels),
                     Numbers(random, kLabels)};
  if (random() % 2 == 0) {
    one.transitions.between[random() % (kLabels * kLabels)] = kNever;
  }
  if (random() % 4 == 0) {
    one.options.suppressed = {static_cast<int32_t>(random() % kLabels)};
  }
  if (random() % 4 == 0) {
    one.options.suppressed_at_begin = {static_cast<int32_t>(random() % kLabels)};
  }
  if (random() % 4 == 0) {
    one.options.prefix = {static_cast<int32_t>(random() % kLabels)};
  }
  for (size_t row = 0; !has_transitions && row < one.scores.size(); row += kLabels) {
    double sum = 0;
    for (size_t label = 0; label < kLabels; ++label) {
      sum += std::exp(one.scores[row + label]);
    }
    for (size_t label = 0; label < kLabels; ++label) {
      one.scores[row + label] -= static_cast<float>(std::log(sum));
    }
  }
  return one;
}

double EnergyOf(const Case& one, const Labels& labels) {
  double energy = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<size_t>(labels[i]);
    energy += double{one.scores[i * kLabels + label]};
    if (!one.has_transitions) {
      continue;
    }
    energy +=
        i == 0
            ? double{one.transitions.first[label]}
            : double{one.transitions.between[static_cast<size_t>(labels[i - 1]) * kLabels + label]};
    energy += i + 1 == labels.size() ? double{one.transitions.last[label]} : 0;
  }
  return energy / one.options.temperature;
}

bool Allows(const FrameOptions& options, const Labels& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto is_in = [&](const Labels& set) {
      return std::find(set.begin(), set.end(), labels[i]) != set.end();
    };
    if (i < options.prefix.size()) {
      if (labels[i] != options.prefix[i]) {
        return false;
      }
    } else if (is_in(options.suppressed) || (i == 0 && is_in(options.suppressed_at_begin))) {
      return false;
    }
  }
  return true;
}

// All sequences that the options allow, best first, with their log-probabilities over all.
std::vector<std::pair<double, Labels>> AllOf(const Case& one) {
  std::vector<std::pair<double, Labels>> all;
  double sum = 0;
  const auto count = static_cast<int>(std::pow(kLabels, one.positions()) + 0.5);
  for (int number = 0; number < count; ++number) {
    Labels labels;
    for (int rest = number; static_cast<int64_t>(labels.size()) < one.positions();
         rest /= kLabels) {
      labels.push_back(rest % kLabels);
    }
    const double energy = EnergyOf(one, labels);
    sum += std::exp(energy);
    if (Allows(one.options, labels) && energy > double{kNever}) {
      all.emplace_back(energy, labels);
    }
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  for (auto& [log_prob, labels] : all) {
    log_prob -= std::log(sum);
  }
  return all;
}

absl::Status RunToEnd(TagSearch& search, int64_t at_once) {
  while (!search.done()) {
    EXPECT_EQ(search.rows().size(), 1u);
    if (absl::Status status = search.Advance(at_once); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

TEST(TagSearchTest, ABeamOfNFindsTheNBestOfAllSequences) {
  std::mt19937 random(41);
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    const Case one = RandomCase(random, 1 + i % 5, i % 2 == 1);
    const auto best = AllOf(one);
    const auto plan = FramePlan::Create(one.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    TagSearch search(*plan, one.crf());
    ASSERT_TRUE(search.SetScores(one.scores).ok());
    const absl::Status status = RunToEnd(search, 1 + i % 3);
    if (best.empty()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(search.rows().empty());
    const auto found = search.Results();
    ASSERT_EQ(found.size(), std::min(best.size(), static_cast<size_t>(one.options.beam_size)));
    std::vector<int32_t> stable;
    search.AddStableLabels(stable);
    for (size_t n = 0; n < found.size(); ++n) {
      EXPECT_EQ(found[n].labels, best[n].second);
      EXPECT_NEAR(found[n].log_prob, best[n].first, 1e-6);
      EXPECT_EQ(found[n].score, found[n].log_prob);
      double sum = 0;
      for (const LabelTime& time : found[n].times) {
        sum += double{time.log_prob};
      }
      EXPECT_NEAR(sum, found[n].log_prob, 1e-5);
      ASSERT_LE(stable.size(), found[n].labels.size());
      EXPECT_TRUE(std::equal(stable.begin(), stable.end(), found[n].labels.begin()));
    }
  }
}

TEST(TagSearchTest, GivenLabelsHaveTheirShareOfAllSequences) {
  std::mt19937 random(42);
  for (int i = 0; i < 40; ++i) {
    Case one = RandomCase(random, 4, i % 2 == 1);
    one.options.prefix.clear();
    one.options.suppressed.clear();
    one.options.suppressed_at_begin.clear();
    TagLattice lattice(one.options, one.crf());
    ASSERT_TRUE(lattice.SetScores(one.scores).ok());
    while (!lattice.is_ready()) {
      ASSERT_TRUE(lattice.Advance(3).ok());
    }
    double all = 0;
    for (const auto& [log_prob, labels] : AllOf(one)) {
      EXPECT_NEAR(lattice.ScoreOf(labels).full_log_prob, log_prob, 1e-6);
      all += std::exp(lattice.ScoreOf(labels).full_log_prob);
    }
    EXPECT_NEAR(all, 1, 1e-6);
    EXPECT_EQ(lattice.ScoreOf({0, 1}).full_log_prob, double{kNever});
  }
}

TEST(TagSearchTest, EqualSequencesAreInTheOrderOfTheirLabels) {
  FrameOptions options;
  options.kind = FrameKind::kTags;
  options.vocabulary_size = 2;
  options.blank = -1;
  options.beam_size = options.n_best = 4;
  TagSearch search(*FramePlan::Create(options), nullptr);
  const std::vector<float> scores(4, std::log(0.5F));
  ASSERT_TRUE(search.SetScores(scores).ok());
  ASSERT_TRUE(RunToEnd(search, 16).ok());
  const auto found = search.Results();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(found[0].labels, ElementsAre(0, 0));
  EXPECT_THAT(found[1].labels, ElementsAre(0, 1));
  EXPECT_THAT(found[2].labels, ElementsAre(1, 0));
  EXPECT_THAT(found[3].labels, ElementsAre(1, 1));
}

TEST(TagSearchTest, WhatIsNoScoreIsRefused) {
  std::mt19937 random(43);
  for (const bool has_transitions : {false, true}) {
    Case one = RandomCase(random, 2, has_transitions);
    one.scores[4] = std::nanf("");
    TagSearch search(*FramePlan::Create(one.options), one.crf());
    const absl::Status status = search.SetScores(one.scores);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("frame 1, token 1"));
  }
}

TEST(TagSearchTest, APrefixIsNotLongerThanTheSource) {
  std::mt19937 random(44);
  Case one = RandomCase(random, 2, true);
  one.options.prefix = {0, 0, 0};
  TagSearch search(*FramePlan::Create(one.options), nullptr);
  one.scores.assign(one.scores.size(), -1);
  ASSERT_TRUE(search.SetScores(one.scores).ok());
  EXPECT_THAT(RunToEnd(search, 16).message(), HasSubstr("target_prefix has 3"));
}

}  // namespace
}  // namespace beamwright::search
