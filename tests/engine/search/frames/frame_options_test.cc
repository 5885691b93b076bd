// What options of a search over frames are refused, each by a message that names it.

#include "engine/search/frames/frame_options.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/search/frames/frame_search.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using testing::HasSubstr;

FrameOptions Good(FrameKind kind) {
  FrameOptions options;
  options.kind = kind;
  options.vocabulary_size = 5;
  options.blank = 4;
  if (kind == FrameKind::kTokenAndDuration) {
    options.durations = {0, 1, 2};
  }
  return options;
}

struct Refused {
  FrameKind kind;
  std::function<void(FrameOptions&)> change;
  std::string message;
};

constexpr FrameKind kCtc = FrameKind::kCtc;
constexpr FrameKind kRnnt = FrameKind::kTransducer;
constexpr FrameKind kTdt = FrameKind::kTokenAndDuration;

std::vector<Refused> RefusedNumbers() {
  const double nan = std::nan("");
  return {
      {kCtc, [](auto& o) { o.vocabulary_size = 1; }, "vocabulary_size is 1"},
      {kCtc, [](auto& o) { o.blank = 5; }, "blank is 5, must be in [0, 4]"},
      {kCtc, [](auto& o) { o.blank = -1; }, "blank is -1"},
      {kRnnt, [](auto& o) { o.beam_size = 0; }, "beam_size is 0, must be in [1, 256]"},
      {kRnnt, [](auto& o) { o.beam_size = 257; }, "beam_size is 257"},
      {kRnnt, [](auto& o) { o.n_best = 5; }, "n_best is 5, must be in [1, 4]"},
      {kRnnt, [](auto& o) { o.expansion = 6; }, "expansion is 6, must be in [0, 5]"},
      {kRnnt, [](auto& o) { o.expansion = -1; }, "expansion is -1"},
      {kRnnt, [](auto& o) { o.blank_penalty = -101; }, "blank_penalty is -101"},
      {kRnnt, [=](auto& o) { o.blank_penalty = nan; }, "blank_penalty is nan"},
      {kRnnt, [](auto& o) { o.frame_beam = -1; }, "frame_beam is -1"},
      {kRnnt, [](auto& o) { o.frame_beam = INFINITY; }, "frame_beam is inf"},
      {kRnnt, [](auto& o) { o.temperature = 0; }, "temperature is 0"},
      {kRnnt, [=](auto& o) { o.temperature = nan; }, "temperature is nan"},
      {kRnnt, [](auto& o) { o.word_reward = 1001; }, "word_reward is 1001"},
      {kRnnt, [](auto& o) { o.max_length = 0; }, "max_length is 0"},
      {kRnnt, [](auto& o) { o.no_repeat_ngram = -1; }, "no_repeat_ngram is -1"},
      {kRnnt, [](auto& o) { o.max_symbols_per_frame = 0; }, "max_symbols_per_frame is 0"},
      {kRnnt, [](auto& o) { o.max_symbols_per_frame = 101; }, "max_symbols_per_frame is 101"},
  };
}

std::vector<Refused> RefusedCombinations() {
  const auto synchronous = [](FrameOptions& o) { o.alignment_length_synchronous = true; };
  return {
      {kCtc, [](auto& o) { o.recombine = Recombine::kNone; }, "recombine none: a CTC"},
      {kCtc, [](auto& o) { o.max_symbols_per_frame = 2; }, "a CTC model emits one symbol a frame"},
      {kCtc, [](auto& o) { o.durations = {1}; }, "only a token-and-duration transducer has them"},
      {kRnnt, [](auto& o) { o.durations = {1}; }, "only a token-and-duration transducer has them"},
      {kCtc, synchronous, "only a transducer without durations can be searched so"},
      {kTdt, synchronous, "only a transducer without durations can be searched so"},
      {kRnnt,
       [=](auto& o) {
         synchronous(o);
         o.max_symbols_per_frame = 2;
       },
       "alignment_length_synchronous and max_symbols_per_frame exclude each other"},
      {kRnnt,
       [=](auto& o) {
         synchronous(o);
         o.frame_beam = 1;
       },
       "alignment_length_synchronous and frame_beam exclude each other"},
      {kTdt, [](auto& o) { o.durations = {}; }, "the number of durations is 0"},
      {kTdt, [](auto& o) { o.durations = {0}; }, "one must be above 0"},
      {kTdt,
       [](auto& o) {
         o.durations = {1, 1};
       },
       "durations[1] is 1, which is there twice"},
      {kTdt,
       [](auto& o) {
         o.durations = {0, 1001};
       },
       "durations[1] is 1001"},
      {kTdt,
       [](auto& o) {
         o.durations = {-1, 1};
       },
       "durations[0] is -1"},
  };
}

