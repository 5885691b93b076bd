// StreamDecode, Score and Align of the real server, over gRPC and HTTP.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <sstream>

#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr char kWord[] = "antidisestablishmentarianism";

struct Streamed {
  grpc::Status status;
  std::vector<int32_t> stable;
  int messages = 0;
  int provisional = 0;
  v1::StreamDecodeResponse last;

  void Take(const v1::StreamDecodeResponse& message) {
    ++messages;
    provisional += message.has_provisional() ? 1 : 0;
    for (const v1::StableTokens& piece : message.stable()) {
      EXPECT_EQ(piece.position(), static_cast<int>(stable.size()));
      stable.insert(stable.end(), piece.tokens().begin(), piece.tokens().end());
    }
    EXPECT_FALSE(last.has_decoded()) << "a message behind the answer";
    last = message;
  }
};

v1::StreamDecodeRequest StreamRequest(const std::string& word) {
  v1::StreamDecodeRequest request;
  request.set_model("g2p-en");
  request.mutable_source()->set_text(word);
  return request;
}

v1::Decoded WithoutTimes(v1::Decoded decoded) {
  decoded.clear_queue_ms();
  decoded.clear_compute_ms();
  decoded.clear_first_token_ms();
  return decoded;
}

class StreamDecodeTest : public E2eTest {
 protected:
  Streamed Stream(const v1::StreamDecodeRequest& request) {
    grpc::ClientContext context;
    Streamed streamed;
    const auto reader = decode_->StreamDecode(&context, request);
    v1::StreamDecodeResponse message;
    while (reader->Read(&message)) {
      streamed.Take(message);
    }
    streamed.status = reader->Finish();
    return streamed;
  }

  // POST to a call of the default model.
  httplib::Result Post(const std::string& call, const google::protobuf::Message& request) {
    std::string json;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(request, &json).ok());
    httplib::Client client("127.0.0.1", server_->http_port());
    client.set_read_timeout(std::chrono::minutes(1));
    return client.Post("/v1/models/g2p-en:" + call, json, kJson);
  }
};

TEST_F(StreamDecodeTest, EndsWithWhatDecodeAnswers) {
  v1::StreamDecodeRequest request = StreamRequest(kWord);
  request.set_provisional(true);
  const Streamed streamed = Stream(request);
  ASSERT_TRUE(streamed.status.ok()) << streamed.status.error_message();
  ASSERT_TRUE(Call(Request({kWord})).ok());
  ASSERT_TRUE(streamed.last.has_decoded());
  EXPECT_EQ(WithoutTimes(streamed.last.decoded()).SerializeAsString(),
            WithoutTimes(response_.results(0).decoded()).SerializeAsString());
  EXPECT_THAT(streamed.stable, ElementsAreArray(streamed.last.decoded().hypotheses(0).tokens()));
  EXPECT_GT(streamed.last.decoded().first_token_ms(), 0);
  EXPECT_EQ(streamed.last.numerics(), response_.numerics());
  EXPECT_EQ(streamed.last.version(), "1");
}

TEST_F(StreamDecodeTest, FailuresAreStatusesOfTheCall) {
  EXPECT_EQ(Stream(StreamRequest("")).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::StreamDecodeRequest request = StreamRequest("cat");
  request.set_model("x");
  EXPECT_EQ(Stream(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
  request = StreamRequest("cat");
  request.mutable_options()->set_beam_size(1000);
  EXPECT_THAT(Stream(request).status.error_message(), HasSubstr("options.beam_size: 1000"));
}

// Clients that open streams and never read: the others are served, and cancelling frees all.
TEST_F(StreamDecodeTest, ClientsThatDoNotReadDelayNobody) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamDecodeResponse>>> readers;
  v1::StreamDecodeRequest request = StreamRequest(std::string(100, 'a'));
  request.set_provisional(true);
  request.mutable_options()->set_stop(v1::STOP_MODE_NEVER);
  for (int i = 0; i < 40; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(decode_->StreamDecode(contexts.back().get(), request));
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Call(Request({"recurrent"})).ok());
    EXPECT_EQ(response_.results(0).decoded().hypotheses(0).text(), "R IY0 K ER1 AH0 N T");
  }
  for (auto& context : contexts) {
    context->TryCancel();
  }
  for (auto& reader : readers) {
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED);
  }
}

