// Models of speech and pictures as optimum exports them (exports/speech_export.py): `init` takes
// graphs and JSON files as they are, and the server's texts are those of transformers' `generate`.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/beamwright/client.h"
#include "ops/base/file.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/server_process.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kSpokenDigits[] = BEAMWRIGHT_SOURCE_DIR "/models/digits-en";
constexpr char kPictures[] = BEAMWRIGHT_SOURCE_DIR "/tests/engine/picture/data";
constexpr size_t kWavHeaderBytes = 44;
constexpr char kTogether[] = "steps rows of several requests together";
constexpr char kEncodesTogether[] = "encodes sources of several requests together";

std::string Content(const fs::path& path) { return ReadFile(path.string()).value_or(""); }

fs::path SpeechExports() { return testing_support::TestData("e2e/exports"); }

// A question of texts.json with transformers' answer.
struct Asked {
  std::string source;  // a file
  int beam_size = 1;
  std::string language;
  std::string text;
  std::vector<int32_t> ids;  // without begin, prefix and end
};

std::vector<Asked> Questions(const std::string& model) {
  google::protobuf::ListValue list;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      Content(SpeechExports() / model / "texts.json"), &list);
  EXPECT_TRUE(parsed.ok()) << parsed.ToString();
  std::vector<Asked> questions;
  for (const auto& value : list.values()) {
    const auto& fields = value.struct_value().fields();
    Asked& asked = questions.emplace_back();
    asked.source = fields.at("source").string_value();
    asked.beam_size = static_cast<int>(fields.at("beam_size").number_value());
    asked.text = fields.at("text").string_value();
    if (fields.contains("language")) {
      asked.language = fields.at("language").string_value();
    }
    for (const auto& id : fields.at("ids").list_value().values()) {
      asked.ids.push_back(static_cast<int32_t>(id.number_value()));
    }
  }
  return questions;
}

v1::Source SourceOf(const std::string& file) {
  v1::Source source;
  if (absl::EndsWith(file, ".wav")) {
    source.mutable_audio()->set_data(
        Content(fs::path(kSpokenDigits) / file).substr(kWavHeaderBytes));
  } else {
    source.set_picture(Content(fs::path(kPictures) / file));
  }
  return source;
}

class SpeechExportsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string repository = ops::testing_tools::TempPath("speech_exports");
    const auto init = [&](const std::string& model, const std::vector<std::string>& graphs,
                          const std::string& folder = "", const char* steps = kTogether,
                          const char* encodes = kEncodesTogether,
                          const std::vector<std::string>& flags = {}) {
      const std::string bundle = absl::StrCat(repository, "/", model, "/1");
      fs::create_directories(bundle);
      std::vector<std::string> command = {BEAMWRIGHT_GRAPH_PROGRAM, "init"};
      for (const std::string& graph : graphs) {
        command.push_back(
            (SpeechExports() / (folder.empty() ? model + "/optimum" : folder) / graph).string());
      }
      command.insert(command.end(), {"--out", bundle, "--name", model});
      command.insert(command.end(), flags.begin(), flags.end());
      const ops::testing_tools::Outcome outcome = ops::testing_tools::RunProgram(command);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
      EXPECT_THAT(outcome.output, HasSubstr(steps));
      EXPECT_THAT(outcome.output, HasSubstr(encodes)) << model;
    };
    init("whisper_speech", {"encoder_model.onnx", "decoder_model_merged.onnx"});
    init("whisper_times", {"encoder_model.onnx", "decoder_model_merged.onnx"});
    init("moonshine_speech", {"encoder_model.onnx", "decoder_model_merged.onnx"}, "", kTogether,
         "encodes sources one at a time");
    init("trocr_picture", {"encoder_model.onnx", "decoder_with_past_model.onnx"});
    init("whisper_static", {"optimum/encoder_model.onnx", "static/decoder_model.onnx"},
         "whisper_speech", "steps rows one at a time");
    init("canary_speech", {"encoder.onnx", "decoder.onnx"}, "canary_speech/nemo");
    init("wenet", {"encoder.onnx", "ctc.onnx"}, "../../frames/exports/wenet", kTogether,
         "encodes sources one at a time",
         {"--tokens", testing_support::TestData("frames/exports/wenet/units.txt")});
    server_ = new ServerProcess({"--model-repository", repository});
    ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  // Of samples of 16 bits at 16 kHz, in pieces of a tenth of a second. Stable text is checked.
  static std::vector<v1::RecognizedSegment> Recognize(const std::string& samples,
                                                      const std::string& pattern = "",
                                                      const std::string& model = "whisper_speech") {
    const auto stub = v1::RecognizeService::NewStub(Connect(server_->address()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    const auto stream = stub->Recognize(&context);
    v1::RecognizeRequest request;
    request.mutable_config()->set_model(model);
    request.mutable_config()->mutable_audio();
    if (!pattern.empty()) {
      request.mutable_config()->mutable_options()->set_regex(pattern);
    }
    EXPECT_TRUE(stream->Write(request));
    for (size_t at = 0; at < samples.size(); at += 3200) {
      request.set_audio(samples.substr(at, 3200));
      stream->Write(request);
    }
    stream->WritesDone();
    v1::RecognizeResponse message;
    std::vector<v1::RecognizedSegment> segments;
    std::string stable;
    while (stream->Read(&message)) {
      for (const v1::RecognizedSegment& segment : message.segments()) {
        const std::string& text = segment.hypotheses(0).text();
        EXPECT_EQ(text.substr(0, stable.size()), stable);
        stable.clear();
        segments.push_back(segment);
      }
      stable = message.has_stable() ? message.stable().text() : stable;
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return segments;
  }

  // The reply to its source as a transcription in its language.
  static httplib::Result Transcribe(const std::string& model, const Asked& asked,
                                    const std::string& format, int max_length) {
    httplib::Client http("127.0.0.1", server_->http_port());
    http.set_read_timeout(60);
    return http.Post(
        "/v1/audio/transcriptions",
        httplib::MultipartFormDataItems{
            {"file", Content(fs::path(kSpokenDigits) / asked.source), asked.source, "audio/wav"},
            {"model", model, "", ""},
            {"language", asked.language, "", ""},
            {"response_format", format, "", ""},
            {"options",
             absl::StrFormat("{\"beam_size\": %d, \"max_length\": %d}", asked.beam_size,
                             max_length),
             "", ""}});
  }

  static ServerProcess* server_;
};

ServerProcess* SpeechExportsTest::server_ = nullptr;

// Tokens of an answer with times: the models' 36, of which transformers counts three as given.
constexpr int kMostTimed = 33;

// All sources of a beam in one call, so that rows of different requests share steps.
void ExpectAsGenerated(const std::string& model, ServerProcess& server,
                       const std::vector<int32_t>& prefix = {}, const char* asked_of = nullptr) {
  const std::vector<Asked> questions = Questions(asked_of == nullptr ? model : asked_of);
  ASSERT_GE(questions.size(), 6U);
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  int num_ended = 0;
  for (const int beam_size : {1, 4}) {
    v1::DecodeRequest request;
    request.set_model(model);
    request.mutable_options()->set_beam_size(beam_size);
    if (!prefix.empty()) {
      request.mutable_options()->mutable_target_prefix()->mutable_ids()->mutable_ids()->Add(
          prefix.begin(), prefix.end());
      request.mutable_options()->set_max_length(kMostTimed);
    }
    std::vector<Asked> expected;
    for (const Asked& asked : questions) {
      if (asked.beam_size == beam_size && (asked.language.empty() || asked.language == "en")) {
        *request.add_sources() = SourceOf(asked.source);
        expected.push_back(asked);
      }
    }
    const auto [status, response] = Decode(*stub, request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(expected[i].source, " with beam ", beam_size));
      const v1::Decoded& decoded = response.results(static_cast<int>(i)).decoded();
      ASSERT_GT(decoded.hypotheses_size(), 0)
          << response.results(static_cast<int>(i)).DebugString();
      const v1::Hypothesis& best = decoded.hypotheses(0);
      if (prefix.empty()) {
        EXPECT_EQ(best.text(), expected[i].text);
      }
      std::vector<int32_t> tokens(best.tokens().begin() + best.prefix_length(),
                                  best.tokens().end());
      if (best.finish_reason() == v1::FINISH_REASON_EOS) {
        ++num_ended;
        tokens.pop_back();
      }
      EXPECT_EQ(tokens, expected[i].ids);
    }
  }
  EXPECT_GT(num_ended, 0);
}

TEST_F(SpeechExportsTest, WhisperDecodesAsTransformersGenerates) {
  ExpectAsGenerated("whisper_speech", *server_);
}

// A cache of a fixed length, transformers' StaticCache, is a state like any other.
TEST_F(SpeechExportsTest, StaticCachesDecodeAsGrowingOnes) {
  ExpectAsGenerated("whisper_static", *server_, {}, "whisper_speech");
  const auto stub = v1::DecodeService::NewStub(Connect(server_->address()));
  v1::DecodeRequest request;
  request.set_model("whisper_static");
  request.mutable_options()->set_max_length(41);  // more than the places of the cache
  *request.add_sources() = SourceOf("spoken-1.wav");
  EXPECT_THAT(Decode(*stub, request).first.error_message(), HasSubstr("above the model's limit"));
}

// Of whisper_times: English, transcribe, and the token of the time 0.
constexpr int32_t kEnglish = 45;
constexpr int32_t kTranscribe = 48;
constexpr int32_t kFirstTime = 53;

// Without <|notimestamps|> answers have times, by the rules of transformers.
TEST_F(SpeechExportsTest, WhisperWritesTimesAsTransformersDoes) {
  ExpectAsGenerated("whisper_times", *server_, {kEnglish, kTranscribe});
}

// Segments of a transcription lie between the times.
TEST_F(SpeechExportsTest, TimesMakeSegments) {
  int num_segments = 0;
  for (const Asked& asked : Questions("whisper_times")) {
    SCOPED_TRACE(absl::StrCat(asked.source, " in ", asked.language, ", beam ", asked.beam_size));
    const auto reply = Transcribe("whisper_times", asked, "verbose_json", kMostTimed);
    ASSERT_TRUE(reply) << httplib::to_string(reply.error());
    ASSERT_EQ(reply->status, 200) << reply->body;
    google::protobuf::Struct answer;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(reply->body, &answer).ok());
    const auto& segments = answer.fields().at("segments").list_value().values();
    const double duration = answer.fields().at("duration").number_value();
    // Between each time and the next one, as long as there is text between.
    int number = 0;
    for (size_t begin = 0, i = 1; i < asked.ids.size(); ++i) {
      if (asked.ids[i] < kFirstTime) {
        continue;
      }
      if (i > begin + 1) {
        ASSERT_LT(number, segments.size());
        const auto& fields = segments[number++].struct_value().fields();
        EXPECT_NEAR(fields.at("start").number_value(),
                    std::min(0.02 * (asked.ids[begin] - kFirstTime), duration), 1e-3);
        EXPECT_NEAR(fields.at("end").number_value(),
                    std::min(0.02 * (asked.ids[i] - kFirstTime), duration), 1e-3);
        const auto& tokens = fields.at("tokens").list_value().values();
        ASSERT_EQ(static_cast<size_t>(tokens.size()), i - begin - 1);
        EXPECT_EQ(tokens[0].number_value(), asked.ids[begin + 1]);
      }
      begin = i;
    }
    num_segments += number;
    EXPECT_FALSE(absl::StrContains(reply->body, "<|"));
  }
  EXPECT_GT(num_segments, 12);
}

