// TLS, certificates, tokens, roles and error details of the real server, on both protocols.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <httplib.h>
#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/synchronization/notification.h"
#include "client/client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "inference/grpc_service.pb.h"
#include "tests/e2e/e2e_test.h"
#include "tests/server/access/test_certificates.h"
#include "tests/server/model/temp_bundle.h"

namespace beamwright::e2e {
namespace {

using access::Issued;
using access::TestAuthority;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kServerNames[] = "DNS:localhost,IP:127.0.0.1";

std::string Sha256Hex(const std::string& text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

// Whole files appear at once, so that nobody reads half a certificate.
void Put(const model::TempFolder& temp, const std::string& name, const std::string& content) {
  temp.Write(name + ".new", content);
  ASSERT_EQ(std::rename(temp.At(name + ".new").c_str(), temp.At(name).c_str()), 0);
}

void PutPair(const model::TempFolder& temp, const std::string& name, const Issued& issued) {
  Put(temp, name + ".crt", issued.cert);
  Put(temp, name + ".key", issued.key);
}

// A call through a client of its own, so that every one makes a new connection.
absl::Status Decode(const std::string& address, const client::SecurityOptions& security) {
  client::ClientOptions options;
  options.address = address;
  options.max_attempts = 1;
  options.security = security;
  const auto made = client::Client::Connect(options);
  if (!made.ok()) {
    return made.status();
  }
  const auto response = (*made)->Decode(Request({"beam"}), absl::Now() + absl::Seconds(30));
  return response.status();
}

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    Put(temp_, "ca.crt", authority_.cert());
    PutPair(temp_, "server", authority_.Issue("server", kServerNames));
    Put(temp_, "client-ca.crt", client_authority_.cert());
    PutPair(temp_, "client",
            client_authority_.Issue("somebody", "URI:spiffe://acme/decoder,DNS:decoder.acme"));
    trusting_.ca_file = temp_.At("ca.crt");
    named_ = trusting_;
    named_.cert_file = temp_.At("client.crt");
    named_.key_file = temp_.At("client.key");
  }

  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--model-path", DefaultModel(), "--tls-cert", temp_.At("server.crt"),
                               "--tls-key", temp_.At("server.key"), "--security-refresh", "1s"});
    return more;
  }

  int HttpsStatus(int port, const client::SecurityOptions& security) {
    httplib::SSLClient https("127.0.0.1", port, security.cert_file, security.key_file);
    https.set_ca_cert_path(security.ca_file.c_str());
    https.enable_server_certificate_verification(true);
    const auto result = https.Get("/v1/models");
    return result ? result->status : -1;
  }

  model::TempFolder temp_;
  TestAuthority authority_{"server authority"};
  TestAuthority client_authority_{"client authority"};
  client::SecurityOptions trusting_;  // believes the server, has no certificate
  client::SecurityOptions named_;     // has one too
};

TEST_F(TlsTest, TheServerIsBelievedByItsAuthorityAlone) {
  ServerProcess server(Arguments());
  EXPECT_TRUE(Decode(server.address(), trusting_).ok()) << server.log();
  EXPECT_EQ(HttpsStatus(server.http_port(), trusting_), 200);
  client::SecurityOptions wrong = trusting_;
  wrong.ca_file = temp_.At("client-ca.crt");
  EXPECT_EQ(Decode(server.address(), wrong).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(HttpsStatus(server.http_port(), wrong), -1);
  // Clear text is no way in.
  EXPECT_FALSE(Decode(server.address(), {}).ok());
  httplib::Client clear("127.0.0.1", server.http_port());
  EXPECT_FALSE(clear.Get("/v1/models"));
  // Probes are in clear text for those who have no certificates.
  httplib::Client probe("127.0.0.1", server.metrics_port());
  EXPECT_EQ(probe.Get("/readyz")->status, 200);
}

TEST_F(TlsTest, ClientsNeedACertificateThatIsSignedAndValid) {
  PutPair(temp_, "stranger", authority_.Issue("stranger", ""));
  PutPair(temp_, "expired", client_authority_.Issue("expired", "", {-7200, -3600}));
  PutPair(temp_, "early", client_authority_.Issue("early", "", {3600, 7200}));
  ServerProcess server(Arguments({"--tls-client-ca", temp_.At("client-ca.crt")}));
  EXPECT_TRUE(Decode(server.address(), named_).ok()) << server.log();
  EXPECT_EQ(HttpsStatus(server.http_port(), named_), 200);
  EXPECT_FALSE(Decode(server.address(), trusting_).ok()) << "without a certificate";
  EXPECT_EQ(HttpsStatus(server.http_port(), trusting_), -1);
  for (const char* who : {"stranger", "expired", "early"}) {
    client::SecurityOptions bad = trusting_;
    bad.cert_file = temp_.At(std::string(who) + ".crt");
    bad.key_file = temp_.At(std::string(who) + ".key");
    EXPECT_FALSE(Decode(server.address(), bad).ok()) << who;
    EXPECT_EQ(HttpsStatus(server.http_port(), bad), -1) << who;
  }
}

// A certificate's name is the tenant, and the tenant's limits hold on both protocols.
TEST_F(TlsTest, TheCertificateNamesTheTenant) {
  temp_.Write("tenants",
              "tenants { name: \"spiffe://acme/decoder\" rate: 0.001 burst: 1 } others {}");
  ServerProcess server(Arguments(
      {"--tls-client-ca", temp_.At("client-ca.crt"), "--tenant-file", temp_.At("tenants")}));
  PutPair(temp_, "other", client_authority_.Issue("other", ""));
  client::SecurityOptions other = trusting_;
  other.cert_file = temp_.At("other.crt");
  other.key_file = temp_.At("other.key");
  EXPECT_TRUE(Decode(server.address(), other).ok());
  httplib::SSLClient https("127.0.0.1", server.http_port(), named_.cert_file, named_.key_file);
  https.set_ca_cert_path(named_.ca_file.c_str());
  const std::string body = R"({"sources":[{"text":"beam"}]})";
  auto first = https.Post("/v1/models/g2p-en:decode", body, "application/json");
  ASSERT_TRUE(first);
  EXPECT_THAT(first->body, HasSubstr("hypotheses"));
  auto second = https.Post("/v1/models/g2p-en:decode", body, "application/json");
  EXPECT_THAT(second->body, HasSubstr("TENANT_RATE"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Decode(server.address(), other).ok());
  }
}

TEST_F(TlsTest, NewCertificatesAreTakenWithoutARestart) {
  ServerProcess server(Arguments({"--tls-client-ca", temp_.At("client-ca.crt")}));
  ASSERT_TRUE(Decode(server.address(), named_).ok()) << server.log();
  TestAuthority next("next authority");
  Put(temp_, "next-ca.crt", next.cert());
  // Key first: for a moment the two do not fit, which must do no harm.
  const Issued renewed = next.Issue("server", kServerNames);
  Put(temp_, "server.key", renewed.key);
  Put(temp_, "server.crt", renewed.cert);
  client::SecurityOptions moved = named_;
  moved.ca_file = temp_.At("next-ca.crt");
  const absl::Time until = absl::Now() + absl::Seconds(60);
  const auto both = [&] {
    return Decode(server.address(), moved).ok() && HttpsStatus(server.http_port(), moved) == 200;
  };
  bool seen = both();
  while (!seen && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(100));
    seen = both();
  }
  EXPECT_TRUE(seen) << server.log();
  EXPECT_FALSE(Decode(server.address(), named_).ok()) << "the old certificate is still shown";
}

