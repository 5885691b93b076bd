// Signals that do not stop a server, on the real one.
#include <gmock/gmock.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/secured.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

client::SecurityOptions WithToken(const bundle::TempFolder& temp, const std::string& token) {
  Put(temp, token, token);
  client::SecurityOptions security;
  security.token_file = temp.At(token);
  return security;
}

TEST(SignalsTest, HupReadsTheTokenFileAgain) {
  const bundle::TempFolder temp;
  Put(temp, "auth", TokenLine("old", "ROLE_DECODE"));
  ServerProcess server({"--model-path", DefaultModel(), "--auth-token-file", temp.At("auth"),
                        "--security-refresh", "24h"});
  ASSERT_GT(server.WaitForPort(), 0);
  EXPECT_TRUE(DecodeAs(server.address(), WithToken(temp, "old")).ok());
  EXPECT_FALSE(DecodeAs(server.address(), WithToken(temp, "new")).ok());
  Put(temp, "auth", TokenLine("new", "ROLE_DECODE"));
  server.Signal(SIGHUP);
  EXPECT_TRUE(Becomes([&] { return DecodeAs(server.address(), WithToken(temp, "new")).ok(); }));
  EXPECT_FALSE(DecodeAs(server.address(), WithToken(temp, "old")).ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

// Whose default is to end a process.
TEST(SignalsTest, OthersAreIgnored) {
  ServerProcess server({"--model-path", DefaultModel()});
  ASSERT_GT(server.WaitForPort(), 0);
  for (const int number : {SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGHUP, SIGHUP}) {
    server.Signal(number);
  }
  EXPECT_TRUE(DecodeAs(server.address(), {}).ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("SIGHUP: "));
}

}  // namespace
}  // namespace beamwright::e2e
