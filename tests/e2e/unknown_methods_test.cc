// Calls of methods that there are not, and reflection: both pass the gate.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/http2_frames.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

constexpr char kReflection[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr char kReflectionAlpha[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const std::string kListServices = {0x3A, 0x01, '*'};

TEST(UnknownMethodsTest, AreNamedAndCounted) {
  ServerProcess server({"--model-path", DefaultModel()});
  const auto channel = Connect(server.address());
  int count = 0;
  for (const char* method : {"/no.such.Service/Method", "/beamwright.v1.DecodeService/None",
                             // Declared, and not served.
                             "/inference.GRPCInferenceService/TraceSetting",
                             "/inference.GRPCInferenceService/SystemSharedMemoryStatus"}) {
    const grpc::Status status = CallRaw(channel, method, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
    EXPECT_EQ(status.error_message(), absl::StrCat("this server has no method '", method, "'"));
    EXPECT_EQ(
        Sum(Scrape(server.metrics_port()), "beamwright_requests_total", "code=\"UNIMPLEMENTED\""),
        ++count);
  }
}

TEST(UnknownMethodsTest, ReflectionNeedsARoleAndIsOffWithTokensUnlessAskedFor) {
  const bundle::TempFolder temp;
  Put(temp, "auth", TokenLine("d", "ROLE_DECODE"));
  {
    ServerProcess server({"--model-path", DefaultModel(), "--auth-token-file", temp.At("auth")});
    for (const char* method : {kReflection, kReflectionAlpha}) {
      EXPECT_EQ(CallRaw(Connect(server.address()), method, kListServices, "d").error_code(),
                grpc::StatusCode::UNIMPLEMENTED);
    }
  }
  ServerProcess server({"--model-path", DefaultModel(), "--auth-token-file", temp.At("auth"),
                        "--reflection", "true"});
  for (const char* method : {kReflection, kReflectionAlpha}) {
    EXPECT_EQ(CallRaw(Connect(server.address()), method, kListServices).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
    std::string answer;
    EXPECT_TRUE(CallRaw(Connect(server.address()), method, kListServices, "d", &answer).ok());
    EXPECT_THAT(answer, HasSubstr("beamwright.v1.DecodeService"));
  }
}

// Whether the server closes the connection of a client that sends this and never acknowledges the
// server's SETTINGS.
bool IsHungUpOn(ServerProcess& server, const std::string& bytes) {
  using namespace http2;  // NOLINT(google-build-using-namespace): frames are what this is about
  const std::string all = kPreface + Frame(kSettings, 0, 0, "") + bytes;
  rpc::ClientSocket client;
  EXPECT_TRUE(client.ConnectV4(server.WaitForPort()));
  send(client.fd(), all.data(), all.size(), MSG_NOSIGNAL);
  return Becomes([&] {
    char answer[4096];
    const ssize_t count = recv(client.fd(), answer, sizeof(answer), MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN);
  });
}

// A field of 4 KB in HPACK's table, and blocks of references to it, which come to 16 MB each: gRPC
// decodes no more of them than a call may have, and no call of them reaches a handler.
TEST(UnknownMethodsTest, HeadersThatAreReferencesReachNoHandler) {
  using namespace http2;  // NOLINT(google-build-using-namespace): frames are what this is about
  ServerProcess server({"--model-path", DefaultModel()});
  for (const char* path : {"/beamwright.v1.DecodeService/Decode", "/no.such.Service/Method",
                           "/grpc.health.v1.Health/Check"}) {
    const std::string block = CallHeaders("http", "trailers", path);
    std::string calls =
        Frame(kHeaders, kEndHeaders, 1, block + '\x40' + Text("x") + Text(std::string(4000, 'y')));
    for (uint32_t stream = 3; stream < 41; stream += 2) {
      calls += Frame(kHeaders, kEndHeaders, stream, block + std::string(4'000, '\xBE'));
    }
    EXPECT_TRUE(IsHungUpOn(server, calls)) << path;
  }
  EXPECT_EQ(Sum(Scrape(server.metrics_port()), "beamwright_requests_total",
                "code=\"RESOURCE_EXHAUSTED\""),
            0);
}

TEST(UnknownMethodsTest, ReflectionThatIsOffIsUnknown) {
  ServerProcess server({"--model-path", DefaultModel(), "--reflection", "false"});
  EXPECT_EQ(CallRaw(Connect(server.address()), kReflection, kListServices).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamwright::e2e
