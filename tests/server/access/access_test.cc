#include "server/access/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/status/fault.h"
#include "server/access/guard.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/server/access/test_certificates.h"

namespace beamwright::access {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Of "open sesame" and "observer", by sha256sum.
constexpr char kSesame[] = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";
constexpr char kObserver[] = "e41f1d834710df8c7bc2befedb7b92339973a92288d8581b3696604c0d04c5f7";

std::string TokenEntry(const std::string& name, const std::string& digest,
                       const std::string& rest) {
  return "tokens { name: \"" + name + "\" sha256: \"" + digest + "\" " + rest + " }\n";
}

class AccessTest : public ::testing::Test {
 protected:
  std::unique_ptr<Access> Load(const std::string& auth, const std::string& tenants = "",
                               bool peers = false) {
    AccessOptions options;
    options.verified_peers = peers;
    if (!auth.empty()) {
      options.token_file = temp_.At("auth");
      temp_.Write("auth", auth);
    }
    if (!tenants.empty()) {
      options.tenant_file = temp_.At("tenants");
      temp_.Write("tenants", tenants);
    }
    auto access = Access::Load(options);
    EXPECT_TRUE(access.ok()) << access.status();
    return access.ok() ? *std::move(access) : nullptr;
  }

  static std::string Reason(const absl::StatusOr<Identity>& identity) {
    return status::ReasonOf(identity.status());
  }

  bundle::TempFolder temp_;
};

TEST_F(AccessTest, WithoutFilesEverybodyMayDoEverything) {
  const Access access;
  EXPECT_TRUE(access.open());
  const auto identity = access.Admit({}, kOperate, "x");
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->tenant, nullptr);
}

TEST_F(AccessTest, ATokenIsKnownByItsHashAndHasItsRolesOnly) {
  const auto access = Load(TokenEntry("alice", kSesame, "roles: ROLE_DECODE tenant: \"acme\""));
  const auto alice = access->Admit({"Bearer open sesame", "", {}}, kDecode, "Decode");
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(alice->name, "alice");
  EXPECT_EQ(alice->tenant->name, "acme");
  EXPECT_TRUE(access->Admit({"bEARER open sesame", "", {}}, kAnyRole, "x").ok());

  const auto denied = access->Admit({"Bearer open sesame", "", {}}, kOperate, "Unload");
  EXPECT_EQ(denied.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(denied.status().message()),
              AllOf(HasSubstr("alice"), HasSubstr("Unload"), HasSubstr("operate")));
  EXPECT_EQ(Reason(denied), status::reason::kRoleMissing);

  const auto none = access->Admit({}, kDecode, "Decode");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Reason(none), status::reason::kNoCredentials);
  for (const std::string& wrong :
       {std::string("Bearer open sesame "), std::string("Bearer Open sesame"),
        std::string("Bearer "), "Bearer " + std::string(kSesame), std::string("Basic open sesame"),
        std::string("open sesame"), "Bearer " + std::string(100000, 'x')}) {
    const auto refused = access->Admit({wrong, "", {}}, kDecode, "Decode");
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnauthenticated) << wrong;
    EXPECT_EQ(Reason(refused), status::reason::kBadCredentials) << wrong;
    EXPECT_EQ(refused.status().message().find("sesame"), std::string::npos) << "holds the token";
  }
  // What is open needs nothing, and wrong credentials do no harm there.
  EXPECT_TRUE(access->Admit({}, kOpen, "Check").ok());
  EXPECT_TRUE(access->Admit({"Bearer wrong", "", {}}, kOpen, "Check").ok());
}

