// Recognition of sound by encoders that read whole sources: what Decode finds of the same sound,
// and when its words were said. Streams of all kinds are tested over the protocols (tests/e2e).
#include "server/serving/recognition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/file.h"
#include "ops/base/steady_time.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"
#include "tests/support/test_data.h"

// A namespace for this file: a folder's tests are compiled together.
namespace beamwright::serving::recognition {
namespace {

using ::testing::ElementsAre;

// NeMo's export, [rows, features, frames], whose features are normalised over the source.
void WriteNemoBundle(const std::string& folder) {
  const std::filesystem::path to = folder + "/nemo/1";
  const std::string from = testing_support::TestData("frames/exports/ctc_nemo/");
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

std::string TextOf(const v1::RecognizedSegment& segment) {
  return segment.hypotheses().empty() ? "" : segment.hypotheses(0).text();
}

// A model that hears tones, with these lines of its bundle in the place of `sound {}`.
void WriteTonesWith(const std::string& folder, const std::string& name, const std::string& lines) {
  sound::WriteTonesBundle(folder, name);
  const std::string file = folder + "/" + name + "/1/model.textproto";
  const std::string text = *ReadFile(file);
  std::ofstream(file) << absl::StrReplaceAll(text, {{"sound {}", lines}});
}

std::string Data(const std::string& name) {
  return BEAMWRIGHT_SOURCE_DIR "/tests/engine/sound/data/" + name;
}

// A tagger that puts a comma behind t17, capitals in front of t3, and both around t8.
void WriteLabelsBundle(const std::string& folder) {
  const std::filesystem::path to = folder + "/labels/1";
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(Data("labels.onnx"), to / "encoder.onnx");
  std::ofstream words(to / "words.txt");
  for (int i = 0; i <= 20; ++i) {
    words << "t" << i << "\n";
  }
  std::ofstream(to / "labels.txt") << "O\n,\nU\nU.\n";
  std::ofstream(to / "model.textproto") << R"(
      format_version: 1 name: "labels"
      encoder { graph: "encoder.onnx" }
      source { form: TEXT_FORM_WHITESPACE vocabulary: "words.txt" }
      target { form: TEXT_FORM_WHITESPACE vocabulary: "labels.txt" }
      tags { kind: LOGITS_KIND_LOGITS })";
}

// Noise of this amplitude.
std::vector<float> Noise(double seconds, float amplitude) {
  std::vector<float> samples(static_cast<size_t>(16000 * seconds));
  uint32_t state = 1;
  for (float& sample : samples) {
    state = state * 1664525 + 1013904223;
    sample = amplitude * (static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
  return samples;
}

std::vector<float> Joined(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const std::vector<float>& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class RecognitionTest : public ::testing::Test {
 protected:
  RecognitionTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    sound::WriteTonesChunksBundle(temp_.path(), "chunks");
    WriteNemoBundle(temp_.path());
    WriteTonesWith(temp_.path(), "heard", "sound { activity: \"activity.onnx\" }");
    std::filesystem::copy_file(Data("activity.onnx"), temp_.path() + "/heard/1/activity.onnx");
    WriteLabelsBundle(temp_.path());
    WriteTonesWith(temp_.path(), "written", "sound {} rewrite { model: \"labels\" }");
    WriteTonesWith(temp_.path(), "unwritten", "sound {} rewrite { model: \"missing\" }");
    ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    models_ = *ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(Phase::kServing);
  }

  struct Answer {
    absl::Status status;
    std::vector<v1::RecognizedSegment> segments;
    v1::RecognizeSummary summary;
  };

  // Of sound in pieces of 100 ms.
  Answer Recognize(const v1::RecognizeConfig& config, const std::vector<float>& samples) {
    const std::shared_ptr<Recognition> recognition = Recognition::Make(
        *core_, Caller{Method::kRecognize}, [] {}, [] {});
    v1::RecognizeRequest request;
    *request.mutable_config() = config;
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
    Answer answer;
    for (auto taken = Recognition::Taken::kNothing; taken != Recognition::Taken::kEnd;) {
      v1::RecognizeResponse message;
      taken = recognition->Take(message, answer.status);
      if (taken == Recognition::Taken::kNothing) {
        absl::SleepFor(absl::Milliseconds(1));
      } else {
        answer.segments.insert(answer.segments.end(), message.segments().begin(),
                               message.segments().end());
        answer.summary = message.has_summary() ? message.summary() : answer.summary;
      }
    }
    return answer;
  }

  // The source's only segment.
  v1::RecognizedSegment Recognized(const std::string& model, const std::vector<float>& samples) {
    v1::RecognizeConfig config;
    config.set_model(model);
    const Answer answer = Recognize(config, samples);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.segments.size(), 1U);
    return answer.segments.empty() ? v1::RecognizedSegment() : answer.segments[0];
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

// Options with a pattern are read on another thread, while what the client sends waits.
TEST_F(RecognitionTest, WhatComesBeforeThePatternIsReadWaits) {
  v1::RecognizeConfig config;
  config.set_model("tones");
  config.mutable_options()->set_regex("[a-z]*");
  const absl::Status status = Recognize(config, sound::Tones({5})).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("config.options"));

  // A client that has gone, and a server that ends: the options are not read.
  v1::RecognizeRequest request;
  *request.mutable_config() = config;
  absl::Status end;
  v1::RecognizeResponse message;
  Caller late{Method::kRecognize, SteadyNow() - absl::Seconds(1)};
  const auto expired = Recognition::Make(
      *core_, late, [] {}, [] {});
  expired->Add(request);
  while (expired->Take(message, end) != Recognition::Taken::kEnd) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
  core_->long_work().End(ShuttingDown());
  const auto refused = Recognition::Make(
      *core_, Caller{Method::kRecognize}, [] {}, [] {});
  refused->Add(request);
  EXPECT_EQ(refused->Take(message, end), Recognition::Taken::kEnd);
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
}

TEST_F(RecognitionTest, WordsHaveTimesAndConfidences) {
  const std::vector<float> samples = sound::Tones({3, 17, 8});
  const v1::RecognizedSegment segment = Recognized("tones", samples);
  std::vector<std::string> words;
  double end_ms = 0;
  for (const v1::Word& word : segment.words()) {
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

// A model that reads whole sources gets them in the parts between pauses.
TEST_F(RecognitionTest, LongSoundBecomesSegments) {
  const std::vector<float> first = sound::Tones({3, 17});
  const std::vector<float> pause = Noise(1.5, 1e-4F);
  const std::vector<float> samples = Joined({first, pause, sound::Tones({8, 12}), pause});
  v1::RecognizeConfig config;
  config.set_model("tones");
  config.mutable_endpoint()->set_pause_ms(600);
  const Answer answer = Recognize(config, samples);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  ASSERT_EQ(answer.segments.size(), 2U);
  EXPECT_EQ(TextOf(answer.segments[0]), "t3 t17");
  EXPECT_EQ(TextOf(answer.segments[1]), "t8 t12");
  EXPECT_EQ(answer.summary.num_segments(), 2);
  EXPECT_EQ(answer.segments[1].begin_ms(), answer.segments[0].end_ms());
  const double said_ms = static_cast<double>(first.size() + pause.size()) / 16;
  ASSERT_EQ(answer.segments[1].words_size(), 2);
  EXPECT_NEAR(answer.segments[1].words(0).begin_ms(), said_ms + 120, 120);
  EXPECT_NEAR(static_cast<double>(answer.segments[1].first_frame()) * 40,
              answer.segments[1].begin_ms(), 20);
  // Features are not cut.
  config.clear_audio();
  v1::RecognizeRequest request;
  *request.mutable_config() = config;
  const std::shared_ptr<Recognition> recognition = Recognition::Make(
      *core_, Caller{Method::kRecognize}, [] {}, [] {});
  recognition->Add(request);
  v1::RecognizeResponse message;
  absl::Status end;
  EXPECT_EQ(recognition->Take(message, end), Recognition::Taken::kEnd);
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
}

// Segments that the client does not take: it may not send on, and they count as held memory.
TEST_F(RecognitionTest, SegmentsThatAreNotTakenBoundAStream) {
  v1::RecognizeConfig config;
  config.set_model("tones");
  config.mutable_endpoint()->set_pause_ms(20);
  config.mutable_endpoint()->set_max_segment_ms(200);
  config.mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
  std::atomic<int> num_rooms{0};
  const std::shared_ptr<Recognition> recognition = Recognition::Make(
      *core_, Caller{Method::kRecognize}, [] {}, [&num_rooms] { ++num_rooms; });
  v1::RecognizeRequest request;
  *request.mutable_config() = config;
  recognition->Add(request);
  request.set_audio(sound::AsF32(sound::Tones({3})));
  const auto is_full = [&recognition] {
    // The engine may be slow to make room: then this ends early, as a stream with many segments.
    const absl::Time end = SteadyNow() + absl::Milliseconds(500);
    while (recognition->is_full() && SteadyNow() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return recognition->is_full();
  };
  constexpr int kMost = 1000;
  int num_pieces = 0;
  for (; num_pieces < kMost && !is_full(); ++num_pieces) {
    recognition->Add(request);
  }
  EXPECT_LT(num_pieces, kMost);
  EXPECT_GT(core_->memory().held_bytes(), 0);
  num_rooms = 0;
  v1::RecognizeResponse message;
  absl::Status end;
  while (is_full()) {
    recognition->Take(message, end);
  }
  EXPECT_GT(num_rooms, 0);
  recognition->GiveUp();
}

TEST_F(RecognitionTest, ASegmentWithoutMemoryEndsItsStream) {
  core_->memory().SetLimit(1);
  v1::RecognizeConfig config;
  config.set_model("tones");
  const Answer answer = Recognize(config, sound::Tones({3, 17}));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kResourceExhausted) << answer.status;
}

// An allocation that fails while a request is read.
TEST_F(RecognitionTest, AnAllocationThatFailsEndsItsStreamAlone) {
  v1::RecognizeConfig config;
  config.set_model("tones");
  fault_hook = [](const char* point) -> absl::Status {
    if (point == absl::string_view("call.admit")) {
      throw std::bad_alloc();
    }
    return absl::OkStatus();
  };
  EXPECT_EQ(Recognize(config, sound::Tones({3})).status, status::OutOfMemory());
  fault_hook = nullptr;
  EXPECT_TRUE(Recognize(config, sound::Tones({3})).status.ok());
}

TEST_F(RecognitionTest, WhatIsNoSpeechIsNotHeard) {
  const std::vector<float> noise = Noise(3, 1e-3F);  // -65 dB
  v1::RecognizeConfig config;
  config.set_model("heard");
  config.mutable_endpoint()->set_pause_ms(500);
  const std::vector<float> first = sound::Tones({3, 17});
  const Answer answer =
      Recognize(config, Joined({noise, first, noise, sound::Tones({8, 12}), noise}));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  ASSERT_EQ(answer.segments.size(), 2U);
  EXPECT_EQ(TextOf(answer.segments[0]), "t3 t17");
  EXPECT_EQ(TextOf(answer.segments[1]), "t8 t12");
  EXPECT_NEAR(answer.segments[0].begin_ms(), 2900, 200);
  EXPECT_NEAR(answer.segments[0].end_ms(), 3100 + static_cast<double>(first.size()) / 16, 250);
  const Answer nothing = Recognize(config, noise);
  EXPECT_TRUE(nothing.status.ok()) << nothing.status;
  EXPECT_TRUE(nothing.segments.empty());
}

TEST_F(RecognitionTest, TextsAreRewritten) {
  const std::vector<float> samples = sound::Tones({3, 17, 8, 12});
  const v1::RecognizedSegment segment = Recognized("written", samples);
  EXPECT_EQ(TextOf(segment), "T3 t17, T8. t12");
  const v1::RecognizedSegment spoken = Recognized("tones", samples);
  EXPECT_THAT(segment.hypotheses(0).tokens(),
              ::testing::ElementsAreArray(spoken.hypotheses(0).tokens()));
  EXPECT_EQ(segment.words(1).text(), "t17");
  v1::RecognizeConfig config;
  config.set_model("written");
  config.mutable_endpoint()->set_pause_ms(600);
  const std::vector<float> pause = Noise(1.5, 1e-4F);
  const Answer answer = Recognize(config, Joined({sound::Tones({3}), pause, sound::Tones({8})}));
  ASSERT_EQ(answer.segments.size(), 2U);
  EXPECT_EQ(TextOf(answer.segments[0]), "T3");
  EXPECT_EQ(TextOf(answer.segments[1]), "T8.");
  config.set_model("unwritten");
  EXPECT_EQ(Recognize(config, samples).status.code(), absl::StatusCode::kFailedPrecondition);
}

// A keyword whose words all have this confidence, and when it was said.
struct Spotted {
  std::string text;
  double begin_ms;
  double end_ms;
};

std::vector<Spotted> KeywordsAbove(double threshold,
                                   const std::vector<v1::RecognizedSegment>& segments) {
  std::vector<Spotted> found;
  for (const v1::RecognizedSegment& segment : segments) {
    const auto& words = segment.words();
    if (!words.empty() && std::all_of(words.begin(), words.end(), [&](const v1::Word& word) {
          return word.confidence() >= threshold;
        })) {
      found.push_back({TextOf(segment), words[0].begin_ms(), words.rbegin()->end_ms()});
    }
  }
  return found;
}

// Keywords: a closed list, of which what was not said is not sure. A model that reads whole
// sources, whose sound is cut in pauses, and one that reads chunk by chunk.
TEST_F(RecognitionTest, KeywordsAreSure) {
  const std::vector<float> pause = Noise(1.5, 1e-4F);
  const std::vector<float> samples =
      Joined({sound::Tones({8, 12}), pause, sound::Tones({17, 15, 19}), pause, sound::Tones({3})});
  for (const char* const model : {"tones", "chunks"}) {
    SCOPED_TRACE(model);
    v1::RecognizeConfig config;
    config.set_model(model);
    config.mutable_endpoint()->set_pause_ms(600);
    for (const char* const keyword : {"t3", "t8 t12"}) {
      config.mutable_options()->add_allowed_sequences()->set_text(keyword);
    }
    const Answer answer = Recognize(config, samples);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    const std::vector<Spotted> sure = KeywordsAbove(0.3, answer.segments);
    ASSERT_EQ(sure.size(), 2U);
    EXPECT_EQ(sure[0].text, "t8 t12");
    EXPECT_NEAR(sure[0].begin_ms, 100, 130);
    EXPECT_NEAR(sure[0].end_ms, 400, 130);
    EXPECT_EQ(sure[1].text, "t3");
    EXPECT_NEAR(sure[1].begin_ms, 4250, 130);
    EXPECT_NEAR(sure[1].end_ms, 4400, 130);
    // What was heard in the middle is among the keywords, but below the threshold.
    EXPECT_EQ(KeywordsAbove(0, answer.segments).size(), 3U);
    EXPECT_TRUE(KeywordsAbove(1.01, answer.segments).empty());
  }
}

TEST_F(RecognitionTest, LanguagesAreForModelsThatNameThem) {
  v1::RecognizeConfig config;
  config.set_model("tones");
  config.set_language("auto");
  EXPECT_TRUE(Recognize(config, sound::Tones({3})).status.ok());
  config.set_language("de");
  EXPECT_EQ(Recognize(config, sound::Tones({3})).status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace beamwright::serving::recognition
