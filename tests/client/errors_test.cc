#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "client/channels.h"
#include "client/cli/answers.h"
#include "client/load/server_facts.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "include/beamwright/client.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

google::rpc::Status ErrorOf(absl::StatusCode code, const std::string& message) {
  google::rpc::Status error;
  error.set_code(static_cast<int>(code));
  error.set_message(message);
  return error;
}

void AddRange(int first, int count, v1::SourceError& error) {
  v1::SourceRange& range = *error.add_sources();
  range.set_first(first);
  range.set_count(count);
}

// As it comes from the server.
absl::Status CallWith(const v1::SourceErrors& sources) {
  google::rpc::Status call = ErrorOf(absl::StatusCode::kResourceExhausted, "all failed");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(250'000'000);
  call.add_details()->PackFrom(retry);
  call.add_details()->PackFrom(sources);
  return FromGrpcStatus(
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, call.message(), call.SerializeAsString()));
}

std::vector<std::string> MessagesOf(const absl::Status& status, int num_sources) {
  std::vector<std::string> messages;
  for (const google::rpc::Status& error : ErrorsOfSources(status, num_sources)) {
    messages.push_back(error.message());
  }
  return messages;
}

TEST(ErrorsTest, EverySourceHasItsErrorOrThatOfTheCall) {
  v1::SourceErrors sources;
  v1::SourceError& full = *sources.add_errors();
  *full.mutable_error() = ErrorOf(absl::StatusCode::kResourceExhausted, "full");
  AddRange(0, 2, full);
  AddRange(4, 1, full);
  v1::SourceError& bad = *sources.add_errors();
  *bad.mutable_error() = ErrorOf(absl::StatusCode::kInvalidArgument, "bad");
  AddRange(3, 1, bad);
  sources.set_num_left_out(2);
  const absl::Status call = CallWith(sources);
  EXPECT_EQ(RetryAfter(call), absl::Milliseconds(250));
  EXPECT_THAT(MessagesOf(call, 6),
              ElementsAre("full", "full", "all failed", "bad", "full", "all failed"));
  const google::rpc::Status left_out = ErrorsOfSources(call, 6)[5];
  EXPECT_EQ(left_out.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(left_out.details_size(), 1) << "the call's, without those of its sources";
  EXPECT_TRUE(left_out.details(0).Is<google::rpc::RetryInfo>());
}

TEST(ErrorsTest, TheOnlySourceHasTheErrorOfTheCall) {
  v1::SourceErrors sources;
  AddRange(0, 1, *sources.add_errors());
  EXPECT_THAT(MessagesOf(CallWith(sources), 1), ElementsAre("all failed"));
}

// A server may send anything.
TEST(ErrorsTest, RangesOutsideTheCallChangeNothing) {
  v1::SourceErrors sources;
  v1::SourceError& error = *sources.add_errors();
  *error.mutable_error() = ErrorOf(absl::StatusCode::kInternal, "bug");
  AddRange(-5, 6, error);
  AddRange(2, 2147483647, error);
  AddRange(2147483647, 2147483647, error);
  AddRange(1, -1, error);
  EXPECT_THAT(MessagesOf(CallWith(sources), 3), ElementsAre("bug", "all failed", "bug"));
}

TEST(ErrorsTest, OtherFailuresSpeakOfNoSource) {
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::NOT_FOUND, "gone"));
  EXPECT_EQ(status, absl::NotFoundError("gone"));
  EXPECT_EQ(RetryAfter(status), std::nullopt);
  EXPECT_THAT(ErrorsOfSources(status, 3), IsEmpty());
  EXPECT_EQ(WithErrorsInResults<v1::DecodeResponse>(status, 3).status(), status);
  const grpc::Status no_details(grpc::StatusCode::INTERNAL, "bug", "\xff no message");
  EXPECT_EQ(FromGrpcStatus(no_details), absl::InternalError("bug"));
}

// The same code is the request's fault or that of its sources.
TEST(ErrorsTest, FailuresOfSourcesSayNothingOfOtherCalls) {
  EXPECT_TRUE(FailsEveryCall(absl::InvalidArgumentError("options")));
  EXPECT_FALSE(FailsEveryCall(absl::OkStatus()));
  v1::SourceErrors sources;
  AddRange(0, 1, *sources.add_errors());
  for (const auto& [code, ends] : {std::pair(grpc::StatusCode::INVALID_ARGUMENT, false),
                                   {grpc::StatusCode::RESOURCE_EXHAUSTED, false},
                                   {grpc::StatusCode::UNAVAILABLE, true}}) {
    google::rpc::Status call;
    call.add_details()->PackFrom(sources);
    EXPECT_EQ(FailsEveryCall(FromGrpcStatus(grpc::Status(code, "", call.SerializeAsString()))),
              ends)
        << code;
  }
}

}  // namespace

// The service configs of deploy/grpc: what they try again, by the services as they are declared.