TEST_F(AccessTest, AChangedFileIsTakenAndABadOneIsNot) {
  const auto access = Load(TokenEntry("alice", kSesame, "roles: ROLE_DECODE"));
  temp_.Write("auth", TokenEntry("alice", kObserver, "roles: ROLE_DECODE"));
  ASSERT_TRUE(access->Refresh().ok());
  const Proof sesame{"Bearer open sesame", "", {}};
  EXPECT_FALSE(access->Admit(sesame, kDecode, "x").ok());
  temp_.Write("auth", TokenEntry("alice", kSesame, "roles: ROLE_DECODE"));
  ASSERT_TRUE(access->Refresh().ok());
  EXPECT_TRUE(access->Admit(sesame, kDecode, "x").ok());
  temp_.Write("auth", "tokens { name: 7 }");
  const absl::Status bad = access->Refresh();
  EXPECT_THAT(std::string(bad.message()), AllOf(HasSubstr(temp_.At("auth")), HasSubstr("1:16")));
  temp_.Remove("auth");
  EXPECT_FALSE(access->Refresh().ok());
  EXPECT_TRUE(access->Admit(sesame, kDecode, "x").ok());
}

TEST_F(AccessTest, AFileThatIsEmptyForAMomentLocksNoCallerOut) {
  const auto access = Load(TokenEntry("alice", kSesame, "roles: ROLE_DECODE tenant: \"acme\""),
                           "tenants { name: \"acme\" weight: 3 }");
  const Proof sesame{"Bearer open sesame", "", {}};
  for (const char* file : {"auth", "tenants"}) {
    const std::string content = temp_.Read(file);
    for (const char* empty : {"", " \n"}) {
      temp_.Write(file, empty);
      const absl::Status status = access->Refresh();
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(temp_.At(file)), HasSubstr("has become empty")));
      EXPECT_EQ(access->Admit(sesame, kDecode, "x")->tenant->weight, 3);
    }
    temp_.Write(file, content);
    EXPECT_TRUE(access->Refresh().ok());
  }
  temp_.Write("auth", "# no one\n");
  EXPECT_TRUE(access->Refresh().ok());
  EXPECT_FALSE(access->Admit(sesame, kDecode, "x").ok());
}

TEST_F(AccessTest, AChangeOfTheTenantFileAloneIsTaken) {
  const auto access = Load(TokenEntry("alice", kSesame, "roles: ROLE_DECODE tenant: \"acme\""),
                           "tenants { name: \"acme\" weight: 3 }");
  const Proof sesame{"Bearer open sesame", "", {}};
  EXPECT_EQ(access->Admit(sesame, kDecode, "x")->tenant->weight, 3);
  temp_.Write("tenants", "tenants { name: \"acme\" weight: 4 }");
  ASSERT_TRUE(access->Refresh().ok());
  EXPECT_EQ(access->Admit(sesame, kDecode, "x")->tenant->weight, 4);
}

TEST_F(AccessTest, FaultsOfFilesAreAllNamed) {
  struct Case {
    std::string auth;
    std::string tenants;
    std::vector<std::string> named;
  };
  const std::vector<Case> cases = {
      {TokenEntry("a b", "12", "") + TokenEntry("x", kSesame, "roles: ROLE_DECODE") +
           TokenEntry("y", kSesame, "roles: ROLE_DECODE"),
       "",
       {"tokens[0].name", "tokens[0].sha256", "tokens[0].roles",
        "tokens[2].sha256: is given twice"}},
      {"peers { name: \"p\" roles: ROLE_DECODE } peers { name: \"p\" roles: 9 }",
       "",
       {"peers[1].roles", "peers[1].name: is given twice"}},
      {"",
       "tenants { name: \"a\" weight: 0 } tenants { name: \"a\" burst: 3 rate: -1 }",
       {"tenants[0].weight", "tenants[1].rate", "tenants[1].name: is given twice"}},
      {"", "others { name: \"x\" burst: 2 }", {"others.name", "others.burst"}},
      {"", "tenants: \xFF", {"UTF-8"}},
  };
  for (const Case& wrong : cases) {
    AccessOptions options;
    temp_.Write("file", wrong.auth.empty() ? wrong.tenants : wrong.auth);
    (wrong.auth.empty() ? options.tenant_file : options.token_file) = temp_.At("file");
    const auto access = Access::Load(options);
    EXPECT_EQ(access.status().code(), absl::StatusCode::kInvalidArgument) << access.status();
    for (const std::string& name : wrong.named) {
      EXPECT_THAT(std::string(access.status().message()), HasSubstr(name));
    }
  }
  AccessOptions options;
  options.token_file = temp_.At("nowhere");
  EXPECT_THAT(std::string(Access::Load(options).status().message()), HasSubstr("auth-token-file"));
}

