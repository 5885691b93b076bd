// Models without a decoder, over every protocol: CTC frames that requests bring are decoded,
// streamed and scored alike by gRPC, REST, the Open Inference Protocol and the command line, and so
// are PNG and JPEG files.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "include/beamwright/client.h"
#include "inference/grpc_service.grpc.pb.h"
#include "ops/base/file.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/server_process.h"
#include "tests/support/test_data.h"
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
  request_.mutable_options()->set_words(true);
  const auto decoded = client_->Decode(request_, absl::Now() + absl::Minutes(1));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const v1::Hypothesis& best = decoded->results(0).decoded().hypotheses(0);
  EXPECT_EQ(best.text(), "a b");
  EXPECT_THAT(best.token_frames(), ElementsAre(0, 3));
  EXPECT_THAT(best.token_durations(), ElementsAre(2, 1));
  EXPECT_NEAR(best.alignment_log_prob(), 4 * std::log(0.8), 1e-5);
  EXPECT_GT(best.full_log_prob(), best.alignment_log_prob());
  ASSERT_EQ(best.words_size(), 2);
  EXPECT_EQ(best.words(0).text(), "a");
  EXPECT_EQ(best.words(1).first_token(), 1);
  EXPECT_GT(best.words(1).confidence(), 0.7);

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
                             R"( "outputs": [{"name": "text"}, {"name": "token_frames"}, )",
                             R"({"name": "words"}]})"),
                "application/json");
  ASSERT_TRUE(infer);
  EXPECT_EQ(infer->status, 200) << infer->body;
  EXPECT_THAT(infer->body, HasSubstr("\"a b\""));
  EXPECT_THAT(infer->body, HasSubstr("[0,3]"));
  EXPECT_THAT(infer->body, HasSubstr(R"([{\"text\":\"a\",\"confidence\":)"));

  std::ofstream(folder_ + "/frames.f32", std::ios::binary) << Bytes();
  const auto line = ops::testing_tools::RunProgram(
      {BEAMWRIGHT_PROGRAM, "decode", "--server", server_->address(), "--features",
       folder_ + "/frames.f32", "--features-shape", "4,3", "--words"});
  EXPECT_EQ(line.exit_code, 0) << line.errors;
  EXPECT_THAT(line.output, HasSubstr("a b"));
  EXPECT_THAT(line.output, HasSubstr("a 0.64, b 0.80"));
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

std::string PictureFile(const std::string& name) {
  return absl::StrCat(BEAMWRIGHT_SOURCE_DIR "/tests/engine/picture/data/", name);
}

class PicturesTest : public ::testing::Test {
 protected:
  PicturesTest() {
    folder_ = ops::testing_tools::TempPath("pictures-models");
    const std::string made = testing_support::TestData("frames/exports/ocr_paddle/");
    const auto init = ops::testing_tools::RunProgram(
        {BEAMWRIGHT_GRAPH_PROGRAM, "init", made + "model.onnx", "--tokens", made + "dict.txt",
         "--out", folder_ + "/ocr/1"});
    EXPECT_EQ(init.exit_code, 0) << init.errors;
    EXPECT_THAT(init.output, HasSubstr("requests may bring pictures, PNG or JPEG: blue first"));
    server_ =
        std::make_unique<ServerProcess>(std::vector<std::string>{"--model-repository", folder_});
    EXPECT_GT(server_->WaitForPort(), 0) << server_->log();
    client_ = *client::Client::Connect({.address = server_->address()});
  }
  ~PicturesTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<v1::DecodeResponse> Decode(const std::string& file) {
    v1::DecodeRequest request;
    request.add_sources()->set_picture(file);
    return client_->Decode(request, absl::Now() + absl::Minutes(1));
  }

  std::string folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(PicturesTest, EveryProtocolAnswersAlike) {
  for (const std::string name : {"colour.png", "progressive.jpg"}) {
    const std::string file = *ReadFile(PictureFile(name));
    const auto decoded = Decode(file);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const v1::Hypothesis& best = decoded->results(0).decoded().hypotheses(0);
    ASSERT_FALSE(best.text().empty());

    httplib::Client http("127.0.0.1", server_->http_port());
    http.set_read_timeout(std::chrono::minutes(2));
    const auto rest = http.Post(
        "/v1/models/ocr:decode",
        absl::StrCat(R"({"sources": [{"picture": ")", absl::Base64Escape(file), R"("}]})"),
        "application/json");
    ASSERT_TRUE(rest);
    v1::DecodeResponse response;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(rest->body, &response).ok())
        << rest->body;
    EXPECT_EQ(response.results(0).decoded().hypotheses(0).SerializeAsString(),
              best.SerializeAsString());

    const auto infer = inference::GRPCInferenceService::NewStub(Connect(server_->address()));
    inference::ModelInferRequest tensors;
    tensors.set_model_name("ocr");
    auto& input = *tensors.add_inputs();
    input.set_name("source_picture");
    input.set_datatype("BYTES");
    input.add_shape(1);
    input.mutable_contents()->add_bytes_contents(file);
    tensors.add_outputs()->set_name("text");
    inference::ModelInferResponse answer;
    grpc::ClientContext context;
    const grpc::Status status = infer->ModelInfer(&context, tensors, &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(answer.SerializeAsString(), HasSubstr(best.text()));

    const auto line = ops::testing_tools::RunProgram({BEAMWRIGHT_PROGRAM, "decode", "--server",
                                                      server_->address(), "--picture",
                                                      PictureFile(name), PictureFile("grey.jpg")});
    EXPECT_EQ(line.exit_code, 0) << line.errors;
    EXPECT_THAT(line.output, HasSubstr(best.text()));
    EXPECT_THAT(line.output, HasSubstr(PictureFile(name) + "\n"));
    EXPECT_THAT(line.output, HasSubstr(PictureFile("grey.jpg") + "\n"));
  }
  const auto models = ops::testing_tools::RunProgram(
      {BEAMWRIGHT_PROGRAM, "models", "ocr", "--server", server_->address()});
  EXPECT_THAT(models.output, HasSubstr("pictures, PNG or JPEG"));
}

TEST_F(PicturesTest, FaultsNameTheField) {
  const auto message = [this](const std::string& file) {
    const auto decoded = Decode(file);
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(decoded.status().message());
  };
  EXPECT_THAT(message("no picture"), HasSubstr("source.picture: is neither a PNG nor a JPEG file"));
  std::string file = *ReadFile(PictureFile("colour.png"));
  EXPECT_THAT(message(file.substr(0, 900)), HasSubstr("source.picture: the PNG file is broken"));
  // A head of 16,640 x 16,640 pixels is refused before anything is unpacked.
  file[18] = file[22] = 65;
  file[17] = file[21] = 0;
  EXPECT_THAT(message(file), HasSubstr("pixels; at most 16777216 are allowed"));
}

}  // namespace
}  // namespace beamwright::e2e
