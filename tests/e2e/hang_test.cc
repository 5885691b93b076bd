// A real server with a model that hangs and the default one: deadlines, the other model's
// answers, quarantine, and that the server is gone when it must be.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <signal.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/hanging_model.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/engine/sound/tones_model.h"

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

// The texts of a stream's segments are rewritten by a model that hangs for the word t20.
class RewriteHangTest : public HangTest {
 protected:
  // more: arguments of the server.
  void Start(const std::vector<std::string>& more = {}) {
    WriteHangingModel(temp_, "hanging/1", Hangs::kForAWord);
    sound::WriteTonesBundle(temp_.path(), "tones");
    std::ofstream(temp_.At("tones/1/model.textproto"), std::ios::app)
        << "rewrite { model: \"hanging\" }\n";
    std::vector<std::string> arguments = {
        "--model-path", temp_.At("hanging"), "--model-path", temp_.At("tones"),
        "--model-path", DefaultModel(),      "--slow-step",  "100ms"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(arguments);
    Connect();
    speech_ = v1::RecognizeService::NewStub(channel_);
  }
  struct Heard {
    grpc::Status status;
    std::vector<std::string> texts;
  };
  // A stream that says the words, in one segment. on_sent: called when its sound is sent.
  Heard Say(const std::vector<int>& words, absl::Duration timeout,
            const std::function<void(grpc::ClientContext&)>& on_sent = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    const auto stream = speech_->Recognize(&context);
    v1::RecognizeRequest request;
    request.mutable_config()->set_model("tones");
    request.mutable_config()->mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
    stream->Write(request);
    request.set_audio(sound::AsF32(sound::Tones(words)));
    stream->Write(request);
    stream->WritesDone();
    if (on_sent != nullptr) {
      on_sent(context);
    }
    Heard heard;
    v1::RecognizeResponse message;
    while (stream->Read(&message)) {
      for (const v1::RecognizedSegment& segment : message.segments()) {
        heard.texts.push_back(segment.hypotheses(0).text());
      }
    }
    heard.status = stream->Finish();
    return heard;
  }
  // The engine rewrites a text at the moment, or none.
  bool Rewrites() {
    return Sum(Scrape(server_->metrics_port()), "beamwright_requests_running") > 0;
  }

  std::unique_ptr<v1::RecognizeService::Stub> speech_;
};

TEST_F(RewriteHangTest, DeadlinesAndCancelsHold) {
  Start({"--step-timeout", "10m", "--quarantine-pause", "1ms"});
  EXPECT_EQ(Say({3, 17}, absl::Minutes(2)).status.error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(Say({20}, absl::Seconds(2)).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Becomes([this] { return !Rewrites(); })) << "the rewriting goes on without a caller";
  const Heard cancelled = Say({20}, absl::Minutes(2), [this](grpc::ClientContext& context) {
    EXPECT_TRUE(Becomes([this] { return Rewrites(); }));
    EXPECT_EQ(Ask(Other(), absl::Minutes(2)), grpc::StatusCode::OK);
    context.TryCancel();
  });
  EXPECT_EQ(cancelled.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Becomes([this] { return !Rewrites(); }));
  EXPECT_EQ(Say({3, 17}, absl::Minutes(2)).status.error_code(), grpc::StatusCode::OK);
}

// A text that is not rewritten in time is as it was heard.
TEST_F(RewriteHangTest, TheStepTimeoutEndsARewriting) {
  Start({"--step-timeout", "1s"});
  const Heard heard = Say({20}, absl::Minutes(2));
  EXPECT_EQ(heard.status.error_code(), grpc::StatusCode::OK) << heard.status.error_message();
  EXPECT_THAT(heard.texts, ::testing::ElementsAre("t20"));
}

TEST_F(RewriteHangTest, TheServerIsGoneWithinTheDrainTimeout) {
  Start({"--step-timeout", "10m", "--drain-timeout", "1s"});
  int exit_code = -1;
  const Heard heard = Say({20}, absl::Minutes(2), [&](grpc::ClientContext&) {
    EXPECT_TRUE(Becomes([this] { return Rewrites(); }));
    EXPECT_LT(Stop(&exit_code), absl::Seconds(1 + 5 + 30));
  });
  EXPECT_EQ(exit_code, 0) << server_->log();
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
