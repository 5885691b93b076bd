// Sources of unequal length are encoded together where the encoder's graph allows it, and no client
// can see it in an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "engine/bundle/bundle.h"
#include "engine/model/parts.h"
#include "engine/schedule/encode.h"
#include "include/beamwright/engine.h"
#include "tests/engine/gathered_decode.h"
#include "tests/engine/unequal_bundle.h"
#include "tests/engine/waiting_request.h"

namespace beamwright::engine {
namespace {

using engine_testing::UnequalBundle;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ModelPtr = std::shared_ptr<const DecodeModel>;

ModelPtr Compile(bundle::Bundle bundle, v1::Precision precision = v1::PRECISION_F32) {
  bundle.config.set_precision(precision);
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

v1::Source RandomSource(int length, std::mt19937& random) {
  v1::Source source;
  for (int i = 0; i < length; ++i) {
    source.mutable_ids()->add_ids(static_cast<int32_t>(random() % 50));
  }
  return source;
}

struct Answers {
  std::vector<std::string> bits;
  std::vector<int> groups;  // sources of each encoder run behind the first
};

// The first source alone, then all of them: at once, or one by one.
Answers Decode(const ModelPtr& model, const std::vector<v1::Source>& sources, bool at_once,
               int threads = 1) {
  EngineOptions engine_options;
  engine_options.num_threads = threads;
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_n_best(3);
  options.set_max_length(6);
  engine_testing::GatheredAnswers answers =
      engine_testing::DecodeGathered(model, sources, options, engine_options, at_once);
  EXPECT_EQ(answers.num_failed, 0) << answers.bits[0];
  answers.groups.erase(answers.groups.begin());
  return {std::move(answers.bits), std::move(answers.groups)};
}

class UnequalLengths : public ::testing::TestWithParam<v1::Precision> {};

TEST_P(UnequalLengths, AnswersAreThoseOfEachSourceAlone) {
  std::mt19937 random(7);
  for (uint32_t seed = 100; seed < 108; ++seed) {
    SCOPED_TRACE(seed);
    const ModelPtr model = Compile(UnequalBundle(seed), GetParam());
    ASSERT_NE(model, nullptr);
    ASSERT_TRUE(model->encodes_lengths_together()) << model->lengths_apart();
    std::vector<v1::Source> sources;
    for (int i = 0; i < 24; ++i) {
      sources.push_back(RandomSource(1 + static_cast<int>(random() % 12), random));
    }
    const Answers alone = Decode(model, sources, false);
    for (const int threads : {1, 2}) {
      const Answers together = Decode(model, sources, true, threads);
      EXPECT_EQ(together.bits, alone.bits) << threads << " threads";
      EXPECT_LT(together.groups.size(), 9u);  // there are 12 lengths
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, UnequalLengths,
                         ::testing::Values(v1::PRECISION_F32, v1::PRECISION_BF16,
                                           v1::PRECISION_INT8),
                         [](const auto& tested) { return v1::Precision_Name(tested.param); });

// All of them differ, and the encoder runs once; with two threads, once on each.
TEST(UnequalLengthsGroup, HasSourcesOfAllLengthsThatAreNear) {
  const ModelPtr model = Compile(UnequalBundle(1));
  ASSERT_NE(model, nullptr);
  std::mt19937 random(3);
  std::vector<v1::Source> sources;
  for (const int length : {7, 9, 8, 6}) {
    sources.push_back(RandomSource(length, random));
  }
  EXPECT_THAT(Decode(model, sources, true).groups, ElementsAre(4));
  EXPECT_THAT(Decode(model, sources, true, 2).groups, ElementsAre(2, 2));
}

// The model's own encoder takes them; that of a member of its ensemble does not.
TEST(UnequalLengthsGroup, IsOneForAllEncoders) {
  bundle::Bundle bundle = UnequalBundle(1);
  v1::EnsembleMember& config = *bundle.config.mutable_ensemble()->add_members();
  *config.mutable_decoder() = bundle.config.decoder();
  config.mutable_encoder()->set_graph("member.xml");
  const engine_testing::RecurrentOptions options;
  bundle::Bundle other = engine_testing::RecurrentBundle(options).Build();
  bundle::Bundle::Member& member = bundle.members.emplace_back();
  member.encoder = std::move(other.encoder);
  member.decoder = std::move(other.decoder);
  const ModelPtr model = Compile(std::move(bundle));
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(model->encodes_together()) << model->encodes_apart();
  EXPECT_FALSE(model->encodes_lengths_together());
  const v1::Batching described = model->Describe().length_batching();
  EXPECT_FALSE(described.together());
  EXPECT_THAT(described.reason(), HasSubstr("ensemble.members[0]: positions of ReduceMean"));
}

// Words of the default model, each alone and all at once.
TEST(UnequalLengthsGroup, WordsAreSaidAsEachAlone) {
  constexpr int kEvery = 5;
  auto bundle = bundle::LoadBundle(BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1");
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const ModelPtr model = Compile(*std::move(bundle));
  ASSERT_NE(model, nullptr);
  ASSERT_TRUE(model->encodes_lengths_together()) << model->lengths_apart();
  std::ifstream file(BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/words-test.txt");
  std::vector<v1::Source> words;
  std::string word;
  for (int i = 0; std::getline(file, word); ++i) {
    if (i % kEvery == 0) {
      words.emplace_back().set_text(word);
    }
  }
  ASSERT_GT(words.size(), 500u);
  const Answers together = Decode(model, words, true);
  EXPECT_EQ(together.bits, Decode(model, words, false).bits);
  EXPECT_LT(together.groups.size(), words.size() / 4);
}

EncodeGroup GroupOf(const std::vector<int>& lengths) {
  std::vector<std::unique_ptr<Request>> requests;
  for (const int length : lengths) {
    auto request = std::make_unique<engine_testing::WaitingRequest>();
    request->source.source_length = length;
    requests.push_back(std::move(request));
  }
  return MakeGroup(std::move(requests));
}

std::vector<std::vector<int>> Split(int threads, const std::vector<std::vector<int>>& lengths) {
  std::vector<EncodeGroup> groups;
  for (const std::vector<int>& of_group : lengths) {
    groups.push_back(GroupOf(of_group));
  }
  SplitForThreads(threads, groups);
  std::vector<std::vector<int>> split;
  for (const EncodeGroup& group : groups) {
    std::vector<int>& own = split.emplace_back();
    int64_t positions = 0;
    for (const auto& request : group.requests) {
      own.push_back(request->source.source_length);
      positions += own.back();
    }
    EXPECT_EQ(group.positions, positions);
    EXPECT_EQ(group.num_sources, static_cast<int>(own.size()));
  }
  return split;
}

TEST(SplitForThreads, NoThreadIsWithoutAGroup) {
  using Lengths = std::vector<int>;
  EXPECT_THAT(Split(1, {{9, 8, 7}}), ElementsAre(Lengths{9, 8, 7}));
  EXPECT_THAT(Split(2, {{9, 8, 7, 6}}), ElementsAre(Lengths{9, 8}, Lengths{7, 6}));
  EXPECT_THAT(Split(2, {{9, 2, 2, 2, 2}}), ElementsAre(Lengths{9}, Lengths{2, 2, 2, 2}));
  EXPECT_THAT(Split(2, {{2, 1}}), ElementsAre(Lengths{2}, Lengths{1}));
  EXPECT_THAT(Split(3, {{9, 8, 7}, {5}}), ElementsAre(Lengths{9}, Lengths{5}, Lengths{8, 7}));
  EXPECT_THAT(Split(4, {{9, 8, 8, 8}}),
              ElementsAre(Lengths{9}, Lengths{8}, Lengths{8}, Lengths{8}));
  // Of one length, or too few: as they are.
  EXPECT_THAT(Split(2, {{5, 5, 5}}), ElementsAre(Lengths{5, 5, 5}));
  EXPECT_THAT(Split(4, {{9, 8, 7}}), ElementsAre(Lengths{9, 8, 7}));
}

}  // namespace
}  // namespace beamwright::engine
