// Clients that give up, by the thousand, and clients that are killed in the middle of their
// streams: what they held is free again, and others never notice.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

using e2e::BackToZero;
using e2e::DefaultModel;
using e2e::Samples;
using e2e::Scrape;
using e2e::ServerProcess;
using e2e::Sum;

// A call that is not waited for.
struct Pending {
  grpc::ClientContext context;
  v1::DecodeResponse response;
};

// Starts `count` calls, 200 at a time, and cancels each after a random while; returns when all have
// ended.
void Storm(const std::string& address, int count, int seed, Tally& tally, const Golden& golden) {
  const auto stub = v1::DecodeService::NewStub(Connect(address));
  std::mt19937 random(static_cast<uint32_t>(seed));
  constexpr int kAtOnce = 200;
  for (int done = 0; done < count; done += kAtOnce) {
    std::vector<Pending> calls(kAtOnce);
    absl::BlockingCounter open(kAtOnce);
    std::vector<v1::DecodeRequest> requests;
    for (int i = 0; i < kAtOnce; ++i) {
      requests.push_back(WordRequest(i % kNumRequests));
    }
    for (int i = 0; i < kAtOnce; ++i) {
      Pending& call = calls[static_cast<size_t>(i)];
      stub->async()->Decode(&call.context, &requests[static_cast<size_t>(i)], &call.response,
                            [&, i](const grpc::Status& status) {
                              tally.Count(status, call.response, i % kNumRequests, golden);
                              open.DecrementCount();
                            });
    }
    for (Pending& call : calls) {
      if (random() % 8 == 0) {
        absl::SleepFor(absl::Microseconds(random() % 300));
      }
      call.context.TryCancel();
    }
    open.Wait();
    // Without a pause the three of them would be a flood, and be reset (attack_test.cc).
    absl::SleepFor(absl::Milliseconds(100));
  }
}

TEST(CancelTest, AStormOfCancelsLeavesNothingBehind) {
  constexpr int kStorms = 3;
  const int calls = Form(2'000, 20'000);
  ServerProcess server({"--model-path", DefaultModel()});
  const std::string address = server.address();
  const int metrics = server.metrics_port();
  Golden golden;
  AddGolden(address, golden);
  Tally cancelled;
  Tally patient;
  std::atomic<bool> stop{false};
  std::thread bystander([&] {
    const auto stub = v1::DecodeService::NewStub(Connect(address));
    for (int i = 0; !stop; ++i) {
      Call(*stub, i % kNumRequests, golden, patient);
    }
  });
  const absl::Time start = absl::Now();
  std::vector<std::thread> storms;
  for (int seed = 0; seed < kStorms; ++seed) {
    storms.emplace_back([&, seed] { Storm(address, calls, seed, cancelled, golden); });
  }
  for (std::thread& storm : storms) {
    storm.join();
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  stop = true;
  bystander.join();
  EXPECT_TRUE(BackToZero(metrics));
  // No other call was harmed, and no call got another call's answer.
  EXPECT_EQ(patient.of(grpc::StatusCode::OK), patient.all()) << patient.ToString();
  EXPECT_EQ(patient.wrong() + cancelled.wrong(), 0);
  EXPECT_EQ(cancelled.of(grpc::StatusCode::OK) + cancelled.of(grpc::StatusCode::CANCELLED),
            cancelled.all())
      << cancelled.ToString();
  // Who was cancelled on the way there was never seen; who was answered was answered.
  const Samples samples = Scrape(metrics);
  const double seen = Sum(samples, "beamwright_requests_total");
  const double ok = Sum(samples, "beamwright_requests_total", "code=\"OK\"");
  const auto good =
      static_cast<double>(cancelled.of(grpc::StatusCode::OK) + patient.all() + kNumRequests);
  EXPECT_LE(seen, static_cast<double>(cancelled.all() + patient.all() + kNumRequests));
  EXPECT_GE(ok, good);
  const double given_up = Sum(samples, "beamwright_requests_total", "code=\"CANCELLED\"");
  EXPECT_EQ(seen, ok + given_up);
  // Many are decoded before the cancel is there; a server that did not look would decode them all.
  EXPECT_GT(given_up, 0);
  // Giving up is no attack.
  EXPECT_EQ(Sum(samples, "beamwright_grpc_connections_cut_off_total"), 0) << server.log();
  // What ran was let go within the step that was under way.
  EXPECT_EQ(Sum(samples, "beamwright_cancel_release_steps_bucket", "le=\"1\""),
            Sum(samples, "beamwright_cancel_release_steps_count"));
  std::cout << cancelled.of(grpc::StatusCode::CANCELLED) << " cancels in " << seconds << " s, "
            << patient.all() << " other calls answered\n";
}

// A client process that streams and never reads an answer; to be killed.
[[noreturn]] void StreamForEver(const std::string& address) {
  const auto stub = inference::GRPCInferenceService::NewStub(Connect(address));
  grpc::ClientContext context;
  const auto stream = stub->ModelStreamInfer(&context);
  inference::ModelInferRequest request;
  request.set_model_name("g2p-en");
  auto& input = *request.add_inputs();
  input.set_name("source_text");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.mutable_contents()->add_bytes_contents("internationalization");
  while (stream->Write(request)) {
  }
  _exit(0);
}

TEST(CancelTest, ClientsKilledInTheMiddleOfTheirStreamsLeaveNothingBehind) {
  // Forked before this process has a thread of gRPC's own: children make their own.
  constexpr int kChildren = 4;
  const int rounds = Form(2, 30);
  ServerProcess server({"--model-path", DefaultModel()});
  const int port = server.WaitForPort();
  const std::string address = "127.0.0.1:" + std::to_string(port);
  for (int round = 0; round < rounds; ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < kChildren; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        execl("/proc/self/exe", "chaos_test", "--stream-for-ever", address.c_str(), nullptr);
        _exit(127);
      }
      children.push_back(child);
    }
    // Until they are at work.
    for (int tries = 0; tries < 1000; ++tries) {
      if (Sum(Scrape(server.metrics_port()), "beamwright_requests_running") > 0) {
        break;
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    for (const pid_t child : children) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    EXPECT_TRUE(BackToZero(server.metrics_port())) << "round " << round;
  }
  Golden golden;
  AddGolden(address, golden);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace

// chaos_test --stream-for-ever ADDRESS is such a client.
const bool is_child = [] {
  FILE* file = fopen("/proc/self/cmdline", "r");
  char text[512] = {};
  const size_t size = file == nullptr ? 0 : fread(text, 1, sizeof(text) - 1, file);
  if (file != nullptr) {
    fclose(file);
  }
  std::vector<std::string> arguments;
  for (size_t at = 0; at < size; at += arguments.back().size() + 1) {
    arguments.emplace_back(text + at);
  }
  if (arguments.size() == 3 && arguments[1] == "--stream-for-ever") {
    StreamForEver(arguments[2]);
  }
  return false;
}();

}  // namespace beamwright::chaos
