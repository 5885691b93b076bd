// A session with a client whose reading the test holds up, without a socket between them.
#include "server/websocket/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ops/base/fault_point.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::websocket {
namespace {

using ::testing::HasSubstr;

// What the session does is seen here, and goes on when the test says so.
struct Client {
  std::string target = "/";
  std::string authorization;                             // the header of that name
  std::function<void(Outcome, bool, std::string)> read;  // under way, if not null
  std::vector<std::string> told;
  WebSocket::Done taken;  // the last of what was sent, once the test says so
  bool holds_accept = false;
  WebSocket::Done accepted;  // of a handshake that is held
  int close_code = 0;
};

class HeldSocket final : public WebSocket {
 public:
  HeldSocket(boost::asio::io_context& io, Client& client) : io_(io), client_(client) {
    request_.header = [&client](const char* name) {
      return name == absl::string_view(access::kAuthorizationHeader) ? client.authorization
                                                                     : std::string();
    };
  }

  boost::asio::any_io_executor executor() override { return io_.get_executor(); }
  void ReadRequest(Done done) override { Soon(std::move(done)); }
  const http::HttpRequest& request() const override { return request_; }
  const std::string& target() const override { return client_.target; }
  bool asks_for_upgrade() const override { return true; }
  void Refuse(const http::HttpReply& /*reply*/, Done done) override { Soon(std::move(done)); }
  void Accept(const std::string& /*protocol*/, Done done) override {
    if (client_.holds_accept) {
      client_.accepted = std::move(done);
    } else {
      Soon(std::move(done));
    }
  }
  void Read(std::function<void(Outcome, bool, std::string)> done) override {
    client_.read = std::move(done);
  }
  void Write(std::string text, Done done) override {
    client_.told.push_back(std::move(text));
    client_.taken = std::move(done);
  }
  void OnSign(std::function<void()> /*sign*/) override {}
  void Ping(Done done) override { Soon(std::move(done)); }
  void Close(int code, absl::string_view /*reason*/, Done done) override {
    client_.close_code = code;
    Soon(std::move(done));
  }
  void Drop() override { client_.read = nullptr; }

 private:
  void Soon(Done done) {
    boost::asio::post(io_, [done = std::move(done)] { done(Outcome::kOk); });
  }

  boost::asio::io_context& io_;
  Client& client_;
  http::HttpRequest request_;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    sound::WriteTonesChunksBundle(temp_.path(), "chunks");
    serving::ModelPaths paths;
    paths.repositories = {temp_.path()};
    models_ = *serving::ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<serving::Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(serving::Phase::kServing);
    Begin(access_);
  }
  // A session that asks for what `client_` says once it goes on.
  void Begin(const access::Access& access) {
    End();
    client_ = Client();
    site_.reset(new Site{*core_, access, cors_, "tones", absl::Hours(1), absl::Hours(1)});
    session_ = std::make_shared<Session>(*site_, std::make_unique<HeldSocket>(io_, client_));
    session_->Start();
  }
  void End() {
    io_.restart();
    io_.poll();
    if (client_.read != nullptr) {
      std::exchange(client_.read, nullptr)(Outcome::kGone, false, "");
    }
    client_.taken = nullptr;
    session_ = nullptr;
    io_.restart();
    io_.poll();
  }
  ~SessionTest() override {
    End();
    const absl::MutexLock lock(&site_->doorbell->mutex);
    site_->doorbell->works = false;
  }

  // Lets the session go on until it is so, for a minute at most.
  template <typename Is>
  bool Becomes(const Is& is) {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (!is() && absl::Now() < end) {
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(5));
    }
    return is();
  }
  // The session has taken what was said before, and waits for more.
  bool Reads() {
    return Becomes([this] { return client_.read != nullptr; });
  }
  void Say(bool is_text, std::string message) {
    ASSERT_TRUE(Reads());
    std::exchange(client_.read, nullptr)(Outcome::kOk, is_text, std::move(message));
  }
  void Take() { std::exchange(client_.taken, nullptr)(Outcome::kOk); }
  // Takes what it receives up to the last message.
  bool TakesUntil(const std::string& part) {
    while (Becomes([this] { return client_.taken != nullptr; })) {
      if (client_.told.back().find(part) != std::string::npos) {
        return true;
      }
      Take();
    }
    return false;
  }
  static std::string Sound(const std::vector<int>& labels) {
    return sound::AsF32(sound::Tones(labels));
  }

  bundle::TempFolder temp_;
  serving::ServingState state_;
  serving::Metrics metrics_;
  access::Access access_;
  http::Cors cors_;
  boost::asio::io_context io_;
  Client client_;
  std::unique_ptr<serving::ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<serving::Core> core_;
  std::unique_ptr<const Site> site_;
  std::shared_ptr<Session> session_;
};

TEST_F(SessionTest, ASourceBehindAnother) {
  for (const auto& [labels, text] :
       {std::pair<std::vector<int>, std::string>{{3}, "t3"}, {{5, 9}, "t5 t9"}}) {
    Say(false, Sound(labels));
    Say(true, "Done");
    Say(true, "Done");  // once more is no harm
    ASSERT_TRUE(TakesUntil("\"is_eof\":true"));
    EXPECT_THAT(client_.told.back(), HasSubstr("{\"text\":\"" + text + "\""));
    Take();
    ASSERT_TRUE(TakesUntil("Done!"));
    Take();
  }
}

