// Calls that are refused before anybody looks at what they ask are counted and logged like all
// others: an operator who sees none would look for them elsewhere.
#include <gmock/gmock.h>
#include <httplib.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/every_call.h"
#include "tests/e2e/secured.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

std::string MetricsOf(ServerProcess& server) {
  httplib::Client probes("127.0.0.1", server.metrics_port());
  probes.set_read_timeout(std::chrono::minutes(2));
  const auto reply = probes.Get("/metrics");
  return reply ? reply->body : "";
}

// The line of /metrics that says so; of calls without a model.
std::string Counted(const std::string& protocol, const std::string& method, const std::string& code,
                    int count) {
  return absl::StrCat("beamwright_requests_total{code=\"", code, "\",method=\"", method,
                      "\",model=\"\",protocol=\"", protocol, "\",version=\"\"} ", count, "\n");
}

std::string Rejected(const std::string& reason, int count) {
  return absl::StrCat("beamwright_requests_rejected_total{reason=\"", reason, "\"} ", count, "\n");
}

TEST(RefusedCallsTest, OfHttpsOwn) {
  ServerProcess server({"--model-path", DefaultModel(), "--access-log-sample", "1",
                        "--http-max-body-bytes", "1000"});
  httplib::Client http("127.0.0.1", server.http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  const std::string decode = "/v1/models/g2p-en:decode";
  const std::string infer = "/v2/models/g2p-en/infer";
  EXPECT_EQ(http.Post(decode, {{"x-request-id", "large"}}, std::string(1001, ' '), kJson)->status,
            413);
  EXPECT_EQ(http.Post(infer, {{"Content-Encoding", "gzip"}}, "{}", kJson)->status, 415);
  EXPECT_EQ(http.Put("/v1/models/g2p-en:score", "{}", kJson)->status, 405);
  EXPECT_EQ(http.Get("/v1/models/g2p-en:align")->status, 405);
  EXPECT_EQ(http.Post("/v1/models/g2p-en:dekode", "{}", kJson)->status, 404);
  EXPECT_EQ(http.Post("/v1/models/g2p-en", "{}", kJson)->status, 405);
  EXPECT_EQ(http.Get("/wp-login.php")->status, 404);
  EXPECT_EQ(http.Post(decode, "{", kJson)->status, 400);
  const std::string metrics = MetricsOf(server);
  // The body that is no JSON is one of the two.
  EXPECT_THAT(metrics, HasSubstr(Counted("http", "Decode", "INVALID_ARGUMENT", 2)));
  EXPECT_THAT(metrics, HasSubstr(Counted("http", "ModelInfer", "INVALID_ARGUMENT", 1)));
  EXPECT_THAT(metrics, HasSubstr(Counted("http", "Score", "UNIMPLEMENTED", 1)));
  EXPECT_THAT(metrics, HasSubstr(Counted("http", "Align", "UNIMPLEMENTED", 1)));
  EXPECT_THAT(metrics, HasSubstr(Counted("http", "other", "UNIMPLEMENTED", 1)));
  EXPECT_THAT(metrics, HasSubstr(Counted("http", "other", "NOT_FOUND", 2)));
  EXPECT_THAT(metrics, HasSubstr(Rejected("invalid", 7)));
  EXPECT_THAT(metrics, HasSubstr(Rejected("too_large", 1)));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("protocol=http method=Decode"));
  EXPECT_THAT(server.log(), HasSubstr("request_id=large"));
  EXPECT_THAT(server.log(), HasSubstr("method=other model= version= code=NOT_FOUND"));
}

TEST(RefusedCallsTest, ForWantOfCredentials) {
  const bundle::TempFolder temp;
  temp.Write("auth", TokenLine("d", "ROLE_DECODE"));
  ServerProcess server({"--model-path", DefaultModel(), "--auth-token-file", temp.At("auth"),
                        "--model-control", "explicit"});
  for (const EveryCall& call : EveryCalls()) {
    call.ask(server, {});
  }
  const auto stub = inference::GRPCInferenceService::NewStub(Connect(server.address()));
  {
    grpc::ClientContext context;
    inference::ModelReadyResponse response;
    EXPECT_EQ(stub->ModelReady(&context, {}, &response).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer d");
    inference::RepositoryModelLoadResponse response;
    EXPECT_EQ(stub->RepositoryModelLoad(&context, {}, &response).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
  }
  httplib::Client admin("127.0.0.1", server.admin_port());
  admin.set_read_timeout(std::chrono::minutes(2));
  EXPECT_EQ(admin.Get("/debug/scheduler")->status, 401);
  const std::string metrics = MetricsOf(server);
  for (const char* method :
       {"Decode", "StreamDecode", "Score", "ModelInfer", "ModelStreamInfer", "other"}) {
    EXPECT_THAT(metrics, HasSubstr(Counted("grpc", method, "UNAUTHENTICATED", 1)));
  }
  for (const char* method : {"Decode", "StreamDecode", "Score", "ModelInfer", "other"}) {
    EXPECT_THAT(metrics, HasSubstr(Counted("http", method, "UNAUTHENTICATED", 1)));
  }
  EXPECT_THAT(metrics, HasSubstr(Counted("grpc", "other", "PERMISSION_DENIED", 1)));
  EXPECT_THAT(metrics, HasSubstr(Rejected("permission_denied", 1)));
}

}  // namespace
}  // namespace beamwright::e2e
