// Decode options through the engine: what neighbours must not change, what answers must agree with
// each other, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <regex>

#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/request/answers.h"
#include "include/beamwright/engine.h"
#include "tests/engine/fused_bundle.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::kVocabulary;
using engine_testing::RandomTable;
using engine_testing::TableBundle;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

void SetIds(const std::vector<int32_t>& ids, v1::TargetTokens* tokens) {
  tokens->mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
}

class EngineOptionsTest : public ::testing::Test {
 protected:
  EngineOptionsTest() {
    auto compiled = DecodeModel::Compile(TableBundle(RandomTable(21), {}));
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    model_ = *std::move(compiled);
    engine_ = *Engine::Start({1, 512, 1000});
  }

  absl::StatusOr<v1::Decoded> Decode(const v1::DecodeOptions& options,
                                     const std::vector<int32_t>& source = {3, 4, 5}) {
    return engine_->DecodeAndWait(model_, Ids(source), options);
  }

  std::shared_ptr<const DecodeModel> model_;
  std::unique_ptr<Engine> engine_;
};

struct Call {
  v1::Source source;
  v1::DecodeOptions options;
};

// Any of the options, each in one of four calls; some exclude each other and are refused.
Call RandomCall(std::mt19937& random) {
  const auto in = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto some = [&] { return in(1, 5) == 1; };
  const auto letters = [&](int least, int most) {
    std::vector<int32_t> tokens;
    for (int i = in(least, most); i > 0; --i) {
      tokens.push_back(in(2, kVocabulary - 1));
    }
    return tokens;
  };
  Call call;
  call.source = Ids({in(0, 49), in(0, 49)});
  v1::DecodeOptions& o = call.options;
  o.set_max_length(in(1, 12));
  const int beam = 2 * in(1, 4);
  o.set_beam_size(beam);
  o.set_n_best(in(1, beam));
  if (some()) o.set_length_penalty(v1::LENGTH_PENALTY_POW);
  if (some()) o.set_stop(static_cast<v1::StopMode>(in(1, 4)));
  if (some()) o.set_min_length(in(0, 3));
  if (some()) o.set_at_limit(v1::AT_LIMIT_FORCE_END);
  if (some()) o.set_word_reward(0.5f);
  if (some()) o.set_end_threshold(1.5f);
  if (some()) o.set_score_threshold(-20);
  if (some()) o.set_beam_threshold(3);
  if (some()) o.set_repetition_penalty(1.25f);
  if (some()) o.set_no_repeat_ngram(in(1, 3));
  if (some()) SetIds(letters(1, 2), o.mutable_suppress_tokens());
  if (some()) SetIds({1}, o.mutable_suppress_at_begin());
  if (some()) SetIds(letters(2, 3), o.add_suppress_sequences());
  if (some()) o.set_temperature(0.75f);
  if (some()) o.set_renormalize(false);
  if (some()) SetIds(letters(1, 4), o.mutable_target_prefix());
  if (some()) SetIds(letters(1, 4), o.mutable_soft_prefix());
  if (some()) SetIds(letters(3, 6), o.mutable_shortlist());
  for (int i = some() ? 30 : 0; i > 0; --i) SetIds(letters(1, 5), o.add_allowed_sequences());
  for (int i = some() ? 3 : 0; i > 0; --i) {
    const std::vector<int32_t> ids = letters(1, 3);
    o.add_hotwords()->mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  if (some()) o.set_regex(in(0, 1) == 0 ? "( ?[2-4])+" : "( ?[2-9]){2}( ?[3-5]){0,3}");
  if (some()) SetIds(letters(1, 2), o.add_required_sequences());
  if (some()) o.set_top_tokens(3);
  if (some()) o.set_lattice(true);
  for (const char* name : {"lm", "ngram", "ctc"}) {
    if (some()) {
      v1::FusionWeight& fusion = *o.add_fusion();
      fusion.set_name(name);
      fusion.set_weight(0.25f * static_cast<float>(in(name[0] == 'c' ? 1 : -2, 4)));
    }
  }
  if (some()) o.set_lexical_shortlist(true);
  if (some()) o.add_stop_strings(absl::StrCat(in(2, kVocabulary - 1), " ", in(2, kVocabulary - 1)));
  if (some()) {
    v1::LogitBias& bias = *o.add_logit_bias();
    bias.mutable_ids()->add_ids(in(1, kVocabulary - 1));
    bias.set_bias(0.5f * static_cast<float>(in(-4, 4)));
  }
  const int kind = in(0, 9);
  if (kind == 0) o.set_diverse_groups(2);
  if (kind == 1) {
    o.set_num_alternatives(2);
    o.set_n_best(2);
  }
  if (kind == 2) {
    o.set_sampling(v1::SAMPLING_RANDOM);
    o.set_n_best(beam);
    o.set_seed(in(0, 1000));
    o.set_top_p(0.9f);
  }
  if (kind == 3) {
    o.set_sampling(v1::SAMPLING_WITHOUT_REPLACEMENT);
    o.set_seed(in(0, 1000));
  }
  return call;
}

std::string Bytes(const absl::StatusOr<v1::Decoded>& answer) {
  if (!answer.ok()) {
    return std::string(answer.status().message());
  }
  v1::Decoded decoded = *answer;
  decoded.clear_queue_ms();
  decoded.clear_compute_ms();
  return decoded.SerializeAsString();
}

// O5: every option on, alone and among random neighbours that join and leave, one thread and two.
TEST_F(EngineOptionsTest, NeighboursAndThreadsChangeNoBit) {
  auto compiled = DecodeModel::Compile(engine_testing::FusedBundle({1}));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  model_ = *std::move(compiled);
  std::mt19937 random(1);
  std::vector<Call> calls;
  std::vector<std::string> alone;
  int answered = 0;
  for (int i = 0; i < 1500; ++i) {
    calls.push_back(RandomCall(random));
    const auto answer = engine_->DecodeAndWait(model_, calls.back().source, calls.back().options);
    answered += answer.ok() ? 1 : 0;
    alone.push_back(Bytes(answer));
  }
  EXPECT_GT(answered, 500);
  const auto crowded = *Engine::Start({2, 40, 100000});
  std::vector<std::string> together(calls.size());
  absl::BlockingCounter left(static_cast<int>(calls.size()));
  for (size_t i = 0; i < calls.size(); ++i) {
    crowded->Decode(model_, calls[i].source, calls[i].options, {},
                    [&, i](absl::StatusOr<v1::Decoded> decoded) {
                      together[i] = Bytes(decoded);
                      left.DecrementCount();
                    });
  }
  left.Wait();
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_EQ(together[i], alone[i]) << calls[i].options.ShortDebugString();
  }
}

