#include "server/serving/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "beamwright/v1/source_errors.pb.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"
#include "server/serving/core.h"

namespace beamwright::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DecodeTest : public ::testing::Test {
 protected:
  DecodeTest() {
    state_.Enter(Phase::kServing);
    ModelPaths paths;
    paths.models = {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1"};
    models_ = *ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({});
    core_ = std::make_unique<Core>(state_, *models_, *engine_, metrics_);
  }

  absl::StatusOr<v1::DecodeResponse> Decode(const std::vector<std::string>& sources,
                                            const Caller& caller) {
    v1::DecodeRequest request;
    for (const std::string& source : sources) {
      request.add_sources()->set_text(source);
    }
    absl::StatusOr<v1::DecodeResponse> answer;
    absl::Notification done;
    serving::Decode(*core_, request, caller, [&](absl::StatusOr<v1::DecodeResponse> response) {
      answer = std::move(response);
      done.Notify();
    });
    done.WaitForNotification();
    return answer;
  }
  absl::Status Decode(const Caller& caller) { return Decode({"beam"}, caller).status(); }

  static v1::ScoreRequest ScoreRequest(const std::vector<std::string>& sources = {"beam"}) {
    v1::ScoreRequest request;
    for (const std::string& text : sources) {
      v1::ScoreSource& source = *request.add_sources();
      source.mutable_source()->set_text(text);
      source.add_targets()->mutable_ids()->add_ids(5);
    }
    return request;
  }
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request) {
    absl::StatusOr<v1::ScoreResponse> answer;
    absl::Notification done;
    serving::Score(*core_, request, Caller{Method::kScore},
                   [&](absl::StatusOr<v1::ScoreResponse> response) {
                     answer = std::move(response);
                     done.Notify();
                   });
    done.WaitForNotification();
    return answer;
  }
  absl::StatusOr<v1::AlignResponse> Align(const v1::AlignRequest& request) {
    absl::StatusOr<v1::AlignResponse> answer;
    absl::Notification done;
    serving::Align(*core_, request, Caller{Method::kAlign},
                   [&](absl::StatusOr<v1::AlignResponse> response) {
                     answer = std::move(response);
                     done.Notify();
                   });
    done.WaitForNotification();
    return answer;
  }

  ServingState state_;
  Metrics metrics_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Core> core_;
};

