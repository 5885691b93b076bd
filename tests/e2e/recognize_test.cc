// Recognize of the real server: frames of an encoder that runs elsewhere, and sound, over gRPC and
// by the command line.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "client/cli/output.pb.h"
#include "include/beamwright/client.h"
#include "ops/base/file.h"
#include "tests/client/process.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/server_process.h"
#include "tests/engine/sound/tones_model.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kColumns = 3;

// Frames that say so, each a column of <blk>, a, b: rows of log-probabilities.
v1::RecognizeRequest Saying(const std::vector<int>& columns) {
  std::vector<float> values;
  for (const int said : columns) {
    for (int column = 0; column < kColumns; ++column) {
      values.push_back(std::log(column == said ? 0.8f : 0.1f));
    }
  }
  v1::RecognizeRequest request;
  v1::Tensor& features = *request.mutable_features();
  features.set_dtype("f32");
  features.add_shape(static_cast<int64_t>(columns.size()));
  features.add_shape(kColumns);
  features.set_data(values.data(), values.size() * sizeof(float));
  return request;
}

v1::RecognizeRequest Finished() {
  v1::RecognizeRequest request;
  request.set_finish(true);
  return request;
}

std::string Tones(const std::vector<int>& labels, int rate) {
  return sound::AsPcm16(sound::Tones(labels, rate));
}

std::string WavHeader(int rate, size_t bytes) {
  std::string header = "RIFF____WAVEfmt ";
  const auto add = [&header](uint32_t number, size_t width) {
    header.append(reinterpret_cast<const char*>(&number), width);
  };
  add(16, 4);
  add(1, 2);
  add(1, 2);
  add(static_cast<uint32_t>(rate), 4);
  add(static_cast<uint32_t>(rate) * 2, 4);
  add(2, 2);
  add(16, 2);
  header += "data";
  add(static_cast<uint32_t>(bytes), 4);
  return header;
}

constexpr char kFramesBundle[] =
    "format_version: 1 name: \"frames\" frame_ms: 40 ctc { kind: LOGITS_KIND_LOG_PROBS } "
    "target { form: TEXT_FORM_WHITESPACE vocabulary: \"tokens.txt\" }";
struct Heard {
  grpc::Status status;
  std::vector<v1::RecognizedSegment> segments;
  std::vector<std::string> stable;  // of all messages, in their order
  int provisional = 0;
  v1::RecognizeSummary summary;
};

class RecognizeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = ops::testing_tools::TempPath("recognize-models");
    const std::string frames = folder_ + "/frames/1";
    std::filesystem::create_directories(frames);
    std::ofstream(frames + "/model.textproto") << kFramesBundle;
    std::ofstream(frames + "/tokens.txt") << "<blk>\na\nb\n";
    sound::WriteTonesBundle(folder_, "tones");
    server_ = new ServerProcess({"--model-repository", folder_});
    ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
  }
  static void TearDownTestSuite() {
    delete server_;
    std::filesystem::remove_all(folder_);
  }

  RecognizeTest() : stub_(v1::RecognizeService::NewStub(Connect(server_->address()))) {}

  // What a call with these requests hears.
  Heard Call(const std::vector<v1::RecognizeRequest>& requests) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    const auto stream = stub_->Recognize(&context);
    for (const v1::RecognizeRequest& request : requests) {
      if (!stream->Write(request)) {
        break;
      }
    }
    stream->WritesDone();
    Heard heard;
    v1::RecognizeResponse message;
    while (stream->Read(&message)) {
      for (const v1::RecognizedSegment& segment : message.segments()) {
        heard.segments.push_back(segment);
      }
      if (message.has_stable()) {
        heard.stable.push_back(message.stable().text());
      }
      heard.provisional += message.has_provisional() ? 1 : 0;
      if (message.has_summary()) {
        heard.summary = message.summary();
      }
    }
    heard.status = stream->Finish();
    return heard;
  }

  static v1::RecognizeRequest Config(const std::string& model) {
    v1::RecognizeRequest request;
    request.mutable_config()->set_model(model);
    return request;
  }

  static std::string folder_;
  static ServerProcess* server_;
  std::unique_ptr<v1::RecognizeService::Stub> stub_;
};

std::string RecognizeTest::folder_;
ServerProcess* RecognizeTest::server_ = nullptr;