TEST_F(SpeechExportsTest, MoonshineDecodesAsTransformersGenerates) {
  ExpectAsGenerated("moonshine_speech", *server_);
}

// NeMo's Canary in the languages of sound and text: ONNX Runtime's answers.
TEST_F(SpeechExportsTest, CanaryTranscribesAsOnnxRuntime) {
  std::set<std::string> texts;
  for (const Asked& asked : Questions("canary_speech")) {
    SCOPED_TRACE(absl::StrCat(asked.source, " in ", asked.language, ", beam ", asked.beam_size));
    const auto reply = Transcribe("canary_speech", asked, "text", 24);
    ASSERT_TRUE(reply) << httplib::to_string(reply.error());
    ASSERT_EQ(reply->status, 200) << reply->body;
    EXPECT_EQ(reply->body, absl::StrCat(asked.text, "\n"));
    texts.insert(reply->body);
  }
  EXPECT_GT(texts.size(), 8U);
}

// Streams at the same time have the text of each recording alone and as a whole; what that is,
// tests/tools/bundle/frame_answers_test.cc compares with ONNX Runtime's.
TEST_F(SpeechExportsTest, WeNetStreamsAsItDecodes) {
  const auto stub = v1::DecodeService::NewStub(Connect(server_->address()));
  std::vector<std::string> recordings;
  std::vector<std::string> texts;
  for (const char* const file : {"spoken-1.wav", "spoken-2.wav", "spoken-3.wav"}) {
    recordings.push_back(Content(fs::path(kSpokenDigits) / file).substr(kWavHeaderBytes));
    v1::DecodeRequest request;
    request.set_model("wenet");
    request.add_sources()->mutable_audio()->set_data(recordings.back());
    const auto [status, response] = Decode(*stub, request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    texts.push_back(response.results(0).decoded().hypotheses(0).text());
    EXPECT_GT(texts.back().size(), 4U);
  }
  std::vector<std::string> streamed(3 * recordings.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < streamed.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto segments = Recognize(recordings[i % recordings.size()], "", "wenet");
      streamed[i] = segments.size() == 1 ? segments[0].hypotheses(0).text() : "";
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (size_t i = 0; i < streamed.size(); ++i) {
    EXPECT_EQ(streamed[i], texts[i % texts.size()]);
  }
}

TEST_F(SpeechExportsTest, TrocrDecodesAsTransformersGenerates) {
  ExpectAsGenerated("trocr_picture", *server_);
}

TEST_F(SpeechExportsTest, RecognizesOneSegment) {
  const Asked asked = Questions("whisper_speech").at(0);
  const std::string samples =
      Content(fs::path(kSpokenDigits) / asked.source).substr(kWavHeaderBytes);
  const std::vector<v1::RecognizedSegment> segments = Recognize(samples);
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].hypotheses(0).text(), asked.text);
  EXPECT_NEAR(segments[0].end_ms(), static_cast<double>(samples.size()) / 32, 0.1);
}