TEST_F(AccessTest, CertificatesNameTheTenantAndMayNotOperateUnlessListed) {
  const std::string tenants =
      "tenants { name: \"spiffe://acme/a\" weight: 3 }\n others { weight: 2 }";
  const auto unlisted = Load("", tenants, /*peers=*/true);
  auto identity = unlisted->Admit({"", "", {"spiffe://acme/a", "a.acme"}}, kDecode, "x");
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->tenant->name, "spiffe://acme/a");
  EXPECT_EQ(identity->tenant->weight, 3);
  EXPECT_EQ(unlisted->Admit({"", "", {"spiffe://acme/a"}}, kOperate, "x").status().code(),
            absl::StatusCode::kPermissionDenied);
  identity = unlisted->Admit({"", "", {"b"}}, kDecode, "x");
  EXPECT_EQ(identity->tenant->name, "b");
  EXPECT_EQ(identity->tenant->weight, 2);
  EXPECT_EQ(unlisted->Admit({"", "", {"b"}}, kDecode, "x")->tenant, identity->tenant);
  EXPECT_FALSE(unlisted->Admit({}, kDecode, "x").ok());

  const auto listed =
      Load("peers { name: \"a.acme\" roles: ROLE_OPERATE tenant: \"acme\" }", tenants,
           /*peers=*/true);
  identity = listed->Admit({"", "", {"spiffe://acme/a", "a.acme"}}, kOperate, "x");
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->tenant->name, "acme");
  EXPECT_EQ(listed->Admit({"", "", {"b"}}, kDecode, "x").status().code(),
            absl::StatusCode::kUnauthenticated);
  // Without verified certificates a name proves nothing.
  const auto clear = Load("peers { name: \"a.acme\" roles: ROLE_OPERATE }");
  EXPECT_FALSE(clear->Admit({"", "", {"a.acme"}}, kOperate, "x").ok());
}

TEST_F(AccessTest, UnlistedNamesBeyondTheLimitShareOneTenant) {
  constexpr int kLimit = 4096;
  const auto access = Load("", "others { weight: 2 }", /*peers=*/true);
  const auto tenant_of = [&](int i) {
    const std::string name = absl::StrCat("caller", i);
    return access->Admit({"", "", {name}}, kDecode, "x")->tenant;
  };
  for (int i = 0; i < kLimit; ++i) {
    ASSERT_EQ(tenant_of(i)->name, absl::StrCat("caller", i));
  }
  const auto shared = tenant_of(kLimit);
  EXPECT_EQ(shared->name, "");
  EXPECT_EQ(shared->weight, 2);
  EXPECT_EQ(tenant_of(kLimit + 1), shared);
  // Earlier callers keep their tenants.
  EXPECT_EQ(tenant_of(kLimit - 1)->name, absl::StrCat("caller", kLimit - 1));
}

TEST_F(AccessTest, TheTenantHeaderCountsOnlyWhereItIsTrusted) {
  const std::string tenants = "tenants { name: \"acme\" rate: 5 max_rows: 7 }";
  EXPECT_EQ(Load("", tenants)->Admit({"", "acme", {}}, kDecode, "x")->tenant->name, "");
  const auto trusting = Load("", tenants + " trust_header: true others { max_running: 4 }");
  const auto acme = trusting->Admit({"", "acme", {}}, kDecode, "x")->tenant;
  EXPECT_EQ(acme->name, "acme");
  EXPECT_EQ(acme->rate, 5);
  EXPECT_EQ(acme->burst, 5);
  EXPECT_EQ(acme->max_rows, 7);
  // An unknown name makes no new tenant.
  const auto other = trusting->Admit({"", "acme2", {}}, kDecode, "x")->tenant;
  EXPECT_EQ(other->name, "");
  EXPECT_EQ(other->max_running, 4);
}

