#include "server/serving/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    auto registry = ModelRegistry::Load({{}, {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en"}});
    EXPECT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
    model_ = *registry_->Lookup("", "");
  }

  std::unique_ptr<ModelRegistry> registry_;
  ModelPtr model_;
  Metrics metrics_;
};

v1::DecodeResponse AnswersThatEndedFor(const std::vector<v1::FinishReason>& reasons) {
  v1::DecodeResponse response;
  for (const v1::FinishReason reason : reasons) {
    v1::Decoded& decoded = *response.add_results()->mutable_decoded();
    decoded.set_queue_ms(20);
    decoded.set_compute_ms(300);
    decoded.set_source_length(3);
    v1::Hypothesis& best = *decoded.add_hypotheses();
    best.add_tokens(1);
    best.set_finish_reason(reason);
  }
  return response;
}

v1::DecodeResponse TwoGoodOneRefused() {
  v1::DecodeResponse response =
      AnswersThatEndedFor({v1::FINISH_REASON_EOS, v1::FINISH_REASON_LENGTH});
  response.add_results()->mutable_error()->set_code(
      static_cast<int>(StatusCode::kResourceExhausted));
  return response;
}

TEST_F(MetricsTest, CallsAndSourcesAreCountedByTheirCode) {
  metrics_.CountCall(Method::kDecode, model_.get(), StatusCode::kOk, absl::Milliseconds(400));
  metrics_.CountCall(Method::kDecode, model_.get(), StatusCode::kOk, absl::Milliseconds(2));
  metrics_.CountCall(Method::kHttpInfer, model_.get(), StatusCode::kInternal, absl::Seconds(1));
  metrics_.CountSources(*model_, TwoGoodOneRefused());
  const std::string model = R"(model="g2p-en",)";
  EXPECT_THAT(
      metrics_.Text(),
      AllOf(HasSubstr("beamwright_requests_total{code=\"OK\",method=\"Decode\"," + model +
                      "protocol=\"grpc\",version=\"1\"} 2\n"),
            HasSubstr("beamwright_requests_total{code=\"INTERNAL\",method=\"ModelInfer\"," + model +
                      "protocol=\"http\",version=\"1\"} 1\n"),
            HasSubstr("beamwright_sources_total{code=\"OK\"," + model + "version=\"1\"} 2\n"),
            HasSubstr("beamwright_sources_total{code=\"RESOURCE_EXHAUSTED\"," + model +
                      "version=\"1\"} 1\n"),
            HasSubstr("beamwright_requests_rejected_total{reason=\"queue_full\"} 1\n"),
            HasSubstr("beamwright_finished_total{" + model +
                      "reason=\"max_length\",version=\"1\"} 1\n"),
            HasSubstr("beamwright_request_duration_seconds_count{" + model + "version=\"1\"} 3\n"),
            HasSubstr("beamwright_request_duration_seconds_bucket{" + model +
                      "version=\"1\",le=\"0.0025\"} 1\n")));
}

TEST_F(MetricsTest, AnswersAreCountedByWhatEndedThem) {
  metrics_.CountSources(
      *model_, AnswersThatEndedFor({v1::FINISH_REASON_EOS, v1::FINISH_REASON_LENGTH,
                                    v1::FINISH_REASON_LENGTH, v1::FINISH_REASON_DEADLINE,
                                    v1::FINISH_REASON_SHUTDOWN, v1::FINISH_REASON_END_OF_SOURCE,
                                    v1::FINISH_REASON_STOP}));
  const std::string text = metrics_.Text();
  const std::vector<std::pair<std::string, int>> counts = {
      {"eos", 1},      {"max_length", 2},    {"deadline", 1},
      {"shutdown", 1}, {"end_of_source", 1}, {"stop_string", 1}};
  for (const auto& [reason, count] : counts) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(R"(beamwright_finished_total{model="g2p-en",reason=")",
                                             reason, R"(",version="1"} )", count, "\n")));
  }
}

// Reads what may take long, and lets no thread on before another has counted.
class SlowGauges : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    begun.Notify();
    waited = counted.WaitForNotificationWithTimeout(absl::Seconds(30));
    return {};
  }

  mutable absl::Notification begun;
  mutable absl::Notification counted;
  mutable bool waited = false;
};

TEST_F(MetricsTest, TheEngineCountsWhileGaugesAreRead) {
  SlowGauges gauges;
  metrics_.Add(&gauges);
  std::thread reader([this] { metrics_.Text(); });
  gauges.begun.WaitForNotification();
  metrics_.OnStep(*model_, {});
  gauges.counted.Notify();
  reader.join();
  metrics_.Remove(&gauges);
  EXPECT_TRUE(gauges.waited);
}

