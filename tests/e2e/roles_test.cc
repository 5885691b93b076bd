// Tokens and roles of the real server: what every call of every protocol asks for.
#include <gmock/gmock.h>
#include <httplib.h>

#include "beamwright/v1/recognize.pb.h"
#include "beamwright/v1/translate.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "inference/grpc_service.pb.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/secured.h"

namespace beamwright::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class RolesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    temp_ = new bundle::TempFolder;
    const std::string file = TokenLine("d", "ROLE_DECODE") + TokenLine("o", "ROLE_OBSERVE") +
                             TokenLine("p", "ROLE_OPERATE");
    temp_->Write("auth", file);
    server_ = new ServerProcess({"--model-path", DefaultModel(), "--auth-token-file",
                                 temp_->At("auth"), "--security-refresh", "1s"});
    server_->WaitForPort();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete temp_;
  }

  // Calls without content: what matters is whether the gate lets them through.
  static grpc::Status Call(const std::string& method, const std::string& token) {
    return CallRaw(Connect(server_->address()), method, "", token);
  }

  static bundle::TempFolder* temp_;
  static ServerProcess* server_;
};

bundle::TempFolder* RolesTest::temp_ = nullptr;
ServerProcess* RolesTest::server_ = nullptr;

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status whole;
  whole.ParseFromString(status.error_details());
  for (const google::protobuf::Any& detail : whole.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) {
      return info.reason();
    }
  }
  return "";
}

// Every method of every service, with every role and without: none is forgotten.
TEST_F(RolesTest, EveryMethodAsksForItsRole) {
  // Who may call: d(ecode), o(bserve), o(p)erate; empty: everybody.
  const std::map<std::string, std::string> who = {
      {"ListModels", "dop"},        {"DescribeModel", "dop"},       {"ServerLive", ""},
      {"ServerReady", ""},          {"ModelReady", "dop"},          {"ServerMetadata", "dop"},
      {"ModelMetadata", "dop"},     {"ModelConfig", "dop"},         {"ModelInfer", "d"},
      {"ModelStreamInfer", "d"},    {"ModelStatistics", "op"},      {"RepositoryIndex", "op"},
      {"RepositoryModelLoad", "p"}, {"RepositoryModelUnload", "p"}, {"LogSettings", "p"},
      {"TraceSetting", "p"}};
  for (const google::protobuf::FileDescriptor* file :
       {v1::DecodeRequest::descriptor()->file(), v1::RecognizeRequest::descriptor()->file(),
        v1::TranslateRequest::descriptor()->file(), v1::ModelDescription::descriptor()->file(),
        inference::ModelInferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto& service = *file->service(i);
        const std::string name = service.method(j)->name();
        const std::string method = "/" + service.full_name() + "/" + name;
        const bool decodes = service.name() == "DecodeService" ||
                             service.name() == "RecognizeService" ||
                             service.name() == "TranslateService";
        const std::string roles = decodes ? "d" : who.count(name) > 0 ? who.at(name) : "-";
        for (const std::string token : {"", "d", "o", "p", "wrong"}) {
          const grpc::Status status = Call(method, token);
          if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
            continue;  // shared memory and what else this server does not have
          }
          const bool allowed =
              roles.empty() || (token.size() == 1 && roles.find(token) != std::string::npos);
          if (allowed) {
            EXPECT_THAT(status.error_code(),
                        testing::AllOf(testing::Ne(grpc::StatusCode::UNAUTHENTICATED),
                                       testing::Ne(grpc::StatusCode::PERMISSION_DENIED)))
                << method << " with '" << token << "': " << status.error_message();
          } else {
            EXPECT_EQ(status.error_code(), token.size() == 1 ? grpc::StatusCode::PERMISSION_DENIED
                                                             : grpc::StatusCode::UNAUTHENTICATED)
                << method << " with '" << token << "': " << status.error_message();
            EXPECT_EQ(ReasonOf(status), token.empty()       ? "NO_CREDENTIALS"
                                        : token.size() == 1 ? "ROLE_MISSING"
                                                            : "BAD_CREDENTIALS");
          }
        }
      }
    }
  }
  EXPECT_TRUE(Call("/grpc.health.v1.Health/Check", "").ok());
}

