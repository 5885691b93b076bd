// What `beamwright-graph init` makes of Marian models answers as plain loops do
// (tests/tools/bundle/marian_reference.h), and what does not belong together is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "include/beamwright/engine.h"
#include "ops/numpy/npz.h"
#include "tests/engine/gathered_decode.h"
#include "tests/support/marian_model.h"
#include "tests/tools/bundle/marian_reference.h"
#include "tests/tools/graph/shell.h"
#include "tools/bundle/check.h"
#include "tools/bundle/init.h"
#include "tools/bundle/init_parts.h"

namespace beamwright::tools {
namespace {

using ops::testing_tools::TempPath;
using ops::testing_tools::WriteFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::MarianBin;
using testing_support::MarianDecoder;
using testing_support::MarianDequantised;
using testing_support::MarianItem;
using testing_support::MarianItems;
using testing_support::MarianModel;
using testing_support::MarianReference;
using testing_support::RandomMarianModel;

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

constexpr int kSources = 20;

std::string Vocabulary(int tokens) {
  std::string text = "</s>\n<unk>\n";
  for (int id = 2; id < tokens; ++id) {
    absl::StrAppend(&text, "w", id, "\n");
  }
  return text;
}

std::string TextOf(const std::vector<int32_t>& ids) {
  std::vector<std::string> words;
  for (const int32_t id : ids) {
    if (id > 1) {
      words.push_back(absl::StrCat("w", id));
    }
  }
  return absl::StrJoin(words, " ");
}

// Sources of 1 to 9 words, with the end token.
std::vector<std::vector<int32_t>> Sources(int tokens) {
  std::mt19937 random(3);
  std::vector<std::vector<int32_t>> sources;
  for (int i = 0; i < kSources; ++i) {
    std::vector<int32_t>& source = sources.emplace_back();
    for (uint32_t k = 1 + random() % 9; k > 0; --k) {
      source.push_back(static_cast<int32_t>(2 + random() % static_cast<uint32_t>(tokens - 2)));
    }
    source.push_back(0);
  }
  return sources;
}

std::string BytesOf(const std::vector<uint64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)};
}

// A binary shortlist: 4 tokens that are always open and, of source id i, i + 5 and i + 11 where
// there are such.
std::string BinaryShortlist(int source_tokens, int target_tokens) {
  std::vector<uint64_t> offsets = {0};
  std::vector<uint32_t> targets;
  for (int i = 0; i < source_tokens; ++i) {
    for (const int target : {i + 5, i + 11}) {
      if (target < target_tokens) {
        targets.push_back(static_cast<uint32_t>(target));
      }
    }
    offsets.push_back(targets.size());
  }
  std::string rest = BytesOf({4, 2, offsets.size(), targets.size()}) + BytesOf(offsets);
  rest.append(reinterpret_cast<const char*>(targets.data()), targets.size() * sizeof(uint32_t));
  uint64_t sum = 0;
  for (size_t at = 0; at + 8 <= rest.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, rest.data() + at, sizeof(word));
    sum ^= word + 0x9e3779b9 + (sum << 6) + (sum >> 2);
  }
  return BytesOf({0xF11A48D5013417F5, sum}) + rest;
}

// What that shortlist opens to a source of a model with one vocabulary.
std::vector<int32_t> OpenTo(const std::vector<int32_t>& source, int tokens) {
  std::set<int32_t> open = {0, 1, 2, 3};
  for (const int32_t id : source) {
    open.insert(id);
    for (const int32_t target : {id + 5, id + 11}) {
      if (target < tokens) {
        open.insert(target);
      }
    }
  }
  for (int32_t id = 4; open.size() % 8 != 0 && id < tokens; ++id) {
    open.insert(id);
  }
  return {open.begin(), open.end()};
}

class InitMarianTest : public ::testing::Test {
 protected:
  InitMarianTest() : folder_(TempPath(absl::StrCat("marian", ++count_))) {
    options_.source_vocab = options_.target_vocab = Path("vocab");
    options_.decoder = Path("model.bin");
    options_.out = Path("bundle");
    WriteFile(Path("vocab"), Vocabulary(40));
  }

  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "-", name); }

  // The text of what went wrong, "" if nothing did.
  std::string Init() {
    std::ostringstream output;
    const absl::Status status = InitBundle(options_, output);
    output_ = output.str();
    return status.ok() ? "" : std::string(status.message());
  }
  ModelPtr Served(const MarianModel& model, bool quantised) {
    WriteFile(Path("model.bin"), MarianBin(MarianItems(model, quantised)));
    EXPECT_EQ(Init(), "");
    absl::StatusOr<ModelPtr> served = TryBundle(options_.out, "");
    EXPECT_TRUE(served.ok()) << served.status();
    return served.ok() ? *served : nullptr;
  }
  static v1::Hypothesis Best(engine::Engine& engine, const ModelPtr& model,
                             const std::vector<int32_t>& source,
                             const v1::DecodeOptions& options = {}) {
    v1::Source request;
    request.set_text(TextOf(source));
    const auto decoded = engine.DecodeAndWait(model, request, options);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded.ok() && decoded->hypotheses_size() > 0 ? decoded->hypotheses(0)
                                                          : v1::Hypothesis();
  }

  static int count_;
  const std::string folder_;
  InitOptions options_;
  std::string output_;
};