// R7: what the search says of its tokens is what reading them as a prefix says, to the bit.
TEST_F(EngineOptionsTest, ScoresAreThoseOfTheTokensReadAsAPrefix) {
  v1::DecodeOptions options;
  options.set_beam_size(6);
  options.set_n_best(6);
  options.set_max_length(9);
  const auto decoded = Decode(options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
    const bool ends = hypothesis.finish_reason() == v1::FINISH_REASON_EOS;
    std::vector<int32_t> tokens(hypothesis.tokens().begin(),
                                hypothesis.tokens().end() - (ends ? 1 : 0));
    if (tokens.empty()) {
      continue;
    }
    v1::DecodeOptions forced;
    SetIds(tokens, forced.mutable_target_prefix());
    forced.set_max_length(1);
    const auto read = Decode(forced);
    ASSERT_TRUE(read.ok()) << read.status();
    const v1::Hypothesis& again = read->hypotheses(0);
    EXPECT_EQ(again.prefix_length(), static_cast<int>(tokens.size()));
    double sum = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(again.tokens(static_cast<int>(i)), tokens[i]);
      EXPECT_EQ(again.token_log_probs(static_cast<int>(i)),
                hypothesis.token_log_probs(static_cast<int>(i)));
      sum += static_cast<double>(hypothesis.token_log_probs(static_cast<int>(i)));
    }
    EXPECT_EQ(again.prefix_log_prob(), sum);
  }
}

// An alternative is what a request with its first token as prefix finds with the alternative's
// rows.
TEST_F(EngineOptionsTest, AlternativesEqualRequestsOfTheirOwn) {
  for (const int share : {1, 3}) {
    v1::DecodeOptions options;
    SetIds({4, 2}, options.mutable_target_prefix());
    options.set_num_alternatives(4);
    options.set_beam_size(4 * share);
    options.set_max_length(8);
    const auto decoded = Decode(options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->hypotheses_size(), 4);
    for (const v1::Hypothesis& alternative : decoded->hypotheses()) {
      v1::DecodeOptions own;
      SetIds({4, 2, alternative.tokens(2)}, own.mutable_target_prefix());
      own.set_beam_size(share);
      own.set_max_length(7);
      const auto single = Decode(own);
      ASSERT_TRUE(single.ok()) << single.status();
      EXPECT_THAT(alternative.tokens(), ElementsAreArray(single->hypotheses(0).tokens()));
    }
  }
}