TEST_F(RecognizeTest, FramesBecomeSegments) {
  v1::RecognizeRequest config = Config("frames");
  config.mutable_config()->mutable_endpoint()->set_pause_ms(120);
  const Heard heard = Call({config, Saying({1, 1}), Saying({0, 2, 0, 0}), Saying({0, 0, 0, 2, 1}),
                            Saying({0}), Finished()});
  ASSERT_TRUE(heard.status.ok()) << heard.status.error_message();
  ASSERT_EQ(heard.segments.size(), 2);
  EXPECT_EQ(heard.segments[0].hypotheses(0).text(), "a b");
  EXPECT_EQ(heard.segments[0].num_frames(), 7);
  EXPECT_EQ(heard.segments[0].end_ms(), 280);
  EXPECT_THAT(heard.segments[0].hypotheses(0).token_frames(), ElementsAre(0, 3));
  EXPECT_EQ(heard.segments[1].number(), 1);
  EXPECT_EQ(heard.segments[1].first_frame(), 7);
  EXPECT_EQ(heard.segments[1].begin_ms(), 280);
  EXPECT_EQ(heard.segments[1].hypotheses(0).text(), "b a");
  EXPECT_EQ(heard.summary.model(), "frames");
  EXPECT_EQ(heard.summary.num_frames(), 12);
  EXPECT_EQ(heard.summary.num_segments(), 2);
  EXPECT_EQ(heard.summary.frame_ms(), 40);
}

TEST_F(RecognizeTest, IsWhatDecodeAnswers) {
  const std::vector<int> said = {1, 1, 0, 2, 0, 1, 2, 2, 0, 1, 1};
  std::vector<v1::RecognizeRequest> requests = {Config("frames")};
  requests[0].mutable_config()->mutable_options()->set_n_best(3);
  for (const int column : said) {
    requests.push_back(Saying({column}));
  }
  const Heard heard = Call(requests);  // the end of the requests is that of the source, too
  ASSERT_TRUE(heard.status.ok()) << heard.status.error_message();
  v1::DecodeRequest whole;
  whole.set_model("frames");
  whole.mutable_options()->set_n_best(3);
  *whole.add_sources()->mutable_features() = Saying(said).features();
  const auto stub = v1::DecodeService::NewStub(Connect(server_->address()));
  const auto [status, response] = Decode(*stub, whole);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(heard.segments.size(), 1);
  const v1::Decoded& decoded = response.results(0).decoded();
  ASSERT_EQ(heard.segments[0].hypotheses_size(), decoded.hypotheses_size());
  for (int i = 0; i < decoded.hypotheses_size(); ++i) {
    EXPECT_EQ(heard.segments[0].hypotheses(i).SerializeAsString(),
              decoded.hypotheses(i).SerializeAsString());
  }
}

TEST_F(RecognizeTest, AnswersComeWhileTheSourceGoesOn) {
  grpc::ClientContext context;
  const auto stream = stub_->Recognize(&context);
  v1::RecognizeRequest config = Config("frames");
  config.mutable_config()->set_provisional(true);
  ASSERT_TRUE(stream->Write(config));
  ASSERT_TRUE(stream->Write(Saying({1, 1, 1})));
  v1::RecognizeResponse message;
  ASSERT_TRUE(stream->Read(&message));  // before anything else is sent
  EXPECT_EQ(message.provisional().text(), "a");
  ASSERT_TRUE(stream->Write(Finished()));
  while (stream->Read(&message)) {
  }
  EXPECT_TRUE(message.has_summary());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(RecognizeTest, SoundIsHeard) {
  const std::vector<int> labels = {3, 17, 8, 12};
  for (const int rate : {16000, 44100, 48000}) {
    std::vector<v1::RecognizeRequest> requests = {Config("tones")};
    requests[0].mutable_config()->mutable_audio()->set_sample_rate(rate);
    const std::string bytes = Tones(labels, rate);
    for (size_t at = 0; at < bytes.size(); at += 1402) {
      requests.emplace_back().set_audio(bytes.substr(at, 1402));
    }
    requests.push_back(Finished());
    const Heard heard = Call(requests);
    ASSERT_TRUE(heard.status.ok()) << heard.status.error_message();
    ASSERT_EQ(heard.segments.size(), 1);
    EXPECT_EQ(heard.segments[0].hypotheses(0).text(), "t3 t17 t8 t12") << rate;
    // A source that comes whole says the same.
    v1::DecodeRequest whole;
    whole.set_model("tones");
    v1::Audio& audio = *whole.add_sources()->mutable_audio();
    audio.mutable_format()->set_sample_rate(rate);
    audio.set_data(bytes);
    const auto stub = v1::DecodeService::NewStub(Connect(server_->address()));
    const auto [status, response] = Decode(*stub, whole);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.results(0).decoded().hypotheses(0).SerializeAsString(),
              heard.segments[0].hypotheses(0).SerializeAsString());
  }
}

