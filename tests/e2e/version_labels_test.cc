// Versions of a model and their labels: whatever the protocol, a request that names one is answered
// by it, and a label that moves takes its requests along.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/test_repository.h"

namespace beamwright::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Versions 1 to 3, of which 1 is served for its label alone.
class VersionLabelsTest : public ::testing::Test {
 protected:
  void Start(const std::string& control) {
    for (const char* version : {"1", "2", "3"}) {
      repository_.AddVersion(version);
    }
    repository_.SetPolicy("labels { key: 'stable' value: 1 } labels { key: 'canary' value: 3 }");
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--model-repository", repository_.path(), "--model-control", control,
        "--repository-poll-interval", "50ms", "--golden-requests", "0"});
    ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
    channel_ = Connect(server_->address());
    decode_ = v1::DecodeService::NewStub(channel_);
    oip_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  // The version that answers Decode, or the error.
  std::string Decoded(const std::string& asked) {
    v1::DecodeRequest request = Request({"cat"});
    request.set_version(asked);
    const auto [status, response] = e2e::Decode(*decode_, request);
    return status.ok() ? response.version() : status.error_message();
  }
  std::string Streamed(const std::string& asked) {
    grpc::ClientContext context;
    v1::StreamDecodeRequest request;
    request.set_model("g2p-en");
    request.set_version(asked);
    request.mutable_source()->set_text("cat");
    const auto reader = decode_->StreamDecode(&context, request);
    v1::StreamDecodeResponse message;
    v1::StreamDecodeResponse last;
    while (reader->Read(&message)) {
      last = message;
    }
    const grpc::Status status = reader->Finish();
    return status.ok() ? last.version() : status.error_message();
  }
  std::string Scored(const std::string& asked) {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    request.set_model("g2p-en");
    request.set_version(asked);
    auto& source = *request.add_sources();
    source.mutable_source()->set_text("cat");
    source.add_targets()->set_text("K AE1 T");
    v1::ScoreResponse response;
    const grpc::Status status = decode_->Score(&context, request, &response);
    return status.ok() ? response.version() : status.error_message();
  }
  std::string Described(const std::string& asked) {
    grpc::ClientContext context;
    v1::DescribeModelRequest request;
    request.set_model("g2p-en");
    request.set_version(asked);
    v1::ModelDescription response;
    const grpc::Status status =
        v1::ModelService::NewStub(channel_)->DescribeModel(&context, request, &response);
    return status.ok() ? response.summary().version() : status.error_message();
  }
  static inference::ModelInferRequest InferRequest(const std::string& asked) {
    inference::ModelInferRequest request;
    request.set_model_name("g2p-en");
    request.set_model_version(asked);
    auto& input = *request.add_inputs();
    input.set_name("source_text");
    input.set_datatype("BYTES");
    input.add_shape(1);
    input.add_shape(1);
    input.mutable_contents()->add_bytes_contents("cat");
    return request;
  }
  std::string Inferred(const std::string& asked) {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    const grpc::Status status = oip_->ModelInfer(&context, InferRequest(asked), &response);
    return status.ok() ? response.model_version() : status.error_message();
  }
  std::string StreamInferred(const std::string& asked) {
    grpc::ClientContext context;
    const auto stream = oip_->ModelStreamInfer(&context);
    stream->Write(InferRequest(asked));
    stream->WritesDone();
    inference::ModelStreamInferResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_TRUE(stream->Finish().ok());
    return response.error_message().empty() ? response.infer_response().model_version()
                                            : response.error_message();
  }
  // What the JSON of an answer, of its last line, says under "version"; or the answer.
  std::string PostV1(const std::string& asked, const std::string& call, const std::string& body) {
    httplib::Client api("127.0.0.1", server_->http_port());
    api.set_read_timeout(std::chrono::minutes(2));
    const auto reply =
        api.Post(absl::StrCat("/v1/models/g2p-en/versions/", asked, ":", call), body, kJson);
    return reply ? VersionIn(reply->body, "\"version\":\"") : "no answer";
  }
  std::string PostV2(const std::string& asked) {
    httplib::Client api("127.0.0.1", server_->http_port());
    api.set_read_timeout(std::chrono::minutes(2));
    const auto reply = api.Post(
        absl::StrCat("/v2/models/g2p-en/versions/", asked, "/infer"),
        R"({"inputs":[{"name":"source_text","datatype":"BYTES","shape":[1,1],"data":["cat"]}]})",
        kJson);
    return reply ? VersionIn(reply->body, "\"model_version\":\"") : "no answer";
  }
  static std::string VersionIn(const std::string& json, const std::string& key) {
    const size_t at = json.rfind(key);
    return at == std::string::npos
               ? json
               : json.substr(at + key.size(), json.find('"', at + key.size()) - at - key.size());
  }
  // The same over the command line: what `beamwright decode --json` says.
  std::string ByProgram(const std::string& asked) {
    const client::ProcessResult result = client::Beamwright(
        {"decode", "--server", server_->address(), "--version", asked, "--json", "cat"});
    return result.exit_code == 0 ? VersionIn(result.out, "\"version\":\"") : result.err;
  }
  std::vector<std::string> ByEveryCall(const std::string& asked) {
    const std::string text = R"({"text":"cat"})";
    return {Decoded(asked),
            Streamed(asked),
            Scored(asked),
            Described(asked),
            Inferred(asked),
            StreamInferred(asked),
            PostV1(asked, "decode", absl::StrCat(R"({"sources":[)", text, "]}")),
            PostV1(asked, "streamDecode", absl::StrCat(R"({"source":)", text, "}")),
            PostV1(asked, "score",
                   absl::StrCat(R"({"sources":[{"source":)", text,
                                R"(,"targets":[{"text":"K AE1 T"}]}]})")),
            PostV2(asked),
            ByProgram(asked)};
  }

  TestRepository repository_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DecodeService::Stub> decode_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> oip_;
};

