// SIGTERM at random moments, under clients that call on and on: every call is answered rightly or
// gets Unavailable, to try elsewhere; and what the server says it answered is what clients
// got.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>
#include <signal.h>

#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"

namespace beamwright::chaos {
namespace {

using e2e::DefaultModel;
using e2e::ServerProcess;

// The number behind `code` in the server's last line, "stopped; calls answered: OK 12, ...".
int64_t Told(const std::string& log, const std::string& code) {
  const size_t line = log.rfind("calls answered: ");
  const size_t at = line == std::string::npos ? line : log.find(code + " ", line);
  return at == std::string::npos ? 0 : std::atoll(log.c_str() + at + code.size() + 1);
}

// The same over HTTP until there is no server any more; returns the number of answers.
int64_t CallOverHttp(int port, int number, const std::atomic<bool>& gone) {
  std::string body;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(WordRequest(number), &body).ok());
  httplib::Client http("127.0.0.1", port);
  http.set_keep_alive(true);
  int64_t answered = 0;
  while (!gone) {
    const auto reply = http.Post("/v1/models/g2p-en:decode", body, "application/json");
    if (reply && reply->status == 200) {
      ++answered;
      continue;
    }
    EXPECT_TRUE(!reply || reply->status == 503) << reply->body;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return answered;
}

TEST(SigtermTest, EveryCallIsAnsweredOrMayBeRepeated) {
  constexpr int kClients = 12;
  constexpr int kHttpClients = 4;
  const int rounds = Form(3, 50);
  std::mt19937 random(1);
  Golden golden;
  int64_t answered = 0;
  int64_t unavailable = 0;
  for (int round = 0; round < rounds; ++round) {
    // Every other time balancers would get time to notice.
    ServerProcess server(
        {"--model-path", DefaultModel(), "--drain-delay", round % 2 == 0 ? "0" : "200ms"});
    const std::string address = server.address();
    if (golden.empty()) {
      AddGolden(address, golden);
    }
    const int64_t before = golden.begin()->second.size() * (round == 0 ? 1 : 0);
    Tally tally;
    std::atomic<bool> gone{false};
    std::atomic<int64_t> answered_over_http{0};
    std::vector<std::thread> clients;
    for (int client = 0; client < kHttpClients; ++client) {
      clients.emplace_back([&, client, port = server.http_port()] {
        answered_over_http += CallOverHttp(port, client, gone);
      });
    }
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] {
        const auto stub = v1::DecodeService::NewStub(Connect(address));
        // On and on, also after the first Unavailable, until there is no server any more.
        for (int i = client; !gone; ++i) {
          if (!Call(*stub, i % kNumRequests, golden, tally).ok()) {
            absl::SleepFor(absl::Milliseconds(1));  // a port that is closed refuses at once
          }
        }
      });
    }
    absl::SleepFor(absl::Milliseconds(std::uniform_int_distribution<int>(20, 600)(random)));
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0) << server.log();
    gone = true;
    for (std::thread& client : clients) {
      client.join();
    }
    EXPECT_EQ(tally.wrong(), 0) << tally.ToString();
    EXPECT_EQ(tally.of(grpc::StatusCode::OK) + tally.of(grpc::StatusCode::UNAVAILABLE), tally.all())
        << "round " << round << ": " << tally.ToString();
    EXPECT_EQ(Told(server.log(), "OK"),
              tally.of(grpc::StatusCode::OK) + answered_over_http + before)
        << server.log();
    answered += tally.of(grpc::StatusCode::OK);
    unavailable += tally.of(grpc::StatusCode::UNAVAILABLE);
  }
  if (HasFailure()) {
    return;
  }
  std::cout << rounds << " times SIGTERM under " << kClients << " clients: " << answered
            << " calls answered, " << unavailable << " sent elsewhere, none lost or wrong\n";
}

// It takes no calls for the time that balancers would get. How soon it is gone is measured in the
// long form only, since other tests share the machine in the short one.
TEST(SigtermTest, AnIdleServerThatIsInterruptedIsGoneAtOnce) {
  for (int round = 0; round < Form(3, 20); ++round) {
    ServerProcess server({"--model-path", DefaultModel(), "--drain-delay", "20s"});
    Golden golden;
    AddGolden(server.address(), golden);
    const absl::Time start = absl::Now();
    server.Signal(SIGINT);
    EXPECT_EQ(server.Wait(), 0);
    EXPECT_EQ(server.log().find("calls are taken for"), std::string::npos) << server.log();
    EXPECT_LT(absl::Now() - start, Form(absl::InfiniteDuration(), absl::Seconds(1)));
  }
}

}  // namespace
}  // namespace beamwright::chaos