// At 8 kHz the features of as much sound as a request may have are larger than the sound.
TEST_F(RecognizeTest, TakesTheLongestPieceOfSound) {
  std::vector<v1::RecognizeRequest> requests = {Config("tones")};
  requests[0].mutable_config()->mutable_audio()->set_sample_rate(8000);
  requests.emplace_back().set_audio(std::string(size_t{1} << 20, '\0'));
  requests.push_back(Finished());
  const Heard heard = Call(requests);
  EXPECT_TRUE(heard.status.ok()) << heard.status.error_message();
  requests[1].mutable_audio()->append(2, '\0');
  EXPECT_THAT(Call(requests).status.error_message(),
              HasSubstr("audio: 1048578 bytes; at most 1048576 are allowed"));
}

TEST_F(RecognizeTest, SaysWhatIsWrongAndWhere) {
  const auto error = [this](const std::vector<v1::RecognizeRequest>& requests) {
    const grpc::Status status = Call(requests).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    return status.error_message();
  };
  EXPECT_THAT(error({}), HasSubstr("config: is not set; the call has no request"));
  EXPECT_THAT(error({Saying({1})}), HasSubstr("config: is not set; the first request has it"));
  EXPECT_THAT(error({Config("frames"), Config("frames")}), HasSubstr("config: is set a second"));
  EXPECT_THAT(error({Config("frames"), Finished()}), HasSubstr("source: has no frames"));
  EXPECT_THAT(error({Config("tones"), Finished()}), HasSubstr("source: has no frames"));
  // Long enough that the answer is not there before the request that is wrong.
  const v1::RecognizeRequest long_one = Saying(std::vector<int>(50'000, 1));
  EXPECT_THAT(error({Config("frames"), long_one, Finished(), Saying({1})}),
              HasSubstr("no request follows finish"));
  EXPECT_THAT(error({Config("frames"), v1::RecognizeRequest()}),
              HasSubstr("the request is empty: set audio, features or finish"));
  v1::RecognizeRequest wide = Saying({1, 1});
  wide.mutable_features()->set_shape(0, 3);
  wide.mutable_features()->set_shape(1, 2);
  EXPECT_THAT(error({Config("frames"), wide}), HasSubstr("features.shape"));
  v1::RecognizeRequest sound = Config("frames");
  sound.mutable_config()->mutable_audio();
  EXPECT_THAT(error({sound}), HasSubstr("config.audio: the bundle of model 'frames' does not say"));
  sound = Config("tones");
  sound.mutable_config()->mutable_audio()->set_sample_rate(7);
  EXPECT_THAT(error({sound}), HasSubstr("config.audio.sample_rate"));
  sound.mutable_config()->mutable_audio()->set_sample_rate(16000);
  v1::RecognizeRequest half;
  half.set_audio("abc");
  EXPECT_THAT(error({sound, half}), HasSubstr("audio: 3 bytes are not whole samples of 2 bytes"));
  half.set_audio(std::string(2 << 20, 'a'));
  EXPECT_THAT(error({sound, half}), HasSubstr("audio: 2097152 bytes; at most 1048576 are allowed"));
  half.set_audio("ab");
  EXPECT_THAT(error({Config("tones"), half}), HasSubstr("audio: the configuration has no audio"));
  EXPECT_THAT(error({sound, Saying({1})}), HasSubstr("features: the source is sound"));
  v1::RecognizeRequest options = Config("frames");
  options.mutable_config()->mutable_options()->set_beam_size(0);
  options.mutable_config()->mutable_endpoint()->set_pause_ms(-1);
  EXPECT_THAT(error({options}), HasSubstr("config.options.beam_size"));
  options.mutable_config()->clear_options();
  EXPECT_THAT(error({options}), HasSubstr("config.endpoint.pause_ms"));
  EXPECT_EQ(Call({Config("none")}).status.error_code(), grpc::StatusCode::NOT_FOUND);
  // And no other call was harmed.
  EXPECT_TRUE(Call({Config("frames"), Saying({1}), Finished()}).status.ok());
}

TEST_F(RecognizeTest, ClientsThatStopInTheMiddleLeaveNothingBehind) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  for (int i = 0; i < 20; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    const auto stream = stub_->Recognize(contexts.back().get());
    ASSERT_TRUE(stream->Write(Config(i % 2 == 0 ? "frames" : "tones")));
    if (i % 3 == 0) {
      stream->Write(Saying({1, 0, 2}));
    }
    contexts.back()->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Call({Config("frames"), Saying({1}), Finished()}).status.ok());
  EXPECT_TRUE(BackToZero(server_->metrics_port()));
}

// A gRPC stream; those of the other protocols end in the same way.
TEST_F(RecognizeTest, AStreamOfWhichNothingIsHeardEnds) {
  ServerProcess server({"--model-repository", folder_, "--stream-idle-timeout", "200ms"});
  ASSERT_GT(server.WaitForPort(), 0) << server.log();
  const auto stub = v1::RecognizeService::NewStub(Connect(server.address()));
  for (const bool is_configured : {false, true}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    const auto stream = stub->Recognize(&context);
    if (is_configured) {
      ASSERT_TRUE(stream->Write(Config("frames")));
    }
    v1::RecognizeResponse message;
    EXPECT_FALSE(stream->Read(&message));
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), HasSubstr("stream-idle-timeout"));
  }
  EXPECT_TRUE(BackToZero(server.metrics_port()));
}