TEST_F(EngineOptionsTest, TopTokensAreTheBestOfTheirPosition) {
  v1::DecodeOptions options;
  options.set_beam_size(5);
  options.set_n_best(5);
  options.set_top_tokens(4);
  const auto decoded = Decode(options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const std::vector<float> table = RandomTable(21);
  for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
    ASSERT_EQ(hypothesis.top_tokens_size(), hypothesis.tokens_size());
    int64_t state =
        engine_testing::NextState(engine_testing::FirstState({3, 4, 5}), engine_testing::kBegin);
    for (int i = 0; i < hypothesis.tokens_size(); ++i) {
      std::vector<std::pair<float, int32_t>> line;
      for (int32_t token = 0; token < kVocabulary; ++token) {
        line.push_back({-table[static_cast<size_t>(state * kVocabulary + token)], token});
      }
      std::sort(line.begin(), line.end());
      ASSERT_EQ(hypothesis.top_tokens(i).tokens_size(), 4);
      for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(hypothesis.top_tokens(i).tokens(k), line[static_cast<size_t>(k)].second);
        EXPECT_EQ(hypothesis.top_tokens(i).log_probs(k), -line[static_cast<size_t>(k)].first);
      }
      state = engine_testing::NextState(state, hypothesis.tokens(i));
    }
  }
}

TEST_F(EngineOptionsTest, TheLatticeHoldsEveryAnswer) {
  v1::DecodeOptions options;
  options.set_beam_size(4);
  options.set_n_best(4);
  options.set_lattice(true);
  const auto decoded = Decode(options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const v1::Lattice& lattice = decoded->lattice();
  ASSERT_EQ(lattice.steps_size(), decoded->steps());
  for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
    const int last = hypothesis.tokens_size() - 1;
    bool found = false;
    for (int at = 0; at < lattice.steps(last).tokens_size(); ++at) {
      std::vector<int32_t> tokens;
      int node = at;
      for (int step = last; step >= 0; --step) {
        tokens.insert(tokens.begin(), lattice.steps(step).tokens(node));
        node = lattice.steps(step).parents(node);
        if (step > 0) {
          ASSERT_LT(node, lattice.steps(step - 1).num_live());
        }
      }
      found = found || std::equal(tokens.begin(), tokens.end(), hypothesis.tokens().begin());
    }
    EXPECT_TRUE(found);
  }
  options.set_max_length(65536);
  EXPECT_THAT(Decode(options).status().message(), HasSubstr("options.lattice"));
}

// The tokens that lead to each candidate of the answer, by its place there.
std::map<int, std::vector<int32_t>> AnswersOf(const v1::SearchTrace& trace) {
  std::map<int, std::vector<int32_t>> answers;
  std::vector<std::vector<int32_t>> rows(1);
  for (const v1::TraceStep& step : trace.steps()) {
    std::map<int, std::vector<int32_t>> next;
    EXPECT_EQ(step.rows_size(), static_cast<int>(rows.size()));
    for (const v1::TraceCandidate& candidate : step.candidates()) {
      std::vector<int32_t> tokens = rows.at(static_cast<size_t>(candidate.row()));
      tokens.push_back(candidate.token());
      EXPECT_EQ(candidate.has_next_row(), candidate.fate() == v1::TRACE_FATE_KEPT);
      EXPECT_EQ(candidate.answer() > 0, candidate.fate() == v1::TRACE_FATE_ANSWER);
      if (candidate.has_next_row()) {
        next[candidate.next_row()] = tokens;
      } else if (candidate.answer() > 0) {
        EXPECT_TRUE(answers.emplace(candidate.answer(), tokens).second);
      }
    }
    rows.clear();
    for (const auto& [row, tokens] : next) {
      EXPECT_EQ(row, static_cast<int>(rows.size()));
      rows.push_back(tokens);
    }
  }
  return answers;
}

TEST_F(EngineOptionsTest, TheTraceLeadsToEveryAnswer) {
  for (const v1::Sampling sampling :
       {v1::SAMPLING_NONE, v1::SAMPLING_RANDOM, v1::SAMPLING_WITHOUT_REPLACEMENT}) {
    v1::DecodeOptions options;
    options.set_beam_size(4);
    options.set_n_best(4);
    options.set_sampling(sampling);
    const auto plain = Decode(options);
    options.set_trace(3);
    const auto decoded = Decode(options);
    ASSERT_TRUE(plain.ok() && decoded.ok()) << decoded.status();
    EXPECT_FALSE(plain->has_trace());
    EXPECT_FALSE(decoded->trace().truncated());
    EXPECT_EQ(decoded->trace().steps_size(), decoded->steps());
    const std::map<int, std::vector<int32_t>> answers = AnswersOf(decoded->trace());
    ASSERT_EQ(static_cast<int>(answers.size()), decoded->hypotheses_size());
    for (const auto& [place, tokens] : answers) {
      const v1::Hypothesis& hypothesis = decoded->hypotheses(place - 1);
      EXPECT_EQ(hypothesis.SerializeAsString(), plain->hypotheses(place - 1).SerializeAsString());
      EXPECT_THAT(hypothesis.tokens(), ElementsAreArray(tokens));
      for (const int32_t token : tokens) {
        EXPECT_EQ(decoded->trace().token_texts().count(token), 1u);
      }
    }
  }
}

