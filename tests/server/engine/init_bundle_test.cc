// What `beamwright-graph init` writes, a server loads: ops/ writes model.textproto without the
// protos, so only here it meets their parser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "ops/tools/bundle_text.h"
#include "ops/tools/init.h"
#include "server/engine/decode_model.h"
#include "server/model/model_config.h"

namespace beamwright::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kExported[] = BEAMWRIGHT_SOURCE_DIR "/tests/ops/tools/testdata/";

class TempBundle {
 public:
  TempBundle() {
    std::string pattern = ::testing::TempDir() + "/beamwright-init-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~TempBundle() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

ops::InitOptions Exported(const std::string& folder, const TempBundle& bundle) {
  ops::InitOptions options;
  options.encoder = absl::StrCat(kExported, folder, "/encoder.onnx");
  options.decoder = absl::StrCat(kExported, folder, "/decoder.onnx");
  options.out = bundle.path();
  options.source_vocab = absl::StrCat(kExported, "source.vocab");
  options.target_vocab = absl::StrCat(kExported, "target.vocab");
  return options;
}

class InitBundleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(InitBundleTest, IsServed) {
  const TempBundle folder;
  std::ostringstream output;
  const absl::Status status = InitBundle(Exported(GetParam(), folder), output);
  ASSERT_TRUE(status.ok()) << status;
  auto bundle = model::LoadBundle(folder.path());
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->config.target().begin_token(), "<s>");
  const auto compiled = DecodeModel::Compile(*std::move(bundle));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ((*compiled)->target_vocabulary_size(), 28);
}

INSTANTIATE_TEST_SUITE_P(All, InitBundleTest,
                         ::testing::Values("step-lstm", "step-gru", "step-ssru", "whole-lstm",
                                           "whole-gru", "whole-ssru"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           name[name.find('-')] = '_';
                           return name;
                         });

// What init could not know is refused by name, not served with a guess.
TEST(InitBundle, OpenQuestionsAreRefused) {
  const TempBundle folder;
  ops::InitOptions options = Exported("step-gru", folder);
  options.source_vocab.clear();
  options.target_vocab.clear();
  std::ostringstream output;
  const absl::Status status = InitBundle(options, output);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(model::LoadBundle(folder.path()).status().message(),
              AllOf(HasSubstr("target.begin_token: is not set"),
                    HasSubstr("target.end_tokens: is not set")));
}

// Every field that init can write, under names that need quoting.
TEST(InitBundle, EveryFieldIsParsed) {
  ops::BundleDescription bundle;
  bundle.name = "a-model";
  bundle.reasons = {"a line\nthat breaks"};
  bundle.encoder_graph = "encoder.onnx";
  bundle.encoder = ops::EncoderRoles{"so\"urce\\", 30, ops::LengthKind::kMask, "mask\n"};
  bundle.decoder_graph = "decoder.onnx";
  bundle.decoder.token_input = "token";
  bundle.decoder.states = {
      {"h", "h_next", "h", false}, {"c", "c_next", "", true}, {"d", "d_next", "d_init", false}};
  bundle.decoder.memory = {{"memory", "annotations", ops::LengthKind::kNone},
                           {"lengths", "", ops::LengthKind::kLengths},
                           {"bias", "", ops::LengthKind::kAdditiveMask}};
  bundle.decoder.logits_output = "logits";
  bundle.decoder.score_kind = ops::ScoreKind::kLogProbs;
  bundle.decoder.attention_output = "attention";
  bundle.source.size = 30;
  bundle.target = {
      "TEXT_FORM_WHITESPACE", "target.vocab", 9, "\xC3\xA4", {"x", "y"}, "<pad>", "<unk>", false};
  const auto config = model::ParseModelConfig(FormatBundle(bundle));
  ASSERT_TRUE(config.ok()) << config.status() << FormatBundle(bundle);
  EXPECT_EQ(config->encoder().input(), "so\"urce\\");
  EXPECT_EQ(config->encoder().length_kind(), v1::LENGTH_INPUT_MASK);
  EXPECT_EQ(config->encoder().length_input(), "mask\n");
  ASSERT_EQ(config->decoder().states_size(), 3);
  EXPECT_FALSE(config->decoder().states(0).has_encoder_output());
  EXPECT_TRUE(config->decoder().states(1).has_constant());
  EXPECT_EQ(config->decoder().states(2).encoder_output(), "d_init");
  ASSERT_EQ(config->decoder().memory_size(), 3);
  EXPECT_EQ(config->decoder().memory(0).encoder_output(), "annotations");
  EXPECT_EQ(config->decoder().memory(1).length_kind(), v1::LENGTH_INPUT_LENGTHS);
  EXPECT_EQ(config->decoder().memory(2).length_kind(), v1::LENGTH_INPUT_ADDITIVE_MASK);
  EXPECT_EQ(config->decoder().logits_kind(), v1::LOGITS_KIND_LOG_PROBS);
  EXPECT_EQ(config->source().size(), 30);
  EXPECT_EQ(config->target().begin_token(), "\xC3\xA4");
  EXPECT_EQ(config->target().end_tokens_size(), 2);
  EXPECT_EQ(config->target().pad_token(), "<pad>");
}

}  // namespace
}  // namespace beamwright::engine