// An answer that its protocol cannot send is not a success, neither for the client nor in the
// metrics.
TEST_F(DecodeTest, CallsOfAConnectionAreOfOneClient) {
  Caller caller{Method::kDecode};
  caller.connection = 0x8000'0007;
  const engine::CallOptions first = EngineOptions(*core_, caller);
  const engine::CallOptions second = EngineOptions(*core_, caller);
  EXPECT_EQ(first.client, 0x8000'0007u);
  EXPECT_EQ(second.client, 0x8000'0007u);
  EXPECT_NE(first.call, second.call);
  EXPECT_EQ(EngineOptions(*core_, Caller{Method::kDecode}).client, 0u);
}

TEST_F(DecodeTest, AnAnswerThatCannotBeSentIsCountedAsAnError) {
  Caller caller{Method::kModelInfer};
  caller.convert = [](const v1::DecodeResponse& response) {
    EXPECT_EQ(response.results_size(), 1);
    return absl::ResourceExhaustedError("too large");
  };
  EXPECT_EQ(Decode(caller).code(), absl::StatusCode::kResourceExhausted);
  caller.convert = nullptr;
  EXPECT_TRUE(Decode(caller).ok());
  const std::string text = metrics_.Text();
  EXPECT_THAT(text, HasSubstr(R"(beamwright_requests_total{code="RESOURCE_EXHAUSTED",)"));
  EXPECT_EQ(metrics_.Totals(*models_->AllServed()[0]).calls_failed, 1);
  EXPECT_EQ(metrics_.Totals(*models_->AllServed()[0]).calls_succeeded, 1);
}

// The thread on which a call was begun last.
std::atomic<std::thread::id> began_on;

// A pattern takes milliseconds to compile: calls of all clients come on the caller's thread.
TEST_F(DecodeTest, PatternsAreCompiledOnAnotherThread) {
  fault_hook = [](const char* point) {
    if (point == absl::string_view("call.admit")) {
      began_on = std::this_thread::get_id();
    }
    return absl::OkStatus();
  };
  v1::DecodeRequest request;
  request.add_sources()->set_text("beam");
  const auto decode = [&](const Caller& caller) {
    absl::Status answer;
    absl::Notification done;
    serving::Decode(*core_, request, caller, [&](absl::StatusOr<v1::DecodeResponse> response) {
      answer = response.status();
      done.Notify();
    });
    done.WaitForNotification();
    return answer;
  };
  EXPECT_EQ(decode(Caller{Method::kDecode}), absl::OkStatus());
  EXPECT_EQ(began_on.load(), std::this_thread::get_id());
  request.mutable_options()->set_regex("[A-Z0-9 ]*");
  EXPECT_EQ(decode(Caller{Method::kDecode}), absl::OkStatus());
  EXPECT_NE(began_on.load(), std::this_thread::get_id());
  request.mutable_options()->set_json_schema("{}");
  EXPECT_TRUE(absl::IsInvalidArgument(decode(Caller{Method::kDecode})));

  // A caller that has gone: the options, which are wrong, are not read.
  const auto flag = std::make_shared<engine::CancelFlag>();
  flag->Cancel();
  Caller gone{Method::kDecode};
  gone.cancelled = flag;
  EXPECT_TRUE(absl::IsCancelled(decode(gone)));
  Caller late{Method::kDecode, SteadyNow() - absl::Seconds(1)};
  EXPECT_TRUE(absl::IsDeadlineExceeded(decode(late)));
  fault_hook = nullptr;
}

// Each source holds what it reads of the lists until it is answered.
TEST_F(DecodeTest, LongListsForManySourcesAreRefused) {
  v1::DecodeRequest request;
  for (int i = 0; i < 3000; ++i) {
    request.add_sources()->set_text("beam");
  }
  v1::Hotword& hotword = *request.mutable_options()->add_hotwords();
  for (int i = 0; i < 15'000; ++i) {
    hotword.mutable_ids()->add_ids(5 + i % 7);
  }
  const auto decode = [&] {
    absl::Status status;
    absl::Notification done;
    serving::Decode(*core_, request, Caller{Method::kDecode},
                    [&](const absl::StatusOr<v1::DecodeResponse>& response) {
                      status = response.status();
                      done.Notify();
                    });
    done.WaitForNotification();
    return status;
  };
  const absl::Status status = decode();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("for each of 3000 sources"));
  request.mutable_sources()->DeleteSubrange(2, 2998);
  EXPECT_TRUE(decode().ok());
}

// A single word must not wait for another thread to wake; a long reply must not hold up the engine.
TEST_F(DecodeTest, TheEnginesThreadAnswersIfItHasNothingElseToDo) {
  const auto answered_by = [this](int num_sources) {
    v1::DecodeRequest request;
    for (int i = 0; i < num_sources; ++i) {
      request.add_sources()->set_text("beam");
    }
    char name[16] = "";
    absl::Notification done;
    serving::Decode(*core_, request, Caller{Method::kDecode},
                    [&](const absl::StatusOr<v1::DecodeResponse>& response) {
                      EXPECT_TRUE(response.ok()) << response.status();
                      pthread_getname_np(pthread_self(), name, sizeof(name));
                      done.Notify();
                    });
    done.WaitForNotification();
    return std::string(name);
  };
  // The caller's own thread answers if the engine was faster than it.
  EXPECT_NE(answered_by(1), "bw-replies");
  EXPECT_NE(answered_by(2), "bw-engine");
}

// The access log and traces have the same facts of Score as of Decode.
TEST_F(DecodeTest, ObserversAreToldWhatScoringTook) {
  struct Record : CallObserver {
    bool WantsTimelines(const CallContext&) const override { return true; }
    void OnCall(const CallRecord& call) override {
      compute_ms = call.compute_ms;
      timelines.assign(call.timelines.begin(), call.timelines.end());
    }
    double compute_ms = 0;
    std::vector<engine::Timeline> timelines;
  } record;
  core_->calls().Observe(&record);
  const auto response = Score(ScoreRequest());
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_GT(record.compute_ms, 0);
  ASSERT_EQ(record.timelines.size(), 1u);
  EXPECT_GE(record.timelines[0].encoded, record.timelines[0].started);
  EXPECT_GT(record.timelines[0].started, absl::InfinitePast());
}

// gRPC cancels a call whose deadline has come, and a client does so a moment earlier.
TEST_F(DecodeTest, WhoGivesUpAtTheDeadlineMissedIt) {
  const auto cancelled = std::make_shared<engine::CancelFlag>();
  cancelled->Cancel();
  Caller caller{Method::kDecode, SteadyNow() + absl::Minutes(1), cancelled};
  EXPECT_EQ(Decode(caller).code(), absl::StatusCode::kCancelled);
  for (const absl::Duration left : {absl::Milliseconds(2), absl::Milliseconds(-2)}) {
    caller.deadline = cancelled->when(SteadyNow()) + left;
    EXPECT_EQ(Decode(caller).code(), absl::StatusCode::kDeadlineExceeded) << left;
    absl::Notification done;
    Caller scorer = caller;
    scorer.method = Method::kScore;
    serving::Score(
        *core_, ScoreRequest(), scorer, [&](const absl::StatusOr<v1::ScoreResponse>& response) {
          EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded) << left;
          done.Notify();
        });
    done.WaitForNotification();
  }
  const std::string text = metrics_.Text();
  for (const char* name : {"requests", "sources"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("beamwright_", name, "_total{code=\"CANCELLED\"")));
    EXPECT_THAT(text,
                HasSubstr(absl::StrCat("beamwright_", name, "_total{code=\"DEADLINE_EXCEEDED\"")));
  }
}

