#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/beamwright/client.h"
#include "tests/client/fake_server.h"

namespace beamwright::client {
namespace {

using ::testing::ElementsAre;

// Sources "0", "1", ...; what was answered, as "<index> <text or error>".
struct Outcome {
  absl::Status status;
  std::vector<std::string> answers;
};

Outcome RunBulk(FakeServer& server, int num_sources, BulkOptions options, int unreadable = -1) {
  auto client = *Client::Connect({.address = server.address(), .max_attempts = 1});
  options.timeout = absl::Minutes(2);
  Outcome outcome;
  int next = 0;
  outcome.status = DecodeBulk(
      *client, options,
      [&](BulkSource& source) {
        source.source.set_text(absl::StrCat(next));
        if (next == unreadable) {
          source.status = absl::InvalidArgumentError("unreadable");
        }
        return next++ < num_sources;
      },
      [&](const BulkAnswer& answer) {
        const absl::Status status = ResultStatus(answer.result);
        outcome.answers.push_back(absl::StrCat(
            answer.index, " ",
            status.ok() ? answer.result.decoded().hypotheses(0).text() : status.ToString()));
      });
  return outcome;
}

TEST(BulkTest, AnswersInOrderWhenCallsAnswerInReverse) {
  FakeServer* server_pointer = nullptr;
  // The first of each pair of calls is answered only after the second has come in.
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    if (request.sources(0).text() == "0") {
      server_pointer->WaitForRequests(2);
    }
    return EchoAll(context, request, response);
  });
  server_pointer = &server;
  const Outcome outcome = RunBulk(server, 7, {.batch = 2, .outstanding = 2});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.answers, ElementsAre("0 0", "1 1", "2 2", "3 3", "4 4", "5 5", "6 6"));
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(BulkTest, UnreadableSourcesTakeTheirPlace) {
  FakeServer server;
  for (const int batch : {1, 3}) {
    const Outcome outcome = RunBulk(server, 3, {.batch = batch}, /*unreadable=*/1);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.answers, ElementsAre("0 0", "1 INVALID_ARGUMENT: unreadable", "2 2"));
  }
}

TEST(BulkTest, FailuresOfOneCallDoNotStopTheOthers) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    return request.sources(0).text() == "2" ? grpc::Status(grpc::StatusCode::INTERNAL, "broke")
                                            : EchoAll(context, request, response);
  });
  const Outcome outcome = RunBulk(server, 5, {.batch = 2});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.answers,
              ElementsAre("0 0", "1 1", "2 INTERNAL: broke", "3 INTERNAL: broke", "4 4"));
}

TEST(BulkTest, FaultsOfTheRequestEndIt) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    return request.sources(0).text() == "2" ? grpc::Status(grpc::StatusCode::NOT_FOUND, "gone")
                                            : EchoAll(context, request, response);
  });
  const Outcome outcome = RunBulk(server, 1000, {.batch = 2, .outstanding = 1});
  EXPECT_EQ(outcome.status, absl::NotFoundError("gone"));
  EXPECT_THAT(outcome.answers, ElementsAre("0 0", "1 1"));
  EXPECT_EQ(server.requests().size(), 2u);
}

// Not one source of the second call has an answer: each gets its own error, and the rest is
// decoded.
TEST(BulkTest, ACallWithoutAnAnswerTellsWhatBecameOfEachSource) {
  for (const int batch : {1, 2}) {
    FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                         v1::DecodeResponse& response) {
      v1::DecodeRequest changed = request;
      for (v1::Source& source : *changed.mutable_sources()) {
        if (source.text() == "2" || source.text() == "3") {
          source.set_text("bad " + source.text());
        }
      }
      return EchoAll(context, changed, response);
    });
    const Outcome outcome = RunBulk(server, 5, {.batch = batch});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.answers,
                ElementsAre("0 0", "1 1", "2 INVALID_ARGUMENT: cannot decode bad 2",
                            "3 INVALID_ARGUMENT: cannot decode bad 3", "4 4"));
  }
}

TEST(BulkTest, WrongNumberOfResultsIsAnError) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    grpc::Status status = EchoAll(context, request, response);
    response.mutable_results()->RemoveLast();
    return status;
  });
  const Outcome outcome = RunBulk(server, 2, {.batch = 2});
  EXPECT_THAT(outcome.answers, ElementsAre("0 INTERNAL: the server gave 1 results for 2 sources",
                                           "1 INTERNAL: the server gave 1 results for 2 sources"));
}

TEST(BulkTest, LongSourcesMakeSmallerBatches) {
  FakeServer server;
  EXPECT_EQ(RunBulk(server, 6, {.batch = 100, .batch_bytes = 1}).answers.size(), 6u);
  EXPECT_EQ(server.requests().size(), 6u);
}

TEST(BulkTest, RefusesNonsense) {
  FakeServer server;
  EXPECT_TRUE(absl::IsInvalidArgument(RunBulk(server, 1, {.batch = 0}).status));
  EXPECT_TRUE(absl::IsInvalidArgument(RunBulk(server, 1, {.outstanding = 0}).status));
}

}  // namespace
}  // namespace beamwright::client
