// E2eTest: stubs on a real server with the default model; after each test the server must still
// give a good request the same answer, bit for bit.
#ifndef BEAMWRIGHT_TESTS_E2E_E2E_TEST_H_
#define BEAMWRIGHT_TESTS_E2E_E2E_TEST_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "beamwright/v1/decode.grpc.pb.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "tests/e2e/server_process.h"

namespace beamwright::e2e {

inline constexpr char kJson[] = "application/json";  // the type of a body

// A channel without limits on sizes and without a proxy.
std::shared_ptr<grpc::Channel> Connect(const std::string& address);

// A call with a deadline that only a hanging server reaches.
std::pair<grpc::Status, v1::DecodeResponse> Decode(v1::DecodeService::Stub& stub,
                                                   const v1::DecodeRequest& request);

// A unary call with raw bytes; a token is sent as a bearer's unless it is empty. `answer` gets the
// bytes of the answer unless it is null.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& bytes, const std::string& token = "",
                     std::string* answer = nullptr);

v1::DecodeRequest Request(const std::vector<std::string>& texts);

// A response without what a clock decides.
v1::DecodeResponse Timeless(v1::DecodeResponse response);

class E2eTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  void TearDown() override;

  grpc::Status Call(const v1::DecodeRequest& request);
  // The error of the only source of a call, which is the call's.
  google::rpc::Status SourceError(const v1::DecodeRequest& request);

  static ServerProcess* server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DecodeService::Stub> decode_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  v1::DecodeResponse response_;  // of the last Call
};

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_E2E_TEST_H_
