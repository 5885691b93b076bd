// What programs read off failures, on every protocol: reasons, fields, and when to come back.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <httplib.h>

#include <functional>

#include "beamwright/v1/source_errors.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/engine/bundle/temp_bundle.h"

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
  http.set_read_timeout(std::chrono::minutes(2));
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

// What became of each source of a call that has no answer, on both protocols.
TEST_F(DetailsTest, ACallWithoutAnAnswerTellsOfEachSource) {
  v1::DecodeRequest request = Request({"", "beam"});
  request.add_sources()->mutable_ids()->add_ids(-7);
  request.add_sources();
  ASSERT_TRUE(Call(request).ok());
  const v1::DecodeResponse partly = response_;
  ASSERT_TRUE(partly.results(1).has_decoded());
  request.mutable_sources()->DeleteSubrange(1, 1);
  const grpc::Status status = Call(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::StartsWith("all 3 sources failed; sources[0]: "));
  v1::SourceErrors errors;
  const google::rpc::Status whole = Whole(status);
  for (const google::protobuf::Any& detail : whole.details()) {
    detail.UnpackTo(&errors);
  }
  // As they stand in results, where one source has an answer.
  ASSERT_EQ(errors.errors_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(errors.errors(i).sources(0).first(), i);
    EXPECT_EQ(errors.errors(i).error().SerializeAsString(),
              partly.results(i == 0 ? 0 : i + 1).error().SerializeAsString());
  }
  std::string json;
  request.clear_model();
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(request, &json).ok());
  httplib::Client http("127.0.0.1", server_->http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  const auto reply = http.Post("/v1/models/g2p-en:decode", json, "application/json");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 400);
  const std::string& body = reply->body;
  EXPECT_THAT(body, HasSubstr(R"("@type":"type.googleapis.com/beamwright.v1.SourceErrors")"));
  EXPECT_THAT(body, HasSubstr(R"("sources":[{"first":2,"count":1}])"));
  EXPECT_THAT(body, HasSubstr(R"("field":"sources[1].ids[0]")"));
}

// gRPC of every language tries again by itself where a policy says so, at the time that the answer
// gives.
TEST(RefusalTest, AClientsRetryPolicyIsHeldToThePushback) {
  const bundle::TempFolder temp;
  temp.Write("tenants", "others { rate: 4 burst: 1 }");
  ServerProcess server({"--model-path", DefaultModel(), "--tenant-file", temp.At("tenants")});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // By itself it would wait for an hour, and the call end at its deadline.
  arguments.SetServiceConfigJSON(R"({"methodConfig": [{"name": [{}], "retryPolicy": {
      "maxAttempts": 5, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1,
      "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]})");
  const auto stub = v1::DecodeService::NewStub(
      grpc::CreateCustomChannel(server.address(), grpc::InsecureChannelCredentials(), arguments));
  const auto refused = [&server] {
    return Sum(Scrape(server.metrics_port()), "beamwright_requests_total",
               "code=\"RESOURCE_EXHAUSTED\"");
  };
  do {
    const auto [status, response] = Decode(*stub, Request({"cat"}));
    EXPECT_TRUE(status.ok()) << status.error_message();
  } while (refused() == 0 && !HasFailure());
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
  http.set_read_timeout(std::chrono::minutes(2));
  const auto result = http.Post("/v2/models/g2p-en/infer", json + "]}]}", "application/json");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 429) << result->body;
  EXPECT_TRUE(result->has_header("Retry-After"));
  EXPECT_THAT(result->body, HasSubstr("\"reason\":\"QUEUE_FULL\""));
}

}  // namespace
}  // namespace beamwright::e2e