// Equal refusals in a row, then others of the same code, an error that is not a refusal, and the
// first again.
TEST_F(MetricsTest, RefusedSourcesAreCountedByTheirReason) {
  const auto error_of = [](StatusCode code, const char* reason) {
    return status::ToRpcStatus(status::WithReason(absl::Status(code, "text"), reason));
  };
  const auto full = error_of(StatusCode::kResourceExhausted, status::reason::kQueueFull);
  const auto tenant = error_of(StatusCode::kResourceExhausted, status::reason::kTenantRate);
  const auto memory = status::ToRpcStatus(status::OutOfMemory());
  const auto broken = error_of(StatusCode::kInternal, "BROKEN");
  v1::DecodeResponse response;
  for (const google::rpc::Status& error :
       {full, full, tenant, memory, broken, tenant, full, full}) {
    *response.add_results()->mutable_error() = error;
  }
  metrics_.CountSources(*model_, response);
  EXPECT_THAT(metrics_.Text(), AllOf(HasSubstr("rejected_total{reason=\"queue_full\"} 4\n"),
                                     HasSubstr("rejected_total{reason=\"tenant_rate\"} 2\n"),
                                     HasSubstr("rejected_total{reason=\"out_of_memory\"} 1\n"),
                                     HasSubstr("beamwright_sources_total{code=\"INTERNAL\",")));
}

// A series that begins with its first failure shows no increase.
TEST_F(MetricsTest, FailuresAreThereBeforeTheFirst) {
  for (const char* reason :
       {"invalid", "unknown_model", "unauthenticated", "permission_denied", "too_many_connections",
        "too_slow", "queue_full", "tenant_rate", "tenant_quota", "would_miss_deadline",
        "out_of_memory", "too_large", "reply_too_large", "model_quarantined", "draining"}) {
    EXPECT_THAT(metrics_.Text(),
                HasSubstr(absl::StrCat("rejected_total{reason=\"", reason, "\"} 0\n")));
  }
  metrics_.CountLoad("m", true, absl::Seconds(1));
  metrics_.CountCall(Method::kDecode, model_.get(), StatusCode::kOk, absl::Milliseconds(1));
  EXPECT_THAT(metrics_.Text(),
              AllOf(HasSubstr("loads_total{model=\"m\",result=\"failure\"} 0\n"),
                    HasSubstr("beamwright_requests_total{code=\"INTERNAL\",method=\"Decode\","
                              "model=\"g2p-en\",protocol=\"grpc\",version=\"1\"} 0\n")));
}

TEST_F(MetricsTest, ABodyThatIsTooLargeIsCountedAsThat) {
  metrics_.CountRejection(
      status::WithReason(absl::InvalidArgumentError("body"), status::reason::kTooLarge));
  EXPECT_THAT(metrics_.Text(), AllOf(HasSubstr("rejected_total{reason=\"too_large\"} 1\n"),
                                     HasSubstr("rejected_total{reason=\"invalid\"} 0\n")));
}

TEST_F(MetricsTest, AClientCannotMakeUpLabels) {
  metrics_.CountCall(Method::kModelInfer, nullptr, StatusCode::kNotFound, absl::ZeroDuration());
  metrics_.CountRejection(absl::NotFoundError("x"));
  EXPECT_THAT(metrics_.Text(),
              AllOf(HasSubstr("code=\"NOT_FOUND\",method=\"ModelInfer\",model=\"\""),
                    HasSubstr("{reason=\"unknown_model\"} 1"), Not(HasSubstr("UNKNOWN"))));
}

TEST_F(MetricsTest, TotalsOfAModel) {
  metrics_.CountCall(Method::kDecode, model_.get(), StatusCode::kOk, absl::Seconds(2));
  metrics_.CountCall(Method::kDecode, model_.get(), StatusCode::kCancelled, absl::Seconds(3));
  metrics_.CountSources(*model_, TwoGoodOneRefused());
  metrics_.OnStep(*model_, {8, absl::Milliseconds(1), absl::ZeroDuration()});
  const ModelTotals totals = metrics_.Totals(*model_);
  EXPECT_EQ(totals.calls_succeeded, 1);
  EXPECT_EQ(totals.calls_failed, 1);
  EXPECT_EQ(totals.success_time, absl::Seconds(2));
  EXPECT_EQ(totals.failure_time, absl::Seconds(3));
  EXPECT_EQ(totals.sources_decoded, 2);
  EXPECT_EQ(totals.queue_time, absl::Milliseconds(40));
  EXPECT_EQ(totals.compute_time, absl::Milliseconds(600));
  EXPECT_EQ(totals.steps, 1);
}

