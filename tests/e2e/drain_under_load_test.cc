// SIGTERM while many clients call: every call is answered rightly or refused as unavailable.
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

struct Tally {
  std::atomic<int> answered{0};
  std::atomic<int> unavailable{0};
  std::atomic<int> wrong{0};
};

// Calls until the server says that it goes away; counts what comes back.
void CallUntilUnavailable(const std::string& address, const std::string& expected, Tally& tally,
                          absl::BlockingCounter& warm) {
  const auto channel = Connect(address);
  const auto decode = v1::DecodeService::NewStub(channel);
  const auto infer = inference::GRPCInferenceService::NewStub(channel);
  inference::ModelInferRequest request;
  request.set_model_name("g2p-en");
  auto& input = *request.add_inputs();
  input.set_name("source_text");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.mutable_contents()->add_bytes_contents("recurrent");
  request.add_outputs()->set_name("text");
  for (int i = 0;; ++i) {
    grpc::Status status;
    bool good = false;
    if (i % 2 == 0) {
      auto [decoded, response] = Decode(*decode, Request({"recurrent"}));
      status = decoded;
      good = response.results_size() == 1 && response.results(0).decoded().hypotheses_size() > 0 &&
             response.results(0).decoded().hypotheses(0).text() == expected;
    } else {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      status = infer->ModelInfer(&context, request, &response);
      good = response.raw_output_contents_size() == 1 &&
             response.raw_output_contents(0).substr(4) == expected;
    }
    if (i == 3) {
      warm.DecrementCount();
    }
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      ++tally.unavailable;
      return;
    }
    ++(status.ok() && good ? tally.answered : tally.wrong);
    if (!status.ok()) {
      ADD_FAILURE() << status.error_code() << " " << status.error_message();
      return;
    }
  }
}

TEST(DrainUnderLoadTest, EveryCallIsAnsweredOrMayBeRepeatedElsewhere) {
  constexpr int kClients = 12;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    // Every other time balancers get time to notice.
    ServerProcess server(
        {"--model-path", DefaultModel(), "--drain-delay", round % 2 == 0 ? "0" : "200ms"});
    const std::string address = server.address();
    const auto stub = v1::DecodeService::NewStub(Connect(address));
    const std::string expected =
        Decode(*stub, Request({"recurrent"})).second.results(0).decoded().hypotheses(0).text();
    Tally tally;
    absl::BlockingCounter warm(kClients);
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&] { CallUntilUnavailable(address, expected, tally, warm); });
    }
    warm.Wait();
    server.Signal(SIGTERM);
    for (std::thread& client : clients) {
      client.join();
    }
    EXPECT_EQ(server.Wait(), 0) << server.log();
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_EQ(tally.unavailable, kClients);
    EXPECT_GE(tally.answered, 3 * kClients);
  }
}

}  // namespace
}  // namespace beamwright::e2e