// The pattern is compiled while sound comes; each one is compiled once.
TEST_F(SpeechExportsTest, APatternOfAllTextsChangesNothing) {
  const std::string samples =
      Content(fs::path(kSpokenDigits) / Questions("whisper_speech").at(0).source)
          .substr(kWavHeaderBytes);
  const auto segments = Recognize(samples);
  ASSERT_EQ(segments.size(), 1U);
  for (const char* pattern : {"(.|\n)*", "(.|\n)*", "(\n|.)*"}) {
    const auto matching = Recognize(samples, pattern);
    ASSERT_EQ(matching.size(), 1U);
    EXPECT_EQ(matching[0].hypotheses(0).text(), segments[0].hypotheses(0).text());
  }
}

// The model reads three seconds: longer sound is cut in pauses, and each window has the text of a
// call with its sound alone.
TEST_F(SpeechExportsTest, LongSoundBecomesSegments) {
  std::string samples;
  for (const char* const file : {"spoken-1.wav", "spoken-2.wav", "spoken-3.wav"}) {
    samples += Content(fs::path(kSpokenDigits) / file).substr(kWavHeaderBytes);
    samples += std::string(32 * 500, '\0');
  }
  samples += std::string(32 * 7000, '\0');  // silence has no words
  const std::vector<v1::RecognizedSegment> segments = Recognize(samples);
  ASSERT_GE(segments.size(), 3U);
  const auto stub = v1::DecodeService::NewStub(Connect(server_->address()));
  double end_ms = 0;
  for (const v1::RecognizedSegment& segment : segments) {
    EXPECT_EQ(segment.begin_ms(), end_ms);
    end_ms = segment.end_ms();
    EXPECT_LE(end_ms - segment.begin_ms(), 3000);
    const auto begin = static_cast<size_t>(std::lround(segment.begin_ms() * 16)) * 2;
    const auto end = static_cast<size_t>(std::lround(end_ms * 16)) * 2;
    v1::DecodeRequest request;
    request.set_model("whisper_speech");
    request.add_sources()->mutable_audio()->set_data(samples.substr(begin, end - begin));
    const auto [status, response] = Decode(*stub, request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(segment.hypotheses(0).text(), response.results(0).decoded().hypotheses(0).text());
  }
  EXPECT_LT(end_ms, static_cast<double>(samples.size()) / 32 - 3000);
}

TEST_F(SpeechExportsTest, TranscribesInTheLanguageOfTheForm) {
  httplib::Client http("127.0.0.1", server_->http_port());
  http.set_read_timeout(60);
  int num_german = 0;
  for (const Asked& asked : Questions("whisper_speech")) {
    SCOPED_TRACE(absl::StrCat(asked.source, " in ", asked.language));
    const httplib::MultipartFormDataItems form = {
        {"file", Content(fs::path(kSpokenDigits) / asked.source), asked.source, "audio/wav"},
        {"model", "whisper_speech", "", ""},
        {"language", asked.language, "", ""},
        {"response_format", "text", "", ""},
        {"options", absl::StrFormat("{\"beam_size\": %d}", asked.beam_size), "", ""}};
    const auto reply = http.Post("/v1/audio/transcriptions", form);
    ASSERT_TRUE(reply) << httplib::to_string(reply.error());
    ASSERT_EQ(reply->status, 200) << reply->body;
    const size_t begin = std::min(asked.text.find_first_not_of(' '), asked.text.size());
    EXPECT_EQ(reply->body, absl::StrCat(asked.text.substr(begin), "\n"));
    num_german += asked.language == "de" ? 1 : 0;
  }
  EXPECT_GT(num_german, 2);
  const auto refused =
      http.Post("/v1/audio/transcriptions",
                httplib::MultipartFormDataItems{
                    {"file", Content(fs::path(kSpokenDigits) / "spoken-1.wav"), "a.wav", ""},
                    {"model", "whisper_speech", "", ""},
                    {"language", "xx", "", ""}});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, HasSubstr("is no language that the model hears"));
}

