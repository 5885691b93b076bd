// What a server does before its models are loaded.
#include <gmock/gmock.h>
#include <httplib.h>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/faulty_server.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::chaos {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StartupTest : public FaultyServer {
 protected:
  // Loads for longer than any test takes.
  StartupTest() { Set("model.load delay 1h"); }
};

TEST_F(StartupTest, APortThatIsTakenIsNamedBeforeModelsLoad) {
  StartWith({});
  const std::string address = absl::StrCat("127.0.0.1:", server_->metrics_port());
  for (const std::string flag :
       {"grpc-address", "http-address", "metrics-address", "admin-address"}) {
    e2e::ServerProcess second({"--model-repository", folder_ + "/models", "--" + flag, address,
                               "--startup-timeout", "30s"},
                              BEAMWRIGHT_SERVER_WITH_FAULTS);
    EXPECT_EQ(second.Wait(), 1) << flag;
    EXPECT_THAT(second.log(), HasSubstr(flag + ": cannot listen on '" + address + "': "));
    EXPECT_THAT(second.log(), HasSubstr("in use"));
  }
}

TEST_F(StartupTest, WhoCallsTooEarlyIsToldSoAtOnce) {
  StartWith({"--model-control", "explicit"});
  const auto channel = e2e::Connect(server_->WaitForLine("gRPC on "));
  const auto expect_loading = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_EQ(status.error_message(), "the server is loading its models");
    EXPECT_THAT(status.error_details(), HasSubstr("LOADING"));
  };
  {
    grpc::ClientContext context;
    v1::DecodeResponse response;
    expect_loading(
        v1::DecodeService::NewStub(channel)->Decode(&context, WordRequest(0), &response));
  }
  {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    expect_loading(v1::ModelService::NewStub(channel)->ListModels(&context, {}, &response));
  }
  channel_ = channel;
  expect_loading(Load());
  httplib::Client http("127.0.0.1", std::stoi(server_->WaitForLine("HTTP on 127.0.0.1:")));
  http.set_read_timeout(std::chrono::minutes(2));
  httplib::Client admin("127.0.0.1", std::stoi(server_->WaitForLine("operators on 127.0.0.1:")));
  admin.set_read_timeout(std::chrono::minutes(2));
  for (httplib::Client* client : {&http, &admin}) {
    for (const auto& reply : {client->Post("/v1/models/g2p-en:decode", "{}", "application/json"),
                              client->Post("/v2/models/g2p-en/infer", "{}", "application/json"),
                              client->Get("/v1/models"), client->Get("/v2/models/g2p-en")}) {
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->status, 503);
      EXPECT_THAT(reply->body, HasSubstr("\"LOADING\""));
      EXPECT_TRUE(reply->has_header("Retry-After"));
    }
  }
  // Those who wait for a port wait for models.
  EXPECT_THAT(server_->log(), Not(HasSubstr("ready on")));
}

}  // namespace
}  // namespace beamwright::chaos