TEST_F(RecognizeTest, AStreamForWhichThereIsNoMemoryEndsWithItsTextSoFar) {
  ServerProcess server({"--model-repository", folder_, "--max-state-bytes", "1048576"});
  ASSERT_GT(server.WaitForPort(), 0) << server.log();
  stub_ = v1::RecognizeService::NewStub(Connect(server.address()));
  std::vector<v1::RecognizeRequest> requests = {Config("frames")};
  for (int i = 0; i < 20; ++i) {
    requests.push_back(Saying(std::vector<int>(1000, i % 3)));
  }
  const Heard heard = Call(requests);
  EXPECT_EQ(heard.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(heard.status.error_message(), HasSubstr("frames of the stream's segment"));
  ASSERT_EQ(heard.segments.size(), 1U);
  EXPECT_GT(heard.segments[0].num_frames(), 100);
  EXPECT_THAT(heard.segments[0].hypotheses(0).text(), HasSubstr("a"));
  EXPECT_TRUE(BackToZero(server.metrics_port()));
}

// A file of sound that says the labels.
std::string WriteWav(const std::string& path, const std::vector<int>& labels) {
  const std::string bytes = Tones(labels, 16000);
  std::ofstream(path, std::ios::binary) << WavHeader(16000, bytes.size()) << bytes;
  return bytes;
}

TEST_F(RecognizeTest, TheLoadTesterOfStreamsAgreesWithTheServersMetrics) {
  const std::string one = folder_ + "/one.wav";
  const std::string three = folder_ + "/three.wav";
  WriteWav(one, {7});
  WriteWav(three, {5, 9, 2});
  const auto run = [&](const std::string& model) {
    return client::Beamwright(
        {"stream-test", one, three, "--server", server_->address(), "--model", model, "--streams",
         "8", "--speed", "5", "--duration", "500ms", "--json", "--metrics",
         absl::StrCat("127.0.0.1:", server_->metrics_port())},
        "");
  };
  const client::ProcessResult heard = run("tones");
  EXPECT_EQ(heard.exit_code, 0) << heard.err;
  client::StreamTestReport report;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(heard.out, &report).ok()) << heard.out;
  EXPECT_GE(report.heard_streams(), 8);
  EXPECT_EQ(report.segments(), report.heard_streams());
  EXPECT_EQ(report.contradicted_streams(), 0);
  EXPECT_THAT(report.counted_calls(), ElementsAre(testing::Pair("OK", report.heard_streams())));
  // Sources take turns: 0.35 and 0.65 seconds.
  EXPECT_GE(report.sound_seconds(), 0.35 * report.heard_streams());
  EXPECT_LE(report.sound_seconds(), 0.65 * report.heard_streams());
  EXPECT_GT(report.final_ms().p50(), 0);
  EXPECT_GE(report.real_time_factor().p50(), 1);
  EXPECT_GE(report.first_word_ms().max(), 70);  // it is not there before it was spoken

  const client::ProcessResult failed = run("none");
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  client::StreamTestReport failures;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(failed.out, &failures).ok());
  EXPECT_EQ(failures.heard_streams(), 0);
  ASSERT_THAT(failures.failed_streams(), ElementsAre(testing::Pair("NOT_FOUND", testing::Ge(8))));
  EXPECT_EQ(failures.counted_calls().at("NOT_FOUND"), failures.failed_streams().at("NOT_FOUND"));
}

