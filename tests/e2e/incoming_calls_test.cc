// Calls whose headers have come and whose request has not.
#include <grpcpp/generic/generic_stub.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/secured.h"

namespace beamwright::e2e {
namespace {

constexpr char kMethods[][48] = {
    "/beamwright.v1.DecodeService/Decode", "/beamwright.v1.DecodeService/StreamDecode",
    "/beamwright.v1.DecodeService/Score", "/beamwright.v1.ModelService/ListModels",
    "/inference.GRPCInferenceService/ModelInfer"};

// A call that has sent its headers. The request is up to the test.
class HalfCall {
 public:
  HalfCall(const std::string& address, const std::string& method) : stub_(Connect(address)) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(Tag());
    EXPECT_TRUE(Next());
  }
  ~HalfCall() {
    context_.TryCancel();
    queue_.Shutdown();
    while (Next()) {
    }
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, Tag());
    Next();
    return status;
  }

 private:
  void* Tag() { return this; }
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST(IncomingCallsTest, WhoMayNotCallIsRefusedBeforeTheRequest) {
  const bundle::TempFolder temp;
  temp.Write("auth", TokenLine("d", "ROLE_DECODE"));
  ServerProcess server({"--model-path", DefaultModel(), "--auth-token-file", temp.At("auth")});
  server.WaitForPort();
  for (const char* method : kMethods) {
    EXPECT_EQ(HalfCall(server.address(), method).Finish().error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << method;
  }
}

TEST(IncomingCallsTest, NobodyWaitsForThemWhenTheServerStops) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-timeout", "45s"});
  server.WaitForPort();
  std::vector<std::unique_ptr<HalfCall>> calls;
  for (const char* method : kMethods) {
    calls.push_back(std::make_unique<HalfCall>(server.address(), method));
  }
  const absl::Time begin = absl::Now();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  for (const auto& call : calls) {
    EXPECT_FALSE(call->Finish().ok());
  }
}

}  // namespace
}  // namespace beamwright::e2e
