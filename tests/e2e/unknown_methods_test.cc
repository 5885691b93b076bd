// Calls of methods that there are not, and reflection: both pass the gate.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"

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

TEST(UnknownMethodsTest, ReflectionThatIsOffIsUnknown) {
  ServerProcess server({"--model-path", DefaultModel(), "--reflection", "false"});
  EXPECT_EQ(CallRaw(Connect(server.address()), kReflection, kListServices).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamwright::e2e
