// Laws that hold for every answer whatever else is asked for (O3, O6, O8), read off the answers
// alone.
#include <algorithm>
#include <cmath>

#include "engine/search/target_scorer.h"
#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"

namespace beamwright::search_testing {
namespace {

using search::FinishReason;
using search::Hypothesis;
using search::SearchOptions;
using search::StopMode;
using Tokens = std::vector<int32_t>;

bool Includes(const Tokens& tokens, int32_t token) {
  return std::count(tokens.begin(), tokens.end(), token) > 0;
}

bool Includes(const Tokens& text, const Tokens& phrase) {
  return std::search(text.begin(), text.end(), phrase.begin(), phrase.end()) != text.end();
}

void ExpectLawful(const Hypothesis& hypothesis, const NaiveRequest& request) {
  const SearchOptions& options = request.options;
  const search::ProcessorOptions& p = options.processors;
  const search::ConstraintOptions& c = options.constraints;
  const auto prefix = static_cast<int64_t>(c.prefix.size());
  ASSERT_EQ(hypothesis.prefix_length, prefix);
  ASSERT_GE(static_cast<int64_t>(hypothesis.tokens.size()), prefix);
  const Tokens own(hypothesis.tokens.begin() + prefix, hypothesis.tokens.end());
  const bool ends = !own.empty() && Includes(options.end_tokens, own.back());
  const Tokens body(own.begin(), own.end() - (ends ? 1 : 0));
  const Tokens text(hypothesis.tokens.begin(), hypothesis.tokens.end() - (ends ? 1 : 0));
  EXPECT_TRUE(std::equal(c.prefix.begin(), c.prefix.end(), hypothesis.tokens.begin()));
  EXPECT_LE(static_cast<int>(own.size()), options.max_length);
  EXPECT_TRUE(!ends || static_cast<int>(body.size()) >= p.min_length);
  std::string written;
  for (const int32_t token : own) {
    written += request.writes.empty() ? "" : request.writes[static_cast<size_t>(token)];
  }
  const bool stops =
      std::any_of(request.stops.begin(), request.stops.end(),
                  [&](const std::string& stop) { return written.find(stop) != std::string::npos; });
  EXPECT_EQ(stops && !ends, hypothesis.reason == FinishReason::kStop);
  EXPECT_TRUE(ends || stops || hypothesis.reason == FinishReason::kLength);
  EXPECT_TRUE(ends || stops || options.at_limit != search::AtLimit::kForceEnd);
  EXPECT_GE(hypothesis.score, options.score_threshold);
  for (const int32_t token : own) {
    EXPECT_FALSE(Includes(p.suppressed, token) || Includes(options.banned_tokens, token));
    EXPECT_TRUE(c.shortlist.empty() || Includes(c.shortlist, token) ||
                Includes(options.end_tokens, token));
  }
  for (const int32_t token : body) {
    EXPECT_FALSE(Includes(options.end_tokens, token));
  }
  EXPECT_FALSE(Includes(p.suppressed_at_begin, own[0]));
  if (c.prefix.empty()) {
    for (const Tokens& sequence : p.suppressed_sequences) {
      EXPECT_FALSE(Includes(own, sequence));
    }
    const auto n = static_cast<int64_t>(p.no_repeat_ngram);
    for (auto it = own.begin(); n > 0 && own.end() - it >= n; ++it) {
      EXPECT_EQ(std::search(it + 1, own.end(), it, it + n), own.end());
    }
  }
  for (const Tokens& required : c.required) {
    EXPECT_TRUE(Includes(text, required));
  }
  EXPECT_TRUE(request.entries.empty() ||
              std::count(request.entries.begin(), request.entries.end(), text) > 0);
  double sum = c.score_prefix ? 0 : -hypothesis.prefix_sum;
  for (const float log_prob : hypothesis.token_log_probs) {
    EXPECT_LE(log_prob, 0);
    sum += static_cast<double>(log_prob);
  }
  EXPECT_NEAR(hypothesis.sum, sum, 1e-9);
}

TEST(OptionLawsTest, EveryAnswerObeysItsOptions) {
  int answered = 0;
  for (uint64_t seed = 20001; seed <= 24000 && !HasFailure(); ++seed) {
    const RandomCase c = MakeRandomCase(seed, 3);
    if (!Validate(c.request.options).ok()) {
      continue;
    }
    SCOPED_TRACE(c.name);
    const auto result = DriveRaw(c.model, c.request.options, 0, c.request.scorers);
    if (!result.ok()) {
      continue;
    }
    for (size_t i = 0; i < result->hypotheses.size(); ++i) {
      ExpectLawful(result->hypotheses[i], c.request);
      for (size_t j = 0; j < i; ++j) {
        EXPECT_NE(result->hypotheses[i].tokens, result->hypotheses[j].tokens);
        EXPECT_GE(result->hypotheses[j].score, result->hypotheses[i].score);
      }
    }
    ++answered;
  }
  EXPECT_GT(answered, 800);
}

// Without another softmax masks leave values alone: then each token of an answer has the bits that
// the same tokens have when they are scored, whatever else was asked for.
TEST(OptionLawsTest, WithoutRenormalisationAnswersAreScoredAlike) {
  int compared = 0;
  for (uint64_t seed = 40001; seed <= 42000 && !HasFailure(); ++seed) {
    RandomCase c = MakeRandomCase(seed, 4);
    SearchOptions& options = c.request.options;
    options.processors.renormalize = false;
    options.processors.logit_bias.clear();
    options.processors.repetition_penalty = 1;
    options.processors.temperature = 1;
    if (!Validate(options).ok()) {
      continue;
    }
    SCOPED_TRACE(c.name);
    const auto result = DriveRaw(c.model, options, 0, c.request.scorers);
    if (!result.ok() || result->hypotheses.empty()) {
      continue;
    }
    std::vector<Tokens> targets;
    for (const Hypothesis& hypothesis : result->hypotheses) {
      targets.push_back(hypothesis.tokens);
    }
    auto scorer = search::TargetScorer::Create(options, targets);
    ASSERT_TRUE(scorer.ok()) << scorer.status();
    DriveHooks hooks;
    hooks.scorers = c.request.scorers;
    hooks.weights = options.scorers;
    ASSERT_TRUE(StepRows(c.model, hooks, *scorer).ok());
    for (size_t i = 0; i < targets.size(); ++i) {
      EXPECT_EQ(result->hypotheses[i].token_log_probs, scorer->results()[i].token_log_probs);
    }
    compared += options.banned_tokens.empty() ? 0 : 1;
  }
  EXPECT_GT(compared, 150);
}

TEST(OptionLawsTest, SafeEqualsNeverUnderEveryOption) {
  int compared = 0;
  int64_t safe_steps = 0;
  int64_t never_steps = 0;
  for (uint64_t seed = 30001; seed <= 33000 && !HasFailure(); ++seed) {
    RandomCase c = MakeRandomCase(seed, 5);
    SearchOptions& options = c.request.options;
    options.stop = StopMode::kNever;
    options.max_length += 5;
    if (!Validate(options).ok()) {
      continue;
    }
    SCOPED_TRACE(c.name);
    const auto never = DriveRaw(c.model, options, 0, c.request.scorers);
    options.stop = StopMode::kSafe;
    const auto safe = DriveRaw(c.model, options, 0, c.request.scorers);
    ASSERT_EQ(safe.status().code(), never.status().code());
    if (!never.ok()) {
      continue;
    }
    ASSERT_EQ(safe->hypotheses.size(), never->hypotheses.size());
    for (size_t i = 0; i < safe->hypotheses.size(); ++i) {
      EXPECT_EQ(safe->hypotheses[i].tokens, never->hypotheses[i].tokens);
      EXPECT_EQ(safe->hypotheses[i].score, never->hypotheses[i].score);
    }
    EXPECT_LE(safe->steps, never->steps);
    safe_steps += safe->steps;
    never_steps += never->steps;
    ++compared;
  }
  EXPECT_GT(compared, 1000);
  EXPECT_LT(safe_steps * 10, never_steps * 9) << "the rule must be worth having";
}

}  // namespace
}  // namespace beamwright::search_testing
