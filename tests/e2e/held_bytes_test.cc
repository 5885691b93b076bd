// The account of what listeners hold for callers, on the real server.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>

#include "beamwright/v1/recognize.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/http2_frames.h"
#include "tests/e2e/inference_fixture.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

// Calls whose answers find no window: their client never reads one.
std::string CallsWithoutAWindow(int count) {
  using namespace http2;  // NOLINT(google-build-using-namespace): frames are what this is about
  const std::string message = Request({"beam"}).SerializeAsString();
  std::string prefix(5, '\0');
  prefix[4] = static_cast<char>(message.size());
  const std::string block = CallHeaders("http", "trailers", "/beamwright.v1.DecodeService/Decode");
  // SETTINGS_INITIAL_WINDOW_SIZE of 0
  std::string bytes = kPreface + Frame(kSettings, 0, 0, {"\0\x04\0\0\0\0", 6});
  for (int i = 0; i < count; ++i) {
    const auto stream = static_cast<uint32_t>(2 * i + 1);
    bytes += Frame(kHeaders, kEndHeaders, stream, block) +
             Frame(kData, kEndStream, stream, prefix + message);
  }
  return bytes;
}

TEST(HeldBytesTest, AnswersWithoutAReaderMakeRoomForOthers) {
  ServerProcess server({"--model-path", DefaultModel(), "--max-held-bytes", "1048576"});
  const auto held = [&] { return Sum(Scrape(server.metrics_port()), "beamwright_held_bytes"); };
  rpc::ClientSocket client;
  ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
  const std::string calls = CallsWithoutAWindow(200);
  ASSERT_EQ(send(client.fd(), calls.data(), calls.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(calls.size()));
  EXPECT_TRUE(Becomes([&] { return held() > 900'000; }));
  EXPECT_TRUE(Becomes([&] { return DecodeAs(server.address(), {}).ok(); }));
  client.Close();
  EXPECT_TRUE(Becomes([&] { return held() == 0; }));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

// A stream of these requests, whose client never reads an answer and does not end it.
std::string StreamWithoutAWindow(const std::string& method,
                                 const std::vector<std::string>& requests) {
  using namespace http2;  // NOLINT(google-build-using-namespace)
  std::string bytes = kPreface + Frame(kSettings, 0, 0, {"\0\x04\0\0\0\0", 6}) +
                      Frame(kHeaders, kEndHeaders, 1, CallHeaders("http", "trailers", method));
  constexpr size_t kLargestFrame = 16 << 10;
  std::string data;
  for (const std::string& request : requests) {
    data += '\0';
    for (int shift = 24; shift >= 0; shift -= 8) {
      data += static_cast<char>(request.size() >> shift);
    }
    data += request;
  }
  for (size_t at = 0; at < data.size(); at += kLargestFrame) {
    bytes += Frame(kData, 0, 1, data.substr(at, kLargestFrame));
  }
  return bytes;
}

std::string InferStream(int count) {
  return StreamWithoutAWindow("/inference.GRPCInferenceService/ModelStreamInfer",
                              std::vector<std::string>(static_cast<size_t>(count),
                                                       InferRequest({"beam"}).SerializeAsString()));
}

std::string RecognizeStream() {
  v1::RecognizeRequest config;
  config.mutable_config()->set_model("tones");
  config.mutable_config()->mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
  v1::RecognizeRequest sound;
  sound.set_audio(sound::AsF32(sound::Tones({3})));
  v1::RecognizeRequest finish;
  finish.set_finish(true);
  return StreamWithoutAWindow(
      "/beamwright.v1.RecognizeService/Recognize",
      {config.SerializeAsString(), sound.SerializeAsString(), finish.SerializeAsString()});
}

// What a stream is answered counts until its client reads it.
TEST(HeldBytesTest, MessagesOfAStreamWithoutAReaderCount) {
  const bundle::TempFolder temp;
  sound::WriteTonesBundle(temp.path(), "tones");
  ServerProcess server({"--model-path", DefaultModel(), "--model-path", temp.At("tones")});
  const auto metric = [&](const char* name) { return Sum(Scrape(server.metrics_port()), name); };
  double sources = 0;
  for (const std::string& stream : {InferStream(1), RecognizeStream()}) {
    rpc::ClientSocket client;
    ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
    ASSERT_EQ(send(client.fd(), stream.data(), stream.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(stream.size()));
    ++sources;
    EXPECT_TRUE(Becomes([&] { return metric("beamwright_sources_total") == sources; }));
    EXPECT_TRUE(Becomes([&] { return metric("beamwright_requests_running") == 0; }));
    EXPECT_TRUE(Becomes([&] { return metric("beamwright_held_bytes") > 0; }));
    EXPECT_GT(metric("beamwright_held_bytes"), 0);
    client.Close();
    EXPECT_TRUE(Becomes([&] { return metric("beamwright_held_bytes") == 0; }));
  }
}

TEST(HeldBytesTest, StreamsWithoutAReaderMakeRoomForOthers) {
  ServerProcess server({"--model-path", DefaultModel(), "--max-held-bytes", "1048576"});
  const auto held = [&] { return Sum(Scrape(server.metrics_port()), "beamwright_held_bytes"); };
  rpc::ClientSocket client;
  ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
  const std::string requests = InferStream(300);
  ASSERT_EQ(send(client.fd(), requests.data(), requests.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(requests.size()));
  EXPECT_TRUE(Becomes([&] { return held() > 900'000; }));
  EXPECT_TRUE(Becomes([&] { return DecodeAs(server.address(), {}).ok(); }));
}

// A server that gets SIGTERM while a client does not read `count` answers exits with 0, and has
// reset the connection.
void EndWithUnreadAnswers(const std::string& drain_timeout,
                          const std::string& calls = CallsWithoutAWindow(50), int count = 50) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-timeout", drain_timeout});
  rpc::ClientSocket client;
  ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
  ASSERT_EQ(send(client.fd(), calls.data(), calls.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(calls.size()));
  EXPECT_TRUE(Becomes([&] {
    return Sum(Scrape(server.metrics_port()), "beamwright_requests_total", "code=\"OK\"") >= count;
  }));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("an answer was not read"));
}

// Nor do they keep the end waiting: without the reset it would take the whole drain timeout.
TEST(HeldBytesTest, AnswersWithoutAReaderKeepNoDrain) { EndWithUnreadAnswers("10m"); }

TEST(HeldBytesTest, AStreamWithoutAReaderKeepsNoDrain) {
  EndWithUnreadAnswers("10m", InferStream(50), 50);
}

// Nor does it go on after the drain timeout, though that is less than a slow client may take.
TEST(HeldBytesTest, AnswersWithoutAReaderEndWithTheDrainTimeout) { EndWithUnreadAnswers("1s"); }

TEST(HeldBytesTest, ARequestThatNeverFitsIsRefused) {
  ServerProcess server({"--model-path", DefaultModel(), "--max-held-bytes", "1048576"});
  const grpc::Status status = CallRaw(
      Connect(server.address()), "/beamwright.v1.DecodeService/Decode", std::string(800'000, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("more than the 786432 that one call may hold"));
  EXPECT_TRUE(DecodeAs(server.address(), {}).ok());
}

// A recording stays in the account while events leave: 24 MB, a few words and minutes of silence.
TEST(HeldBytesTest, ATranscriptionHoldsItsRecordingToTheEnd) {
  const std::string digits = BEAMWRIGHT_SOURCE_DIR "/models/digits-en";
  ServerProcess server({"--model-path", digits + "/1"});
  constexpr size_t kFileBytes = 24'000'000;
  std::string file = *ReadFile(digits + "/spoken-1.wav");
  // As long as the file is: the size of a WAV from a pipe.
  file.replace(40, 4, std::string(4, '\0'));
  file.resize(kFileBytes);
  const std::string form =
      "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndigits-en\r\n"
      "--x\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n"
      "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" +
      file + "\r\n--x--\r\n";
  rpc::ClientSocket client;
  ASSERT_TRUE(client.ConnectV4(server.http_port()));
  const std::string request = absl::StrCat(
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: "
      "multipart/form-data; boundary=x\r\nContent-Length: ",
      form.size(), "\r\n\r\n", form);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t count =
        send(client.fd(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    ASSERT_GT(count, 0);
    sent += static_cast<size_t>(count);
  }
  std::string answer;
  while (answer.find("transcript.text.delta") == std::string::npos) {
    char piece[4096];
    const ssize_t count = recv(client.fd(), piece, sizeof(piece), 0);
    ASSERT_GT(count, 0) << answer;
    answer.append(piece, static_cast<size_t>(count));
  }
  const auto held = [&] { return Sum(Scrape(server.metrics_port()), "beamwright_held_bytes"); };
  EXPECT_GE(held(), kFileBytes);
  client.Close();
  EXPECT_TRUE(Becomes([&] { return held() == 0; }));
}

}  // namespace
}  // namespace beamwright::e2e