TEST_F(EngineOptionsTest, ALongTraceIsCut) {
  v1::DecodeOptions options;
  options.set_beam_size(8);
  options.set_stop(v1::STOP_MODE_NEVER);
  options.set_max_length(2000);
  options.set_min_length(2000);
  options.set_trace(1024);
  const auto decoded = Decode(options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->trace().truncated());
  EXPECT_LT(decoded->trace().steps_size(), decoded->steps());
  EXPECT_GT(decoded->trace().steps_size(), 10);
  EXPECT_LT(decoded->trace().ByteSizeLong(), size_t{2} << 20);
  options.clear_trace();
  EXPECT_EQ(decoded->hypotheses(0).SerializeAsString(),
            Decode(options)->hypotheses(0).SerializeAsString());
}

TEST_F(EngineOptionsTest, EqualSeedsGiveEqualSamples) {
  v1::DecodeOptions options;
  options.set_sampling(v1::SAMPLING_RANDOM);
  options.set_n_best(20);
  options.set_seed(5);
  const std::string first = Bytes(Decode(options));
  EXPECT_EQ(Bytes(Decode(options)), first);
  options.set_seed(6);
  EXPECT_NE(Bytes(Decode(options)), first);
}

TEST_F(EngineOptionsTest, NamedListsAndUnknownOnes) {
  bundle::Bundle bundle = TableBundle(RandomTable(21), {});
  bundle.config.mutable_target()->clear_size();
  bundle.config.mutable_target()->set_form(v1::TEXT_FORM_WHITESPACE);
  bundle.config.mutable_target()->set_vocabulary("target.vocab");
  bundle.config.mutable_target()->set_begin_token("<s>");
  bundle.config.mutable_target()->clear_end_tokens();
  bundle.config.mutable_target()->add_end_tokens("</s>");
  auto codec = bundle::TextCodec::Create(bundle.config.target(), "<s>\n</s>\na\nb\nc\nd\ne\n");
  ASSERT_TRUE(codec.ok()) << codec.status();
  bundle.target = *std::move(codec);
  v1::TokenListConfig& list = *bundle.config.add_token_lists();
  list.set_name("words");
  list.set_file("words.txt");
  bundle.token_lists["words"] = "a b\nc\nd e a\n";
  bundle::Bundle bad = bundle;
  bad.token_lists["words"] = "a b\nq\n";
  EXPECT_THAT(std::string(DecodeModel::Compile(std::move(bad)).status().message()),
              AllOf(HasSubstr("words.txt: line 2"), HasSubstr("'q'")));
  const auto model = DecodeModel::Compile(std::move(bundle));
  ASSERT_TRUE(model.ok()) << model.status();
  v1::DecodeOptions options;
  options.set_allowed_list("words");
  options.set_n_best(3);
  const auto decoded = engine_->DecodeAndWait(*model, Ids({7}), options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  std::vector<std::string> texts;
  for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
    texts.push_back(hypothesis.text());
  }
  EXPECT_THAT(texts, ::testing::UnorderedElementsAre("a b", "c", "d e a"));
  options.set_allowed_list("names");
  EXPECT_THAT(engine_->DecodeAndWait(*model, Ids({7}), options).status().message(),
              HasSubstr("options.allowed_list: the model has no list 'names'; it has 1: 'words'"));
  options.Clear();
  options.mutable_suppress_tokens()->set_text("a zz");
  EXPECT_THAT(engine_->DecodeAndWait(*model, Ids({7}), options).status().message(),
              AllOf(HasSubstr("options.suppress_tokens.text"), HasSubstr("'zz'")));
}

