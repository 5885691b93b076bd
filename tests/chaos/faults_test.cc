// Faults that a machine has and tests have to make: disks that fail, an engine that hangs.
#include <gmock/gmock.h>
#include <signal.h>

#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/faulty_server.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

using e2e::Scrape;
using e2e::Sum;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FaultsTest : public FaultyServer {};

TEST_F(FaultsTest, ADiskThatFailsDuringALoadChangesNothingThatIsServed) {
  Start();
  AddVersion("2");
  Set("read_file error");
  const grpc::Status failed = Load();
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(failed.error_message(),
              AllOf(HasSubstr("version 2"), HasSubstr("a fault was asked for")));
  EXPECT_EQ(Version(), "1");
  EXPECT_EQ(Probe("/readyz"), 200);
  Set("");
  EXPECT_TRUE(Load().ok());
  EXPECT_EQ(Version(), "2");
}

TEST_F(FaultsTest, MemoryThatIsNotThereIsRefusedToWhoAsksForIt) {
  Start();
  AddVersion("2");
  Set("model.load no-memory");
  const grpc::Status failed = Load();
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(failed.error_message(), HasSubstr("out of memory"));
  EXPECT_EQ(Version(), "1");
  Set("call.admit no-memory");
  grpc::ClientContext context;
  v1::DecodeResponse response;
  const grpc::Status refused =
      v1::DecodeService::NewStub(channel_)->Decode(&context, WordRequest(0), &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "out of memory");
  EXPECT_THAT(refused.error_details(), HasSubstr("OUT_OF_MEMORY"));
  Set("");
  EXPECT_EQ(Version(), "1");
  EXPECT_TRUE(Load().ok());
  EXPECT_EQ(Version(), "2");
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);  // no call is left open
}

TEST_F(FaultsTest, CallsAreAnsweredWhileALoadTakesItsTime) {
  Start();
  AddVersion("2");
  Set("model.load delay 1s");
  std::thread loading([this] { EXPECT_TRUE(Load().ok()); });
  Golden golden;
  AddGolden(server_->address(), golden);
  EXPECT_EQ(golden.count("1"), 1u);
  loading.join();
  EXPECT_EQ(Version(), "2");
}

TEST_F(FaultsTest, LivenessSeesAnEngineThatHangsAndNotOneThatIsBusy) {
  Start({"--liveness-timeout", "2s"});
  Golden golden;
  AddGolden(server_->address(), golden);
  // Busy: steps without end, and each comes round.
  Tally tally;
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&] {
      const auto stub = v1::DecodeService::NewStub(channel_);
      for (int i = 0; !stop; ++i) {
        Call(*stub, i % kNumRequests, golden, tally);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Probe("/livez"), 200);
    absl::SleepFor(absl::Milliseconds(10));
  }
  Set("engine.turn delay 5s");
  WaitForProbe("/livez", 503);
  EXPECT_EQ(Probe("/readyz"), 503);
  EXPECT_EQ(Probe("/startupz"), 200);
  Set("");
  WaitForProbe("/livez", 200);
  stop = true;
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(tally.of(grpc::StatusCode::OK), tally.all()) << tally.ToString();
  EXPECT_EQ(tally.wrong(), 0);
}

TEST_F(FaultsTest, StartupIsToldApartFromReadiness) {
  Set("model.load delay 1s");
  StartWith({});
  EXPECT_EQ(Probe("/startupz"), 503);
  EXPECT_EQ(Probe("/readyz"), 503);
  EXPECT_EQ(Probe("/livez"), 200);
  WaitForProbe("/startupz", 200);
  EXPECT_EQ(Probe("/readyz"), 200);
}

TEST_F(FaultsTest, AServerThatDoesNotGetReadyInItsTimeSaysSo) {
  Set("model.load delay 60s");
  StartWith({"--startup-timeout", "200ms"});
  EXPECT_EQ(server_->Wait(), 3);
  EXPECT_THAT(server_->log(), HasSubstr("not started in 200ms (startup-timeout)"));
  Set("");
  StartWith({"--startup-timeout", "1h"});
  EXPECT_GT(server_->WaitForPort(), 0);
  server_->Signal(SIGINT);
  EXPECT_EQ(server_->Wait(), 0);  // it does not wait for the time to be over
}

// A call hangs in the engine, and the server is stopped, or twice; its exit code.
int ExitOfHanging(e2e::ServerProcess& server, const std::shared_ptr<grpc::Channel>& channel,
                  const std::function<void()>& between) {
  grpc::ClientContext context;
  v1::DecodeResponse response;
  const v1::DecodeRequest request = WordRequest(0);
  absl::Mutex mutex;
  bool ended = false;
  v1::DecodeService::NewStub(channel)->async()->Decode(&context, &request, &response,
                                                       [&](const grpc::Status& /*status*/) {
                                                         absl::MutexLock lock(&mutex);
                                                         ended = true;
                                                       });
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (Sum(Scrape(server.metrics_port()), "beamwright_requests_running") == 0 &&
         absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  server.Signal(SIGTERM);
  between();
  const int exit_code = server.Wait();
  absl::MutexLock lock(&mutex, absl::Condition(&ended));
  return exit_code;
}

TEST_F(FaultsTest, ASecondSignalEndsAServerThatHangs) {
  Start();
  Set("engine.turn delay 60s");
  const int exit_code = ExitOfHanging(*server_, channel_, [this] {
    WaitForProbe("/readyz", 503);
    server_->Signal(SIGTERM);
  });
  EXPECT_EQ(exit_code, 1);
}

// Not even what can't be interrupted, nor the engine itself, keeps it.
TEST_F(FaultsTest, TheProcessIsGoneWhateverHangs) {
  Start({"--drain-timeout", "100ms"});
  Set("engine.turn delay 60s");
  const absl::Time begin = absl::Now();
  EXPECT_EQ(ExitOfHanging(*server_, channel_, [] {}), 4);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  EXPECT_THAT(server_->log(), HasSubstr("still not ended 5.1s after the signal to stop"));
}

}  // namespace
}  // namespace beamwright::chaos
