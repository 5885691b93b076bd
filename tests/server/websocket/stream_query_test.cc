// What the address of a WebSocket asks for, and what is wrong with it.
#include "server/websocket/stream_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::websocket {
namespace {

using ::testing::HasSubstr;

class StreamQueryTest : public ::testing::Test {
 protected:
  StreamQueryTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    serving::ModelPaths paths;
    paths.repositories = {temp_.path()};
    paths.models = {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en"};
    models_ = *serving::ModelRegistry::Load(paths);
  }

  StreamQuery Read(const std::string& target) {
    const auto query = ReadStreamQuery(target, "", *models_);
    EXPECT_TRUE(query.ok()) << query.status();
    return query.ok() ? *query : StreamQuery();
  }
  std::string Error(const std::string& target) {
    return std::string(ReadStreamQuery(target, "", *models_).status().message());
  }

  bundle::TempFolder temp_;
  std::unique_ptr<serving::ModelRegistry> models_;
};

TEST_F(StreamQueryTest, WithoutOneItIsWhatClientsOfSherpaOnnxExpect) {
  const StreamQuery query = Read("/");
  EXPECT_EQ(query.config.model(), "tones");  // the other one hears no sound
  EXPECT_EQ(query.config.audio().samples(), v1::SAMPLE_FORMAT_F32);
  EXPECT_EQ(query.config.audio().sample_rate(), 16000);
  EXPECT_TRUE(query.config.provisional());
  EXPECT_TRUE(query.config.has_endpoint());
  EXPECT_EQ(query.timeout, absl::InfiniteDuration());
}

TEST_F(StreamQueryTest, EverythingCanBeAskedFor) {
  const StreamQuery query = Read(
      "/any/path?model=tones&version=1&samples=pcm16&sample_rate=8000&provisional=false"
      "&options=%7B%22beam_size%22:+8%7D&endpoint={\"pause_ms\":500}&language=de&timeout_ms=1500&");
  EXPECT_EQ(query.config.version(), "1");
  EXPECT_EQ(query.config.audio().samples(), v1::SAMPLE_FORMAT_PCM16);
  EXPECT_EQ(query.config.audio().sample_rate(), 8000);
  EXPECT_FALSE(query.config.provisional());
  EXPECT_EQ(query.config.options().beam_size(), 8);
  EXPECT_EQ(query.config.endpoint().pause_ms(), 500);
  EXPECT_EQ(query.config.language(), "de");
  EXPECT_EQ(query.timeout, absl::Milliseconds(1500));
  EXPECT_FALSE(Read("/?endpoint=none").config.has_endpoint());
}

TEST_F(StreamQueryTest, SegmentsEndByTheUsualRulesUnlessAskedOtherwise) {
  sound::WriteTonesChunksBundle(temp_.path(), "chunks");
  serving::ModelPaths paths;
  paths.repositories = {temp_.path()};
  models_ = *serving::ModelRegistry::Load(paths);
  EXPECT_TRUE(Read("/?model=chunks").config.has_endpoint());
  EXPECT_FALSE(Read("/?model=chunks&endpoint=none").config.has_endpoint());
  EXPECT_EQ(Read("/?model=chunks&endpoint={\"pause_ms\":500}").config.endpoint().pause_ms(), 500);
}

TEST_F(StreamQueryTest, OneOfSeveralModelsWithSoundMustBeNamed) {
  sound::WriteTonesChunksBundle(temp_.path(), "chunks");
  serving::ModelPaths paths;
  paths.repositories = {temp_.path()};
  models_ = *serving::ModelRegistry::Load(paths);
  EXPECT_THAT(Error("/"), HasSubstr("model: is not set, and there are 2 models"));
  EXPECT_EQ(Read("/?model=chunks").config.model(), "chunks");
  const auto by_default = ReadStreamQuery("/", "tones", *models_);
  ASSERT_TRUE(by_default.ok()) << by_default.status();
  EXPECT_EQ(by_default->config.model(), "tones");
}

TEST_F(StreamQueryTest, AllThatIsWrongIsSaid) {
  const std::string error = Error(
      "/?modle=x&samples=mp3&sample_rate=fast&provisional=1&timeout_ms=0"
      "&options={\"beam_sise\":8}&endpoint=[]&version=50%");
  for (const char* part :
       {"modle: is not a parameter of a stream; there are model, version,",
        "samples: 'mp3' is neither f32 nor pcm16", "sample_rate: 'fast' is not a whole number",
        "provisional: '1' is neither", "timeout_ms: '0' is outside [1, 86400000]",
        "options: 'beam_sise' is not a field", "endpoint: must be a JSON object",
        "version: has a '%' without two hexadecimal digits, or a NUL"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  std::string many = "/?";
  for (int i = 0; i < 30'000; ++i) {
    many += "a&";
  }
  EXPECT_LT(Error(many).size(), 5'000);
  EXPECT_THAT(Error("/?model=g2p-en"), HasSubstr("model: the bundle of 'g2p-en' does not say"));
  EXPECT_EQ(ReadStreamQuery("/?model=none", "", *models_).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadStreamQuery("/", "none", *models_).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace beamwright::websocket