namespace {

// "service/method", or "service" where a config names no method.
struct Named {
  std::set<std::string> tried_again;
  std::set<std::string> tried_once;
};

Named Read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  google::protobuf::Struct config;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text.str(), &config).ok()) << file;
  Named named;
  for (const auto& method_config : config.fields().at("methodConfig").list_value().values()) {
    const auto& fields = method_config.struct_value().fields();
    auto& names = fields.contains("retryPolicy") ? named.tried_again : named.tried_once;
    for (const auto& value : fields.at("name").list_value().values()) {
      const auto& name = value.struct_value().fields();
      const std::string service = name.at("service").string_value();
      names.insert(name.contains("method")
                       ? absl::StrCat(service, "/", name.at("method").string_value())
                       : service);
    }
  }
  return named;
}

// With a retry policy a stream whose server dies may wait for ever, and a model may take longer to
// load than an attempt has time.
bool IsTriedOnce(const google::protobuf::MethodDescriptor& method) {
  return method.client_streaming() || method.server_streaming() ||
         method.name() == "RepositoryModelLoad" || method.name() == "RepositoryModelUnload";
}

TEST(ServiceConfigs, TryAgainWhatMayBeTriedAgain) {
  for (const char* file :
       {"deploy/grpc/round_robin.json", "deploy/grpc/weighted_round_robin.json"}) {
    const Named named = Read(file);
    std::set<std::string> tried_once;
    for (const google::protobuf::FileDescriptor* declared :
         {v1::DecodeRequest::descriptor()->file(), v1::ListModelsRequest::descriptor()->file(),
          inference::ModelInferRequest::descriptor()->file()}) {
      const google::protobuf::ServiceDescriptor& service = *declared->service(0);
      EXPECT_TRUE(named.tried_again.count(std::string(service.full_name()))) << service.full_name();
      for (int i = 0; i < service.method_count(); ++i) {
        if (IsTriedOnce(*service.method(i))) {
          tried_once.insert(absl::StrCat(service.full_name(), "/", service.method(i)->name()));
        }
      }
    }
    EXPECT_EQ(named.tried_once, tried_once) << file;
    EXPECT_EQ(named.tried_again.size(), 3u) << file;  // a Recognize is a stream
  }
}

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kBefore[] = R"(# HELP calls_total All calls
# TYPE calls_total counter
calls_total{code="OK",why="a } in \"quotes\""} 10
calls_total{code="BAD"} 1
# TYPE rows gauge
rows 5
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 3
seconds_sum 0.25
seconds_count 3
)";

TEST(ServerFactsTest, TellsWhatCountersGainedAndWhereGaugesStand) {
  const auto before = ParseMetrics(kBefore);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto after = ParseMetrics(R"(# TYPE calls_total counter
calls_total{code="OK",why="a } in \"quotes\""} 25 1700000000000
calls_total{code="BAD"} 1
calls_total{code="NEW"} 2
# TYPE rows gauge
rows 7
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 9
seconds_sum 1.75
seconds_count 9
untyped_thing 4
)");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(MetricsBetween(*before, *after),
              UnorderedElementsAre(Pair(R"(calls_total{code="OK",why="a } in \"quotes\""})", 15),
                                   Pair(R"(calls_total{code="NEW"})", 2), Pair("rows", 7),
                                   Pair("seconds_sum", 1.5), Pair("seconds_count", 6),
                                   Pair("untyped_thing", 4)));
}

TEST(ServerFactsTest, NamesTheLineThatIsNotASample) {
  for (const char* text : {"<html>", "a", "a{b=\"c\" 3", "a b"}) {
    EXPECT_THAT(std::string(ParseMetrics(std::string("x 1\n") + text).status().message()),
                HasSubstr(text));
  }
  EXPECT_TRUE(ParseMetrics("").ok());
  EXPECT_TRUE(ParseMetrics("a NaN\nb +Inf\r\n").ok());
}

TEST(ServerFactsTest, SaysWhenThereIsNobody) {
  EXPECT_EQ(ScrapeMetrics("127.0.0.1:1", absl::Seconds(5)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ScrapeMetrics("", absl::Seconds(5)).ok());
  EXPECT_EQ(AskServerName(Protocol::kInferHttp, {.address = "127.0.0.1:1"}, absl::Seconds(5))
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace

// Subtitles of segments.

namespace {

TEST(SubtitleTest, StandsWhereTheWordsAreHeard) {
  v1::RecognizedSegment segment;
  segment.set_num_frames(100);
  segment.set_begin_ms(3'601'000);
  segment.set_end_ms(3'605'000);
  v1::Hypothesis& best = *segment.add_hypotheses();
  best.set_text("two --> words");
  best.add_tokens(1);
  best.add_token_frames(10);
  best.add_token_durations(1);
  best.add_tokens(2);
  best.add_token_frames(50);
  best.add_token_durations(5);
  EXPECT_EQ(Subtitle(SubtitleForm::kSrt, 3, segment),
            "3\n01:00:01,400 --> 01:00:03,200\ntwo -> words\n\n");
  EXPECT_EQ(Subtitle(SubtitleForm::kVtt, 3, segment),
            "01:00:01.400 --> 01:00:03.200\ntwo -&gt; words\n\n");
  best.set_text("<b>R&D");
  EXPECT_EQ(Subtitle(SubtitleForm::kVtt, 3, segment),
            "01:00:01.400 --> 01:00:03.200\n&lt;b&gt;R&amp;D\n\n");
}

}  // namespace

}  // namespace beamwright::client