int InitMarianTest::count_ = 0;

void ExpectAnswer(const v1::Hypothesis& got, const MarianReference::Answer& expected) {
  std::vector<int32_t> tokens(got.tokens().begin(), got.tokens().end());
  std::vector<int32_t> wanted = expected.tokens;
  if (!wanted.empty() && wanted.back() == 0 && (tokens.empty() || tokens.back() != 0)) {
    wanted.pop_back();  // answers leave the end token out
  }
  EXPECT_EQ(tokens, wanted) << "least margin " << expected.least_margin;
  EXPECT_NEAR(got.log_prob(), expected.log_prob, 1e-4);
}

TEST_F(InitMarianTest, GreedyAnswersAreThoseOfTheFormulas) {
  const auto engine = *engine::Engine::Start({2, 64, 1000});
  v1::DecodeOptions greedy;
  greedy.set_beam_size(1);
  greedy.set_max_length_factor(2);
  for (const auto& [tied, decoder] : {std::pair(true, MarianDecoder::kSsru),
                                      {false, MarianDecoder::kSsru},
                                      {true, MarianDecoder::kGru},
                                      {true, MarianDecoder::kSelfAttention},
                                      {false, MarianDecoder::kSelfAttention}}) {
    const std::string name = absl::StrCat("tied ", tied, ", decoder ", static_cast<int>(decoder));
    SCOPED_TRACE(name);
    options_.out = Path(absl::StrCat("bundle", tied, static_cast<int>(decoder)));
    const MarianModel model = RandomMarianModel(5, tied, decoder);
    const ModelPtr served = Served(model, false);
    ASSERT_NE(served, nullptr);
    std::set<std::vector<int32_t>> different;
    for (const std::vector<int32_t>& source : Sources(model.tokens)) {
      const auto expected = MarianReference(model).Greedy(source, 2 * source.size() + 4, {});
      ExpectAnswer(Best(*engine, served, source, greedy), expected);
      different.insert(expected.tokens);
    }
    EXPECT_GT(different.size(), size_t{kSources / 2});
  }
}

// Sources of other requests in the same steps change no bit, although their caches grow apart.
TEST_F(InitMarianTest, SelfAttentionStepsTheRowsOfAllRequestsTogether) {
  const ModelPtr served = Served(RandomMarianModel(5, true, MarianDecoder::kSelfAttention), false);
  ASSERT_NE(served, nullptr);
  EXPECT_THAT(output_, HasSubstr("steps rows of several requests together"));
  std::vector<v1::Source> requests;
  for (const std::vector<int32_t>& source : Sources(40)) {
    requests.emplace_back().set_text(TextOf(source));
  }
  v1::DecodeOptions decode;
  decode.set_beam_size(3);
  const engine::EngineOptions options = {2, 64, 1000};
  const auto apart = engine_testing::DecodeGathered(served, requests, decode, options, false);
  const auto together = engine_testing::DecodeGathered(served, requests, decode, options, true);
  EXPECT_EQ(together.bits, apart.bits);
}

TEST_F(InitMarianTest, AnNpzFileIsTheSameModel) {
  const MarianModel model = RandomMarianModel(5);
  ops::TensorMap arrays;
  for (const auto& [name, matrix] : model.arrays) {
    arrays[name] = ops::Tensor::Of<float>({matrix.rows, matrix.columns}, matrix.values);
  }
  const std::string yaml = model.Options() + std::string(1, '\0');
  arrays["special:model.yml"] = ops::Tensor::Of<int8_t>(
      {static_cast<int64_t>(yaml.size())}, std::vector<int8_t>(yaml.begin(), yaml.end()));
  options_.decoder = Path("model.npz");
  ASSERT_TRUE(ops::WriteNpz(options_.decoder, arrays).ok());
  ASSERT_EQ(Init(), "");
  const auto served = TryBundle(options_.out, "");
  ASSERT_TRUE(served.ok()) << served.status();
  const auto engine = *engine::Engine::Start({2, 64, 1000});
  const std::vector<int32_t> source = Sources(model.tokens)[0];
  ExpectAnswer(Best(*engine, *served, source),
               MarianReference(model).Greedy(source, 2 * source.size() + 4, {}));
}

