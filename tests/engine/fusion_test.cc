// Ensembles and fusion through the engine: a beam that holds everything against all hypotheses
// there are, scored by the formulas; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "include/beamwright/engine.h"
#include "tests/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::FusedBundle;
using engine_testing::FusedOptions;
using engine_testing::kVocabulary;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

constexpr int kEnd = 1;
constexpr int kMaxLength = 3;
const Tokens kSource = {3, 17, 8};

v1::Source Ids(const Tokens& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

struct Weights {
  double lm = 0;
  double ngram = 0;
  double ctc = 0;
};

struct Expected {
  Tokens tokens;
  double sum = 0;
  double parts[3] = {0, 0, 0};  // lm, ngram, ctc
  std::vector<double> members;
  double score = 0;
};

// What is subtracted counts at least -20.
double Counts(double log_prob, double weight) {
  return weight < 0 ? std::max(log_prob, -20.0) : log_prob;
}

void Extend(const FusedOptions& options, const Weights& weights, const Expected& at,
            std::vector<Expected>& all) {
  const int64_t state = engine_testing::FirstState(kSource);
  const auto model = engine_testing::EnsembleLine(options, state, at.tokens);
  const auto language = engine_testing::Line(engine_testing::LanguageTable(), 0, at.tokens);
  for (int32_t token = 0; token < kVocabulary; ++token) {
    Expected next = at;
    next.tokens.push_back(token);
    next.sum += model[static_cast<size_t>(token)];
    next.members.resize(options.num_members == 0 ? 0
                                                 : static_cast<size_t>(options.num_members + 1));
    for (size_t i = 0; i < next.members.size(); ++i) {
      const std::vector<float> table = i == 0
                                           ? engine_testing::OwnTable()
                                           : engine_testing::MemberTable(static_cast<int>(i) - 1);
      next.members[i] += engine_testing::Line(table, state, at.tokens)[static_cast<size_t>(token)];
    }
    next.parts[0] += Counts(language[static_cast<size_t>(token)], weights.lm);
    const int32_t before = at.tokens.empty() ? -1 : at.tokens.back();
    next.parts[1] += Counts(
        std::min(0.0, engine_testing::Log10Bigram(before, token) * std::log(10.0)), weights.ngram);
    if (weights.ctc != 0) {
      // Telescoped: what all steps together said.
      Tokens text = next.tokens;
      if (token == kEnd) {
        text.pop_back();
      }
      next.parts[2] = std::log(engine_testing::CtcProb(kSource, text, token == kEnd));
      if (!std::isfinite(next.parts[2])) {
        continue;
      }
    }
    next.score = next.sum + weights.lm * next.parts[0] + weights.ngram * next.parts[1] +
                 (weights.ctc == 0 ? 0 : weights.ctc * next.parts[2]);
    if (token == kEnd || next.tokens.size() == kMaxLength) {
      all.push_back(next);
    } else {
      Extend(options, weights, next, all);
    }
  }
}

v1::DecodeOptions WideBeam() {
  v1::DecodeOptions options;
  options.set_beam_size(256);
  options.set_n_best(40);
  options.set_max_length(kMaxLength);
  return options;
}

void SetWeight(const std::string& name, double weight, v1::DecodeOptions& options) {
  v1::FusionWeight& fusion = *options.add_fusion();
  fusion.set_name(name);
  fusion.set_weight(static_cast<float>(weight));
}

class FusionTest : public ::testing::Test {
 protected:
  FusionTest() : engine_(*Engine::Start({1, 1024, 1000})) {}

  static std::shared_ptr<const DecodeModel> Compile(const FusedOptions& options) {
    auto model = DecodeModel::Compile(FusedBundle(options));
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *model : nullptr;
  }

  void ExpectAllHypotheses(const FusedOptions& fused, const Weights& weights) {
    v1::DecodeOptions options = WideBeam();
    if (weights.lm != 0) SetWeight("lm", weights.lm, options);
    if (weights.ngram != 0) SetWeight("ngram", weights.ngram, options);
    if (weights.ctc != 0) SetWeight("ctc", weights.ctc, options);
    const auto decoded = engine_->DecodeAndWait(Compile(fused), Ids(kSource), options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    std::vector<Expected> all;
    Extend(fused, weights, {}, all);
    std::sort(all.begin(), all.end(), [](const Expected& a, const Expected& b) {
      return std::make_tuple(-a.score, a.tokens) < std::make_tuple(-b.score, b.tokens);
    });
    ASSERT_EQ(decoded->hypotheses_size(), std::min<int>(40, static_cast<int>(all.size())));
    for (int i = 0; i < decoded->hypotheses_size(); ++i) {
      const v1::Hypothesis& actual = decoded->hypotheses(i);
      const Expected& expected = all[static_cast<size_t>(i)];
      SCOPED_TRACE(actual.ShortDebugString());
      EXPECT_EQ(Tokens(actual.tokens().begin(), actual.tokens().end()), expected.tokens);
      EXPECT_NEAR(actual.log_prob(), expected.sum, 1e-5);
      EXPECT_NEAR(actual.score(), expected.score, 1e-4);
      double score = actual.log_prob();
      for (const v1::ScorerPart& part : actual.scorer_parts()) {
        const size_t index = part.name() == "lm" ? 0 : part.name() == "ngram" ? 1 : 2;
        EXPECT_NEAR(part.log_prob(), expected.parts[index], 1e-4) << part.name();
        score += part.weight() * part.log_prob();
      }
      EXPECT_NEAR(actual.score(), score, 1e-9) << "the parts make the score";
      ASSERT_EQ(actual.member_parts_size(), static_cast<int>(expected.members.size()));
      for (int m = 0; m < actual.member_parts_size(); ++m) {
        EXPECT_NEAR(actual.member_parts(m).log_prob(), expected.members[static_cast<size_t>(m)],
                    1e-5);
        const double whole = (fused.num_members + 1) * (fused.num_members + 2) / 2.0;
        EXPECT_NEAR(actual.member_parts(m).weight(), (m + 1) / whole, 1e-6);
      }
    }
  }

  std::string Error(const v1::DecodeOptions& options,
                    const std::shared_ptr<const DecodeModel>& model) {
    const auto decoded = engine_->DecodeAndWait(model, Ids(kSource), options);
    EXPECT_FALSE(decoded.ok());
    return std::string(decoded.status().message());
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(FusionTest, EnsemblesAreTheNamedMean) {
  for (const int members : {1, 2}) {
    ExpectAllHypotheses({members, v1::ENSEMBLE_MEAN_LOG_PROBS}, {});
    ExpectAllHypotheses({members, v1::ENSEMBLE_MEAN_PROBS}, {});
  }
}

TEST_F(FusionTest, ALanguageModelCountsWithItsWeight) {
  ExpectAllHypotheses({}, {.lm = 0.75});
  ExpectAllHypotheses({}, {.lm = -0.5});
}

TEST_F(FusionTest, AnNgramModelCountsWithItsWeight) {
  ExpectAllHypotheses({}, {.ngram = 0.5});
  ExpectAllHypotheses({}, {.ngram = -0.25});
}

TEST_F(FusionTest, CtcScoresCountWithTheirWeight) { ExpectAllHypotheses({}, {.ctc = 1.5}); }

TEST_F(FusionTest, AllTogether) {
  ExpectAllHypotheses({2, v1::ENSEMBLE_MEAN_PROBS}, {.lm = -0.25, .ngram = 0.5, .ctc = 0.75});
}

// Given targets are scored as a search scores them, to the bit and in every part.
TEST_F(FusionTest, TargetsAreScoredByAllOfThem) {
  const auto model = Compile({2, v1::ENSEMBLE_MEAN_PROBS});
  for (const bool with_ctc : {false, true}) {
    v1::DecodeOptions options = WideBeam();
    options.set_length_penalty(v1::LENGTH_PENALTY_POW);
    options.set_word_reward(0.25);
    options.set_top_tokens(3);
    options.set_at_limit(with_ctc ? v1::AT_LIMIT_FORCE_END : v1::AT_LIMIT_CUT);
    v1::ScoreOptions score;
    score.set_end_token(false);
    score.set_length_penalty(options.length_penalty());
    score.set_word_reward(options.word_reward());
    score.set_top_tokens(3);
    SetWeight("ngram", 0.5, options);
    SetWeight("lm", -0.25, options);
    if (with_ctc) {
      SetWeight("ctc", 0.75, options);
    }
    *score.mutable_fusion() = options.fusion();
    const auto decoded = engine_->DecodeAndWait(model, Ids(kSource), options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    v1::ScoreSource source;
    *source.mutable_source() = Ids(kSource);
    for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
      *source.add_targets()->mutable_ids()->mutable_ids() = hypothesis.tokens();
    }
    const auto scored = engine_->ScoreAndWait(model, source, score);
    ASSERT_TRUE(scored.ok()) << scored.status();
    for (int h = 0; h < decoded->hypotheses_size(); ++h) {
      v1::Hypothesis expected = decoded->hypotheses(h);
      EXPECT_EQ(expected.scorer_parts_size(), with_ctc ? 3 : 2);
      EXPECT_EQ(expected.member_parts_size(), 3);
      // A given target knows nothing of the limit.
      expected.set_finish_reason(scored->targets(h).hypothesis().finish_reason());
      EXPECT_EQ(scored->targets(h).hypothesis().SerializeAsString(), expected.SerializeAsString());
    }
  }
}

TEST_F(FusionTest, ScoringRefusesWrongWeights) {
  v1::ScoreOptions score;
  score.add_fusion()->set_name("kenlm");
  v1::ScoreSource source;
  *source.mutable_source() = Ids(kSource);
  source.add_targets()->mutable_ids()->add_ids(2);
  const auto scored = engine_->ScoreAndWait(Compile({}), source, score);
  EXPECT_EQ(scored.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(scored.status().message()),
              HasSubstr("options.fusion[0].name: the model has no scorer 'kenlm'"));
}

// One decoder three times over is that decoder.
TEST_F(FusionTest, AnEnsembleOfEqualsIsOneOfThem) {
  bundle::Bundle bundle = FusedBundle({2, v1::ENSEMBLE_MEAN_PROBS});
  for (bundle::Bundle::Member& member : bundle.members) {
    member.decoder = engine_testing::StepGraph(engine_testing::OwnTable(), {});
  }
  const auto model = DecodeModel::Compile(std::move(bundle));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto together = engine_->DecodeAndWait(*model, Ids(kSource), WideBeam());
  const auto alone = engine_->DecodeAndWait(Compile({}), Ids(kSource), WideBeam());
  ASSERT_TRUE(together.ok() && alone.ok());
  for (int i = 0; i < alone->hypotheses_size(); ++i) {
    EXPECT_EQ(together->hypotheses(i).tokens().size(), alone->hypotheses(i).tokens().size());
    EXPECT_NEAR(together->hypotheses(i).score(), alone->hypotheses(i).score(), 1e-5);
  }
}

TEST_F(FusionTest, WeightsOfTheModelHoldUnlessTheRequestSaysOtherwise) {
  bundle::Bundle bundle = FusedBundle({});
  SetWeight("lm", 0.5, *bundle.config.mutable_default_options());
  const auto model = DecodeModel::Compile(std::move(bundle));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto by_default = engine_->DecodeAndWait(*model, Ids(kSource), {});
  ASSERT_TRUE(by_default.ok()) << by_default.status();
  ASSERT_EQ(by_default->hypotheses(0).scorer_parts_size(), 1);
  EXPECT_EQ(by_default->hypotheses(0).scorer_parts(0).weight(), 0.5);
  v1::DecodeOptions off;
  SetWeight("lm", 0, off);
  const auto without = engine_->DecodeAndWait(*model, Ids(kSource), off);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->hypotheses(0).scorer_parts_size(), 0);
  EXPECT_EQ(without->hypotheses(0).score(), without->hypotheses(0).log_prob());
}

TEST_F(FusionTest, WrongWeightsAreNamedTogether) {
  bundle::Bundle bundle = FusedBundle({});
  bundle.config.mutable_scorers(0)->set_min_weight(-0.5f);
  bundle.config.mutable_scorers(0)->set_max_weight(0.5f);
  const auto model = DecodeModel::Compile(std::move(bundle));
  ASSERT_TRUE(model.ok()) << model.status();
  v1::DecodeOptions options;
  SetWeight("lm", 0.75, options);
  SetWeight("kenlm", 1, options);
  SetWeight("ctc", -1, options);
  options.add_fusion()->set_name("ngram");
  SetWeight("lm", 0.25, options);
  const std::string message = Error(options, *model);
  EXPECT_THAT(message, HasSubstr("options.fusion[0].weight: 0.75 is outside [-0.5, 0.5], what the "
                                 "model allows of 'lm'"));
  EXPECT_THAT(message, HasSubstr("options.fusion[1].name: the model has no scorer 'kenlm'; it has "
                                 "3: 'lm', 'ngram', 'ctc'"));
  EXPECT_THAT(message, HasSubstr("options.fusion[2].weight: -1 is outside [0, 100]"));
  EXPECT_THAT(message, HasSubstr("options.fusion[3].weight: is not set"));
  EXPECT_THAT(message, HasSubstr("options.fusion[4].name: 'lm' is given twice"));
  options.Clear();
  SetWeight("lm", 0.25, options);
  options.set_sampling(v1::SAMPLING_RANDOM);
  EXPECT_THAT(Error(options, *model), HasSubstr("sampling and fusion: exclude each other"));
}

// Frames that cannot spell a prefix leave nothing, and the message says who it was.
TEST_F(FusionTest, WhatCtcRulesOutIsNamed) {
  v1::DecodeOptions options;
  options.mutable_target_prefix()->mutable_ids()->add_ids(2);
  options.mutable_target_prefix()->mutable_ids()->add_ids(2);
  options.mutable_target_prefix()->mutable_ids()->add_ids(2);
  SetWeight("ctc", 1, options);
  const auto model = Compile({});
  const auto decoded = engine_->DecodeAndWait(model, Ids(kSource), options);
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("under fusion"));
  options.set_score_prefix(true);
  EXPECT_THAT(Error(options, model), HasSubstr("target_prefix: fusion gives token 2, number 2"));
}

TEST_F(FusionTest, TheLexicalTableOpensWhatTheSourceMayBecome) {
  const auto model = Compile({});
  v1::DecodeOptions options = WideBeam();
  options.set_lexical_shortlist(true);
  // Of 3 the two most probable, of 17 nothing, of 8 one; 0 is frequent, 1 ends.
  const auto decoded = engine_->DecodeAndWait(model, Ids(kSource), options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  std::set<int32_t> tokens;
  for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
    tokens.insert(hypothesis.tokens().begin(), hypothesis.tokens().end());
  }
  EXPECT_EQ(tokens, (std::set<int32_t>{0, 1, 2, 4}));
  v1::DecodeOptions by_hand = WideBeam();
  for (const int32_t token : {0, 2, 4}) {
    by_hand.mutable_shortlist()->mutable_ids()->add_ids(token);
  }
  const auto same = engine_->DecodeAndWait(model, Ids(kSource), by_hand);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->hypotheses(7).ShortDebugString(), decoded->hypotheses(7).ShortDebugString());
  by_hand.set_lexical_shortlist(true);
  EXPECT_THAT(Error(by_hand, model), HasSubstr("lexical_shortlist and shortlist"));
}

std::string CompileError(bundle::Bundle bundle) {
  const auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_FALSE(model.ok());
  return std::string(model.status().message());
}

TEST(FusionBundleTest, WhatDoesNotFitIsNamed) {
  bundle::Bundle bundle = FusedBundle({});
  bundle.ngrams["ngram"] = "\\data\\\nngram 1=1\n\\1-grams:\nx 2\n\\end\\\n";
  EXPECT_THAT(CompileError(std::move(bundle)),
              HasSubstr("scorer 'ngram': words.arpa: line 4: expected a finite logarithm"));
  bundle = FusedBundle({});
  bundle.config.mutable_scorers(0)->mutable_language_model()->mutable_states(0)->clear_initial();
  EXPECT_THAT(CompileError(std::move(bundle)),
              AllOf(HasSubstr("scorer 'lm'"), HasSubstr("'state' is neither the token nor")));
  bundle = FusedBundle({});
  bundle.config.mutable_scorers(2)->mutable_ctc()->set_blank(7);
  EXPECT_THAT(CompileError(std::move(bundle)),
              HasSubstr("scorer 'ctc': ctc.blank: 7 is outside [0, 7)"));
  bundle = FusedBundle({});
  bundle.config.mutable_scorers(2)->mutable_ctc()->set_encoder_output("frames");
  EXPECT_THAT(CompileError(std::move(bundle)), HasSubstr("ctc.encoder_output"));
  bundle = FusedBundle({1});
  bundle.config.mutable_ensemble()->mutable_members(0)->mutable_decoder()->set_token_input("x");
  EXPECT_THAT(CompileError(std::move(bundle)), HasSubstr("ensemble.members[0]"));
  bundle = FusedBundle({});
  bundle.lexical_table = "3 2\n3 2 0.5 1\n";
  EXPECT_THAT(CompileError(std::move(bundle)), HasSubstr("lex.txt: line 2: has 4 fields"));
  bundle = FusedBundle({});
  bundle.lexical_table = "3 9\n";
  EXPECT_THAT(CompileError(std::move(bundle)),
              HasSubstr("lex.txt: line 1: '9' is not a token of the target vocabulary"));
  bundle = FusedBundle({});
  bundle.lexical_table = "3 2 nan\n";
  EXPECT_THAT(CompileError(std::move(bundle)), HasSubstr("'nan' is not a finite number"));
}

}  // namespace
}  // namespace beamwright::engine
