// A decoder whose caches of keys and values grow, through the engine: what others do changes no
// bit, the table of positions bounds what may be asked, and memory is counted by the longest
// answer. tests/e2e/exports_test.cc compares answers of the same files with PyTorch's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/beam/beam_search_kind.h"
#include "engine/bundle/bundle.h"
#include "include/beamwright/engine.h"
#include "ops/base/file.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/gathered_decode.h"
#include "tests/support/test_data.h"

namespace beamwright::engine {
namespace {

using engine_testing::DecodeGathered;
using ::testing::HasSubstr;

constexpr int kPositions = 32;  // of the model's table

std::shared_ptr<const DecodeModel> GrowingModel() {
  const bundle::TempFolder temp;
  for (const char* const file : {"encoder.onnx", "decoder.onnx"}) {
    temp.Write(absl::StrCat("growing/1/", file),
               *ReadFile(testing_support::TestData(
                   absl::StrCat("e2e/exports/growing_offset/torchscript/", file))));
  }
  std::string states = "states { input: 'offset' constant: 0 }";
  for (const char* const name : {"keys_0", "values_0", "keys_1", "values_1"}) {
    absl::StrAppend(&states, "states { input: 'self_", name, "' output: 'self_", name,
                    "_next' constant: 0 }");
  }
  temp.Write("growing/1/model.textproto",
             absl::StrCat("format_version: 1 name: 'growing' "
                          "encoder { graph: 'encoder.onnx' input: 'source' } "
                          "decoder { graph: 'decoder.onnx' token_input: 'tokens' "
                          "logits_output: 'logits' ",
                          states,
                          "} source { size: 17 } "
                          "target { size: 13 begin_token: '0' end_tokens: '1' }"));
  auto loaded = bundle::LoadBundle(temp.At("growing/1"));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  auto model = DecodeModel::Compile(*std::move(loaded));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

v1::Source Ids(int length) {
  v1::Source source;
  for (int i = 0; i < length; ++i) {
    source.mutable_ids()->add_ids((5 * i + 3 * length) % 17);
  }
  return source;
}

v1::DecodeOptions Options(int beam_size, int max_length) {
  v1::DecodeOptions options;
  options.set_beam_size(beam_size);
  options.set_n_best(beam_size);
  options.set_max_length(max_length);
  return options;
}

class GrowingStatesTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const DecodeModel> Model() {
    static const std::shared_ptr<const DecodeModel>& model =
        *new std::shared_ptr<const DecodeModel>(GrowingModel());
    return model;
  }
  const std::shared_ptr<const DecodeModel> model_ = Model();
  const std::unique_ptr<Engine> engine_ = *Engine::Start({1, 512, 1000});
};

// The others join when the first has taken a step, and leave at different ones.
TEST_F(GrowingStatesTest, NeighboursChangeNoBit) {
  EXPECT_EQ(model_->steps_apart(), "");
  std::vector<v1::Source> sources;
  for (int length = 1; length <= 12; ++length) {
    sources.push_back(Ids(length));
  }
  for (const int beam_size : {1, 4}) {
    const auto alone =
        DecodeGathered(model_, sources, Options(beam_size, 14), {1, 512, 1000}, false);
    const auto together =
        DecodeGathered(model_, sources, Options(beam_size, 14), {2, 512, 1000}, true);
    EXPECT_EQ(alone.num_failed, 0) << alone.bits[0];
    EXPECT_EQ(together.bits, alone.bits);
  }
}

TEST_F(GrowingStatesTest, ScoresAreThoseOfTheSearch) {
  const auto decoded = engine_->DecodeAndWait(model_, Ids(7), Options(4, 10));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  v1::ScoreSource source;
  *source.mutable_source() = Ids(7);
  for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
    *source.add_targets()->mutable_ids()->mutable_ids() = hypothesis.tokens();
  }
  v1::ScoreOptions options;
  options.set_end_token(false);
  const auto scored = engine_->ScoreAndWait(model_, source, options);
  ASSERT_TRUE(scored.ok()) << scored.status();
  for (int i = 0; i < decoded->hypotheses_size(); ++i) {
    EXPECT_EQ(scored->targets(i).hypothesis().SerializeAsString(),
              decoded->hypotheses(i).SerializeAsString());
  }
}

TEST_F(GrowingStatesTest, APrefixGoesOnAsTheSearchDid) {
  v1::DecodeOptions options = Options(1, 12);
  options.set_min_length(12);
  const auto whole = engine_->DecodeAndWait(model_, Ids(5), options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto& tokens = whole->hypotheses(0).tokens();
  ASSERT_EQ(tokens.size(), 12);
  options.mutable_target_prefix()->mutable_ids()->mutable_ids()->Add(tokens.begin(),
                                                                     tokens.begin() + 5);
  options.set_max_length(7);
  options.set_min_length(7);
  const auto rest = engine_->DecodeAndWait(model_, Ids(5), options);
  ASSERT_TRUE(rest.ok()) << rest.status();
  const auto& got = rest->hypotheses(0).tokens();
  ASSERT_GE(got.size(), 7);
  EXPECT_TRUE(std::equal(got.end() - 7, got.end(), tokens.end() - 7));
}

TEST_F(GrowingStatesTest, TheTableOfPositionsBoundsTheSteps) {
  EXPECT_EQ(model_->config().limits().max_target_length(), kPositions);
  v1::DecodeOptions options = Options(4, kPositions);
  options.set_min_length(kPositions);
  const auto longest = engine_->DecodeAndWait(model_, Ids(4), options);
  ASSERT_TRUE(longest.ok()) << longest.status();
  EXPECT_EQ(longest->hypotheses(0).tokens_size(), kPositions);
  options = Options(4, kPositions + 1);
  EXPECT_EQ(engine_->DecodeAndWait(model_, Ids(4), options).status().code(),
            absl::StatusCode::kInvalidArgument);
  // A prefix takes steps as well.
  options = Options(4, kPositions);
  for (int i = 0; i < kPositions - 2; ++i) {
    options.mutable_target_prefix()->mutable_ids()->add_ids(3);
  }
  const auto behind = engine_->DecodeAndWait(model_, Ids(4), options);
  EXPECT_TRUE(behind.ok()) << behind.status();
  options.mutable_target_prefix()->mutable_ids()->add_ids(3);
  options.mutable_target_prefix()->mutable_ids()->add_ids(3);
  EXPECT_THAT(engine_->DecodeAndWait(model_, Ids(4), options).status().message(),
              HasSubstr("at most 32 steps"));
}

// Each row has four caches of 12 floats a step: twice, old and new, and what a step makes of them.
TEST_F(GrowingStatesTest, ThePriceIsThatOfTheLongestAnswer) {
  search::SearchOptions options;
  options.beam_size = 4;
  options.n_best = 1;
  const auto price = [&](int max_length) {
    options.max_length = max_length;
    return PriceBytes(*model_, options, 5, false);
  };
  constexpr int64_t kStep = int64_t{3} * 4 * 4 * 12 * 4;
  const int64_t more = price(32) - price(16);
  EXPECT_GE(more, 16 * kStep);
  EXPECT_LT(more, 16 * (kStep + 400)) << "the history is small";
  EngineOptions limits;
  limits.max_bytes = price(16);
  const auto small = *Engine::Start(limits);
  EXPECT_EQ(small->DecodeAndWait(model_, Ids(5), Options(4, 32)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace beamwright::engine
