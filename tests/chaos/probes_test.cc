// What other clients do on a listener of HTTP, and how long a probe then waits.
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/e2e/server_process.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::chaos {
namespace {

using rpc::ClientSocket;

// Sockets that send a head that never ends, a byte at a time; who is let go comes again.
class Drippers {
 public:
  Drippers(int port, int count) : port_(port), sockets_(static_cast<size_t>(count)) {
    for (ClientSocket& socket : sockets_) {
      EXPECT_TRUE(socket.ConnectV4(port_));
      send(socket.fd(), kHead.data(), kHead.size(), MSG_NOSIGNAL);
    }
    thread_ = std::thread([this] { Drip(); });
  }
  ~Drippers() {
    stop_ = true;
    thread_.join();
  }

 private:
  inline static const std::string kHead = "GET /livez HTTP/1.1\r\nHost: x\r\nX: ";

  void Drip() {
    while (!stop_) {
      for (ClientSocket& socket : sockets_) {
        if (send(socket.fd(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
          socket = ClientSocket();
          socket.ConnectV4(port_);
          send(socket.fd(), kHead.data(), kHead.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  const int port_;
  std::vector<ClientSocket> sockets_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Clients that ask for the metrics without a pause, each on a separate connection.
class Scrapers {
 public:
  Scrapers(int port, int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, port] {
        while (!stop_) {
          httplib::Client("127.0.0.1", port).Get("/metrics");
        }
      });
    }
  }
  ~Scrapers() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Asks several times, as an orchestrator does: on a new connection, with a time limit.
// Prints how long the answers took; how many there were.
int Probe(int port, int times, int seconds, const char* what) {
  std::vector<absl::Duration> took;
  for (int i = 0; i < times; ++i) {
    httplib::Client client("127.0.0.1", port);
    client.set_connection_timeout(std::chrono::seconds(seconds));
    client.set_read_timeout(std::chrono::seconds(seconds));
    const absl::Time begin = absl::Now();
    const auto reply = client.Get("/livez");
    if (reply && reply->status == 200) {
      took.push_back(absl::Now() - begin);
    } else {
      std::printf("probe %d: %s\n", i,
                  reply ? std::to_string(reply->status).c_str()
                        : httplib::to_string(reply.error()).c_str());
    }
  }
  std::sort(took.begin(), took.end());
  const auto ms = [&took](double share) {
    return took.empty()
               ? -1
               : absl::ToDoubleMilliseconds(
                     took[static_cast<size_t>(share * static_cast<double>(took.size() - 1))]);
  };
  std::printf(
      "%s: %zu of %d probes answered in %d s; median %.1f ms, p99 %.1f ms, "
      "longest %.1f ms\n",
      what, took.size(), times, seconds, ms(0.5), ms(0.99), ms(1));
  return static_cast<int>(took.size());
}

TEST(ProbesTest, NobodySilencesThem) {
  e2e::ServerProcess server({"--model-path", e2e::DefaultModel()});
  ASSERT_GT(server.WaitForPort(), 0);
  const int port = server.metrics_port();
  const int times = Form(30, 1000);
  const std::vector<ClientSocket> silent = [port] {
    std::vector<ClientSocket> sockets(40);
    for (ClientSocket& socket : sockets) {
      EXPECT_TRUE(socket.ConnectV4(port));
    }
    return sockets;
  }();
  {
    const Drippers few(port, 40);
    EXPECT_EQ(Probe(port, times, 1, "40 dripping sockets"), times);
  }
  {
    const Drippers many(port, 400);
    EXPECT_EQ(Probe(port, times, 1, "400 dripping sockets"), times);
  }
  const Scrapers scrapers(port, 8);
  EXPECT_EQ(Probe(port, times, 1, "8 scrapers without a pause"), times);
}

// The API's listeners have a thread for each connection that they serve; in a crowd those that
// drip give theirs up soon.
TEST(ProbesTest, TheApiIsAnsweredBesideDrippingSockets) {
  e2e::ServerProcess server({"--model-path", e2e::DefaultModel()});
  ASSERT_GT(server.WaitForPort(), 0);
  const int times = Form(12, 200);
  {
    const Drippers drippers(server.http_port(), 300);
    EXPECT_EQ(Probe(server.http_port(), times, 2, "http, 300 dripping sockets"), times);
  }
  const Drippers drippers(server.admin_port(), 40);
  EXPECT_EQ(Probe(server.admin_port(), times, 2, "admin, 40 dripping sockets"), times);
}

}  // namespace
}  // namespace beamwright::chaos
