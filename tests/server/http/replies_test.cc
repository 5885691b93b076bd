#include "server/http/replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "beamwright/v1/decode.pb.h"
#include "server/model/error_details.h"
#include "server/serving/wire_status.h"

namespace beamwright::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Of a source, or of the call: a client reads both alike.
TEST(RepliesTest, DetailsOfErrorsAreNamedAlikeEverywhere) {
  const absl::Status status =
      model::WithRetryAfter(model::InvalidFields({"text: is \"bad\""}), absl::Seconds(2));
  v1::DecodeResponse response;
  *response.add_results()->mutable_error() = serving::ToRpcStatus(status);
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

}  // namespace
}  // namespace beamwright::http
