// Models replaced and taken away while requests run.
#include <gmock/gmock.h>
#include <httplib.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/test_repository.h"

namespace beamwright::e2e {
namespace {

using ::grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() { repository_.AddVersion("1"); }

  void Start(const std::string& control = "explicit") {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--model-repository", repository_.path(), "--model-control", control});
    channel_ = Connect(server_->address());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
    decode_ = v1::DecodeService::NewStub(channel_);
  }
  grpc::Status Load(const std::string& model = "g2p-en") {
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(model);
    inference::RepositoryModelLoadResponse response;
    return stub_->RepositoryModelLoad(&context, request, &response);
  }
  grpc::Status Unload() {
    grpc::ClientContext context;
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("g2p-en");
    inference::RepositoryModelUnloadResponse response;
    return stub_->RepositoryModelUnload(&context, request, &response);
  }
  // The version that answers.
  std::string Version() {
    const auto [status, response] = Decode(*decode_, Request({"cat"}));
    return status.ok() ? response.version() : status.error_message();
  }
  HealthCheckResponse::ServingStatus Health() {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service("g2p-en");
    HealthCheckResponse response;
    EXPECT_TRUE(
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response).ok());
    return response.status();
  }

  TestRepository repository_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::unique_ptr<v1::DecodeService::Stub> decode_;
};

TEST_F(ReloadTest, ANewVersionTakesOverAndABadOneChangesNothing) {
  Start();
  EXPECT_EQ(Version(), "1");
  repository_.AddVersion("2");
  EXPECT_EQ(Version(), "1");  // not before it is asked for
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(Version(), "2");
  repository_.AddVersion("3", Made::kNotToLoad);
  const grpc::Status bad = Load();
  EXPECT_EQ(bad.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(bad.error_message(), AllOf(HasSubstr("version 3"), HasSubstr("decoder.xml")));
  EXPECT_EQ(Version(), "2");
  EXPECT_EQ(Health(), HealthCheckResponse::SERVING);
  grpc::ClientContext context;
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&context, {}, &index).ok());
  ASSERT_EQ(index.models_size(), 2);
  EXPECT_EQ(index.models(0).version() + index.models(0).state(), "2READY");
  EXPECT_EQ(index.models(1).version() + index.models(1).state(), "3UNAVAILABLE");
  EXPECT_THAT(index.models(1).reason(), HasSubstr("decoder.xml"));
  EXPECT_EQ(Load("x").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Load("").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ReloadTest, ARepositoryThatIsPolledIsFollowed) {
  repository_.AddVersion("2");
  server_ = std::make_unique<ServerProcess>(
      std::vector<std::string>{"--model-repository", repository_.path(), "--model-control", "poll",
                               "--repository-poll-interval", "50ms", "--golden-requests", "5"});
  channel_ = Connect(server_->address());
  stub_ = inference::GRPCInferenceService::NewStub(channel_);
  decode_ = v1::DecodeService::NewStub(channel_);
  EXPECT_EQ(Version(), "2");
  EXPECT_EQ(Load().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  repository_.AddVersion("3");
  EXPECT_TRUE(Becomes([&] { return Version() != "2"; }));
  EXPECT_EQ(Version(), "3");
}

TEST_F(ReloadTest, AnUnloadedModelIsGoneUntilItIsLoadedAgain) {
  Start();
  ASSERT_TRUE(Unload().ok());
  EXPECT_EQ(Health(), HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(Version(), HasSubstr("Request for unknown model: 'g2p-en' is not found"));
  ASSERT_TRUE(Unload().ok());  // once more is not an error
  httplib::Client api("127.0.0.1", server_->http_port());
  api.set_read_timeout(std::chrono::minutes(2));
  EXPECT_EQ(api.Get("/v2/models/g2p-en/ready")->status, 503);
  EXPECT_THAT(api.Post("/v2/repository/index", "", "application/json")->body,
              HasSubstr(R"("state":"UNAVAILABLE","reason":"unloaded")"));
  EXPECT_EQ(api.Post("/v2/repository/index", R"({"ready": true})", "application/json")->body, "[]");
  for (const auto& [body, status] :
       {std::pair(R"({"parameters": {"config": "{}"}})", 501), {"garbage", 400}}) {
    EXPECT_EQ(api.Post("/v2/repository/models/g2p-en/load", body, "application/json")->status,
              status);
  }
  EXPECT_EQ(api.Post("/v2/repository/models/g2p-en/load", "", "application/json")->status, 200);
  EXPECT_EQ(Version(), "1");
  EXPECT_EQ(Health(), HealthCheckResponse::SERVING);
  EXPECT_EQ(api.Post("/v2/repository/models/g2p-en/unload", "", "application/json")->status, 200);
  EXPECT_EQ(api.Get("/v1/models/g2p-en")->status, 404);
}

TEST_F(ReloadTest, WithoutModelControlNothingIsLoadedOrUnloaded) {
  Start("none");
  EXPECT_EQ(Load().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const grpc::Status status = Unload();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--model-control explicit"));
  EXPECT_EQ(Version(), "1");
}

TEST_F(ReloadTest, UnderLoadNoCallFailsAndEachIsAnsweredByOneVersion) {
  Start();
  constexpr int kReloads = 8;
  constexpr int kClients = 4;
  v1::DecodeRequest request = Request({"recurrent", "cat", "internationalisation"});
  const std::string expected =
      Decode(*decode_, request).second.results(0).decoded().hypotheses(0).text();
  std::atomic<bool> stop{false};
  absl::Mutex mutex;
  std::set<std::string> versions;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        const auto [status, response] = Decode(*decode_, request);
        ASSERT_TRUE(status.ok()) << status.error_message();
        ASSERT_EQ(response.results_size(), 3);
        for (const v1::Result& result : response.results()) {
          ASSERT_TRUE(result.has_decoded()) << result.error().message();
        }
        ASSERT_EQ(response.results(0).decoded().hypotheses(0).text(), expected);
        absl::MutexLock lock(&mutex);
        versions.insert(response.version());
      }
    });
  }
  for (int i = 2; i < 2 + kReloads; ++i) {
    repository_.AddVersion(std::to_string(i));
    const grpc::Status status = Load();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(Version(), std::to_string(i));
  }
  stop = true;
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_GT(versions.size(), 1u);
}

}  // namespace
}  // namespace beamwright::e2e
