#include "server/serving/wire_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace beamwright::serving {
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

}  // namespace
}  // namespace beamwright::serving
