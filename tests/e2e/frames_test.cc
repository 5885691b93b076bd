// A model without a decoder, over every protocol: CTC frames that requests bring are decoded,
// streamed and scored alike by gRPC, REST, the Open Inference Protocol and the command line.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kColumns = 3;

// Frames that say a, a, blank, b: rows of log-probabilities.
std::vector<float> Frames() {
  std::vector<float> frames;
  for (const int said : {1, 1, 0, 2}) {
    for (int column = 0; column < kColumns; ++column) {
      frames.push_back(std::log(column == said ? 0.8f : 0.1f));
    }
  }
  return frames;
}

std::string Bytes() {
  const std::vector<float> frames = Frames();
  return {reinterpret_cast<const char*>(frames.data()), frames.size() * sizeof(float)};
}

class FramesTest : public ::testing::Test {
 protected:
  FramesTest() {
    folder_ = ops::testing_tools::TempPath("frames-bundle");
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/model.textproto")
        << "format_version: 1 name: \"frames\" ctc { kind: LOGITS_KIND_LOG_PROBS } "
           "target { form: TEXT_FORM_WHITESPACE vocabulary: \"tokens.txt\" }";
    std::ofstream(folder_ + "/tokens.txt") << "<blk>\na\nb\n";
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{"--model-path", folder_});
    EXPECT_GT(server_->WaitForPort(), 0) << server_->log();
    auto client = client::Client::Connect({.address = server_->address()});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    v1::Tensor& features = *request_.add_sources()->mutable_features();
    features.set_dtype("f32");
    features.add_shape(4);
    features.add_shape(kColumns);
    features.set_data(Bytes());
  }

  std::string folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<client::Client> client_;
  v1::DecodeRequest request_;
};

TEST_F(FramesTest, EveryProtocolAnswersAlike) {
  request_.mutable_options()->set_full_sum(true);
  const auto decoded = client_->Decode(request_, absl::Now() + absl::Minutes(1));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const v1::Hypothesis& best = decoded->results(0).decoded().hypotheses(0);
  EXPECT_EQ(best.text(), "a b");
  EXPECT_THAT(best.token_frames(), ElementsAre(0, 3));
  EXPECT_THAT(best.token_durations(), ElementsAre(2, 1));
  EXPECT_NEAR(best.alignment_log_prob(), 4 * std::log(0.8), 1e-5);
  EXPECT_GT(best.full_log_prob(), best.alignment_log_prob());

  httplib::Client http("127.0.0.1", server_->http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(request_, &json).ok());
  const auto rest = http.Post("/v1/models/frames:decode", json, "application/json");
  ASSERT_TRUE(rest);
  ASSERT_EQ(rest->status, 200) << rest->body;
  v1::DecodeResponse response;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(rest->body, &response).ok());
  EXPECT_EQ(response.results(0).decoded().hypotheses(0).SerializeAsString(),
            best.SerializeAsString());

  std::string numbers;
  for (const float value : Frames()) {
    absl::StrAppend(&numbers, numbers.empty() ? "" : ", ", value);
  }
  const auto infer =
      http.Post("/v2/models/frames/infer",
                absl::StrCat(R"({"inputs": [{"name": "source_features", "datatype": "FP32",)",
                             R"( "shape": [1, 4, 3], "data": [)", numbers, R"(]}],)",
                             R"( "outputs": [{"name": "text"}, {"name": "token_frames"}]})"),
                "application/json");
  ASSERT_TRUE(infer);
  EXPECT_EQ(infer->status, 200) << infer->body;
  EXPECT_THAT(infer->body, HasSubstr("\"a b\""));
  EXPECT_THAT(infer->body, HasSubstr("[0,3]"));

  std::ofstream(folder_ + "/frames.f32", std::ios::binary) << Bytes();
  const auto line = ops::testing_tools::RunProgram(
      {BEAMWRIGHT_PROGRAM, "decode", "--server", server_->address(), "--features",
       folder_ + "/frames.f32", "--features-shape", "4,3"});
  EXPECT_EQ(line.exit_code, 0) << line.errors;
  EXPECT_THAT(line.output, HasSubstr("a b"));
}

TEST_F(FramesTest, TargetsAreScoredAndFaultsNamed) {
  v1::ScoreRequest request;
  v1::ScoreSource& source = *request.add_sources();
  *source.mutable_source() = request_.sources(0);
  source.add_targets()->set_text("a b");
  source.add_targets()->set_text("b");
  const auto scored = client_->Score(request, absl::Now() + absl::Minutes(1));
  ASSERT_TRUE(scored.ok()) << scored.status();
  const auto& targets = scored->results(0).scored().targets();
  EXPECT_GT(targets[0].hypothesis().log_prob(), targets[1].hypothesis().log_prob());

  request_.mutable_options()->set_lattice(true);
  const auto refused = client_->Decode(request_, absl::Now() + absl::Minutes(1));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("options.lattice: is for models with a decoder"));
}

}  // namespace
}  // namespace beamwright::e2e
