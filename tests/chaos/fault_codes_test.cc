// Lines of the table in docs/operations.md, 'Status codes', that take a fault: on every protocol.
#include <gmock/gmock.h>
#include <httplib.h>
#include <signal.h>

#include <array>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/faulty_server.h"
#include "tests/e2e/failures.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

using e2e::EveryCall;
using e2e::EveryCalls;
using e2e::Question;
using e2e::Scrape;
using e2e::Sum;
using grpc::StatusCode;
using ::testing::Contains;
using ::testing::Each;

class FaultCodesTest : public FaultyServer {
 protected:
  // Waits until a metric is at least so much.
  void WaitFor(const std::string& metric, double least, const std::string& label = "") {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (Sum(Scrape(server_->metrics_port()), metric, label) < least && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_GE(Sum(Scrape(server_->metrics_port()), metric, label), least) << metric << label;
  }
};

TEST_F(FaultCodesTest, MemoryThatIsNotThere) {
  Start();
  Set("call.admit no-memory");
  ExpectFromEveryCall(*server_, {{}, StatusCode::RESOURCE_EXHAUSTED, 429, "OUT_OF_MEMORY"});
  // On the way, of sources that the call has brought.
  const e2e::Failure failure{{}, StatusCode::RESOURCE_EXHAUSTED, 429, "OUT_OF_MEMORY", true};
  for (const std::string point :
       {"engine.accept", "engine.encode", "engine.step", "engine.reply"}) {
    Set(point + " no-memory");
    for (const EveryCall& call : EveryCalls()) {
      // A line of the answer, and with it HTTP's status, is on its way before the reply is made.
      if (point != "engine.reply" || call.name != std::string("POST :streamDecode")) {
        ExpectFailure(call, call.ask(*server_, failure.question), failure);
      }
    }
    EXPECT_TRUE(e2e::BackToZero(server_->metrics_port())) << point;
  }
  Set("");
  EXPECT_EQ(Version(), "1");
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);  // no call is left open
}

// A full queue is full for everybody: no call has an answer, each says so, and the server counts
// what its clients see.
TEST_F(FaultCodesTest, AFullQueue) {
  Start({"--max-queue", "1", "--max-rows", "4", "--forecast-deadlines", "false"});
  Set("engine.turn delay 200ms");  // so that one source runs for as long as this test needs
  v1::DecodeRequest request = WordRequest(0);
  request.mutable_options()->set_beam_size(4);
  request.mutable_options()->set_stop(v1::STOP_MODE_NEVER);
  request.mutable_options()->set_max_length(250);
  const auto stub = v1::DecodeService::NewStub(channel_);
  std::array<grpc::ClientContext, 2> contexts;  // one runs, one waits
  std::array<v1::DecodeResponse, 2> responses;
  std::array<absl::Notification, 2> ended;
  for (size_t i = 0; i < contexts.size(); ++i) {
    stub->async()->Decode(&contexts[i], &request, &responses[i], [&, i](const grpc::Status& end) {
      EXPECT_EQ(end.error_code(), StatusCode::CANCELLED) << end.error_message();
      ended[i].Notify();
    });
    WaitFor(i == 0 ? "beamwright_requests_running" : "beamwright_requests_waiting", 1);
  }
  ExpectFromEveryCall(*server_, {{}, StatusCode::RESOURCE_EXHAUSTED, 429, "QUEUE_FULL", true});
  const auto counted = [this](const char* metric, const char* label) {
    return Sum(Scrape(server_->metrics_port()), metric, label);
  };
  const auto calls = static_cast<double>(EveryCalls().size());
  for (const char* metric : {"beamwright_requests_total", "beamwright_sources_total"}) {
    EXPECT_EQ(counted(metric, "code=\"OK\""), 0) << metric;
    EXPECT_EQ(counted(metric, "code=\"RESOURCE_EXHAUSTED\""), calls) << metric;
  }
  Set("");
  for (size_t i = 0; i < contexts.size(); ++i) {
    contexts[i].TryCancel();
    ended[i].WaitForNotification();
  }
  EXPECT_TRUE(e2e::BackToZero(server_->metrics_port()));
}

TEST_F(FaultCodesTest, AClientThatGivesUp) {
  Start();
  Set("engine.turn delay 200ms");  // no answer comes before it does
  int http_calls = 0;
  for (const EveryCall& call : EveryCalls()) {
    Question question;
    std::thread giving_up;
    if (call.is_http) {
      question.timeout = absl::Milliseconds(20);
      question.patience = absl::Milliseconds(50);
      EXPECT_EQ(call.ask(*server_, question).http, 0) << call.name;
      ++http_calls;
    } else {
      question.before = [&](grpc::ClientContext& context) {
        giving_up = std::thread([this, &context] {
          WaitFor("beamwright_requests_running", 1);
          context.TryCancel();
        });
      };
      question.after = [&] { giving_up.join(); };
      EXPECT_EQ(call.ask(*server_, question).code, StatusCode::CANCELLED) << call.name;
      WaitFor("beamwright_requests_total", 1,
              absl::StrCat("code=\"CANCELLED\",method=\"", call.name, "\""));
    }
    EXPECT_TRUE(e2e::BackToZero(server_->metrics_port())) << call.name;
  }
  WaitFor("beamwright_requests_total", static_cast<double>(EveryCalls().size()),
          "code=\"CANCELLED\"");
  EXPECT_GT(http_calls, 0);
}

// Whichever call comes first: one of the two is asked to come again.
TEST_F(FaultCodesTest, ALoadBesideALoad) {
  Start();
  AddVersion("2");
  Set("model.load delay 2s");
  grpc::Status other;
  std::atomic<bool> is_done{false};
  std::thread loading([&] {
    other = Load();
    is_done = true;
  });
  httplib::Client http("127.0.0.1", server_->http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  std::vector<int> statuses;
  while (!is_done) {
    const auto reply = http.Post("/v2/repository/models/g2p-en/load", "", "application/json");
    ASSERT_TRUE(reply);
    statuses.push_back(reply->status);
  }
  loading.join();
  if (other.ok()) {
    EXPECT_THAT(statuses, Contains(409));
  } else {
    EXPECT_EQ(other.error_code(), StatusCode::ABORTED) << other.error_message();
    EXPECT_THAT(statuses, Contains(200));
  }
  EXPECT_THAT(statuses, Each(testing::AnyOf(200, 409)));
  Set("");
  EXPECT_EQ(Version(), "2");
}

}  // namespace
}  // namespace beamwright::chaos