TEST_F(VersionLabelsTest, EveryCallOfEveryProtocolTakesThem) {
  Start("none");
  EXPECT_THAT(ByEveryCall("1"), testing::Each("1"));
  EXPECT_THAT(ByEveryCall("stable"), testing::Each("1"));
  EXPECT_THAT(ByEveryCall("canary"), testing::Each("3"));
  EXPECT_THAT(ByEveryCall("nightly"),
              testing::Each(HasSubstr("version 'nightly' is not found; served: ")));
  EXPECT_EQ(Decoded(""), "3");
  EXPECT_THAT(Decoded("2"), HasSubstr("not found"));
}

TEST_F(VersionLabelsTest, ListsAndDescriptionsNameThem) {
  Start("none");
  grpc::ClientContext context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(v1::ModelService::NewStub(channel_)->ListModels(&context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.models(0).version(), "3");
  EXPECT_THAT(list.models(0).labels(), ElementsAre("canary"));
  EXPECT_EQ(list.models(1).version(), "1");
  EXPECT_THAT(list.models(1).labels(), ElementsAre("stable"));
  httplib::Client api("127.0.0.1", server_->http_port());
  api.set_read_timeout(std::chrono::minutes(2));
  EXPECT_THAT(api.Get("/v1/models/g2p-en/versions/stable")->body,
              HasSubstr(R"("labels":["stable"])"));
  EXPECT_EQ(api.Get("/v2/models/g2p-en/versions/stable/ready")->status, 200);
  EXPECT_EQ(api.Get("/v2/models/g2p-en/versions/nightly/ready")->status, 503);
  const client::ProcessResult table =
      client::Beamwright({"models", "--server", server_->address()});
  EXPECT_THAT(table.out, HasSubstr("1        ready: stable"));
}

// As an operator promotes: the canary becomes stable while clients call; none of them fails.
TEST_F(VersionLabelsTest, ALabelMovesUnderLoad) {
  Start("poll");
  repository_.SetPolicy("labels { key: 'stable' value: 3 }");
  std::string answer;
  for (const absl::Time end = absl::Now() + absl::Minutes(1); absl::Now() < end;) {
    answer = Decoded("stable");
    if (answer != "1") {
      break;
    }
  }
  EXPECT_EQ(answer, "3");
  // One that could not be served moves nothing.
  repository_.AddVersion("4", Made::kNotToLoad);
  repository_.SetPolicy("specific { versions: 3 } labels { key: 'stable' value: 4 }");
  for (const absl::Time end = absl::Now() + absl::Minutes(1);
       !absl::StrContains(server_->log(), "version 4 cannot be served") && absl::Now() < end;) {
    EXPECT_EQ(Decoded("stable"), "3");
  }
  EXPECT_EQ(Decoded("stable"), "3");
  EXPECT_THAT(server_->log(), HasSubstr("version 4 cannot be served"));
}

}  // namespace
}  // namespace beamwright::e2e
