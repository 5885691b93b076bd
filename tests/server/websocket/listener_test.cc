// The WebSocket listener against clients that are slow, silent or deaf, with time limits that are
// short enough to pass. tests/stock_clients/sherpa_online.py has those that speak.
#include "server/websocket/listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/becomes.h"
#include "tests/server/model/temp_bundle.h"
#include "tests/server/sound/tones_model.h"

namespace beamwright::websocket {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kPiece = 1 << 20;

std::string Sound(const std::vector<int>& labels) { return sound::AsF32(sound::Tones(labels)); }

enum Opcode { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

// A client that says exactly what it is told to.
class Client {
 public:
  explicit Client(int port, int receive_buffer = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(socket_); }

  void Send(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) {
        return;
      }
      at += static_cast<size_t>(sent);
    }
  }
  // The head of the answer to a handshake.
  std::string Open(const std::string& target = "/") {
    Send(absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n",
                      "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                      "Sec-WebSocket-Version: 13\r\n\r\n"));
    std::string head;
    char c = 0;
    while (head.find("\r\n\r\n") == std::string::npos && recv(socket_, &c, 1, 0) == 1) {
      head += c;
    }
    return head;
  }
  // A whole message in one frame, masked with zeros (RFC 6455, 5.2).
  void SendMessage(Opcode opcode, const std::string& payload) {
    std::string frame(1, static_cast<char>(0x80 | opcode));
    if (payload.size() < 126) {
      frame += static_cast<char>(0x80 | payload.size());
    } else {
      const bool is_short = payload.size() < 65536;
      frame += static_cast<char>(0x80 | (is_short ? 126 : 127));
      for (int shift = is_short ? 8 : 56; shift >= 0; shift -= 8) {
        frame += static_cast<char>(payload.size() >> shift & 0xff);
      }
    }
    Send(frame + std::string(4, '\0') + payload);
  }
  // The next frame's opcode and payload; -1 at the end of the connection.
  std::pair<int, std::string> ReadFrame() {
    std::string head = ReadBytes(2);
    if (head.size() < 2) {
      return {-1, ""};
    }
    size_t size = static_cast<unsigned char>(head[1]) & 0x7f;
    if (size >= 126) {
      const std::string more = ReadBytes(size == 126 ? 2 : 8);
      size = 0;
      for (const char c : more) {
        size = size << 8 | static_cast<unsigned char>(c);
      }
    }
    std::string payload = ReadBytes(size);
    return {head[0] & 0xf, std::move(payload)};
  }
  // Reads on until the server ends the connection.
  bool ReadsItsEnd() {
    while (ReadFrame().first >= 0) {
    }
    return true;
  }

 private:
  std::string ReadBytes(size_t size) {
    std::string bytes(size, '\0');
    return recv(socket_, bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size) ? bytes
                                                                                        : "";
  }

  const int socket_;
};

class ListenerTest : public ::testing::Test {
 protected:
  ListenerTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    serving::ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    auto models = serving::ModelRegistry::Load(paths);
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = *std::move(models);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<serving::Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(serving::Phase::kServing);
    options_.address = "127.0.0.1:0";
  }

