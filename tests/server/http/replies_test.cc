#include "server/http/replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"

namespace beamwright::http {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Of a source, or of the call: a client reads both alike.
TEST(RepliesTest, DetailsOfErrorsAreNamedAlikeEverywhere) {
  const absl::Status status =
      status::WithRetryAfter(status::InvalidField("text", "is \"bad\""), absl::Seconds(2));
  v1::DecodeResponse response;
  *response.add_results()->mutable_error() = status::ToRpcStatus(status);
  response.add_results()->mutable_decoded()->add_hypotheses()->set_text("\"retry_delay\":");
  const HttpReply answer = MessageReply(response);
  for (const std::string& body :
       {answer.body, ErrorReply(status).body, V2ErrorReply(status).body}) {
    EXPECT_THAT(body, AllOf(HasSubstr(R"("fieldViolations":[{"field":"text",)"),
                            HasSubstr(R"("retryDelay":"2s")")));
  }
  EXPECT_THAT(answer.body,
              AllOf(HasSubstr(R"("text":"\"retry_delay\":")"), HasSubstr(R"("finish_reason":)")));
}

// Keys of a map are data, and texts may look like members.
TEST(RepliesTest, OnlyMembersOfDetailsAreRenamed) {
  v1::DecodeResponse response;
  const absl::Status status = status::WithReason(absl::ResourceExhaustedError("retry_delay @type"),
                                                 status::reason::kTooLarge, {{"needed_rows", "7"}});
  *response.add_results()->mutable_error() = status::ToRpcStatus(status);
  response.add_results()->mutable_decoded()->set_queue_ms(0.1F);
  const std::string body = MessageReply(response).body;
  EXPECT_THAT(body,
              AllOf(HasSubstr(R"("metadata":{"needed_rows":"7"})"),
                    HasSubstr(R"("message":"retry_delay @type")"), HasSubstr(R"("queue_ms":0.1)")));
  for (const std::string& error : {ErrorReply(status).body, V2ErrorReply(status).body}) {
    EXPECT_THAT(error, HasSubstr(R"("metadata":{"needed_rows":"7"})"));
  }
}

// A body has room for what a trailer of gRPC leaves out.
TEST(RepliesTest, ErrorsOfSourcesAreAllThere) {
  constexpr int kSources = 500;
  std::vector<google::rpc::Status> wire;
  for (int i = 0; i < kSources; ++i) {
    wire.push_back(status::ToRpcStatus(status::WithRetryAfter(
        absl::ResourceExhaustedError(absl::StrCat("n", i, ":", std::string(200, 'x'))),
        absl::Milliseconds(1001))));
  }
  std::vector<const google::rpc::Status*> errors;
  for (const google::rpc::Status& error : wire) {
    errors.push_back(&error);
  }
  const HttpReply reply = ErrorReply(status::StatusOfFailedCall(errors, {"sources", "source"}));
  EXPECT_EQ(reply.status, 429);
  EXPECT_THAT(reply.headers, Contains(Pair("Retry-After", "2")));
  EXPECT_THAT(reply.body, AllOf(HasSubstr("beamwright.v1.SourceErrors"),
                                HasSubstr(R"("counts":[{"code":8,"sources":500}])"),
                                Not(HasSubstr("numLeftOut"))));
  for (int i = 0; i < kSources; ++i) {
    EXPECT_THAT(reply.body, HasSubstr(absl::StrCat("\"message\":\"n", i, ":")));
  }
}

}  // namespace
}  // namespace beamwright::http