// A file of another kind than WAV: AU, which has samples with the highest byte first.
std::string AuFile(const std::string& pcm16) {
  std::string bytes(".snd\0\0\0\x18\xff\xff\xff\xff\0\0\0\3\0\0\x3e\x80\0\0\0\1", 24);
  for (size_t i = 0; i + 1 < pcm16.size(); i += 2) {
    bytes += {pcm16[i + 1], pcm16[i]};
  }
  return bytes;
}

TEST_F(RecognizeTest, RecordingsOfAnyKindAreReadOrRefusedByTheirFirstBytes) {
  const std::string bytes = Tones({5, 9}, 16000);
  const auto run = [&](const std::string& name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return client::Beamwright(
        {"recognize", path, "--server", server_->address(), "--model", "tones"}, "");
  };
  const client::ProcessResult wav = run("a.wav", WavHeader(16000, bytes.size()) + bytes);
  EXPECT_THAT(wav.out, HasSubstr("t5 t9"));
  EXPECT_EQ(run("a.au", AuFile(bytes)).out, wav.out);
  const std::vector<std::pair<std::string, std::string>> refused = {
      {std::string("\0\0\0\x20", 4) + "ftypM4A and the rest",
       "it is MP4 (M4A, AAC), which is not read"},
      {"fLaC and then nothing", "begins as FLAC and cannot be read"},
      {bytes, "raw samples need --samples"}};
  for (const auto& [content, message] : refused) {
    const client::ProcessResult result = run("refused", content);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST_F(RecognizeTest, TheCommandLineReadsFilesAndPipes) {
  const std::string wav = folder_ + "/two.wav";
  const std::string bytes = WriteWav(wav, {5, 9});
  const std::vector<std::string> server = {"--server", server_->address(), "--model", "tones"};
  const auto run = [&](std::vector<std::string> arguments, const std::string& input) {
    arguments.insert(arguments.begin(), "recognize");
    arguments.insert(arguments.end(), server.begin(), server.end());
    return client::Beamwright(arguments, input);
  };
  client::ProcessResult text = run({wav}, "");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("s  t5 t9\n"));
  client::ProcessResult pipe = run({"-", "--samples", "pcm16"}, bytes);
  EXPECT_EQ(pipe.out, text.out) << pipe.err;
  // A WAV file in a pipe, of which the size is not known, is no raw samples.
  client::ProcessResult piped_wav = run({"-"}, WavHeader(16000, 0) + bytes);
  EXPECT_EQ(piped_wav.out, text.out) << piped_wav.err;
  client::ProcessResult raw = run({"-"}, bytes);
  EXPECT_EQ(raw.exit_code, 2) << raw.out;
  EXPECT_THAT(raw.err, HasSubstr("no known kind of sound file"));
  EXPECT_THAT(raw.err, HasSubstr("raw samples need --samples"));
  client::ProcessResult srt = run({wav, "--srt"}, "");
  EXPECT_THAT(srt.out, testing::MatchesRegex("1\n00:00:00,[0-9]+ --> 00:00:00,[0-9]+\nt5 t9\n\n"));
  client::ProcessResult words = run({wav, "--words"}, "");
  EXPECT_THAT(words.out, testing::MatchesRegex("0.*s  t5 t9\n  0.* s  [01]\\.[0-9]+  t5\n"
                                               "  0.* s  [01]\\.[0-9]+  t9\n"));
  client::ProcessResult json = run({wav, "--json"}, "");
  EXPECT_THAT(json.out, HasSubstr("\"num_segments\":1"));
  client::ProcessResult none = run({folder_ + "/none.wav"}, "");
  EXPECT_EQ(none.exit_code, 1) << none.err;
  EXPECT_THAT(none.err, HasSubstr("none.wav"));
  client::ProcessResult both = run({wav, "--srt", "--json"}, "");
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--json and --srt exclude each other"));
}

TEST_F(RecognizeTest, AFolderOfRecordingsIsGoneOnWith) {
  namespace fs = std::filesystem;
  const std::string recordings = folder_ + "/recordings";
  const std::string answers = folder_ + "/answers";
  fs::create_directories(recordings + "/inner");
  WriteWav(recordings + "/a.wav", {5, 9});
  WriteWav(recordings + "/inner/b.wav", {3});
  std::ofstream(recordings + "/c.wav") << "no recording";
  const auto run_into = [&](const std::string& folder) {
    return client::Beamwright({"recognize", recordings, "--vtt", "--output-dir", folder, "--server",
                               server_->address(), "--model", "tones"},
                              "");
  };
  const auto run = [&] { return run_into(answers); };
  const client::ProcessResult first = run();
  EXPECT_EQ(first.exit_code, 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr("1/3 " + recordings + "/a.wav\n"));
  EXPECT_THAT(first.err, HasSubstr("c.wav: "));
  EXPECT_THAT(first.err, HasSubstr("2 recognised, 0 were there, 1 failed\n"));
  const absl::StatusOr<std::string> vtt = ReadFile(answers + "/a.wav.vtt");
  ASSERT_TRUE(vtt.ok()) << vtt.status();
  EXPECT_THAT(*vtt,
              testing::MatchesRegex("WEBVTT\n\n00:00:00.[0-9]+ --> 00:00:00.[0-9]+\nt5 t9\n\n"));
  EXPECT_TRUE(fs::exists(answers + "/inner/b.wav.vtt"));
  EXPECT_FALSE(fs::exists(answers + "/c.wav.vtt"));
  const auto table = [&] {
    return std::vector<std::string>(
        absl::StrSplit(ReadFile(answers + "/results.tsv").value_or(""), '\n'));
  };
  const std::string heading = "file\tseconds\twords\tconfidence\ttext\terror";
  const auto a = testing::MatchesRegex("a.wav\t[0-9.]+\t2\t[01]\\.[0-9]+\tt5 t9\t");
  const auto b = testing::MatchesRegex("inner/b.wav\t[0-9.]+\t1\t[01]\\.[0-9]+\tt3\t");
  EXPECT_THAT(table(), ElementsAre(heading, a, testing::MatchesRegex("c.wav\t\t\t\t\t.+"), b, ""));
  // As a run that was ended leaves it: lines in the order of the runs, the last one cut.
  std::ofstream(answers + "/results.tsv", std::ios::app) << "c.wav\t\t\t\t\tother\nd.w";
  WriteWav(recordings + "/c.wav", {7});
  const client::ProcessResult second = run();
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("1 recognised, 2 were there, 0 failed\n"));
  const auto c = testing::MatchesRegex("c.wav\t[0-9.]+\t1\t[01]\\.[0-9]+\tt7\t");
  EXPECT_THAT(table(), ElementsAre(heading, a, c, b, ""));
  // Into the recordings' own folder: what the first call wrote is no recording.
  EXPECT_THAT(run_into(recordings).err, HasSubstr("3 recognised, 0 were there, 0 failed\n"));
  EXPECT_THAT(run_into(recordings).err, HasSubstr("0 recognised, 3 were there, 0 failed\n"));
}

