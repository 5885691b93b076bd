// A session with a client whose reading the test holds up, without a socket between them.
#include "server/websocket/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::websocket {
namespace {

using ::testing::HasSubstr;

// What the session does is seen here, and goes on when the test says so.
struct Client {
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
    request_.header = [](const char*) { return std::string(); };
  }

  boost::asio::any_io_executor executor() override { return io_.get_executor(); }
  void ReadRequest(Done done) override { Soon(std::move(done)); }
  const http::HttpRequest& request() const override { return request_; }
  const std::string& target() const override { return target_; }
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
  const std::string target_ = "/";
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    serving::ModelPaths paths;
    paths.repositories = {temp_.path()};
    models_ = *serving::ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<serving::Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(serving::Phase::kServing);
    site_.reset(new Site{*core_, access_, cors_, "tones", absl::Hours(1), absl::Hours(1)});
    session_ = std::make_shared<Session>(*site_, std::make_unique<HeldSocket>(io_, client_));
    session_->Start();
  }
  ~SessionTest() override {
    if (client_.read != nullptr) {
      std::exchange(client_.read, nullptr)(Outcome::kGone, false, "");
    }
    client_.taken = nullptr;
    session_ = nullptr;
    io_.restart();
    io_.poll();
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

}  // namespace
}  // namespace beamwright::websocket
