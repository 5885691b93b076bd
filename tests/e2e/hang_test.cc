// A real server with a model that hangs and the default one: deadlines, the other model's
// answers, quarantine, and that the server is gone when it must be.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <signal.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/hanging_model.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

class HangTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& more = {}) {
    WriteHangingModel(temp_, "hanging/1", Hangs::kForSomeSources);
    std::vector<std::string> arguments = {
        "--model-path", temp_.At("hanging"), "--model-path", DefaultModel(),   "--drain-timeout",
        "1s",           "--slow-step",       "100ms",        "--step-timeout", "10m"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(arguments);
  }
  void Connect() {
    ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    stub_ = v1::DecodeService::NewStub(channel_);
  }
  static v1::DecodeRequest Hanging(bool hangs = true) {
    v1::DecodeRequest request;
    request.set_model("hanging");
    *request.add_sources() = SourceThatHangs(hangs);
    return request;
  }
  static v1::DecodeRequest Other() {
    v1::DecodeRequest request;
    request.set_model("g2p-en");
    request.add_sources()->set_text("hello");
    return request;
  }
  // The status of the call or, if that is OK, of its source.
  grpc::StatusCode Ask(const v1::DecodeRequest& request, absl::Duration timeout) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    v1::DecodeResponse response;
    const grpc::Status status = stub_->Decode(&context, request, &response);
    return !status.ok() || !response.results(0).has_error()
               ? status.error_code()
               : static_cast<grpc::StatusCode>(response.results(0).error().code());
  }
  // Ends it; how long that took.
  absl::Duration Stop(int* exit_code) {
    const absl::Time begin = absl::Now();
    server_->Signal(SIGTERM);
    *exit_code = server_->Wait();
    return absl::Now() - begin;
  }

  const bundle::TempFolder temp_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DecodeService::Stub> stub_;
};

TEST_F(HangTest, DeadlinesHoldAndOtherModelsAreAnswered) {
  Start();
  Connect();
  EXPECT_EQ(Ask(Hanging(false), absl::Minutes(2)), grpc::StatusCode::OK);
  std::thread hangs(
      [this] { EXPECT_EQ(Ask(Hanging(), absl::Seconds(2)), grpc::StatusCode::DEADLINE_EXCEEDED); });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask(Other(), absl::Minutes(2)), grpc::StatusCode::OK);
  }
  hangs.join();
  EXPECT_EQ(Ask(Hanging(false), absl::Minutes(2)), grpc::StatusCode::OK);
}

TEST_F(HangTest, ThreeThatAreGivenUpTakeTheModelOut) {
  Start({"--quarantine-pause", "1h"});
  Connect();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask(Hanging(), absl::Seconds(3)), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  // The engine learns of the last deadline a moment after the client.
  const absl::Time end = absl::Now() + absl::Minutes(2);
  grpc::StatusCode code = grpc::StatusCode::OK;
  while (code != grpc::StatusCode::UNAVAILABLE && absl::Now() < end) {
    code = Ask(Hanging(false), absl::Minutes(2));
  }
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Ask(Other(), absl::Minutes(2)), grpc::StatusCode::OK);
  EXPECT_EQ(server_->WaitForLine("does not come to an end; it is out of service for "), "1h");
}

TEST_F(HangTest, TheServerIsGoneWithinTheDrainTimeout) {
  Start();
  Connect();
  std::thread hangs(
      [this] { EXPECT_EQ(Ask(Hanging(), absl::Seconds(60)), grpc::StatusCode::UNAVAILABLE); });
  EXPECT_EQ(Ask(Other(), absl::Minutes(2)), grpc::StatusCode::OK);
  int exit_code = -1;
  EXPECT_LT(Stop(&exit_code), absl::Seconds(1 + 5 + 30));  // the timeout, the rest, a busy machine
  EXPECT_EQ(exit_code, 0) << server_->log();
  hangs.join();
}

// One model's load keeps neither another from being served nor the server from ending.
TEST_F(HangTest, ALoadHasItsTime) {
  WriteHangingModel(temp_, "hanging/1", Hangs::kAtLoad);
  WriteHangingModel(temp_, "other/1", Hangs::kForSomeSources);
  const auto load = [this](const char* timeout) {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--model-path", temp_.At("hanging"), "--model-path", temp_.At("other"), "--drain-timeout",
        "1s", "--load-timeout", timeout});
  };
  load("2s");
  Connect();
  v1::DecodeRequest request = Hanging(false);
  EXPECT_EQ(Ask(request, absl::Minutes(2)), grpc::StatusCode::NOT_FOUND);
  request.set_model("other");
  EXPECT_EQ(Ask(request, absl::Minutes(2)), grpc::StatusCode::OK);
  EXPECT_THAT(server_->log(), HasSubstr("did not come to an end in 2s (load-timeout)"));
  load("1h");
  EXPECT_GT(server_->metrics_port(), 0);  // it is up, and loads
  int exit_code = -1;
  EXPECT_LT(Stop(&exit_code), absl::Seconds(1 + 5 + 30));
  EXPECT_EQ(exit_code, 0) << server_->log();
}

}  // namespace
}  // namespace beamwright::e2e
