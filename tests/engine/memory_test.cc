// Memory that is refused before it is taken, and scores that are not numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/beam/beam_search_kind.h"
#include "engine/status/fault.h"
#include "include/beamwright/engine.h"
#include "tests/engine/attention_bundle.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::FirstState;
using engine_testing::kBegin;
using engine_testing::kStates;
using engine_testing::kVocabulary;
using engine_testing::NextState;
using engine_testing::RandomTable;
using engine_testing::TableBundle;
using ::testing::HasSubstr;

constexpr int32_t kEnd = 1;

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

absl::Status Refusal(int64_t max_bytes, const v1::DecodeOptions& options) {
  EngineOptions limits;
  limits.num_threads = 1;
  limits.max_bytes = max_bytes;
  const auto engine = *Engine::Start(limits);
  return engine
      ->DecodeAndWait(*DecodeModel::Compile(TableBundle(RandomTable(1), {})), Ids({3, 4}), options)
      .status();
}

TEST(RequestMemory, ThePriceIsTold) {
  v1::DecodeOptions options;
  options.set_beam_size(4);
  options.set_n_best(4);
  options.set_max_length(1000);
  // History alone: 20 bytes for each of 8 slots at each of 1000 steps.
  const absl::Status refused = Refusal(160'000, options);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status::ReasonOf(refused), status::reason::kTooLarge);
  EXPECT_THAT(refused.message(), HasSubstr("the server has 160000; lower the maximum length"));
  const auto info = status::DetailOf<google::rpc::ErrorInfo>(refused);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata().at("allowed_bytes"), "160000");
  int64_t needed = 0;
  ASSERT_TRUE(absl::SimpleAtoi(info->metadata().at("needed_bytes"), &needed));
  EXPECT_GT(needed, 160'000);
  EXPECT_EQ(Refusal(needed - 1, options).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Refusal(needed, options).ok());
}

// Requests that do not fit together run one after the other.
TEST(RequestMemory, IsOneBudget) {
  EngineOptions limits;
  limits.num_threads = 1;
  limits.max_bytes = 200'000;
  v1::DecodeOptions options;
  options.set_beam_size(4);
  options.set_n_best(4);
  options.set_max_length(1000);
  const auto model = *DecodeModel::Compile(TableBundle(RandomTable(1), {}));
  const auto engine = *Engine::Start(limits);
  absl::BlockingCounter left(10);
  for (int i = 0; i < 10; ++i) {
    engine->Decode(model, Ids({i}), options, {}, [&](const auto& decoded) {
      EXPECT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_LE(engine->load().rows, 4);
      left.DecrementCount();
    });
  }
  left.Wait();
}

// Greedy search by hand: the tokens, and the step at which the poisoned state is met (-1: never).
struct Greedy {
  std::vector<int32_t> tokens;
  int poisoned_step = -1;
};

Greedy SearchByHand(const std::vector<float>& table, int32_t source, int64_t poisoned, int steps) {
  Greedy found;
  int64_t state = FirstState({source});
  int32_t token = kBegin;
  for (int step = 0; step < steps; ++step) {
    state = NextState(state, token);
    if (state == poisoned) {
      found.poisoned_step = step;
      return found;
    }
    const auto line = table.begin() + state * kVocabulary;
    token = static_cast<int32_t>(std::max_element(line, line + kVocabulary) - line);
    found.tokens.push_back(token);
    if (token == kEnd) {
      break;
    }
  }
  return found;
}

class PoisonedScores : public ::testing::TestWithParam<float> {};

// In the middle of a search, with requests in the same steps, which notice nothing.
TEST_P(PoisonedScores, EndThatRequestAloneAndNameTheStep) {
  constexpr int kSteps = 6;
  constexpr int kNumRequests = 50;
  const std::vector<float> sound = RandomTable(7);
  // Met by some at their third step.
  int64_t poisoned = FirstState({10});
  for (const int32_t token : {kBegin, SearchByHand(sound, 10, -1, 1).tokens[0],
                              SearchByHand(sound, 10, -1, 2).tokens[1]}) {
    poisoned = NextState(poisoned, token);
  }
  std::vector<float> table = sound;
  table[static_cast<size_t>(poisoned) * kVocabulary + 3] = GetParam();
  const auto model = *DecodeModel::Compile(TableBundle(table, {}));
  EngineOptions limits;
  limits.num_threads = 2;
  const auto engine = *Engine::Start(limits);
  v1::DecodeOptions options;
  options.set_beam_size(1);
  options.set_n_best(1);
  options.set_max_length(kSteps);
  absl::BlockingCounter left(kNumRequests);
  std::vector<absl::StatusOr<v1::Decoded>> answers(kNumRequests, absl::UnknownError(""));
  for (int i = 0; i < kNumRequests; ++i) {
    engine->Decode(model, Ids({i}), options, {}, [&, i](absl::StatusOr<v1::Decoded> decoded) {
      answers[static_cast<size_t>(i)] = std::move(decoded);
      left.DecrementCount();
    });
  }
  left.Wait();
  int num_failed = 0;
  for (int i = 0; i < kNumRequests; ++i) {
    const Greedy expected = SearchByHand(sound, i, poisoned, kSteps);
    const absl::StatusOr<v1::Decoded>& answer = answers[static_cast<size_t>(i)];
    if (expected.poisoned_step >= 0) {
      ++num_failed;
      EXPECT_EQ(answer.status().code(), absl::StatusCode::kInternal) << i;
      EXPECT_THAT(answer.status().message(),
                  HasSubstr(absl::StrCat("step ", expected.poisoned_step, ", row 0")));
    } else {
      ASSERT_TRUE(answer.ok()) << i << ": " << answer.status();
      EXPECT_THAT(answer->hypotheses(0).tokens(), ::testing::ElementsAreArray(expected.tokens));
    }
  }
  EXPECT_GT(num_failed, 0);
  EXPECT_LT(num_failed, kNumRequests / 2);
}

INSTANTIATE_TEST_SUITE_P(All, PoisonedScores,
                         ::testing::Values(std::numeric_limits<float>::quiet_NaN(),
                                           std::numeric_limits<float>::infinity()));

}  // namespace

// What single options add to the price of a request.

namespace {

constexpr int kBeamSize = 3;
constexpr int kSourceLength = 5;
constexpr int kMaxLength = 11;
constexpr int kPrefixLength = 2;

class PriceTest : public ::testing::Test {
 protected:
  PriceTest() {
    model_ = *DecodeModel::Compile(engine_testing::AttentionBundle(engine_testing::RandomTable(1)));
    options_.beam_size = kBeamSize;
    options_.n_best = 1;
    options_.max_length = kMaxLength;
    options_.constraints.prefix.assign(kPrefixLength, 3);
  }

  int64_t Price(bool keeps_attention = false) const {
    return PriceBytes(*model_, options_, kSourceLength, keeps_attention);
  }

  std::shared_ptr<const DecodeModel> model_;
  search::SearchOptions options_;
};

// Of each row the sums over all tokens, those of the step before and those of this one.
TEST_F(PriceTest, CoverageCostsTwoDoublesForEachRowAndPosition) {
  const int64_t plain = Price();
  options_.coverage_penalty = 0.5;
  EXPECT_EQ(Price() - plain, 2 * 8 * kBeamSize * kSourceLength);
}

TEST_F(PriceTest, AttentionThatIsKeptCostsAFloatForEachRowPositionAndStep) {
  EXPECT_EQ(Price(/*keeps_attention=*/true) - Price(),
            4 * kBeamSize * kSourceLength * (kMaxLength + kPrefixLength));
}

}  // namespace

}  // namespace beamwright::engine