TEST_F(EngineOptionsTest, AllFaultsAreNamedAtOnce) {
  v1::DecodeOptions options;
  SetIds({7}, options.mutable_suppress_tokens());
  SetIds({2, 1}, options.mutable_target_prefix());
  options.add_suppress_sequences();
  options.set_max_length(3);
  options.set_min_length(4);
  options.set_diverse_groups(3);
  options.set_num_alternatives(2);
  options.set_sampling(v1::SAMPLING_WITHOUT_REPLACEMENT);
  options.set_beam_threshold(1);
  options.set_top_k(5);
  options.set_temperature(0);
  options.set_word_reward(std::nanf(""));
  options.set_beam_size(300);
  const std::string message(Decode(options).status().message());
  EXPECT_THAT(message, HasSubstr("options.temperature: 0 is outside [0.01, 100]"));
  EXPECT_THAT(message, HasSubstr("options.word_reward: nan is not a finite number"));
  EXPECT_THAT(message, HasSubstr("options.beam_size: 300 is outside [1, 256] hypotheses"));
  EXPECT_THAT(message, Not(HasSubstr("is more than the beam size"))) << "no faults of faults";
  EXPECT_THAT(message, HasSubstr("options.suppress_tokens.ids[0]: 7 is outside [0, 7)"));
  EXPECT_THAT(message, HasSubstr("options.target_prefix: token 1 is an end token"));
  EXPECT_THAT(message, HasSubstr("options.suppress_sequences[0]: is empty"));
  EXPECT_THAT(message, HasSubstr("options.min_length: 4 is more than the max_length of 3"));
  EXPECT_THAT(message, HasSubstr("options.sampling and diverse_groups: exclude each other"));
  EXPECT_THAT(message, HasSubstr("options.sampling and num_alternatives"));
  EXPECT_THAT(message, HasSubstr("options.sampling and beam_threshold"));
  EXPECT_THAT(message, HasSubstr("options.diverse_groups and num_alternatives"));
  EXPECT_THAT(message, HasSubstr("options.diverse_groups: 3 groups do not divide"));
  EXPECT_THAT(message, HasSubstr("options.top_k, top_p and min_p: need sampling random"));
}

// The operator's limits and the bundle's both hold, the lower of the two; defaults shrink to fit.
TEST_F(EngineOptionsTest, LimitsAreTheLowerOnesOfBundleAndServer) {
  for (const bool by_server : {false, true}) {
    bundle::Bundle bundle = TableBundle(RandomTable(31), {});
    bundle.config.mutable_default_options()->set_beam_size(4);
    bundle.config.mutable_default_options()->set_n_best(4);
    bundle.config.mutable_default_options()->set_max_length(9);
    bundle.config.mutable_limits()->set_max_beam_size(by_server ? 200 : 3);
    bundle.config.mutable_limits()->set_max_target_length(by_server ? 0 : 5);
    CompileOptions compile;
    compile.max_beam_size = by_server ? 3 : 0;
    compile.max_target_length = by_server ? 5 : 100;
    compile.max_source_length = 2;
    const auto model = DecodeModel::Compile(std::move(bundle), compile);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->Describe().config().limits().max_beam_size(), 3);
    const auto decode = [&](const v1::DecodeOptions& options, const std::vector<int32_t>& ids) {
      v1::Source source;
      source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
      return engine_->DecodeAndWait(*model, source, options);
    };
    const auto by_default = decode({}, {1, 2});
    ASSERT_TRUE(by_default.ok()) << by_default.status();
    EXPECT_EQ(by_default->hypotheses_size(), 3);
    v1::DecodeOptions options;
    options.set_beam_size(4);
    options.set_max_length(6);
    const std::string message(decode(options, {1, 2}).status().message());
    EXPECT_THAT(message, HasSubstr("options.beam_size: 4 is above the model's limit of 3"));
    EXPECT_THAT(message, HasSubstr("options.max_length: 6 is above the model's limit of 5"));
    EXPECT_THAT(std::string(decode({}, {1, 2, 3}).status().message()),
                HasSubstr("source has 3 tokens; at most 2 are allowed"));
  }
}