TEST_F(DecodeTest, WhatIsRefusedBeforeItIsReadIsCountedAndTold) {
  struct Records : CallObserver {
    void OnCall(const CallRecord& call) override {
      told.push_back(absl::StrCat(call.method, " ", call.context.request_id, " ",
                                  absl::StatusCodeToString(call.status.code())));
    }
    std::vector<std::string> told;
  } records;
  core_->calls().Observe(&records);
  Caller caller{Method::kDecode, absl::InfiniteFuture(), nullptr};
  caller.context.request_id = "seven";
  core_->calls().Refuse(
      status::WithReason(absl::UnauthenticatedError("who?"), status::reason::kNoCredentials),
      caller);
  EXPECT_THAT(records.told, ElementsAre("Decode seven UNAUTHENTICATED"));
  EXPECT_THAT(metrics_.Text(),
              HasSubstr(R"(beamwright_requests_rejected_total{reason="unauthenticated"} 1)"));
}

// Fields are those of AlignRequest, though a ScoreRequest does the work.
TEST_F(DecodeTest, AlignNamesItsOwnFields) {
  const auto field_of = [](const absl::Status& status) {
    const auto bad = status::DetailOf<google::rpc::BadRequest>(status);
    return bad.has_value() ? bad->field_violations(0).field() : "";
  };
  v1::AlignRequest request;
  v1::AlignPair& pair = *request.add_pairs();
  pair.mutable_source()->set_text("cat");
  pair.mutable_target()->set_text("ZZ");
  const absl::Status alone = Align(request).status();
  EXPECT_EQ(alone.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(alone.message()), StartsWith("target.text: word 0, 'ZZ'"));
  EXPECT_EQ(field_of(alone), "pairs[0].target.text");
  *request.add_pairs() = request.pairs(0);
  const absl::Status both = Align(request).status();
  EXPECT_THAT(std::string(both.message()),
              StartsWith("all 2 pairs failed; pairs[0]: target.text: word 0, 'ZZ'"));
  const auto errors = status::DetailOf<v1::SourceErrors>(both);
  ASSERT_TRUE(errors.has_value());
  EXPECT_EQ(field_of(status::FromRpcStatus(errors->errors(0).error())), "target.text");
  request.mutable_pairs(1)->mutable_target()->set_text("K AE1 T");
  const auto partly = Align(request);
  ASSERT_TRUE(partly.ok()) << partly.status();
  EXPECT_TRUE(partly->results(1).has_alignment());
  const absl::Status inside = status::FromRpcStatus(partly->results(0).error());
  EXPECT_THAT(std::string(inside.message()), StartsWith("target.text: word 0, 'ZZ'"));
  EXPECT_EQ(field_of(inside), "target.text");
  for (int i = 0; i < engine::kMaxSources; ++i) {
    *request.add_pairs() = request.pairs(0);
  }
  EXPECT_THAT(std::string(Align(request).status().message()), StartsWith("pairs: has 4098"));
}