  void Start() {
    auto listener = Listener::Start(options_, *core_, access_, cors_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  bool NobodyIsLeft() {
    return e2e::Becomes([this] { return listener_->num_connections() == 0; }) &&
           state_.WaitUntilAnswered(absl::Minutes(1));
  }

  model::TempFolder temp_;
  serving::ServingState state_;
  serving::Metrics metrics_;
  access::Access access_;
  http::Cors cors_;
  ListenerOptions options_;
  std::unique_ptr<serving::ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<serving::Core> core_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, ASourceIsHeardAndAnotherBehindIt) {
  Start();
  Client client(listener_->port());
  EXPECT_THAT(client.Open(), StartsWith("HTTP/1.1 101 "));
  for (const auto& [labels, text] :
       {std::pair<std::vector<int>, std::string>{{3, 17, 8}, "t3 t17 t8"}, {{5}, "t5"}}) {
    client.SendMessage(kBinary, Sound(labels));
    client.SendMessage(kText, "Done");
    std::string last;
    std::string message;
    while ((message = client.ReadFrame().second) != "Done!" && !message.empty()) {
      last = message;
    }
    EXPECT_EQ(message, "Done!");
    EXPECT_THAT(last, StartsWith(absl::StrCat("{\"text\":\"", text, "\",\"tokens\":[\" t")));
    EXPECT_THAT(last,
                HasSubstr("\"segment\":0,\"start_time\":0,\"is_final\":true,\"is_eof\":true"));
  }
}

TEST_F(ListenerTest, WhoNeverAsksIsLetGo) {
  options_.transfer_timeout = absl::Milliseconds(50);
  Start();
  const Client silent(listener_->port());
  Client slow(listener_->port());
  slow.Send("GET / HT");
  EXPECT_TRUE(NobodyIsLeft());
}

TEST_F(ListenerTest, WhoAnswersPingsStaysAndWhoDoesNotIsLetGo) {
  options_.quiet_time = absl::Milliseconds(50);
  Start();
  Client alive(listener_->port());
  alive.Open();
  Client dead(listener_->port());
  dead.Open();
  dead.SendMessage(kBinary, Sound({1}));
  for (int i = 0; i < 5; ++i) {
    const auto [opcode, payload] = alive.ReadFrame();
    ASSERT_EQ(opcode, kPing);
    alive.SendMessage(kPong, payload);
  }
  EXPECT_TRUE(dead.ReadsItsEnd());
  // Half of a frame counts as silence in the end, too.
  alive.Send(std::string("\x82\xfe", 2));
  EXPECT_TRUE(NobodyIsLeft());
}

TEST_F(ListenerTest, WhoDoesNotReadIsLetGo) {
  options_.transfer_timeout = absl::Milliseconds(200);
  Start();
  Client deaf(listener_->port(), 2048);
  deaf.Open();
  std::vector<int> labels(300);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = 1 + static_cast<int>(i * 7 % 20);
  }
  const std::string all = Sound(labels);
  for (size_t at = 0; at < all.size(); at += kPiece) {
    deaf.SendMessage(kBinary, all.substr(at, kPiece));
  }
  deaf.SendMessage(kText, "Done");
  EXPECT_TRUE(NobodyIsLeft());
  Client next(listener_->port());
  EXPECT_THAT(next.Open(), StartsWith("HTTP/1.1 101 "));
}

TEST_F(ListenerTest, MoreConnectionsThanThereMayBeAreTold) {
  options_.max_connections = 1;
  Start();
  Client first(listener_->port());
  EXPECT_THAT(first.Open(), StartsWith("HTTP/1.1 101 "));
  Client second(listener_->port());
  EXPECT_THAT(second.Open(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(ListenerTest, AServerThatStopsAnswersFirst) {
  Start();
  Client idle(listener_->port());
  idle.Open();
  Client busy(listener_->port());
  busy.Open();
  busy.SendMessage(kBinary, Sound({4, 9}));
  ASSERT_TRUE(e2e::Becomes([this] { return listener_->num_connections() == 2; }));
  // The source has begun when its call is open.
  ASSERT_TRUE(e2e::Becomes([this] { return !state_.WaitUntilAnswered(absl::ZeroDuration()); }));
  listener_->Leave();
  const std::pair<int, std::string> farewell{kClose, "\x03\xe9the server stops"};
  EXPECT_EQ(idle.ReadFrame(), farewell);
  busy.SendMessage(kText, "Done");
  std::string all;
  for (std::pair<int, std::string> frame = busy.ReadFrame(); frame.first == kText;
       frame = busy.ReadFrame()) {
    all += frame.second;
  }
  EXPECT_THAT(all, HasSubstr("\"text\":\"t4 t9\""));
  EXPECT_THAT(all, testing::EndsWith("Done!"));
}

TEST_F(ListenerTest, AnEngineThatOutlivesItIsNoHarm) {
  Start();
  Client client(listener_->port());
  client.Open();
  client.SendMessage(kBinary, Sound({4, 9}));
  client.SendMessage(kText, "Done");
  listener_.reset();
  EXPECT_TRUE(state_.WaitUntilAnswered(absl::Minutes(1)));
}

}  // namespace
}  // namespace beamwright::websocket
