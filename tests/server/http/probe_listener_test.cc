#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/http/probes.h"

namespace beamwright::http {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A client that sends exactly the given bytes.
class ProbeClient {
 public:
  explicit ProbeClient(int port, int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
      : socket_(fd) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ProbeClient(ProbeClient&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  ~ProbeClient() {
    if (socket_ >= 0) {
      close(socket_);
    }
  }

  bool Send(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  std::string ReadUntil(const std::string& end) const {
    std::string text;
    char c = 0;
    while (text.find(end) == std::string::npos && recv(socket_, &c, 1, 0) == 1) {
      text += c;
    }
    return text;
  }
  // Until the server closes.
  std::string ReadAll() const { return ReadUntil("\xFF no such text"); }
  bool IsHungUpOn() const {
    pollfd entry{socket_, POLLRDHUP, 0};
    return poll(&entry, 1, 0) > 0;
  }

 private:
  int socket_;
};

std::string Asking(const std::string& path, const std::string& method = "GET") {
  return method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
}

// Metrics that are written when a test lets them.
class HeldMetrics : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    begun_.Notify();
    held_.WaitForNotification();
    return {};
  }
  void WaitUntilBegun() { begun_.WaitForNotification(); }
  void Release() { held_.Notify(); }

 private:
  mutable absl::Notification begun_;
  absl::Notification held_;
};

class ProbeListenerTest : public ::testing::Test {
 protected:
  void Start(int max_connections = 128, absl::Duration grace = absl::ZeroDuration()) {
    auto listener = ProbeListener::Start("127.0.0.1:0", probes_, max_connections, grace);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  std::string Ask(const std::string& request) const {
    const ProbeClient client(listener_->port());
    EXPECT_TRUE(client.Send(request));
    return client.ReadAll();
  }

  serving::ServingState state_;
  serving::Metrics metrics_{{}};
  Probes probes_{state_, metrics_};
  std::unique_ptr<ProbeListener> listener_;
};

TEST_F(ProbeListenerTest, ProbesAndMetrics) {
  Start();
  EXPECT_THAT(Ask(Asking("/livez")), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Ask(Asking("/readyz")),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\nloading models\n")));
  EXPECT_THAT(Ask(Asking("/startupz")), StartsWith("HTTP/1.1 503 "));
  state_.Enter(serving::Phase::kServing);
  for (const char* path : {"/readyz", "/healthz", "/startupz", "/readyz?verbose=1"}) {
    EXPECT_THAT(Ask(Asking(path)), StartsWith("HTTP/1.1 200 ")) << path;
  }
  EXPECT_THAT(Ask(Asking("/metrics")), AllOf(StartsWith("HTTP/1.1 200 "),
                                             HasSubstr("Content-Type: text/plain; version=0.0.4"),
                                             HasSubstr("\n# TYPE beamwright_")));
  state_.SetHangs(true);
  EXPECT_THAT(Ask(Asking("/livez")), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("hangs")));
  for (const char* path : {"/livez", "/metrics"}) {
    EXPECT_THAT(Ask(Asking(path, "HEAD")), AllOf(StartsWith("HTTP/1.1 "), EndsWith("\r\n\r\n")))
        << path;
  }
}

TEST_F(ProbeListenerTest, WhatIsNoProbeIsRefused) {
  Start();
  EXPECT_THAT(Ask(Asking("/v1/models")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(Asking("/livez", "DELETE")),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n"),
                    HasSubstr("this path takes GET, HEAD only")));
  EXPECT_THAT(Ask("POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nA: " + std::string(100'000, 'a') + "\r\n\r\n"),
              Not(StartsWith("HTTP/1.1 2")));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), Not(StartsWith("HTTP/1.1 2")));
}

TEST_F(ProbeListenerTest, RequestsOfAConnectionOneAfterTheOther) {
  Start();
  const ProbeClient client(listener_->port());
  const std::string request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
  client.Send(request);
  EXPECT_THAT(client.ReadUntil("ok\n"), StartsWith("HTTP/1.1 200 "));
  client.Send(request + "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" + request);
  EXPECT_THAT(client.ReadUntil("ok\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(client.ReadUntil("ok\n"), HasSubstr("# TYPE beamwright_"));
}

// None of those who say nothing, drip, or do not read is waited for.
TEST_F(ProbeListenerTest, NobodyHoldsUpAProbe) {
  Start();
  std::vector<ProbeClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(listener_->port());
  }
  const std::string head = "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ";
  for (size_t at = 0; at < head.size(); ++at) {
    for (size_t i = 20; i < clients.size(); ++i) {
      clients[i].Send(head.substr(at, 1));
    }
    EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
  }
}

TEST_F(ProbeListenerTest, TheConnectionThatIsQuietLongestMakesRoom) {
  Start(4);
  std::vector<ProbeClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(listener_->port());
    clients.back().Send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(clients.back().ReadUntil("ok\n"), StartsWith("HTTP/1.1 200 "));
  }
  // The first is answered once more, and the second is the next to go.
  clients[0].Send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(clients[0].ReadUntil("ok\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(clients[1].ReadAll(), "");  // ends
  for (const size_t i : {0, 2, 3}) {
    EXPECT_FALSE(clients[i].IsHungUpOn()) << i;
  }
  // Hundreds of silent connections delay no request.
  for (int i = 0; i < 300; ++i) {
    clients.emplace_back(listener_->port());
  }
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
}

// A crowd that comes faster than a client can write its request.
TEST_F(ProbeListenerTest, NobodyGoesBeforeThereWasTimeToAsk) {
  Start(4, absl::InfiniteDuration());
  const ProbeClient client(listener_->port());
  std::vector<ProbeClient> crowd;
  for (int i = 0; i < 400; ++i) {
    crowd.emplace_back(listener_->port());
  }
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));  // the crowd was let in
  client.Send(Asking("/livez"));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200 "));
  // With too many, grace or not, the one that has been quiet for longest goes.
  for (int i = 0; i < 200; ++i) {
    crowd.emplace_back(listener_->port());
  }
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(crowd[0].IsHungUpOn());
}

TEST_F(ProbeListenerTest, MetricsThatTakeLongHoldUpNoProbe) {
  HeldMetrics held;
  metrics_.Add(&held);
  Start();
  const ProbeClient scraper(listener_->port());
  scraper.Send(Asking("/metrics"));
  held.WaitUntilBegun();
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
  held.Release();
  EXPECT_THAT(scraper.ReadAll(), StartsWith("HTTP/1.1 200 "));
  metrics_.Remove(&held);
}

TEST_F(ProbeListenerTest, EndsThoughClientsAreConnected) {
  Start();
  const ProbeClient quiet(listener_->port());
  const ProbeClient dripping(listener_->port());
  dripping.Send("GET /li");
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
  listener_ = nullptr;
  EXPECT_EQ(quiet.ReadAll(), "");
}

// Without a file to spare a connection waits until there is one.
TEST_F(ProbeListenerTest, ConnectionsAreTakenAgainWhenThereAreFilesAgain) {
  Start();
  const ProbeClient idle(listener_->port());  // it does not end
  EXPECT_THAT(Ask(Asking("/livez")), StartsWith("HTTP/1.1 200 "));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  std::vector<int> taken;
  rlimit few = before;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  for (int fd = 0; (fd = dup(0)) >= 0;) {
    taken.push_back(fd);
  }
  close(taken.back());
  taken.pop_back();
  {
    const ProbeClient late(listener_->port());  // takes the last file: the listener has none
    late.Send(Asking("/livez"));
    for (const int fd : taken) {
      close(fd);
    }
    EXPECT_THAT(late.ReadAll(), StartsWith("HTTP/1.1 200 "));
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

// Others have used up the files of the process.
TEST_F(ProbeListenerTest, FilesAreKeptForProbes) {
  Start();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<int> sockets;
  for (int i = 0; i < 5; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  std::vector<int> taken;
  for (int fd = 0; (fd = dup(0)) >= 0;) {
    taken.push_back(fd);
  }
  for (const int fd : sockets) {
    {
      const ProbeClient client(listener_->port(), fd);
      client.Send(Asking("/livez"));
      EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200 "));
    }
    taken.push_back(dup(0));  // where the client's was
  }
  for (const int fd : taken) {
    close(fd);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ProbeListenerTest, AnAddressThatIsTakenOrIsNoneIsNamed) {
  Start();
  const auto second = ProbeListener::Start(listener_->address(), probes_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(listener_->address()), HasSubstr("in use")));
  EXPECT_EQ(ProbeListener::Start("127.0.0.1", probes_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace beamwright::http