// Weights in 8 bits are what the file says; what they multiply is rounded as well, so that close
// calls may fall otherwise.
TEST_F(InitMarianTest, FilesOf8BitsAnswerNearlyAsTheirNumbersDo) {
  const auto engine = *engine::Engine::Start({2, 64, 1000});
  v1::DecodeOptions greedy;
  greedy.set_beam_size(1);
  for (const auto& [tied, decoder] : {std::pair(true, MarianDecoder::kSsru),
                                      {false, MarianDecoder::kSsru},
                                      {true, MarianDecoder::kSelfAttention}}) {
    options_.out = Path(absl::StrCat("bundle", tied, static_cast<int>(decoder)));
    const MarianModel model = RandomMarianModel(5, tied, decoder);
    const ModelPtr served = Served(model, true);
    ASSERT_NE(served, nullptr);
    EXPECT_THAT(output_, HasSubstr("precision int8"));
    const MarianModel numbers = MarianDequantised(model);
    int equal = 0;
    for (const std::vector<int32_t>& source : Sources(model.tokens)) {
      const auto expected = MarianReference(numbers).Greedy(source, 2 * source.size() + 4, {});
      std::vector<int32_t> wanted = expected.tokens;
      const v1::Hypothesis best = Best(*engine, served, source, greedy);
      std::vector<int32_t> tokens(best.tokens().begin(), best.tokens().end());
      wanted.resize(std::min<size_t>(wanted.size(), 4));
      tokens.resize(wanted.size());
      equal += tokens == wanted ? 1 : 0;
    }
    EXPECT_GE(equal, kSources * 3 / 5);
  }
}

// The shortlist of a source depends on that source alone.
TEST_F(InitMarianTest, AShortlistOpensWhatMarianOpensToASourceAlone) {
  const auto engine = *engine::Engine::Start({2, 64, 1000});
  const MarianModel model = RandomMarianModel(7);
  options_.shortlist = Path("lex.bin");
  WriteFile(options_.shortlist, BinaryShortlist(40, 40));
  const ModelPtr served = Served(model, false);
  ASSERT_NE(served, nullptr);
  const MarianReference reference(model);
  std::vector<v1::Source> requests;
  int changed = 0;
  for (const std::vector<int32_t>& source : Sources(model.tokens)) {
    const size_t limit = 2 * source.size() + 4;
    const auto expected = reference.Greedy(source, limit, OpenTo(source, model.tokens));
    ExpectAnswer(Best(*engine, served, source), expected);
    changed += expected.tokens != reference.Greedy(source, limit, {}).tokens ? 1 : 0;
    requests.emplace_back().set_text(TextOf(source));
  }
  EXPECT_GT(changed, kSources / 2);
  const engine::EngineOptions options = {2, 64, 1000};
  EXPECT_EQ(engine_testing::DecodeGathered(served, requests, {}, options, true).bits,
            engine_testing::DecodeGathered(served, requests, {}, options, false).bits);
}

TEST_F(InitMarianTest, TargetsAreScoredAndPrefixesKept) {
  const auto engine = *engine::Engine::Start({2, 64, 1000});
  const MarianModel model = RandomMarianModel(9);
  const ModelPtr served = Served(model, false);
  ASSERT_NE(served, nullptr);
  const MarianReference reference(model);
  const std::vector<int32_t> source = {7, 12, 30, 0};
  const std::vector<int32_t> target = {9, 4, 21, 0};
  v1::ScoreSource request;
  request.mutable_source()->set_text(TextOf(source));
  request.add_targets()->set_text(TextOf(target));
  const auto scored = engine->ScoreAndWait(served, request, {});
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_NEAR(scored->targets(0).hypothesis().log_prob(), reference.Score(source, target), 1e-4);

  v1::DecodeOptions options;
  options.mutable_target_prefix()->set_text("w9 w4");
  options.set_beam_size(4);
  options.set_attention(v1::ATTENTION_HARD);
  const v1::Hypothesis best = Best(*engine, served, source, options);
  ASSERT_GE(best.tokens_size(), 3);
  EXPECT_EQ(best.tokens(0), 9);
  EXPECT_EQ(best.tokens(1), 4);
}

