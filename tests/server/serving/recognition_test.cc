// Recognition of sound by encoders that read whole sources: what Decode finds of the same sound,
// and when its words were said. Streams of all kinds are tested over the protocols (tests/e2e).
#include "server/serving/recognition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

// A namespace for this file: a folder's tests are compiled together.
namespace beamwright::serving::recognition {
namespace {

using ::testing::ElementsAre;

// NeMo's export, [rows, features, frames], whose features are normalised over the source.
void WriteNemoBundle(const std::string& folder) {
  const std::filesystem::path to = folder + "/nemo/1";
  const std::string from = BEAMWRIGHT_SOURCE_DIR "/tests/frames/exports/ctc_nemo/";
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(from + "model.onnx", to / "encoder.onnx");
  std::ifstream tokens(from + "tokens.txt");  // TOKEN ID, the blank last
  std::ofstream vocabulary(to / "tokens.txt");
  for (std::string token, id; tokens >> token >> id && id != "17";) {
    vocabulary << token << "\n";
  }
  vocabulary.close();
  std::ofstream(to / "model.textproto") << R"(
      format_version: 1 name: "nemo" frame_ms: 20
      sound { kind: SOUND_KIND_NEMO }
      encoder {
        graph: "encoder.onnx" input: "audio_signal" length_axis: 2
        length_kind: LENGTH_INPUT_LENGTHS length_input: "length"
      }
      target { form: TEXT_FORM_PIECES vocabulary: "tokens.txt" }
      ctc { encoder_output: "logprobs" blank: 17 kind: LOGITS_KIND_LOG_PROBS })";
}

class RecognitionTest : public ::testing::Test {
 protected:
  RecognitionTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    WriteNemoBundle(temp_.path());
    ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    models_ = *ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(Phase::kServing);
  }

  // The source's segment, of sound in pieces of 100 ms.
  v1::RecognizedSegment Recognized(const std::string& model, const std::vector<float>& samples) {
    const std::shared_ptr<Recognition> recognition = Recognition::Make(
        *core_, Caller{Method::kRecognize}, [] {}, [] {});
    v1::RecognizeRequest request;
    request.mutable_config()->set_model(model);
    request.mutable_config()->mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
    recognition->Add(request);
    constexpr size_t kPiece = 1600;
    for (size_t at = 0; at < samples.size(); at += kPiece) {
      const size_t end_of_piece = std::min(samples.size(), at + kPiece);
      request.set_audio(
          sound::AsF32({samples.begin() + static_cast<std::ptrdiff_t>(at),
                        samples.begin() + static_cast<std::ptrdiff_t>(end_of_piece)}));
      recognition->Add(request);
    }
    recognition->Finish();
    v1::RecognizedSegment segment;
    absl::Status end;
    for (auto taken = Recognition::Taken::kNothing; taken != Recognition::Taken::kEnd;) {
      v1::RecognizeResponse message;
      taken = recognition->Take(message, end);
      if (taken == Recognition::Taken::kNothing) {
        absl::SleepFor(absl::Milliseconds(1));
      } else if (message.segments_size() > 0) {
        segment = message.segments(0);
      }
    }
    EXPECT_TRUE(end.ok()) << end;
    return segment;
  }

  v1::Hypothesis Decoded(const std::string& model, const std::vector<float>& samples) {
    v1::Source source;
    source.mutable_audio()->mutable_format()->set_samples(v1::SAMPLE_FORMAT_F32);
    source.mutable_audio()->set_data(sound::AsF32(samples));
    const auto decoded = engine_->DecodeAndWait(*models_->Lookup(model, ""), source, {});
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded.ok() && decoded->hypotheses_size() > 0 ? decoded->hypotheses(0)
                                                          : v1::Hypothesis();
  }

  bundle::TempFolder temp_;
  ServingState state_;
  Metrics metrics_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Core> core_;
};

TEST_F(RecognitionTest, SoundInPiecesIsTheSoundAtOnce) {
  const std::vector<float> samples = sound::Tones({3, 17, 8});
  for (const char* model : {"tones", "nemo"}) {
    const v1::RecognizedSegment segment = Recognized(model, samples);
    ASSERT_GT(segment.hypotheses_size(), 0) << model;
    const v1::Hypothesis decoded = Decoded(model, samples);
    EXPECT_EQ(segment.hypotheses(0).text(), decoded.text()) << model;
    EXPECT_EQ(segment.hypotheses(0).log_prob(), decoded.log_prob()) << model;
  }
}

TEST_F(RecognitionTest, WordsHaveTimesAndConfidences) {
  const std::vector<float> samples = sound::Tones({3, 17, 8});
  const v1::RecognizedSegment segment = Recognized("tones", samples);
  std::vector<std::string> words;
  double end_ms = 0;
  for (const v1::RecognizedWord& word : segment.words()) {
    words.push_back(word.text());
    EXPECT_GE(word.begin_ms(), end_ms);
    EXPECT_GT(word.end_ms(), word.begin_ms());
    EXPECT_GT(word.confidence(), 0.5);
    EXPECT_LE(word.confidence(), 1);
    end_ms = word.end_ms();
  }
  EXPECT_THAT(words, ElementsAre("t3", "t17", "t8"));
  EXPECT_LE(end_ms, static_cast<double>(samples.size()) / 16);
}

}  // namespace
}  // namespace beamwright::serving::recognition
