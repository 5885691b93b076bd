#include "tests/e2e/e2e_test.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>

#include "absl/synchronization/notification.h"
#include "beamwright/v1/source_errors.pb.h"

namespace beamwright::e2e {
namespace {

std::chrono::system_clock::time_point Deadline() {
  return std::chrono::system_clock::now() + std::chrono::minutes(4);
}

std::string GoodAnswer(v1::DecodeService::Stub& stub) {
  v1::DecodeRequest request = Request({"recurrent", "beam"});
  request.mutable_options()->set_n_best(4);
  const auto [status, response] = Decode(stub, request);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return Timeless(response).SerializeAsString();
}

}  // namespace

ServerProcess* E2eTest::server_ = nullptr;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::pair<grpc::Status, v1::DecodeResponse> Decode(v1::DecodeService::Stub& stub,
                                                   const v1::DecodeRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::DecodeResponse response;
  grpc::Status status = stub.Decode(&context, request, &response);
  return {std::move(status), std::move(response)};
}

grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& bytes, const std::string& token, std::string* answer) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  if (!token.empty()) {
    context.AddMetadata("authorization", "Bearer " + token);
  }
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, method, {}, &request, &response, [&](grpc::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (grpc::Slice all; status.ok() && answer != nullptr && response.DumpToSingleSlice(&all).ok()) {
    answer->assign(reinterpret_cast<const char*>(all.begin()), all.size());
  }
  return status;
}

v1::DecodeRequest Request(const std::vector<std::string>& texts) {
  v1::DecodeRequest request;
  request.set_model("g2p-en");
  for (const std::string& text : texts) {
    request.add_sources()->set_text(text);
  }
  return request;
}

v1::DecodeResponse Timeless(v1::DecodeResponse response) {
  for (v1::Result& result : *response.mutable_results()) {
    if (result.has_decoded()) {
      result.mutable_decoded()->clear_queue_ms();
      result.mutable_decoded()->clear_compute_ms();
    }
  }
  return response;
}

void E2eTest::SetUpTestSuite() {
  server_ = new ServerProcess({"--model-path", DefaultModel()});
  ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
}

void E2eTest::TearDownTestSuite() {
  delete server_;
  server_ = nullptr;
}

void E2eTest::SetUp() {
  channel_ = Connect(server_->address());
  decode_ = v1::DecodeService::NewStub(channel_);
  models_ = v1::ModelService::NewStub(channel_);
}

void E2eTest::TearDown() {
  static const auto* first = new std::string(GoodAnswer(*decode_));
  EXPECT_EQ(GoodAnswer(*decode_), *first);
}

grpc::Status E2eTest::Call(const v1::DecodeRequest& request) {
  auto [status, response] = Decode(*decode_, request);
  response_ = std::move(response);
  return status;
}

google::rpc::Status E2eTest::SourceError(const v1::DecodeRequest& request) {
  const grpc::Status status = Call(request);
  EXPECT_FALSE(status.ok()) << response_.ShortDebugString();
  google::rpc::Status error;
  EXPECT_TRUE(error.ParseFromString(status.error_details()));
  const bool of_source =
      std::any_of(error.details().begin(), error.details().end(),
                  [](const auto& detail) { return detail.template Is<v1::SourceErrors>(); });
  EXPECT_TRUE(of_source) << "the fault is the request's: " << error.message();
  return error;
}

}  // namespace beamwright::e2e