// With the folder of the recordings as --output-dir the second call meets the answers of the first.
TEST_F(RecognizeTest, OtherFilesOfAFolderArePassedOver) {
  const std::string folder = folder_ + "/mixed";
  std::filesystem::create_directories(folder);
  WriteWav(folder + "/a.wav", {5, 9});
  WriteWav(folder + "/extensionless", {3});
  std::ofstream(folder + "/README.md") << "# Recordings\n";
  std::ofstream(folder + "/a.txt") << "ID3 is a transcript";
  std::ofstream(folder + "/._a.wav") << "of a file system";
  const auto run = [&](std::vector<std::string> output) {
    std::vector<std::string> arguments = {"recognize",        folder,    "--server",
                                          server_->address(), "--model", "tones"};
    arguments.insert(arguments.end(), output.begin(), output.end());
    return client::Beamwright(arguments, "");
  };
  const client::ProcessResult first = run({"--output-dir", folder});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("passed over 3 files that are no recordings\n"));
  EXPECT_THAT(first.err, HasSubstr("2 recognised, 0 were there, 0 failed\n"));
  const client::ProcessResult second = run({"--output-dir", folder});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("passed over 6 files that are no recordings\n"));
  EXPECT_THAT(second.err, HasSubstr("0 recognised, 2 were there, 0 failed\n"));
  const client::ProcessResult none = run({});
  EXPECT_EQ(none.exit_code, 2) << none.err;
  EXPECT_THAT(none.err, HasSubstr("is a folder, which needs --output-dir DIR"));
}

}  // namespace
}  // namespace beamwright::e2e
