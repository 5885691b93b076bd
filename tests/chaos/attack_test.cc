// What one client can do to others by frames of HTTP/2: attackers and a good client on connections
// of their own. The figures of docs/security.md come from the long forms, which `./dev soak` runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/http2_attack.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

using e2e::DefaultModel;
using e2e::Scrape;
using e2e::ServerProcess;
using e2e::Sum;

constexpr double kMiB = 1 << 20;

// Calls one after the other, and the process' memory, from a separate thread.
class GoodClient {
 public:
  explicit GoodClient(ServerProcess& server)
      : address_(server.address()), metrics_(server.metrics_port()) {
    AddGolden(address_, golden_);
    calls_ = std::thread([this] {
      const auto stub = v1::DecodeService::NewStub(Connect(address_));
      for (int i = 0; !stop_; ++i) {
        Call(*stub, i % kNumRequests, golden_, tally_);
      }
    });
    memory_ = std::thread([this] {
      while (!stop_) {
        peak_ = std::max<int64_t>(peak_, ResidentBytes(metrics_));
        absl::SleepFor(absl::Milliseconds(50));
      }
    });
  }
  ~GoodClient() { Stop(); }

  void Stop() {
    stop_ = true;
    for (std::thread* thread : {&calls_, &memory_}) {
      if (thread->joinable()) {
        thread->join();
      }
    }
  }
  // Answers a second while it waits.
  double RateFor(absl::Duration time) {
    const int64_t before = tally_.all();
    const absl::Time begin = absl::Now();
    absl::SleepFor(time);
    return static_cast<double>(tally_.all() - before) / absl::ToDoubleSeconds(absl::Now() - begin);
  }
  int64_t peak() const { return peak_; }
  void ForgetPeak() { peak_ = 0; }
  Tally& tally() { return tally_; }

 private:
  const std::string address_;
  const int metrics_;
  Golden golden_;
  Tally tally_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> peak_{0};
  std::thread calls_;
  std::thread memory_;
};

class AttackTest : public ::testing::Test {
 protected:
  // Two connections that attack, and a client that must hardly notice.
  // The bars of the long form: the share of calls that others still make, and MiB that the server
  // may grow by.
  void Withstands(const Http2Attack& attack, double share = 0.25, double most = 300) {
    ServerProcess server({"--model-path", DefaultModel()});
    ASSERT_GT(server.WaitForPort(), 0);
    GoodClient client(server);
    const double before = client.RateFor(Form(absl::Milliseconds(100), absl::Seconds(2)));
    const int64_t bytes_before = client.peak();
    client.ForgetPeak();
    double during = 0;
    int64_t num_closed = 0;
    {
      const Attackers attackers(server.WaitForPort(), attack, 2, attackers_);
      during = client.RateFor(Form(absl::Milliseconds(500), absl::Seconds(5)));
      // The server's patience is CPU time, of which a busy machine gives it little.
      for (int i = 0; must_reset_ && i < 100 && CountCutOff(server) == 0; ++i) {
        client.RateFor(absl::Milliseconds(100));
      }
      num_closed = attackers.num_closed();
    }
    absl::SleepFor(absl::Seconds(Form(0, 1)));
    const double after = client.RateFor(Form(absl::Milliseconds(100), absl::Seconds(1)));
    client.Stop();
    const double more = static_cast<double>(client.peak() - bytes_before) / kMiB;
    num_cut_off_ = CountCutOff(server);
    std::printf(
        "%s: others' calls/s %.0f before, %.0f during, %.0f after; memory %+.0f MiB; %.0f of %ld "
        "closed connections reset\n",
        attack.name.c_str(), before, during, after, more, num_cut_off_,
        static_cast<long>(num_closed));
    EXPECT_EQ(client.tally().wrong(), 0);
    EXPECT_EQ(client.tally().of(grpc::StatusCode::OK), client.tally().all())
        << client.tally().ToString();
    if (IsLong()) {  // the short form has no time to measure them
      EXPECT_LE(more, most);
      EXPECT_GE(during, share * before);
      EXPECT_GE(after, 0.7 * before);
    }
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }

  static double CountCutOff(ServerProcess& server) {
    return Sum(Scrape(server.metrics_port()), "beamwright_grpc_connections_cut_off_total");
  }

  std::string attackers_ = "127.0.0.2";  // where they come from
  bool must_reset_ = false;  // whether the attack goes on until the server resets a connection
  double num_cut_off_ = 0;
};