// The engine has answered, and the last answer is on its way: who sends the next source then would
// lose its beginning.
TEST_F(SessionTest, ASourceThatBeginsTooEarlyIsRefused) {
  Say(false, Sound({3}));
  Say(true, "Done");
  ASSERT_TRUE(TakesUntil("\"is_eof\":true"));
  Say(false, Sound({5}));
  ASSERT_TRUE(Reads());
  Take();
  ASSERT_TRUE(TakesUntil("\"error\""));
  EXPECT_THAT(client_.told.back(), HasSubstr("the next one may begin behind 'Done!'"));
  Take();
  EXPECT_TRUE(Becomes([this] { return client_.close_code == 1007; }));
}

// Before the handshake is over nothing else may be done with the socket.
TEST_F(SessionTest, AServerThatStopsDuringTheHandshakeSaysSoBehindIt) {
  client_.holds_accept = true;
  ASSERT_TRUE(Becomes([this] { return client_.accepted != nullptr; }));
  session_->Leave();
  io_.restart();
  io_.poll();
  EXPECT_TRUE(client_.read == nullptr);
  EXPECT_EQ(client_.close_code, 0);
  std::exchange(client_.accepted, nullptr)(Outcome::kOk);
  EXPECT_EQ(client_.close_code, 1001);
}

// The source goes on, and its time is over.
TEST_F(SessionTest, ASourceEndsWhenItsTimeIsOver) {
  client_.target = "/?model=chunks&timeout_ms=1";
  Say(false, Sound({3}));
  ASSERT_TRUE(TakesUntil("\"error\""));
  EXPECT_THAT(client_.told.back(), HasSubstr("DEADLINE_EXCEEDED"));
  Take();
  EXPECT_TRUE(Becomes([this] { return client_.close_code == 1008; }));
}

struct HeldStep {
  absl::Notification begins;
  absl::Notification may_end;
};
std::atomic<HeldStep*> step_to_hold = nullptr;  // by a fault hook, once

// While the engine reads nothing the client is not read from, once a feed's MiB has come.
TEST_F(SessionTest, AClientThatSendsMoreThanIsReadWaits) {
  client_.target = "/?model=chunks";
  HeldStep held;
  step_to_hold = &held;
  fault_hook = [](const char* point) {
    HeldStep* const step =
        point == absl::string_view("engine.step") ? step_to_hold.exchange(nullptr) : nullptr;
    if (step != nullptr) {
      step->begins.Notify();
      step->may_end.WaitForNotification();
    }
    return absl::OkStatus();
  };
  Say(false, Sound({3}));
  held.begins.WaitForNotification();
  fault_hook = nullptr;
  ASSERT_TRUE(Reads());
  // A MiB is 16 seconds of sound, which are 1,638 frames of 320 bytes.
  // Pieces are small, since larger ones wait for a turn of their client.
  constexpr int kPiecesAMiB = 64;
  const std::string piece(serving::kMaxPieceBytes / kPiecesAMiB, '\0');
  int num_read = 0;
  for (; client_.read != nullptr && num_read < 10 * kPiecesAMiB; ++num_read) {
    Say(false, piece);
  }
  io_.restart();
  io_.poll();
  // The engine has taken the first sound and does not read it: it is a part of the two MiB.
  EXPECT_GE(static_cast<size_t>(num_read) * piece.size() + Sound({3}).size(),
            2 * serving::kMaxPieceBytes);
  EXPECT_LE(num_read, 3 * kPiecesAMiB);
  EXPECT_TRUE(client_.read == nullptr);
  held.may_end.Notify();
  EXPECT_TRUE(Reads());
}

// Each source is a call: one that is refused because its token has gone is counted as refused.
TEST_F(SessionTest, ASourceWhoseTokenHasGoneIsRefusedAndCounted) {
  // Of "open sesame" and "observer", by sha256sum.
  const auto write_token = [this](const std::string& digest) {
    temp_.Write("auth", "tokens { name: \"one\" sha256: \"" + digest + "\" roles: ROLE_DECODE }\n");
  };
  write_token("41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb");
  access::AccessOptions options;
  options.token_file = temp_.At("auth");
  const auto access = *access::Access::Load(options);
  Begin(*access);
  client_.authorization = "Bearer open sesame";
  Say(false, Sound({3}));
  Say(true, "Done");
  ASSERT_TRUE(TakesUntil("Done!"));
  Take();
  write_token("e41f1d834710df8c7bc2befedb7b92339973a92288d8581b3696604c0d04c5f7");
  ASSERT_TRUE(access->Refresh().ok());
  const auto num_refused = [this] {
    return metrics_.Text().find("UNAUTHENTICATED") == std::string::npos ? 0 : 1;
  };
  EXPECT_EQ(num_refused(), 0);
  Say(false, Sound({5}));
  ASSERT_TRUE(TakesUntil("\"error\""));
  EXPECT_EQ(num_refused(), 1);
  Take();
  EXPECT_TRUE(Becomes([this] { return client_.close_code == 1008; }));
}

}  // namespace
}  // namespace beamwright::websocket
