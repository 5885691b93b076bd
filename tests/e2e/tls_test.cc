// TLS of the real server on both protocols: who is believed, certificates that change while it
// runs, tenants by certificate.
#include <gmock/gmock.h>
#include <httplib.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/secured.h"

namespace beamwright::e2e {
namespace {

using access::Issued;
using access::TestAuthority;
using ::testing::HasSubstr;

constexpr char kServerNames[] = "DNS:localhost,IP:127.0.0.1";

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
    https.set_read_timeout(std::chrono::minutes(2));
    https.set_ca_cert_path(security.ca_file.c_str());
    https.enable_server_certificate_verification(true);
    const auto result = https.Get("/v1/models");
    return result ? result->status : -1;
  }

  bundle::TempFolder temp_;
  TestAuthority authority_{"server authority"};
  TestAuthority client_authority_{"client authority"};
  client::SecurityOptions trusting_;  // believes the server, has no certificate
  client::SecurityOptions named_;     // has one too
};

TEST_F(TlsTest, TheServerIsBelievedByItsAuthorityAlone) {
  ServerProcess server(Arguments());
  EXPECT_TRUE(DecodeAs(server.address(), trusting_).ok()) << server.log();
  EXPECT_EQ(HttpsStatus(server.http_port(), trusting_), 200);
  client::SecurityOptions wrong = trusting_;
  wrong.ca_file = temp_.At("client-ca.crt");
  EXPECT_EQ(DecodeAs(server.address(), wrong).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(HttpsStatus(server.http_port(), wrong), -1);
  // Clear text is no way in.
  EXPECT_FALSE(DecodeAs(server.address(), {}).ok());
  httplib::Client clear("127.0.0.1", server.http_port());
  EXPECT_FALSE(clear.Get("/v1/models"));
  // Probes are in clear text for those who have no certificates.
  httplib::Client probe("127.0.0.1", server.metrics_port());
  probe.set_read_timeout(std::chrono::minutes(2));
  EXPECT_EQ(probe.Get("/readyz")->status, 200);
}

TEST_F(TlsTest, ClientsNeedACertificateThatIsSignedAndValid) {
  PutPair(temp_, "stranger", authority_.Issue("stranger", ""));
  PutPair(temp_, "expired", client_authority_.Issue("expired", "", {-7200, -3600}));
  PutPair(temp_, "early", client_authority_.Issue("early", "", {3600, 7200}));
  ServerProcess server(Arguments({"--tls-client-ca", temp_.At("client-ca.crt")}));
  EXPECT_TRUE(DecodeAs(server.address(), named_).ok()) << server.log();
  EXPECT_EQ(HttpsStatus(server.http_port(), named_), 200);
  EXPECT_FALSE(DecodeAs(server.address(), trusting_).ok()) << "without a certificate";
  EXPECT_EQ(HttpsStatus(server.http_port(), trusting_), -1);
  for (const char* who : {"stranger", "expired", "early"}) {
    client::SecurityOptions bad = trusting_;
    bad.cert_file = temp_.At(std::string(who) + ".crt");
    bad.key_file = temp_.At(std::string(who) + ".key");
    EXPECT_FALSE(DecodeAs(server.address(), bad).ok()) << who;
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
  EXPECT_TRUE(DecodeAs(server.address(), other).ok());
  httplib::SSLClient https("127.0.0.1", server.http_port(), named_.cert_file, named_.key_file);
  https.set_read_timeout(std::chrono::minutes(2));
  https.set_ca_cert_path(named_.ca_file.c_str());
  const std::string body = R"({"sources":[{"text":"beam"}]})";
  auto first = https.Post("/v1/models/g2p-en:decode", body, "application/json");
  ASSERT_TRUE(first);
  EXPECT_THAT(first->body, HasSubstr("hypotheses"));
  auto second = https.Post("/v1/models/g2p-en:decode", body, "application/json");
  EXPECT_THAT(second->body, HasSubstr("TENANT_RATE"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(DecodeAs(server.address(), other).ok());
  }
}

TEST_F(TlsTest, NewCertificatesAreTakenWithoutARestart) {
  ServerProcess server(Arguments({"--tls-client-ca", temp_.At("client-ca.crt")}));
  ASSERT_TRUE(DecodeAs(server.address(), named_).ok()) << server.log();
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
    return DecodeAs(server.address(), moved).ok() && HttpsStatus(server.http_port(), moved) == 200;
  };
  bool seen = both();
  while (!seen && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(100));
    seen = both();
  }
  EXPECT_TRUE(seen) << server.log();
  EXPECT_FALSE(DecodeAs(server.address(), named_).ok()) << "the old certificate is still shown";
}

// A renewal writes one file after the other, and an operator may make a mistake: meanwhile both
// protocols serve with what was good last.
TEST_F(TlsTest, FilesThatDoNotFitArePassedOver) {
  ServerProcess server(Arguments({"--tls-client-ca", temp_.At("client-ca.crt")}));
  ASSERT_TRUE(DecodeAs(server.address(), named_).ok()) << server.log();
  TestAuthority next("next authority");
  Put(temp_, "next-ca.crt", next.cert());
  client::SecurityOptions moved = named_;
  moved.ca_file = temp_.At("next-ca.crt");
  const Issued old = authority_.Issue("server", kServerNames);
  const Issued renewed = next.Issue("server", kServerNames);
  const auto stays = [&](const char* why) {
    // Files are looked at each second: once more at least while they are wrong.
    const absl::Time until = absl::Now() + absl::Milliseconds(2500);
    while (absl::Now() < until) {
      EXPECT_TRUE(DecodeAs(server.address(), named_).ok()) << why << "\n" << server.log();
      EXPECT_EQ(HttpsStatus(server.http_port(), named_), 200) << why;
      absl::SleepFor(absl::Milliseconds(250));
    }
  };
  PutPair(temp_, "server", old);
  Put(temp_, "server.crt", renewed.cert);
  stays("a certificate without its key");
  Put(temp_, "server.crt", "-----BEGIN CERTIFICATE-----\ngarbage\n");
  stays("garbage in the certificate");
  Put(temp_, "client-ca.crt", "garbage");  // first: the pair alone would be good for a moment
  PutPair(temp_, "server", renewed);
  stays("garbage among the clients' authorities");
  for (const char* file : {"server.crt", "server.key", "client-ca.crt"}) {
    std::filesystem::remove(temp_.At(file));
  }
  stays("no files");
  Put(temp_, "client-ca.crt", client_authority_.cert());
  PutPair(temp_, "server", renewed);
  const absl::Time until = absl::Now() + absl::Seconds(60);
  while (!DecodeAs(server.address(), moved).ok() && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_TRUE(DecodeAs(server.address(), moved).ok()) << server.log();
  EXPECT_EQ(HttpsStatus(server.http_port(), moved), 200);
  EXPECT_FALSE(DecodeAs(server.address(), trusting_).ok()) << "without a certificate";
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

}  // namespace
}  // namespace beamwright::e2e
