#include <string>
#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "client/channels.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "include/beamwright/client.h"

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
}  // namespace beamwright::client