TEST_F(MetricsTest, WhatTheEngineTells) {
  metrics_.OnStep(*model_, {8, absl::Milliseconds(4), absl::Microseconds(30)});
  metrics_.OnCancelled(*model_, 1, absl::Milliseconds(2));
  v1::DecodeResponse response = TwoGoodOneRefused();
  response.mutable_results(0)->mutable_decoded()->mutable_hypotheses(0)->add_tokens(2);
  metrics_.CountSources(*model_, response);
  const std::string labels = "{model=\"g2p-en\",version=\"1\"";
  const std::string text = metrics_.Text();
  for (const std::string& line :
       std::vector<std::string>{"step_duration_seconds_sum" + labels + "} 0.004\n",
                                "topk_duration_seconds_bucket" + labels + ",le=\"2.5e-05\"} 0\n",
                                "topk_duration_seconds_bucket" + labels + ",le=\"5e-05\"} 1\n",
                                "cancel_release_seconds_sum" + labels + "} 0.002\n",
                                "cancel_release_steps_bucket" + labels + ",le=\"0\"} 0\n",
                                "cancel_release_steps_bucket" + labels + ",le=\"1\"} 1\n",
                                // 300 ms for two tokens and for one.
                                "time_per_output_token_seconds_sum" + labels + "} 0.45"}) {
    EXPECT_THAT(text, HasSubstr("beamwright_" + line));
  }
}

// A source's work is for nothing if it has no answer; the deadline that cuts a search is no fault.
TEST_F(MetricsTest, WorkIsCountedByWhatBecameOfIt) {
  const auto end = [&](StatusCode code, int64_t row_steps) {
    metrics_.OnEnd(*model_, {code, engine::kNormalPriority, absl::ZeroDuration(), row_steps});
  };
  end(StatusCode::kOk, 5);
  end(StatusCode::kOk, 20);
  end(StatusCode::kCancelled, 7);
  end(StatusCode::kDeadlineExceeded, 8);
  end(StatusCode::kInternal, 1);
  end(StatusCode::kResourceExhausted, 1);
  end(StatusCode::kUnavailable, 1);
  const std::string text = metrics_.Text();
  for (const auto& [outcome, row_steps] :
       {std::pair("delivered", 25), {"cancelled", 7}, {"deadline", 8}, {"failed", 3}}) {
    EXPECT_THAT(text,
                HasSubstr(absl::StrCat("beamwright_row_steps_total{model=\"g2p-en\",outcome=\"",
                                       outcome, "\",version=\"1\"} ", row_steps, "\n")));
  }
}

TEST_F(MetricsTest, TimeInTheQueueIsKnownByPriority) {
  for (const int priority : {1, 2, 2, 3, -5, 99}) {
    metrics_.OnEnd(*model_, {StatusCode::kOk, priority, absl::Seconds(priority == 2 ? 4 : 1), 0});
  }
  const std::string text = metrics_.Text();
  for (const auto& [priority, seconds] : {std::pair(1, 2), {2, 8}, {3, 2}}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(
                          "beamwright_queue_duration_seconds_sum{model=\"g2p-en\",priority=\"",
                          priority, "\",version=\"1\"} ", seconds, "\n")));
  }
}

TEST_F(MetricsTest, WhenAModelWasLastLoaded) {
  metrics_.CountLoad("bad", false, absl::Seconds(1));
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("last_load_success_timestamp_seconds{")));
  metrics_.CountLoad("good", true, absl::Seconds(1));
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("beamwright_last_load_success_timestamp_seconds{model=\"good\"} 1"));
}

TEST_F(MetricsTest, ThreadsLoseNothing) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 500; ++i) {
        metrics_.CountCall(Method::kDecode, model_.get(), StatusCode::kOk, absl::ZeroDuration());
        metrics_.OnStep(*model_, {2, absl::ZeroDuration(), absl::ZeroDuration()});
        metrics_.OnEnd(*model_, {StatusCode::kOk, 2, absl::ZeroDuration(), 3});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(
      metrics_.Text(),
      AllOf(HasSubstr("protocol=\"grpc\",version=\"1\"} 2000\n"),
            HasSubstr("beamwright_step_batch_rows_sum{model=\"g2p-en\",version=\"1\"} 4000\n"),
            HasSubstr("outcome=\"delivered\",version=\"1\"} 6000\n")));
}

}  // namespace
}  // namespace beamwright::serving