TEST_F(AccessTest, PrioritiesAreOneToThree) {
  const Access open;
  Proof proof;
  EXPECT_EQ(open.Admit(proof, kDecode, "x")->priority, engine::kNormalPriority);
  proof.priority = "3";
  EXPECT_EQ(open.Admit(proof, kDecode, "x")->priority, 3);
  for (const char* wrong : {"0", "4", "high", "-1", "99999999999"}) {
    proof.priority = wrong;
    EXPECT_EQ(open.Admit(proof, kDecode, "x").status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(open.Admit(proof, kOpen, "x").ok());
}

TEST(GuardTest, SettingsThatDoNotGoTogetherAreRefused) {
  const auto refused = [](const GuardOptions& options, const std::string& address) {
    return std::string(Guard::Make(options, {"127.0.0.1:1", address}).status().message());
  };
  GuardOptions options;
  EXPECT_EQ(refused(options, "0.0.0.0:1"), "");
  options.tls.cert = "x";
  EXPECT_THAT(refused(options, "0.0.0.0:1"), HasSubstr("tls-cert and tls-key"));
  options = {};
  options.tls.client_ca = "x";
  EXPECT_THAT(refused(options, "0.0.0.0:1"), HasSubstr("tls-client-ca"));
  const bundle::TempFolder temp;
  temp.Write("auth", "");
  options = {};
  options.token_file = temp.At("auth");
  EXPECT_THAT(refused(options, "0.0.0.0:1"), HasSubstr("'0.0.0.0:1'"));
  for (const char* local : {"[::1]:8001", "localhost:1", "unix:/x", "unix-abstract:x", "none"}) {
    EXPECT_EQ(refused(options, local), "");
  }
  options.tokens_in_clear = true;
  EXPECT_EQ(refused(options, "0.0.0.0:1"), "");
}

// Behind the admin listener stands no authority that could have verified a certificate.
TEST(GuardTest, ACertificateDoesNotOpenTheAdminListener) {
  TestAuthority authority("authority");
  const Issued server = authority.Issue("server", "DNS:localhost");
  const bundle::TempFolder temp;
  temp.Write("cert", server.cert);
  temp.Write("key", server.key);
  temp.Write("ca", authority.cert());
  temp.Write("auth", TokenEntry("alice", kSesame, "roles: ROLE_OPERATE") +
                         "peers { name: \"operator\" roles: ROLE_OPERATE }");
  GuardOptions options;
  options.tls = {temp.At("cert"), temp.At("key"), temp.At("ca")};
  options.token_file = temp.At("auth");
  const auto guard = Guard::Make(options, {"127.0.0.1:1"});
  ASSERT_TRUE(guard.ok()) << guard.status();
  const Proof certificate{"", "", {"operator"}};
  EXPECT_TRUE((*guard)->api().Admit(certificate, kOperate, "x").ok());
  EXPECT_EQ((*guard)->admin().Admit(certificate, kOperate, "x").status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE((*guard)->admin().Admit({"Bearer open sesame", "", {}}, kOperate, "x").ok());
}

TEST(RefresherTest, NoIntervalIsNoReasonToSpin) {
  EXPECT_EQ(Refresher(absl::ZeroDuration(), {}).interval(), absl::Milliseconds(10));
  EXPECT_EQ(Refresher(absl::Seconds(7), {}).interval(), absl::Seconds(7));
}

TEST(RefresherTest, EveryFileIsLookedAtAgainAlsoBehindOneThatFails) {
  absl::BlockingCounter calls(2);  // of the second function; the first one fails each time
  std::atomic<int> counted = 0;
  const Refresher refresher(absl::ZeroDuration(), {[] { return absl::NotFoundError("gone"); },
                                                   [&] {
                                                     if (counted++ < 2) {
                                                       calls.DecrementCount();
                                                     }
                                                     return absl::OkStatus();
                                                   }});
  calls.Wait();
}

}  // namespace
}  // namespace beamwright::access