// A refusal that looks like an answer would be counted as one, by everybody on its way.
TEST_F(DecodeTest, ACallWithoutAnAnswerFails) {
  struct Records : CallObserver {
    void OnCall(const CallRecord& call) override {
      told.push_back(absl::StrCat(call.method, " ", absl::StatusCodeToString(call.status.code()),
                                  " ", call.num_failed, "/", call.num_sources));
    }
    std::vector<std::string> told;
  } records;
  core_->calls().Observe(&records);
  const Caller caller{Method::kDecode};
  EXPECT_EQ(Decode({""}, caller).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status all = Decode({"", "", ""}, caller).status();
  EXPECT_EQ(all.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(all.message()), StartsWith("all 3 sources failed; sources[0]: source"));
  EXPECT_TRUE(status::DetailOf<v1::SourceErrors>(all).has_value());
  // One answer is an answer; the failed source is counted by its code.
  const auto partly = Decode({"", "beam"}, caller);
  ASSERT_TRUE(partly.ok()) << partly.status();
  EXPECT_EQ(partly->results(0).error().code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_TRUE(partly->results(1).has_decoded());
  EXPECT_EQ(Score(ScoreRequest({"", ""})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Score(ScoreRequest({"", "beam"})).ok());
  EXPECT_THAT(records.told,
              ElementsAre("Decode INVALID_ARGUMENT 1/1", "Decode INVALID_ARGUMENT 3/3",
                          "Decode OK 1/2", "Score INVALID_ARGUMENT 2/2", "Score OK 1/2"));
  const std::string text = metrics_.Text();
  const std::string model = R"(model="g2p-en",)";
  for (const std::string& line : std::vector<std::string>{
           "requests_total{code=\"INVALID_ARGUMENT\",method=\"Decode\"," + model +
               "protocol=\"grpc\",version=\"1\"} 2\n",
           "requests_total{code=\"OK\",method=\"Decode\"," + model +
               "protocol=\"grpc\",version=\"1\"} 1\n",
           "sources_total{code=\"INVALID_ARGUMENT\"," + model + "version=\"1\"} 8\n",
           "sources_total{code=\"OK\"," + model + "version=\"1\"} 2\n",
           "requests_rejected_total{reason=\"invalid\"} 8\n"}) {
    EXPECT_THAT(text, HasSubstr("beamwright_" + line));
  }
}

// A protocol that has no answer for a part of the sources names the first that failed.
TEST_F(DecodeTest, AllOrNothing) {
  Caller caller{Method::kModelInfer};
  caller.all_or_nothing = true;
  EXPECT_THAT(std::string(Decode({"beam", ""}, caller).status().message()),
              StartsWith("source 1: source"));
  EXPECT_THAT(std::string(Decode({"", ""}, caller).status().message()),
              StartsWith("source 0: source"));
}

}  // namespace
}  // namespace beamwright::serving
