// The account of what listeners hold for callers, on the real server.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/http2_frames.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
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

// A server that gets SIGTERM while a client does not read fifty answers exits with 0, and has
// reset the connection.
void EndWithUnreadAnswers(const std::string& drain_timeout) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-timeout", drain_timeout});
  rpc::ClientSocket client;
  ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
  const std::string calls = CallsWithoutAWindow(50);
  ASSERT_EQ(send(client.fd(), calls.data(), calls.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(calls.size()));
  EXPECT_TRUE(Becomes([&] {
    return Sum(Scrape(server.metrics_port()), "beamwright_requests_total", "code=\"OK\"") >= 50;
  }));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("an answer was not read"));
}

// Nor do they keep the end waiting: without the reset it would take the whole drain timeout.
TEST(HeldBytesTest, AnswersWithoutAReaderKeepNoDrain) { EndWithUnreadAnswers("10m"); }

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
