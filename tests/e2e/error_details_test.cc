// What programs read off failures, on every protocol: reasons, fields, and when to come back.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <functional>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

google::rpc::Status Whole(const grpc::Status& status) {
  google::rpc::Status whole;
  whole.ParseFromString(status.error_details());
  return whole;
}

std::string ReasonOf(const google::rpc::Status& status) {
  for (const google::protobuf::Any& detail : status.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) {
      return info.domain() == "beamwright" ? info.reason() : "of another domain";
    }
  }
  return "";
}

// Whatever fails says why in a form for programs, and is never UNKNOWN.
class DetailsTest : public E2eTest {};

TEST_F(DetailsTest, EveryFailureHasAReasonOnEveryProtocol) {
  struct Case {
    std::string name;
    std::function<void(v1::DecodeRequest&)> spoil;
    grpc::StatusCode code;
    std::string reason;
    int http;
  };
  const std::vector<Case> cases = {
      {"no source", [](v1::DecodeRequest& r) { r.clear_sources(); },
       grpc::StatusCode::INVALID_ARGUMENT, "INVALID_REQUEST", 400},
      {"options out of range",
       [](v1::DecodeRequest& r) {
         r.mutable_options()->set_beam_size(-1);
         r.mutable_options()->set_max_length(-7);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "INVALID_REQUEST", 400},
      {"unknown model", [](v1::DecodeRequest& r) { r.set_model("nowhere"); },
       grpc::StatusCode::NOT_FOUND, "NOT_FOUND", 404},
      {"unknown version", [](v1::DecodeRequest& r) { r.set_version("77"); },
       grpc::StatusCode::NOT_FOUND, "NOT_FOUND", 404},
  };
  httplib::Client http("127.0.0.1", server_->http_port());
  for (const Case& one : cases) {
    v1::DecodeRequest request = Request({"beam"});
    request.set_model("g2p-en");
    one.spoil(request);
    const grpc::Status status = Call(request);
    EXPECT_EQ(status.error_code(), one.code) << one.name;
    EXPECT_EQ(ReasonOf(Whole(status)), one.reason) << one.name;
    std::string json;
    const std::string model = request.model();
    request.clear_model();
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(request, &json).ok());
    const auto result = http.Post("/v1/models/" + model + ":decode", json, "application/json");
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, one.http) << one.name;
    EXPECT_THAT(result->body, HasSubstr("\"reason\":\"" + one.reason + "\"")) << one.name;
  }
}

TEST_F(DetailsTest, WrongFieldsAreListed) {
  v1::DecodeRequest request = Request({"beam"});
  request.mutable_options()->set_beam_size(-1);
  request.mutable_options()->set_max_length(-7);
  const google::rpc::Status whole = Whole(Call(request));
  std::vector<std::string> fields;
  for (const google::protobuf::Any& detail : whole.details()) {
    google::rpc::BadRequest bad;
    if (detail.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations()) {
        fields.push_back(violation.field());
      }
    }
  }
  EXPECT_THAT(fields, testing::ElementsAre("options.beam_size", "options.max_length"));
}

// More than the queue takes, by every way to ask for it.
TEST(RefusalTest, AFullQueueSaysSoAndWhenToComeBack) {
  ServerProcess server({"--model-path", DefaultModel(), "--max-queue", "1", "--max-rows", "1"});
  constexpr int kSources = 300;
  const auto channel = Connect(server.address());
  v1::DecodeRequest request = Request(std::vector<std::string>(kSources, "recurrent"));
  request.mutable_options()->set_beam_size(1);
  request.mutable_options()->set_n_best(1);
  const auto [status, response] = Decode(*v1::DecodeService::NewStub(channel), request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  int refused = 0;
  for (const v1::Result& result : response.results()) {
    if (result.has_error()) {
      ++refused;
      EXPECT_EQ(result.error().code(), static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
      EXPECT_EQ(ReasonOf(result.error()), "QUEUE_FULL");
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, kSources);

  inference::ModelInferRequest infer;
  infer.set_model_name("g2p-en");
  (*infer.mutable_parameters())["beam_size"].set_int64_param(1);
  (*infer.mutable_parameters())["n_best"].set_int64_param(1);
  auto& input = *infer.add_inputs();
  input.set_name("source_text");
  input.set_datatype("BYTES");
  input.add_shape(kSources);
  input.add_shape(1);
  for (int i = 0; i < kSources; ++i) {
    input.mutable_contents()->add_bytes_contents("recurrent");
  }
  grpc::ClientContext context;
  inference::ModelInferResponse inferred;
  const grpc::Status failed =
      inference::GRPCInferenceService::NewStub(channel)->ModelInfer(&context, infer, &inferred);
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << failed.error_message();
  EXPECT_EQ(ReasonOf(Whole(failed)), "QUEUE_FULL");
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_GT(std::stoi(std::string(pushback->second.data(), pushback->second.size())), 0);

  std::string json = R"({"parameters":{"beam_size":1,"n_best":1},"inputs":[{"name":"source_text",)"
                     R"("datatype":"BYTES","shape":[300,1],"data":["recurrent")";
  for (int i = 1; i < kSources; ++i) {
    json += R"(,"recurrent")";
  }
  httplib::Client http("127.0.0.1", server.http_port());
  const auto result = http.Post("/v2/models/g2p-en/infer", json + "]}]}", "application/json");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 429) << result->body;
  EXPECT_TRUE(result->has_header("Retry-After"));
  EXPECT_THAT(result->body, HasSubstr("\"reason\":\"QUEUE_FULL\""));
}

}  // namespace
}  // namespace beamwright::e2e