// Each option that changes what a model computes is named; those that do not matter are, too.
TEST_F(InitMarianTest, OptionsThatAreNotImplementedAreRefusedByName) {
  MarianModel model = RandomMarianModel(5);
  for (const auto& [line, name] : std::vector<std::pair<std::string, std::string>>{
           {"layer-normalization: true", "layer-normalization"},
           {"transformer-train-position-embeddings: true", "transformer-train-position-embeddings"},
           {"lemma-dim-emb: 8", "lemma-dim-emb"},
           {"right-left: true", "right-left"},
           {"output-omit-bias: true", "output-omit-bias"},
           {"transformer-ffn-depth: 3", "transformer-ffn-depth"},
           {"some-new-option: 7", "some-new-option"}}) {
    model.further_options = line + "\n";
    WriteFile(Path("model.bin"), MarianBin(MarianItems(model, false)));
    EXPECT_THAT(Init(), AllOf(HasSubstr("model.bin"), HasSubstr(absl::StrCat("option '", name))));
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"type: transformer", "type: s2s"},
           {"autoreg: rnn", "autoreg: average-attention"},
           {"dec-cell: ssru", "dec-cell: lstm"},
           {"postprocess: dan", "postprocess: da"},
           {"preprocess: \"\"", "preprocess: n"},
           {"activation: relu", "activation: tanh"}}) {
    model.further_options.clear();
    std::vector<MarianItem> items = MarianItems(model, false);
    items.back().bytes = absl::StrReplaceAll(items.back().bytes, {{from, to}});
    items.back().shape = {static_cast<int32_t>(items.back().bytes.size())};
    WriteFile(Path("model.bin"), MarianBin(items));
    EXPECT_THAT(Init(), AllOf(HasSubstr("option '"), HasSubstr("is implemented"))) << to;
  }
  model.further_options = "transformer-depth-scaling: true\nlayer-normalization: false\n";
  WriteFile(Path("model.bin"), MarianBin(MarianItems(model, false)));
  EXPECT_EQ(Init(), "");
  EXPECT_THAT(output_, AllOf(HasSubstr("transformer-depth-scaling"), HasSubstr("version"),
                             HasSubstr("layer-normalization")));
}

TEST_F(InitMarianTest, WhatDoesNotBelongTogetherIsRefusedBeforeAnythingIsWritten) {
  const MarianModel model = RandomMarianModel(5);
  WriteFile(Path("model.bin"), MarianBin(MarianItems(model, false)));
  const InitOptions good = options_;
  options_.target_vocab.clear();
  EXPECT_THAT(Init(), HasSubstr("--target-vocab: is not set"));
  options_ = good;
  options_.source_vocab = Path("other");
  WriteFile(Path("other"), Vocabulary(39));
  EXPECT_THAT(Init(), HasSubstr("has 39 tokens, but the model has 40"));
  options_ = good;
  options_.special.begin = "<s>";
  EXPECT_THAT(Init(), HasSubstr("--begin: a Marian model leaves no choice"));
  options_ = good;
  options_.shortlist = Path("lex.bin");
  std::string shortlist = BinaryShortlist(39, 40);
  WriteFile(options_.shortlist, shortlist);
  EXPECT_THAT(Init(), HasSubstr("has lists for 39 source ids, but the source vocabulary has 40"));
  WriteFile(options_.shortlist, BinaryShortlist(40, 52));
  EXPECT_THAT(Init(), HasSubstr("is outside [0, 40); is the shortlist of another direction?"));
  shortlist = BinaryShortlist(40, 40);
  WriteFile(options_.shortlist, shortlist.substr(0, shortlist.size() - 9));
  EXPECT_THAT(Init(), HasSubstr("is cut short"));
  shortlist[60] = static_cast<char>(shortlist[60] ^ 1);
  WriteFile(options_.shortlist, shortlist);
  EXPECT_THAT(Init(), HasSubstr("checksum"));
  options_ = good;
  std::vector<MarianItem> items = MarianItems(model, false);
  items.push_back({"Wpos", 0x404, {1}, std::string(4, '\0')});
  WriteFile(Path("model.bin"), MarianBin(items));
  EXPECT_THAT(Init(), HasSubstr("array 'Wpos': no layer that is implemented reads it"));
  items.erase(items.begin());
  WriteFile(Path("model.bin"), MarianBin(items));
  EXPECT_THAT(Init(), HasSubstr("array 'Wemb' is missing"));
  EXPECT_FALSE(std::filesystem::exists(options_.out));
}

}  // namespace
}  // namespace beamwright::tools