TEST_F(TlsTest, FilesThatAreNotGoodEndTheProgramAndAreNamed) {
  temp_.Write("junk", "no certificate");
  const Issued other = authority_.Issue("other", "");
  temp_.Write("other.key", other.key);
  for (const auto& [flag, file] :
       {std::pair("--tls-cert", "junk"), std::pair("--tls-key", "junk"),
        std::pair("--tls-key", "other.key"), std::pair("--tls-client-ca", "junk"),
        std::pair("--tls-cert", "nowhere")}) {
    std::vector<std::string> arguments = {"--model-path", DefaultModel()};
    for (const auto& [name, good] :
         {std::pair("--tls-cert", "server.crt"), std::pair("--tls-key", "server.key")}) {
      if (std::string(name) != flag) {
        arguments.insert(arguments.end(), {name, temp_.At(good)});
      }
    }
    arguments.insert(arguments.end(), {flag, temp_.At(file)});
    ServerProcess server(arguments);
    EXPECT_EQ(server.Wait(), 1) << flag;
    EXPECT_THAT(server.log(), HasSubstr(temp_.At(file)));
  }
}

class RolesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    temp_ = new model::TempFolder;
    std::string file;
    for (const auto& [name, role] : {std::pair("d", "ROLE_DECODE"), std::pair("o", "ROLE_OBSERVE"),
                                     std::pair("p", "ROLE_OPERATE")}) {
      file += std::string("tokens { name: \"") + name + "\" sha256: \"" + Sha256Hex(name) +
              "\" roles: " + role + " }\n";
    }
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
    const auto channel = Connect(server_->address());
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    const grpc::Slice slice("");
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    absl::Notification done;
    stub.UnaryCall(&context, method, {}, &request, &response, [&](grpc::Status result) {
      status = std::move(result);
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  static model::TempFolder* temp_;
  static ServerProcess* server_;
};

model::TempFolder* RolesTest::temp_ = nullptr;
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
       {v1::DecodeRequest::descriptor()->file(), v1::ModelDescription::descriptor()->file(),
        inference::ModelInferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto& service = *file->service(i);
        const std::string name = service.method(j)->name();
        const std::string method = "/" + service.full_name() + "/" + name;
        const bool decodes = service.name() == "DecodeService";
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
                                    {"GET", "/v2/health/ready", ""},
                                    {"GET", "/v1/models", "dop"},
                                    {"GET", "/v2/models/g2p-en", "dop"},
                                    {"POST", "/v1/models/g2p-en:decode", "d"},
                                    {"POST", "/v2/models/g2p-en/infer", "d"},
                                    {"GET", "/v2/models/stats", "op"},
                                    {"POST", "/v2/repository/index", "op"},
                                    {"POST", "/v2/repository/models/none/load", "p"},
                                    {"GET", "/no/such/path", "p"}}),
        std::pair(server_->admin_port(),
                  std::vector<Case>{{"GET", "/debug/scheduler", "op"},
                                    {"POST", "/v2/repository/models/none/unload", "p"}})}) {
    httplib::Client http("127.0.0.1", port);
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
  EXPECT_TRUE(Decode(server_->address(), security).ok());
  temp_->Write("token", "o\n");
  EXPECT_EQ(Decode(server_->address(), security).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Decode("example.org:1", security).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SecurityTest, TokensDoNotCrossANetworkInClearText) {
  const model::TempFolder temp;
  temp.Write("auth", "");
  ServerProcess server({"--model-path", DefaultModel(), "--grpc-address", "0.0.0.0:0",
                        "--auth-token-file", temp.At("auth")});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.log(), HasSubstr("auth-in-clear"));
}

}  // namespace
}  // namespace beamwright::e2e
