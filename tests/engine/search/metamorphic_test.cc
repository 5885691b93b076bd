// What must not matter, with random options on (O14): a constant on all logits, and how the
// vocabulary is numbered.
#include <algorithm>
#include <memory>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::Hypothesis;
using search::SearchOptions;
using Tokens = std::vector<int32_t>;

// Without ties, which numbering decides, and with as many options as will go together.
RandomCase TieFreeCase(uint64_t seed) {
  RandomCase c = MakeRandomCase(seed, 4);
  const TableModel table(seed, c.request.options.vocabulary_size, TableModel::Kind::kSoftmax);
  c.model = [table](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
  return c;
}

void ExpectSame(const absl::StatusOr<DrivenResult>& actual,
                const absl::StatusOr<DrivenResult>& expected, const Tokens& renumbered) {
  ASSERT_EQ(actual.status().code(), expected.status().code());
  if (!expected.ok()) {
    return;
  }
  ASSERT_EQ(actual->hypotheses.size(), expected->hypotheses.size());
  for (size_t i = 0; i < expected->hypotheses.size(); ++i) {
    Tokens tokens;
    for (const int32_t token : expected->hypotheses[i].tokens) {
      tokens.push_back(renumbered[static_cast<size_t>(token)]);
    }
    EXPECT_EQ(actual->hypotheses[i].tokens, tokens);
    EXPECT_NEAR(actual->hypotheses[i].score, expected->hypotheses[i].score, 1e-3);
  }
}

TEST(MetamorphicTest, AConstantOnAllLogitsChangesNothing) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    RandomCase c = TieFreeCase(seed);
    c.request.options.processors.repetition_penalty = 1;  // looks at the sign of a logit
    if (!Validate(c.request.options).ok()) {
      continue;
    }
    SCOPED_TRACE(c.name);
    // A power of two with few bits to lose: sums of rounded values do not cross thresholds.
    const RawModel shifted = [&](const Tokens& tokens) {
      std::vector<float> scores = c.model(tokens);
      for (float& score : scores) {
        score += 8;
      }
      return scores;
    };
    Tokens same(static_cast<size_t>(c.request.options.vocabulary_size));
    std::iota(same.begin(), same.end(), 0);
    ExpectSame(DriveRaw(shifted, c.request.options, 0, c.request.scorers),
               DriveRaw(c.model, c.request.options, 0, c.request.scorers), same);
    ++compared;
  }
  EXPECT_GT(compared, 600);
}

TEST(MetamorphicTest, RenumberingTheVocabularyRenumbersTheAnswer) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    const RandomCase c = TieFreeCase(seed);
    const SearchOptions& options = c.request.options;
    if (!Validate(options).ok()) {
      continue;
    }
    SCOPED_TRACE(c.name);
    Tokens to(static_cast<size_t>(options.vocabulary_size));
    std::iota(to.begin(), to.end(), 0);
    std::reverse(to.begin(), to.end());  // its own inverse
    const auto map = [&](Tokens tokens) {
      for (int32_t& token : tokens) {
        token = to[static_cast<size_t>(token)];
      }
      return tokens;
    };
    const auto map_all = [&](std::vector<Tokens> lists) {
      std::transform(lists.begin(), lists.end(), lists.begin(), map);
      return lists;
    };
    SearchOptions mapped = options;
    mapped.end_tokens = map(options.end_tokens);
    mapped.banned_tokens = map(options.banned_tokens);
    mapped.processors.suppressed = map(options.processors.suppressed);
    mapped.processors.suppressed_at_begin = map(options.processors.suppressed_at_begin);
    mapped.processors.suppressed_sequences = map_all(options.processors.suppressed_sequences);
    mapped.constraints.prefix = map(options.constraints.prefix);
    mapped.constraints.soft_prefix = map(options.constraints.soft_prefix);
    mapped.constraints.required = map_all(options.constraints.required);
    mapped.constraints.shortlist = map(options.constraints.shortlist);
    std::sort(mapped.constraints.shortlist.begin(), mapped.constraints.shortlist.end());
    for (search::TokenBias& bias : mapped.processors.logit_bias) {
      bias.token = to[static_cast<size_t>(bias.token)];
    }
    if (options.stop_strings != nullptr) {
      mapped.stop_strings = std::make_shared<const search::StopStrings>(
          c.request.stops, [&](int32_t token, bool /*is_first*/) {
            return c.request.writes[static_cast<size_t>(to[static_cast<size_t>(token)])];
          });
    }
    if (options.constraints.text != nullptr) {
      std::vector<std::string> writes(c.request.writes.size());
      for (size_t token = 0; token < writes.size(); ++token) {
        writes[static_cast<size_t>(to[token])] = c.request.writes[token];
      }
      mapped.constraints.text = ConstraintOf(c.request.units, writes, mapped.end_tokens);
    }
    for (search::Hotword& hotword : mapped.constraints.hotwords) {
      hotword.tokens = map(hotword.tokens);
    }
    if (options.constraints.allowed != nullptr) {
      mapped.constraints.allowed =
          std::make_shared<const search::TokenTrie>(map_all(c.request.entries), mapped.end_tokens);
    }
    const auto renumbered = [&](const RawModel& model) {
      return RawModel([&](const Tokens& tokens) {
        const std::vector<float> scores = model(map(tokens));
        std::vector<float> result(scores.size());
        for (size_t i = 0; i < scores.size(); ++i) {
          result[static_cast<size_t>(to[i])] = scores[i];
        }
        return result;
      });
    };
    std::vector<RawModel> scorers;
    for (const RawModel& scorer : c.request.scorers) {
      scorers.push_back(renumbered(scorer));
    }
    ExpectSame(DriveRaw(renumbered(c.model), mapped, 0, scorers),
               DriveRaw(c.model, options, 0, c.request.scorers), to);
    ++compared;
  }
  EXPECT_GT(compared, 600);
}

}  // namespace
}  // namespace beamwright::search_testing
