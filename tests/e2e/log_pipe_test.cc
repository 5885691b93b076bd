// A server whose log is not read.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::e2e {
namespace {

TEST(LogPipeTest, ALogThatNobodyReadsHoldsUpNoCallAndNotTheEnd) {
  ServerProcess server({"--model-path", DefaultModel(), "--access-log-sample", "1"});
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  server.StopReading();
  v1::DecodeRequest request = Request({"cat"});
  request.set_model("none");
  const auto dropped = [&server] {
    return Sum(Scrape(server.metrics_port()), "beamwright_log_lines_dropped_total");
  };
  EXPECT_EQ(dropped(), 0);
  // More lines than the pipe and the server's memory hold together.
  for (int i = 0; i < 3500; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    context.AddMetadata("x-request-id", std::string(256, 'x'));
    v1::DecodeResponse response;
    ASSERT_EQ(stub->Decode(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND)
        << "call " << i;
  }
  EXPECT_GT(dropped(), 0);
  EXPECT_TRUE(Decode(*stub, Request({"cat"})).first.ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace beamwright::e2e