TEST_F(EngineOptionsTest, StopStringsEndTexts) {
  int stopped = 0;
  for (int id = 0; id < 40; ++id) {
    v1::DecodeOptions options;
    options.set_max_length(12);
    if (id % 2 == 0) {
      options.set_beam_size(1);
    } else {
      options.set_sampling(v1::SAMPLING_RANDOM);
      options.set_n_best(4);
    }
    if (id % 4 >= 2) {
      SetIds({2, 5}, options.mutable_target_prefix());
    }
    const auto whole = Decode(options, {id, 3});
    ASSERT_TRUE(whole.ok()) << whole.status();
    const size_t prefix = id % 4 >= 2 ? 3 : 0;  // bytes: "2 5"
    if (whole->hypotheses(0).text().size() < prefix + 6) {
      continue;
    }
    const std::string stop = whole->hypotheses(0).text().substr(prefix + 3, 3);
    options.add_stop_strings("no such text");
    options.add_stop_strings(stop);
    CallOptions call;
    std::map<int, std::vector<int32_t>> stable;
    std::map<int, std::string> sent;
    call.progress = [&](Progress progress) {
      for (const search::StableTokens::Piece& piece : progress.stable) {
        std::vector<int32_t>& all = stable[piece.sample];
        all.insert(all.end(), piece.tokens.begin(), piece.tokens.end());
        sent[piece.sample] =
            AnswerText(model_->target(), all, progress.prefix_length, progress.stop_strings.get(),
                       /*unfinished=*/true);
      }
    };
    const auto cut = engine_->DecodeAndWait(model_, Ids({id, 3}), options, call);
    ASSERT_TRUE(cut.ok()) << cut.status();
    ASSERT_EQ(cut->hypotheses_size(), whole->hypotheses_size());
    for (int i = 0; i < cut->hypotheses_size(); ++i) {
      const std::string& text = whole->hypotheses(i).text();
      const v1::Hypothesis& own = cut->hypotheses(i);
      const size_t end = text.find(stop, prefix);
      EXPECT_EQ(own.text(), text.substr(0, end)) << stop << " in " << text;
      EXPECT_EQ(own.finish_reason() == v1::FINISH_REASON_STOP, end != std::string::npos);
      EXPECT_EQ(sent[i], own.text().substr(0, sent[i].size()));
      for (int t = 0; t < own.tokens_size(); ++t) {
        EXPECT_EQ(own.tokens(t), whole->hypotheses(i).tokens(t));
        EXPECT_EQ(own.token_log_probs(t), whole->hypotheses(i).token_log_probs(t));
      }
      stopped += end != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(stopped, 20);
  v1::DecodeOptions options;
  options.add_stop_strings("");
  options.add_stop_strings(std::string(257, 'x'));
  options.add_logit_bias()->mutable_ids()->add_ids(2);
  const std::string message(Decode(options).status().message());
  EXPECT_THAT(message, HasSubstr("options.stop_strings[0]: has 0 bytes, must have 1 to 256"));
  EXPECT_THAT(message, HasSubstr("options.stop_strings[1]: has 257 bytes"));
  EXPECT_THAT(message, HasSubstr("options.logit_bias[0].bias: is not set"));
}

// As std::regex reads the patterns, in beams, samples, behind a prefix and with other options.
TEST_F(EngineOptionsTest, AnswersAreTextsOfTheGrammar) {
  const std::vector<std::string> patterns = {"( ?[2-4])+", "( ?2| ?3 4)*( ?5)?", " ?[2-6]( [^3])*",
                                             "( ?\\d){3}", "( ?[23]){2,4} [4-6]"};
  int found = 0;
  for (int id = 0; id < 100; ++id) {
    v1::DecodeOptions options;
    options.set_max_length(9);
    options.set_beam_size(6);
    options.set_n_best(6);
    if (id % 3 == 0) {
      options.set_sampling(v1::SAMPLING_RANDOM);
      options.set_seed(id);
    } else if (id % 3 == 1) {
      options.set_no_repeat_ngram(3);
      options.set_stop(v1::STOP_MODE_NEVER);
    }
    const bool has_prefix = id % 2 == 1;
    if (has_prefix) {
      SetIds({2, 5}, options.mutable_target_prefix());
    }
    const std::string& pattern = patterns[static_cast<size_t>(id) % patterns.size()];
    options.set_regex(pattern);
    const auto decoded = Decode(options, {id % 50, 3});
    ASSERT_TRUE(decoded.ok()) << pattern << ": " << decoded.status();
    for (const v1::Hypothesis& one : decoded->hypotheses()) {
      const std::string text = one.text().substr(has_prefix ? 3 : 0);  // "2 5"
      EXPECT_TRUE(std::regex_match(text, std::regex(pattern))) << text << " of " << pattern;
      ++found;
    }
  }
  EXPECT_GT(found, 300);
  v1::DecodeOptions options;
  options.set_max_length(6);
  options.set_json_schema(R"({"type": "integer", "minimum": 3, "maximum": 4})");
  options.set_n_best(4);
  const auto decoded = Decode(options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->hypotheses_size(), 2);
  EXPECT_EQ(decoded->hypotheses(0).text() == "3" ? "4" : "3", decoded->hypotheses(1).text());
}

// The text that is answered, in vocabularies of several forms, as std::regex reads it.
TEST_F(EngineOptionsTest, GrammarsHoldTheTextOfEveryForm) {
  struct Form {
    v1::TextForm form;
    v1::SubwordMark mark;
    std::vector<std::string> tokens;
    std::string pattern;
    std::string begin = "<s>";
  };
  // RWKV's vocabulary begins with a number for each token; number 0 is not in the file.
  const std::string rwkv = "<|endoftext|>";
  const std::vector<Form> forms = {
      {v1::TEXT_FORM_PIECES,
       v1::SUBWORD_MARK_WORD_BEGIN,
       {"1 'a' 1", "2 b'\\xc3' 1", "3 b'\\xa9' 1", "4 ' ' 1", "5 'bé' 3", "6 ' a' 2"},
       "(a|bé)+( (a|é)+)?",
       rwkv},
      {v1::TEXT_FORM_PIECES,
       v1::SUBWORD_MARK_WORD_BEGIN,
       {"▁a", "b", "▁", "<0xC3>", "<0xA9>"},
       "(a|b|é)+( (a|é)+)?"},
      {v1::TEXT_FORM_PIECES,
       v1::SUBWORD_MARK_CONTINUATION,
       {"a", "##b", "c", "##é", "d"},
       "(a|c)(b|é)?( (a|d)(b|é)?)*"},
      {v1::TEXT_FORM_PIECES,
       v1::SUBWORD_MARK_UNFINISHED,
       {"a@@", "b", "c@@", "é", "d"},
       "(a|c)*(b|é)( (a|c)*(b|d))?"},
      {v1::TEXT_FORM_PIECES,
       v1::SUBWORD_MARK_WORD_END,
       {"a", "b</w>", "c", "é</w>", "d</w>"},
       "(a|c)*(b|é)( (a|c)*(b|d))?"},
      {v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_BYTES, {"a", "Ġb", "Ã", "©", "Ġ"}, "(a|b|é)( b|é)*"},
      {v1::TEXT_FORM_WHITESPACE,
       v1::SUBWORD_MARK_WORD_BEGIN,
       {"a", "bc", "é", "d", "e"},
       "(a|é)( (bc|d))*"},
      {v1::TEXT_FORM_CHARACTERS,
       v1::SUBWORD_MARK_WORD_BEGIN,
       {"a", "b", "é", " ", "c"},
       "(a|b)+( é)?c?"}};
  for (const Form& form : forms) {
    bundle::Bundle bundle = TableBundle(RandomTable(22), {});
    v1::TextConfig& target = *bundle.config.mutable_target();
    target.Clear();
    target.set_form(form.form);
    target.set_mark(form.mark);
    target.set_vocabulary("target.vocab");
    target.set_begin_token(form.begin);
    target.add_end_tokens(form.begin == rwkv ? rwkv : "</s>");
    auto codec =
        bundle::TextCodec::Create(target, absl::StrCat(form.begin == rwkv ? "" : "<s>\n</s>\n",
                                                       absl::StrJoin(form.tokens, "\n"), "\n"));
    ASSERT_TRUE(codec.ok()) << codec.status();
    bundle.target = *std::move(codec);
    auto compiled = DecodeModel::Compile(std::move(bundle));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    model_ = *std::move(compiled);
    const std::regex pattern(form.pattern);
    int found = 0;
    for (int id = 0; id < 50; ++id) {
      v1::DecodeOptions options;
      options.set_max_length(8);
      options.set_beam_size(8);
      options.set_n_best(8);
      options.set_regex(form.pattern);
      const auto decoded = Decode(options, {id, 3});
      ASSERT_TRUE(decoded.ok() || absl::IsFailedPrecondition(decoded.status())) << decoded.status();
      for (int i = 0; decoded.ok() && i < decoded->hypotheses_size(); ++i) {
        const std::string& text = decoded->hypotheses(i).text();
        EXPECT_TRUE(std::regex_match(text, pattern)) << "'" << text << "' of " << form.pattern;
        ++found;
      }
    }
    EXPECT_GT(found, 100) << form.pattern;
  }
}

TEST_F(EngineOptionsTest, FaultsOfGrammarsHaveTheirField) {
  const auto message = [&](const std::string& regex, const std::string& schema) {
    v1::DecodeOptions options;
    options.set_max_length(2);
    if (!regex.empty()) options.set_regex(regex);
    if (!schema.empty()) options.set_json_schema(schema);
    return std::string(Decode(options).status().message());
  };
  EXPECT_THAT(message("2(3", ""), HasSubstr("options.regex: at position 1: the group"));
  EXPECT_THAT(message("[a-z]+", ""), HasSubstr("options.regex: the model's tokens spell no text"));
  EXPECT_THAT(message("((2?){100}3?){300}", ""), HasSubstr("options.regex: repeats what may be"));
  EXPECT_THAT(message("( ?2){3}", ""),
              HasSubstr("within the maximum length of 2 tokens under regex"));
  EXPECT_THAT(message("", R"({"oneOf": []})"),
              HasSubstr("options.json_schema: the schema has 'oneOf'"));
  EXPECT_THAT(message("2", "{}"), HasSubstr("regex and json_schema: exclude each other"));
  EXPECT_THAT(message(std::string(16385, '2'), ""), HasSubstr("options.regex: "));
}

// exp(bias) times the odds of each token, over what remains.
TEST_F(EngineOptionsTest, BiasesMultiplyOdds) {
  v1::DecodeOptions options;
  options.set_max_length(1);
  options.set_top_tokens(kVocabulary);
  const auto plain = Decode(options);
  for (const float bias : {9.0f, 2.0f}) {  // the last counts
    v1::LogitBias& added = *options.add_logit_bias();
    added.mutable_ids()->add_ids(4);
    added.mutable_ids()->add_ids(4);
    added.set_bias(bias);
  }
  const auto biased = Decode(options);
  ASSERT_TRUE(plain.ok() && biased.ok()) << plain.status() << biased.status();
  std::map<int32_t, double> before;
  std::map<int32_t, double> after;
  for (int i = 0; i < kVocabulary; ++i) {
    const v1::TopTokens& a = plain->hypotheses(0).top_tokens(0);
    const v1::TopTokens& b = biased->hypotheses(0).top_tokens(0);
    before[a.tokens(i)] = std::exp(a.log_probs(i));
    after[b.tokens(i)] = std::exp(b.log_probs(i));
  }
  double sum = 0;
  for (auto& [token, probability] : before) {
    probability *= token == 4 ? std::exp(2.0) : 1.0;
    sum += probability;
  }
  for (const auto& [token, probability] : before) {
    EXPECT_NEAR(after[token], probability / sum, 1e-6) << token;
  }
}

TEST_F(EngineOptionsTest, ListsHaveLimits) {
  v1::DecodeOptions options;
  for (int i = 0; i < 5; ++i) {
    SetIds(std::vector<int32_t>(20000, 2), options.add_allowed_sequences());
  }
  EXPECT_THAT(Decode(options).status().message(),
              HasSubstr("options.allowed_sequences: more than 65536 tokens"));
  options.Clear();
  for (int i = 0; i < 5; ++i) {
    options.add_hotwords()->mutable_ids()->mutable_ids()->Resize(4000, 2);
  }
  EXPECT_THAT(Decode(options).status().message(),
              HasSubstr("options.hotwords: more than 16384 tokens"));
  options.Clear();
  SetIds(std::vector<int32_t>(70'000, 2), options.mutable_soft_prefix());
  EXPECT_THAT(Decode(options).status().message(),
              HasSubstr("options.soft_prefix: has 70000 tokens; at most 65536 are allowed"));
  options.Clear();
  for (int i = 0; i < 10001; ++i) {
    SetIds({2}, options.add_allowed_sequences());
  }
  EXPECT_THAT(Decode(options).status().message(),
              HasSubstr("options.allowed_sequences: 10001 elements; at most 10000 are allowed"));
}

// As one of them: a step has no work for the others.
TEST_F(EngineOptionsTest, ATokenMayBeListedTwoHundredThousandTimes) {
  v1::DecodeOptions once;
  SetIds({4}, once.mutable_suppress_tokens());
  v1::DecodeOptions often;
  SetIds(std::vector<int32_t>(200'000, 4), often.mutable_suppress_tokens());
  const auto expected = Decode(once);
  const auto decoded = Decode(often);
  ASSERT_TRUE(expected.ok() && decoded.ok()) << expected.status() << decoded.status();
  ASSERT_GT(expected->hypotheses_size(), 0);
  ASSERT_EQ(decoded->hypotheses_size(), expected->hypotheses_size());
  for (int i = 0; i < expected->hypotheses_size(); ++i) {
    EXPECT_EQ(decoded->hypotheses(i).SerializeAsString(),
              expected->hypotheses(i).SerializeAsString());
  }
}

TEST_F(EngineOptionsTest, LengthsFollowTheSource) {
  v1::DecodeOptions options;
  options.set_min_length_factor(1.5f);
  options.set_max_length_factor(2);
  options.set_max_length_offset(0);
  const auto decoded = Decode(options, {1, 2, 3, 4, 5});  // 7 to 10 tokens
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_GT(decoded->hypotheses(0).tokens_size(), 7);
  EXPECT_LE(decoded->hypotheses(0).tokens_size(), 10);
  options.set_min_length(11);
  EXPECT_THAT(Decode(options, {1, 2, 3, 4, 5}).status().message(),
              HasSubstr("for a source of 5 are more than the maximum length of 10"));
}

TEST_F(EngineOptionsTest, WhatMasksEverythingIsNamed) {
  v1::DecodeOptions options;
  SetIds({0, 1, 2, 3}, options.mutable_suppress_tokens());
  SetIds({2, 3}, options.mutable_shortlist());
  const absl::Status status = Decode(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("under suppress_tokens, shortlist"));
  options.Clear();
  SetIds({2, 3, 4}, options.add_required_sequences());
  options.set_max_length(2);
  const absl::Status unmet = Decode(options).status();
  EXPECT_EQ(unmet.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(unmet.message()), HasSubstr("required_sequences"));
}

}  // namespace
}  // namespace beamwright::engine