TEST_F(AttackTest, RapidReset) {
  must_reset_ = true;
  Withstands(RapidReset(), 0.5, 200);
  EXPECT_GT(num_cut_off_, 0);
}
// Their clients prove nothing by coming from elsewhere.
TEST_F(AttackTest, RapidResetFromNewAddresses) {
  must_reset_ = true;
  Withstands(RapidResetFromNewAddresses(), 0.5, 200);
  EXPECT_GT(num_cut_off_, 0);
}
// Others are not refused for their neighbours.
TEST_F(AttackTest, RapidResetFromTheAddressOfOthers) {
  must_reset_ = true;
  attackers_ = "127.0.0.1";
  Withstands(RapidReset(), 0.5, 200);
  EXPECT_GT(num_cut_off_, 0);
}
TEST_F(AttackTest, UnknownMethods) { Withstands(UnknownMethods()); }
TEST_F(AttackTest, Reflection) { Withstands(Reflection()); }
TEST_F(AttackTest, WholeCallsReset) { Withstands(WholeCallsReset()); }
TEST_F(AttackTest, LargeHeaderLists) { Withstands(LargeHeaderLists()); }
TEST_F(AttackTest, HeaderReferences) { Withstands(HeaderReferences(), 0.5); }
TEST_F(AttackTest, Settings) { Withstands(SettingsFlood()); }
TEST_F(AttackTest, Ping) { Withstands(PingFlood()); }
TEST_F(AttackTest, Continuation) { Withstands(ContinuationFlood()); }
TEST_F(AttackTest, WindowUpdate) { Withstands(WindowUpdateFlood()); }
TEST_F(AttackTest, EmptyData) { Withstands(EmptyDataFlood()); }
TEST_F(AttackTest, ZeroWindow) { Withstands(ZeroWindow()); }
TEST_F(AttackTest, UnfinishedBodies) { Withstands(UnfinishedBodies()); }
TEST_F(AttackTest, TooManyStreams) { Withstands(TooManyStreams()); }

// Clients that ask for much, as they may: none is taken for an attacker.
class ClientsTest : public ::testing::Test {
 protected:
  ClientsTest() : server_({"--model-path", DefaultModel()}) {
    AddGolden(server_.address(), golden_);
  }
  ~ClientsTest() override {
    EXPECT_EQ(Sum(Scrape(server_.metrics_port()), "beamwright_grpc_connections_cut_off_total"), 0)
        << server_.log();
  }

  // Makes calls at once over one connection and waits for them; `started` is called for each.
  void Ask(int count, const v1::DecodeRequest& request, Tally& tally,
           const std::function<void(int, grpc::ClientContext&)>& started = nullptr) {
    const auto stub = v1::DecodeService::NewStub(Connect(server_.address()));
    std::vector<grpc::ClientContext> contexts(static_cast<size_t>(count));
    std::vector<v1::DecodeResponse> responses(static_cast<size_t>(count));
    absl::BlockingCounter open(count);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      stub->async()->Decode(&contexts[at], &request, &responses[at],
                            [&, at](const grpc::Status& status) {
                              tally.Count(status, responses[at], 0, golden_);
                              open.DecrementCount();
                            });
      if (started != nullptr) {
        started(i, contexts[at]);
      }
    }
    open.Wait();
  }

  ServerProcess server_;
  Golden golden_;
};

TEST_F(ClientsTest, ManyCallsAtOnce) {
  Tally tally;
  std::vector<std::thread> clients;
  for (int i = 0; i < Form(2, 10); ++i) {
    clients.emplace_back([&] { Ask(1000, WordRequest(0), tally); });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(tally.wrong(), 0);
  EXPECT_EQ(tally.of(grpc::StatusCode::OK) + tally.of(grpc::StatusCode::RESOURCE_EXHAUSTED),
            tally.all())
      << tally.ToString();
}

TEST_F(ClientsTest, LargeRequestsAtOnce) {
  v1::DecodeRequest request;
  request.set_model(std::string(15 << 20, 'x'));  // no such model
  Tally tally;
  for (int round = 0; round < Form(1, 10); ++round) {
    Ask(Form(10, 100), request, tally);
  }
  EXPECT_EQ(tally.of(grpc::StatusCode::NOT_FOUND) + tally.of(grpc::StatusCode::INVALID_ARGUMENT) +
                tally.of(grpc::StatusCode::RESOURCE_EXHAUSTED),
            tally.all())
      << tally.ToString();
}

// Every other call is given up while its twin is waited for.
TEST_F(ClientsTest, Hedges) {
  Tally tally;
  for (int round = 0; round < Form(5, 100); ++round) {
    Ask(200, WordRequest(0), tally, [](int i, grpc::ClientContext& context) {
      if (i % 2 == 0) {
        context.TryCancel();
      }
    });
  }
  EXPECT_EQ(tally.of(grpc::StatusCode::OK) + tally.of(grpc::StatusCode::CANCELLED), tally.all())
      << tally.ToString();
}

}  // namespace
}  // namespace beamwright::chaos
