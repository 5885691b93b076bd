// A stream is bound to its replica: a drain lets it finish, and when the replica dies its client is
// informed that it may start it anew.
#include <gmock/gmock.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "include/beamwright/client.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/faulty_server.h"

namespace beamwright::chaos {
namespace {

using e2e::DefaultModel;
using e2e::ServerProcess;

absl::Time Late() { return absl::Now() + absl::Minutes(2); }

// Takes hundreds of steps, and reports tokens from the first ones on.
v1::StreamDecodeRequest LongRequest() {
  v1::StreamDecodeRequest request;
  request.mutable_source()->set_text(std::string(100, 'a'));
  request.mutable_options()->set_beam_size(1);
  request.mutable_options()->set_stop(v1::STOP_MODE_NEVER);
  request.mutable_options()->set_max_length(200);
  return request;
}

std::unique_ptr<client::Client> ClientOf(const std::string& address) {
  auto client = client::Client::Connect({.address = address});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// Streams the long request; `disturb` is called with the first message.
absl::Status Stream(client::Client& client, const std::function<void()>& disturb,
                    v1::StreamDecodeResponse& last) {
  bool is_first = true;
  return client.StreamDecode(LongRequest(), Late(), [&](const v1::StreamDecodeResponse& message) {
    if (is_first) {
      disturb();
    }
    is_first = false;
    last = message;
    return true;
  });
}

std::string AnswerOf(const v1::StreamDecodeResponse& last) {
  EXPECT_GT(last.decoded().hypotheses_size(), 0);
  std::string answer;
  for (const v1::Hypothesis& hypothesis : last.decoded().hypotheses()) {
    answer += hypothesis.SerializeAsString();
  }
  return answer;
}

class StreamsTest : public FaultyServer {};

TEST_F(StreamsTest, ADrainLetsThemFinish) {
  Start();
  const auto client = ClientOf(server_->address());
  v1::StreamDecodeResponse undisturbed;
  ASSERT_TRUE(Stream(
                  *client, [] {}, undisturbed)
                  .ok());
  Set("engine.turn delay 10ms");  // it takes seconds
  v1::StreamDecodeResponse drained;
  EXPECT_EQ(Stream(
                *client, [&] { server_->Signal(SIGTERM); }, drained),
            absl::OkStatus());
  EXPECT_EQ(AnswerOf(drained), AnswerOf(undisturbed));
  EXPECT_EQ(server_->Wait(), 0);
}

TEST_F(StreamsTest, WhenTheReplicaDiesTheClientMayStartItAnew) {
  Start();
  ServerProcess other({"--model-path", DefaultModel(), "--threads", "1"});
  const std::string addresses[] = {server_->address(), other.address()};
  v1::StreamDecodeResponse undisturbed;
  ASSERT_TRUE(Stream(
                  *ClientOf(addresses[1]), [] {}, undisturbed)
                  .ok());
  Set("engine.turn delay 100ms");  // it is under way for long
  v1::StreamDecodeResponse partial;
  const absl::Status died = Stream(
      *ClientOf(addresses[0]), [&] { server_->Signal(SIGKILL); }, partial);
  EXPECT_TRUE(absl::IsUnavailable(died)) << died;
  EXPECT_FALSE(partial.has_decoded());
  v1::StreamDecodeResponse again;
  const auto client = ClientOf(absl::StrCat("ipv4:", addresses[0], ",", addresses[1]));
  EXPECT_EQ(Stream(
                *client, [] {}, again),
            absl::OkStatus());
  EXPECT_EQ(AnswerOf(again), AnswerOf(undisturbed));
}

}  // namespace
}  // namespace beamwright::chaos
