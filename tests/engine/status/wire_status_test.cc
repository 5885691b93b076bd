#include "engine/status/wire_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "engine/status/fault.h"
#include "google/rpc/error_details.pb.h"

namespace beamwright::status {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

TEST(WireStatusTest, EveryCodeKeepsItsNumberExceptUnknown) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<StatusCode>(code), "why");
    EXPECT_EQ(ToRpcStatus(status).code(), code == 2 ? 13 : code);
    EXPECT_EQ(ToRpcStatus(status).message(), "why");
  }
}

TEST(WireStatusTest, HttpCodesTellWhoIsAtFaultAndWhetherToTryAgain) {
  const std::map<StatusCode, int> expected = {
      {StatusCode::kOk, 200},
      {StatusCode::kCancelled, 499},
      {StatusCode::kInvalidArgument, 400},
      {StatusCode::kDeadlineExceeded, 504},
      {StatusCode::kNotFound, 404},
      {StatusCode::kAlreadyExists, 409},
      {StatusCode::kPermissionDenied, 403},
      {StatusCode::kResourceExhausted, 429},
      {StatusCode::kFailedPrecondition, 409},
      {StatusCode::kAborted, 409},
      {StatusCode::kOutOfRange, 400},
      {StatusCode::kUnimplemented, 501},
      {StatusCode::kInternal, 500},
      {StatusCode::kUnavailable, 503},
      {StatusCode::kDataLoss, 500},
      {StatusCode::kUnauthenticated, 401},
      {StatusCode::kUnknown, 500},
  };
  for (const auto& [code, http] : expected) {
    EXPECT_EQ(HttpCode(code), http) << static_cast<int>(code);
  }
}

TEST(WireStatusTest, LongMessagesAreCutBetweenCharacters) {
  std::string message = "x";
  while (message.size() < 5000) {
    message += "\xE2\x82\xAC";
  }
  const std::string cut = WireMessage(absl::InvalidArgumentError(message));
  EXPECT_LT(cut.size(), 2100u);
  // It starts with whole characters of the message, and says how much is missing.
  const size_t shown = cut.find(" ... (");
  EXPECT_EQ(cut.substr(0, shown), message.substr(0, shown));
  EXPECT_EQ((shown - 1) % 3, 0u);
  EXPECT_THAT(cut, HasSubstr(std::to_string(message.size() - shown) + " bytes more"));
}

TEST(WireStatusTest, WhatIsNotUtf8IsEscapedSoThatClientsCanReadIt) {
  EXPECT_EQ(WireMessage(absl::InternalError("a\xFF")), "a\\xff");
}

template <typename T>
std::vector<T> DetailsOf(const google::rpc::Status& status) {
  std::vector<T> found;
  for (const google::protobuf::Any& detail : status.details()) {
    T one;
    if (detail.UnpackTo(&one)) {
      found.push_back(one);
    }
  }
  return found;
}

TEST(WireStatusTest, EveryErrorHasAReason) {
  for (int code = 1; code <= 16; ++code) {
    const auto infos = DetailsOf<google::rpc::ErrorInfo>(
        ToRpcStatus(absl::Status(static_cast<StatusCode>(code), "why")));
    ASSERT_EQ(infos.size(), 1u) << code;
    EXPECT_EQ(infos[0].domain(), "beamwright");
    EXPECT_FALSE(infos[0].reason().empty());
    EXPECT_NE(infos[0].reason(), "UNKNOWN");
  }
}

TEST(WireStatusTest, DetailsSurviveTheWayThroughAMessage) {
  const absl::Status status = WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("full"), reason::kQueueFull, {{"limit", "7"}}),
      absl::Milliseconds(1250));
  const google::rpc::Status wire = ToRpcStatus(FromRpcStatus(ToRpcStatus(status)));
  EXPECT_EQ(DetailsOf<google::rpc::ErrorInfo>(wire)[0].reason(), "QUEUE_FULL");
  EXPECT_EQ(DetailsOf<google::rpc::ErrorInfo>(wire)[0].metadata().at("limit"), "7");
  EXPECT_EQ(RetryAfter(FromRpcStatus(wire)), absl::Milliseconds(1250));
}

TEST(WireStatusTest, OnlyWhatMayWorkLaterIsToBeTriedAgain) {
  EXPECT_LT(RetryAfter(absl::UnavailableError("")), absl::Minutes(1));
  const auto exhausted = [](const char* reason) {
    return WithReason(absl::ResourceExhaustedError(""), reason);
  };
  EXPECT_LT(RetryAfter(exhausted(reason::kQueueFull)), absl::Minutes(1));
  EXPECT_LT(RetryAfter(OutOfMemory()), absl::Minutes(1));
  EXPECT_EQ(RetryAfter(exhausted(reason::kTooLarge)), absl::InfiniteDuration());
  EXPECT_EQ(RetryAfter(absl::InvalidArgumentError("")), absl::InfiniteDuration());
}

TEST(WireStatusTest, AFaultNamesItsFieldToPrograms) {
  const google::rpc::Status wire = ToRpcStatus(InvalidField("sources", "is empty: ", 0));
  EXPECT_EQ(wire.message(), "sources: is empty: 0");
  const auto bad = DetailsOf<google::rpc::BadRequest>(wire);
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].field_violations(0).field(), "sources");
  EXPECT_EQ(bad[0].field_violations(0).description(), "is empty: 0");
  EXPECT_EQ(DetailsOf<google::rpc::ErrorInfo>(wire)[0].reason(), "INVALID_REQUEST");
}

// A message is text: nothing in it makes a field.
TEST(WireStatusTest, NoMessageIsTakenApart) {
  EXPECT_TRUE(DetailsOf<google::rpc::BadRequest>(
                  ToRpcStatus(absl::InvalidArgumentError("sources: is empty")))
                  .empty());
}

// Clients refuse trailers above 8 KiB: the worst message and details, as they are sent.
TEST(WireStatusTest, TrailersStayBelowEightKibibytes) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += "\xE2\x82\xAC";
  }
  const Faults faults(1000, {std::string(300, 'f'), text});
  for (const absl::Status& status :
       {InvalidFields(faults), WithReason(absl::InternalError(text + text + text), "X",
                                          {{"k", std::string(100000, 'x')}})}) {
    const google::rpc::Status wire = ToRpcStatus(status);
    const size_t message = 3 * wire.message().size();  // percent-encoded
    const size_t details = (wire.ByteSizeLong() + 2) / 3 * 4;
    EXPECT_LT(message + details, 8000u);
  }
}

}  // namespace
}  // namespace beamwright::status