TEST_F(StreamDecodeTest, HttpSendsALineForEachMessage) {
  const auto result = Post("streamDecode", StreamRequest(kWord));
  ASSERT_TRUE(result) << httplib::to_string(result.error());
  EXPECT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(result->get_header_value("Content-Type"), "application/x-ndjson");
  EXPECT_EQ(result->get_header_value("Transfer-Encoding"), "chunked");
  Streamed streamed;
  std::istringstream lines(result->body);
  for (std::string line; std::getline(lines, line);) {
    v1::StreamDecodeResponse message;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &message).ok()) << line;
    streamed.Take(message);
  }
  const Streamed over_grpc = Stream(StreamRequest(kWord));
  EXPECT_EQ(WithoutTimes(streamed.last.decoded()).SerializeAsString(),
            WithoutTimes(over_grpc.last.decoded()).SerializeAsString());
  EXPECT_THAT(streamed.stable, ElementsAreArray(over_grpc.stable));
  // What fails before there is a message has a separate status.
  EXPECT_EQ(Post("streamDecode", StreamRequest(""))->status, 400);
  v1::StreamDecodeRequest wrong = StreamRequest("cat");
  wrong.mutable_options()->set_n_best(300);
  EXPECT_THAT(Post("streamDecode", wrong)->body, HasSubstr("options.n_best: 300"));
}

// R7 over the wire: the sums of a search, to the bit.
TEST_F(StreamDecodeTest, ScoresAreThoseOfTheSearch) {
  v1::DecodeRequest request = Request({"recurrent"});
  request.mutable_options()->set_n_best(4);
  request.mutable_options()->set_length_penalty(v1::LENGTH_PENALTY_GNMT);
  request.mutable_options()->set_coverage_penalty(0.2f);
  request.mutable_options()->set_attention(v1::ATTENTION_SOFT);
  ASSERT_TRUE(Call(request).ok());
  const v1::Decoded& decoded = response_.results(0).decoded();
  v1::ScoreRequest score;
  score.mutable_options()->set_length_penalty(v1::LENGTH_PENALTY_GNMT);
  score.mutable_options()->set_coverage_penalty(0.2f);
  score.mutable_options()->set_attention(v1::ATTENTION_SOFT);
  v1::ScoreSource& source = *score.add_sources();
  source.mutable_source()->set_text("recurrent");
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    source.add_targets()->set_text(hypothesis.text());
  }
  score.add_sources()->mutable_source()->set_text("cat");  // without targets
  grpc::ClientContext context;
  v1::ScoreResponse response;
  const grpc::Status status = decode_->Score(&context, score, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 2);
  for (int i = 0; i < decoded.hypotheses_size(); ++i) {
    EXPECT_EQ(response.results(0).scored().targets(i).hypothesis().SerializeAsString(),
              decoded.hypotheses(i).SerializeAsString());
  }
  EXPECT_THAT(response.results(1).error().message(), HasSubstr("targets: has 0 entries"));
  score.set_model("g2p-en");
  const auto http = Post("score", score);
  ASSERT_EQ(http->status, 200) << http->body;
  v1::ScoreResponse over_http;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(http->body, &over_http).ok());
  EXPECT_EQ(over_http.results(0).scored().targets(3).SerializeAsString(),
            response.results(0).scored().targets(3).SerializeAsString());
}

TEST_F(StreamDecodeTest, AlignmentIsThatOfTheSearch) {
  v1::DecodeRequest request = Request({"recurrent"});
  request.mutable_options()->set_attention(v1::ATTENTION_HARD);
  ASSERT_TRUE(Call(request).ok());
  const v1::Hypothesis& best = response_.results(0).decoded().hypotheses(0);
  v1::AlignRequest align;
  align.set_model("g2p-en");
  align.set_soft(true);
  v1::AlignPair& pair = *align.add_pairs();
  pair.mutable_source()->set_text("recurrent");
  pair.mutable_target()->set_text(best.text());
  grpc::ClientContext context;
  v1::AlignResponse response;
  ASSERT_TRUE(decode_->Align(&context, align, &response).ok());
  const v1::Alignment& alignment = response.results(0).alignment();
  EXPECT_EQ(alignment.source_length(), 9);
  EXPECT_EQ(alignment.tokens_size(), best.tokens_size() - 1) << "no end token is added";
  EXPECT_THAT(std::vector<int32_t>(alignment.positions().begin(), alignment.positions().end()),
              ElementsAreArray(best.alignment().begin(), best.alignment().end() - 1));
  EXPECT_EQ(alignment.attention().columns(), 9);
  EXPECT_EQ(Post("align", align)->status, 200);
  align.clear_pairs();
  EXPECT_THAT(Post("align", align)->body, HasSubstr("pairs: is empty"));
}

TEST_F(StreamDecodeTest, ADeadlineThatIsNearIsMetWithWhatIsKnown) {
  v1::DecodeRequest request = Request({std::string(120, 'e')});
  request.mutable_options()->set_stop(v1::STOP_MODE_NEVER);
  request.mutable_options()->set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(4));
  v1::DecodeResponse response;
  ASSERT_TRUE(decode_->Decode(&context, request, &response).ok());
  EXPECT_NE(response.results(0).decoded().hypotheses(0).finish_reason(), v1::FINISH_REASON_DEADLINE)
      << "a deadline that is far changes nothing";
}

}  // namespace
}  // namespace beamwright::e2e