TEST_F(RolesTest, HttpAsksForTheSame) {
  struct Case {
    const char* verb;
    const char* path;
    std::string roles;
  };
  for (const auto& [port, cases] :
       {std::pair(server_->http_port(),
                  std::vector<Case>{{"GET", "/livez", ""},
                                    {"GET", "/", ""},
                                    {"GET", "/page/page.css", ""},
                                    {"GET", "/openapi.json", ""},
                                    {"GET", "/v1/status", "op"},
                                    {"GET", "/v2/health/ready", ""},
                                    {"GET", "/v1/models", "dop"},
                                    {"GET", "/v2/models/g2p-en", "dop"},
                                    {"POST", "/v1/models/g2p-en:decode", "d"},
                                    {"POST", "/v1/completions", "d"},
                                    {"POST", "/v1/audio/transcriptions", "d"},
                                    {"POST", "/v2/models/g2p-en/infer", "d"},
                                    {"GET", "/v2/models/stats", "op"},
                                    {"POST", "/v2/repository/index", "op"},
                                    {"POST", "/v2/repository/models/none/load", "p"},
                                    {"GET", "/no/such/path", "p"}}),
        std::pair(server_->admin_port(),
                  std::vector<Case>{{"GET", "/debug/scheduler", "op"},
                                    {"POST", "/v2/repository/models/none/unload", "p"}})}) {
    httplib::Client http("127.0.0.1", port);
    http.set_read_timeout(std::chrono::minutes(2));
    for (const Case& one : cases) {
      for (const std::string token : {"", "d", "o", "p", "wrong"}) {
        const httplib::Headers headers =
            token.empty() ? httplib::Headers()
                          : httplib::Headers{{"Authorization", "Bearer " + token}};
        const auto result = std::string(one.verb) == "GET"
                                ? http.Get(one.path, headers)
                                : http.Post(one.path, headers, "{}", "application/json");
        ASSERT_TRUE(result);
        const bool allowed =
            one.roles.empty() || (token.size() == 1 && one.roles.find(token) != std::string::npos);
        if (allowed) {
          EXPECT_THAT(result->status, testing::AllOf(testing::Ne(401), testing::Ne(403)))
              << one.path << " with '" << token << "': " << result->body;
        } else {
          EXPECT_EQ(result->status, token.size() == 1 ? 403 : 401)
              << one.path << " with '" << token << "': " << result->body;
          EXPECT_THAT(result->body,
                      AnyOf(HasSubstr("\"NO_CREDENTIALS\""), HasSubstr("\"ROLE_MISSING\""),
                            HasSubstr("\"BAD_CREDENTIALS\"")));
          EXPECT_EQ(result->has_header("WWW-Authenticate"), result->status == 401);
        }
      }
    }
  }
}

TEST_F(RolesTest, TheClientSendsItsToken) {
  temp_->Write("token", "d\n");
  client::SecurityOptions security;
  security.token_file = temp_->At("token");
  EXPECT_TRUE(DecodeAs(server_->address(), security).ok());
  temp_->Write("token", "o\n");
  EXPECT_EQ(DecodeAs(server_->address(), security).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(DecodeAs("example.org:1", security).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokensTest, TokensDoNotCrossANetworkInClearText) {
  const bundle::TempFolder temp;
  temp.Write("auth", "");
  ServerProcess server({"--model-path", DefaultModel(), "--grpc-address", "0.0.0.0:0",
                        "--auth-token-file", temp.At("auth")});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.log(), HasSubstr("auth-in-clear"));
}

}  // namespace
}  // namespace beamwright::e2e