std::vector<Refused> RefusedLabels() {
  return {
      {kCtc, [](auto& o) { o.suppressed = {4}; }, "suppress_tokens[0] is the blank"},
      {kCtc,
       [](auto& o) {
         o.suppressed = {0, 5};
       },
       "suppress_tokens[1] is 5"},
      {kCtc, [](auto& o) { o.suppressed_at_begin = {-1}; }, "suppress_at_begin[0] is -1"},
      {kCtc, [](auto& o) { o.suppressed_sequences = {{}}; }, "suppress_sequences is empty"},
      {kCtc,
       [](auto& o) {
         o.suppressed_sequences = {{1, 4}};
       },
       "[1] is the blank"},
      {kCtc,
       [](auto& o) {
         o.shortlist = {1, 4};
       },
       "shortlist[1] is the blank"},
      {kCtc,
       [](auto& o) {
         o.shortlist = {2, 1};
       },
       "shortlist: labels must ascend"},
      {kCtc,
       [](auto& o) {
         o.shortlist = {1, 1};
       },
       "shortlist: labels must ascend"},
      {kCtc, [](auto& o) { o.prefix = {9}; }, "target_prefix[0] is 9"},
      {kCtc,
       [](auto& o) {
         o.prefix = {1, 2};
         o.max_length = 1;
       },
       "target_prefix has 2 labels, max_length allows 1"},
      {kCtc,
       [](auto& o) {
         o.hotwords = {{{}, 1}};
       },
       "a phrase of hotwords is empty"},
      {kCtc,
       [](auto& o) {
         o.hotwords = {{{4}, 1}};
       },
       "a phrase of hotwords[0] is the blank"},
      {kCtc,
       [](auto& o) {
         o.hotwords = {{{1}, -1}};
       },
       "hotwords: a bonus is -1"},
      {kCtc,
       [](auto& o) {
         o.hotwords = {{{1}, INFINITY}};
       },
       "hotwords: a bonus is inf"},
      {kCtc,
       [](auto& o) {
         o.scorers = {{"lm", 0}};
       },
       "the weight of 'lm' is 0"},
      {kCtc,
       [](auto& o) {
         o.scorers = {{"lm", INFINITY}};
       },
       "the weight of 'lm' is inf"},
      {kCtc,
       [](auto& o) {
         o.label_scorers = {{"ngram", 1, nullptr}};
       },
       "'ngram' is not there"},
      {kCtc,
       [](auto& o) {
         o.scorers.assign(5, {"lm", 1});
       },
       "the number of fusion's scorers is 5"},
  };
}

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& refused : cases) {
    FrameOptions options = Good(refused.kind);
    ASSERT_TRUE(Validate(options).ok()) << Validate(options);
    refused.change(options);
    const absl::Status status = Validate(options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << refused.message;
    EXPECT_THAT(status.message(), HasSubstr(refused.message));
    EXPECT_EQ(FramePlan::Create(options).status(), status);
  }
}

TEST(FrameOptionsTest, NumbersOutOfRangeAreRefused) { ExpectRefused(RefusedNumbers()); }
TEST(FrameOptionsTest, WhatAKindDoesNotHaveIsRefused) { ExpectRefused(RefusedCombinations()); }
TEST(FrameOptionsTest, LabelsThatAreNoneAreRefused) { ExpectRefused(RefusedLabels()); }

TEST(FrameOptionsTest, AllFaultsAreTold) {
  FrameOptions options = Good(kCtc);
  options.beam_size = 0;
  options.suppressed = {7};
  options.temperature = -1;
  const std::string message(Validate(options).message());
  EXPECT_THAT(message, HasSubstr("beam_size is 0"));
  EXPECT_THAT(message, HasSubstr("suppress_tokens[0] is 7"));
  EXPECT_THAT(message, HasSubstr("temperature is -1"));
}

TEST(FrameOptionsTest, LabelsTriedFollowTheBeam) {
  FrameOptions options = Good(kRnnt);
  options.vocabulary_size = 100;
  EXPECT_EQ(options.num_expanded(), 4);
  options.expansion = 7;
  EXPECT_EQ(options.num_expanded(), 7);
  options.expansion = 100;
  EXPECT_EQ(options.num_expanded(), 99);  // the blank is no label
  options.kind = kCtc;
  options.expansion = 0;
  EXPECT_EQ(options.num_expanded(), 99);
}

TEST(EndpointTest, TheFirstRuleThatIsMetWhollyIsTold) {
  const std::vector<EndpointRule> rules = {{.min_trailing_blanks = 10},
                                           {.needs_label = true, .min_trailing_blanks = 4},
                                           {.min_frames = 50}};
  EXPECT_EQ(MetRule(rules, 0, 9, 9), -1);
  EXPECT_EQ(MetRule(rules, 0, 10, 10), 0);
  EXPECT_EQ(MetRule(rules, 1, 3, 20), -1);
  EXPECT_EQ(MetRule(rules, 1, 4, 20), 1);
  EXPECT_EQ(MetRule(rules, 0, 4, 20), -1);
  EXPECT_EQ(MetRule(rules, 3, 0, 50), 2);
  EXPECT_EQ(MetRule({}, 3, 100, 100), -1);
}

TEST(EndpointTest, AsksTheLeadingHypothesis) {
  FrameOptions options;
  options.kind = FrameKind::kCtc;
  options.vocabulary_size = 2;
  frames_testing::CtcRun run(options);
  const std::vector<EndpointRule> rules = {{.needs_label = true, .min_trailing_blanks = 2}};
  const std::vector<float> label = {-5, -0.01f};
  const std::vector<float> blank = {-0.01f, -5};
  std::vector<int> met;
  for (const auto& row : {blank, blank, blank, label, label, blank, blank, blank}) {
    ASSERT_TRUE(run.Advance(row).ok());
    met.push_back(MetRule(rules, run.search()));
  }
  EXPECT_EQ(met, std::vector<int>({-1, -1, -1, -1, -1, -1, 0, 0}));
  EXPECT_EQ(run.search().trailing_blanks(), 3);
  EXPECT_EQ(run.search().num_labels(), 1);
}

}  // namespace

}  // namespace beamwright::search