// languages.json: what transformers' `detect_language` hears.
TEST_F(SpeechExportsTest, HearsTheLanguage) {
  google::protobuf::Struct languages;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  Content(SpeechExports() / "whisper_speech/languages.json"), &languages)
                  .ok());
  ASSERT_EQ(languages.fields().size(), 3U);
  httplib::Client http("127.0.0.1", server_->http_port());
  http.set_read_timeout(60);
  for (const Asked& asked : Questions("whisper_speech")) {
    if (asked.beam_size != 1 ||
        asked.language != languages.fields().at(asked.source).string_value()) {
      continue;
    }
    const auto reply = http.Post(
        "/v1/audio/transcriptions",
        httplib::MultipartFormDataItems{
            {"file", Content(fs::path(kSpokenDigits) / asked.source), asked.source, "audio/wav"},
            {"model", "whisper_speech", "", ""},
            {"response_format", "verbose_json", "", ""},
            {"options", "{\"beam_size\": 1}", "", ""}});
    ASSERT_TRUE(reply) << httplib::to_string(reply.error());
    ASSERT_EQ(reply->status, 200) << reply->body;
    google::protobuf::Struct answer;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(reply->body, &answer).ok());
    EXPECT_EQ(answer.fields().at("language").string_value(), asked.language);
    EXPECT_EQ(answer.fields().at("text").string_value(),
              asked.text.substr(std::min(asked.text.find_first_not_of(' '), asked.text.size())));
  }
}

}  // namespace
}  // namespace beamwright::e2e
