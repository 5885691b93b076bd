// Calls of methods that there are not, and reflection: both pass the gate.
#include <gmock/gmock.h>
#include <sys/socket.h>

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

// A field of 4 KB in HPACK's table, and blocks of references to it, which take 1 MB each.
TEST(UnknownMethodsTest, HeadersThatAreReferencesEndTheirConnection) {
  using namespace http2;  // NOLINT(google-build-using-namespace): frames are what this is about
  ServerProcess server({"--model-path", DefaultModel()});
  double num_reset = 0;
  for (const char* path : {"/beamwright.v1.DecodeService/Decode", "/no.such.Service/Method",
                           "/beamwright.v1.RecognizeService/Recognize",
                           "/inference.GRPCInferenceService/ModelStreamInfer",
                           "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                           "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"}) {
    const std::string block = CallHeaders("http", "trailers", path);
    std::string calls =
        kPreface + Frame(kSettings, 0, 0, "") +
        Frame(kHeaders, kEndHeaders, 1, block + '\x40' + Text("x") + Text(std::string(4000, 'y')));
    for (uint32_t stream = 3; stream < 41; stream += 2) {
      calls += Frame(kHeaders, kEndHeaders, stream, block + std::string(4'000, '\xBE'));
    }
    rpc::ClientSocket client;
    ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
    send(client.fd(), calls.data(), calls.size(), MSG_NOSIGNAL);
    ++num_reset;
    EXPECT_TRUE(Becomes([&] {
      return Sum(Scrape(server.metrics_port()), "beamwright_grpc_connections_cut_off_total") >=
             num_reset;
    })) << path;
  }
}

TEST(UnknownMethodsTest, ReflectionThatIsOffIsUnknown) {
  ServerProcess server({"--model-path", DefaultModel(), "--reflection", "false"});
  EXPECT_EQ(CallRaw(Connect(server.address()), kReflection, kListServices).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamwright::e2e
