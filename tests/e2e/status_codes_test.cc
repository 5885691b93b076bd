// The table of failures in docs/operations.md, 'Status codes', held against every call of every
// protocol: the code, HTTP's status, the reason; never UNKNOWN.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <httplib.h>
#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/failures.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/e2e/test_repository.h"

namespace beamwright::e2e {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

TEST(StatusCodesTest, FaultsOfTheRequest) {
  ServerProcess server({"--model-path", DefaultModel(), "--max-rows", "4"});
  const std::vector<Failure> failures = {
      {Asking([](Question& q) { q.num_sources = 0; }), StatusCode::INVALID_ARGUMENT, 400,
       "INVALID_REQUEST"},
      {Asking([](Question& q) { q.beam_size = 100'000; }), StatusCode::INVALID_ARGUMENT, 400,
       "INVALID_REQUEST"},
      {Asking([](Question& q) { q.text = std::string(10'000, 'a'); }), StatusCode::INVALID_ARGUMENT,
       400, "INVALID_REQUEST", true},
      {Asking([](Question& q) { q.model = "nowhere"; }), StatusCode::NOT_FOUND, 404, "NOT_FOUND"},
      {Asking([](Question& q) { q.version = "77"; }), StatusCode::NOT_FOUND, 404, "NOT_FOUND"},
      {Asking([](Question& q) { q.version = "canary"; }), StatusCode::NOT_FOUND, 404, "NOT_FOUND"},
      // It would fit nowhere, however long it waited.
      {Asking([](Question& q) { q.beam_size = 5; }), StatusCode::RESOURCE_EXHAUSTED, 429,
       "TOO_LARGE", true},
  };
  for (const Failure& failure : failures) {
    ExpectFromEveryCall(server, failure);
  }
}

TEST(StatusCodesTest, FaultsOfTheCaller) {
  const bundle::TempFolder temp;
  temp.Write("auth", TokenLine("d", "ROLE_DECODE") + TokenLine("o", "ROLE_OBSERVE"));
  temp.Write("tenants", "tenants { name: \"d\" rate: 0.001 burst: 1 } others {}");
  ServerProcess server({"--model-path", DefaultModel(), "--auth-token-file", temp.At("auth"),
                        "--tenant-file", temp.At("tenants")});
  const auto with = [](const std::string& token) {
    return Asking([&token](Question& q) { q.token = token; });
  };
  ExpectFromEveryCall(server, {with(""), StatusCode::UNAUTHENTICATED, 401, "NO_CREDENTIALS"});
  ExpectFromEveryCall(server, {with("x"), StatusCode::UNAUTHENTICATED, 401, "BAD_CREDENTIALS"});
  ExpectFromEveryCall(server, {with("o"), StatusCode::PERMISSION_DENIED, 403, "ROLE_MISSING"});
  // The first takes all that the tenant may have.
  EXPECT_EQ(EveryCalls()[0].ask(server, with("d")).code, StatusCode::OK);
  ExpectFromEveryCall(server,
                      {with("d"), StatusCode::RESOURCE_EXHAUSTED, 429, "TENANT_RATE", true});
  // With a source that no server can decode: trying again helps the other one.
  httplib::Client http("127.0.0.1", server.http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  const auto reply = http.Post("/v1/models/g2p-en:decode", {{"Authorization", "Bearer d"}},
                               R"({"sources":[{"text":""},{"text":"cat"}]})", kJson);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 429);
  EXPECT_TRUE(reply->has_header("Retry-After"));
  EXPECT_THAT(reply->body,
              HasSubstr(R"("counts":[{"code":3,"sources":1},{"code":8,"sources":1}])"));
}

TEST(StatusCodesTest, OverloadAndDeadline) {
  ServerProcess full({"--model-path", DefaultModel(), "--max-queue", "1", "--max-rows", "5"});
  ExpectFromEveryCall(full, {Asking([](Question& q) { q.num_sources = 300; }),
                             StatusCode::RESOURCE_EXHAUSTED, 429, "QUEUE_FULL", false, true});
  // gRPC's clients report a deadline to their users; HTTP's cannot.
  ServerProcess late(
      {"--model-path", DefaultModel(), "--http-timeout", "1ms", "--forecast-deadlines", "false"});
  const Failure failure{Asking([](Question& q) {
                          q.num_sources = 2000;
                          q.text = std::string(120, 'e');
                        }),
                        StatusCode::DEADLINE_EXCEEDED, 504, "DEADLINE_EXCEEDED", true};
  for (const EveryCall& call : EveryCalls()) {
    if (call.is_http && call.takes_many) {
      ExpectFailure(call, call.ask(late, failure.question), failure);
    }
  }
}

// Callers of one dear source each, on as many connections as that takes, until they are destroyed.
class ManyCallers {
 public:
  explicit ManyCallers(const std::string& address) {
    v1::DecodeRequest request = Request({"internationalisation"});
    request.mutable_options()->set_beam_size(64);
    request.mutable_options()->set_min_length(100);
    request.mutable_options()->set_max_length(100);
    for (int i = 0; i < kConnections; ++i) {
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs_.push_back(v1::DecodeService::NewStub(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own)));
      for (int j = 0; j < kCalls; ++j) {
        calls_.push_back(std::make_unique<Call>());
        Call& call = *calls_.back();
        call.request = request;
        stubs_.back()->async()->Decode(
            &call.context, &call.request, &call.response,
            [this](const grpc::Status& /*status*/) { answered_.DecrementCount(); });
      }
    }
  }
  ~ManyCallers() {
    for (const auto& call : calls_) {
      call->context.TryCancel();
    }
    answered_.Wait();
  }
  ManyCallers(const ManyCallers&) = delete;
  ManyCallers& operator=(const ManyCallers&) = delete;

 private:
  static constexpr int kConnections = 300;
  static constexpr int kCalls = 4;  // of a connection at once

  struct Call {
    grpc::ClientContext context;
    v1::DecodeRequest request;
    v1::DecodeResponse response;
  };
  std::vector<std::unique_ptr<v1::DecodeService::Stub>> stubs_;
  std::vector<std::unique_ptr<Call>> calls_;
  absl::BlockingCounter answered_{kConnections * kCalls};
};

// What the server would answer too late is refused at once, whatever the protocol.
TEST(StatusCodesTest, ADeadlineThatWouldBeMissed) {
  const absl::Duration timeout = absl::Seconds(3);
  ServerProcess server({"--model-path", DefaultModel(), "--threads", "1", "--http-timeout",
                        absl::FormatDuration(timeout)});
  // Several seconds' work waits before the question: of hundreds of connections, since one delays
  // others by a single source however many it has.
  ManyCallers busy(server.address());
  // The question costs as much as each of these sources: a cheaper one would go before them.
  const Question question = Asking([timeout](Question& q) {
    q.timeout = timeout;
    q.text = "internationalisation";
    q.beam_size = 64;
  });
  // Until the engine knows how long the work takes.
  EXPECT_TRUE(Becomes(
      [&] { return EveryCalls()[0].ask(server, question).reason == "WOULD_MISS_DEADLINE"; }));
  ExpectFromEveryCall(server,
                      {question, StatusCode::RESOURCE_EXHAUSTED, 429, "WOULD_MISS_DEADLINE", true});
}

// A call of thousands is no reason to refuse: another one is answered meanwhile.
TEST(StatusCodesTest, ADeadlineThatIsKeptBesideALargeCall) {
  ServerProcess server({"--model-path", DefaultModel(), "--threads", "1"});
  grpc::ClientContext context;
  std::thread busy([channel = Connect(server.address()), &context] {
    v1::DecodeRequest request = Request(std::vector<std::string>(4000, "internationalisation"));
    request.mutable_options()->set_beam_size(64);
    v1::DecodeResponse response;
    v1::DecodeService::NewStub(channel)->Decode(&context, request, &response);
  });
  EXPECT_TRUE(Becomes(
      [&] { return Sum(Scrape(server.metrics_port()), "beamwright_requests_waiting") > 1000; }));
  for (int i = 0; i < 5; ++i) {
    const Told told =
        EveryCalls()[0].ask(server, Asking([](Question& q) { q.timeout = absl::Minutes(1); }));
    EXPECT_EQ(told.code, StatusCode::OK) << told.text;
  }
  EXPECT_GT(Sum(Scrape(server.metrics_port()), "beamwright_requests_waiting"), 1000);
  context.TryCancel();
  busy.join();
}

TEST(StatusCodesTest, AModelThatFailsAndThenIsOutOfService) {
  TestRepository repository;
  repository.AddVersion("1", Made::kToFail);
  const std::vector<std::string> arguments = {
      "--model-repository", repository.path(), "--golden-requests",  "0",
      "--warm-up",          "false",           "--quarantine-pause", "1h"};
  const auto with = [&arguments](const std::string& failures) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--quarantine-failures", failures});
    return all;
  };
  ServerProcess failing(with("0"));
  ExpectFromEveryCall(failing, {{}, StatusCode::INTERNAL, 500, "INTERNAL", true});
  ServerProcess server(with("1"));
  // What callers number themselves may be what the model fails on.
  v1::DecodeRequest ids = Request({});
  ids.add_sources()->mutable_ids()->add_ids(5);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(
        Decode(*v1::DecodeService::NewStub(Connect(server.address())), ids).first.error_code(),
        StatusCode::INTERNAL);
  }
  EveryCalls()[0].ask(server, {});
  ExpectFromEveryCall(server, {{}, StatusCode::UNAVAILABLE, 503, "MODEL_QUARANTINED"});
  // Every health client is notified before the next call fails.
  const auto channel = Connect(server.address());
  for (const std::string service :
       {"", "g2p-en", "beamwright.v1.DecodeService", "inference.GRPCInferenceService"}) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    ASSERT_TRUE(
        grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &response).ok());
    EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::NOT_SERVING) << service;
  }
  grpc::ClientContext context;
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(
      inference::GRPCInferenceService::NewStub(channel)->ServerReady(&context, {}, &ready).ok());
  EXPECT_FALSE(ready.ready());
  httplib::Client probes("127.0.0.1", server.metrics_port());
  probes.set_read_timeout(std::chrono::minutes(2));
  EXPECT_EQ(probes.Get("/readyz")->status, 503);
  EXPECT_EQ(probes.Get("/livez")->status, 200);
}

// A watcher of a model is notified that it is out of service, and later that it may try again.
TEST(HealthWatchTest, TellsOfAQuarantineAndItsEnd) {
  TestRepository repository;
  repository.AddVersion("1", Made::kToFail);
  ServerProcess server({"--model-repository", repository.path(), "--golden-requests", "0",
                        "--warm-up", "false", "--quarantine-failures", "1", "--quarantine-pause",
                        "300ms"});
  using grpc::health::v1::HealthCheckResponse;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("g2p-en");
  const auto watch =
      grpc::health::v1::Health::NewStub(Connect(server.address()))->Watch(&context, request);
  std::vector<HealthCheckResponse::ServingStatus> told;
  HealthCheckResponse response;
  while (told.size() < 3 && watch->Read(&response)) {
    if (told.empty()) {
      EveryCalls()[0].ask(server, {});
    }
    told.push_back(response.status());
  }
  context.TryCancel();
  EXPECT_THAT(told,
              testing::ElementsAre(HealthCheckResponse::SERVING, HealthCheckResponse::NOT_SERVING,
                                   HealthCheckResponse::SERVING));
}

TEST(StatusCodesTest, AServerThatLeaves) {
  ServerProcess server({"--model-path", DefaultModel(), "--threads", "1"});
  const auto channel = Connect(server.address());
  const int http_port = server.http_port();
  // A call that keeps it busy for as long as this test wants.
  v1::DecodeRequest request = Request(std::vector<std::string>(4000, "internationalisation"));
  request.mutable_options()->set_beam_size(64);
  grpc::ClientContext context;
  v1::DecodeResponse response;
  grpc::Status long_call;
  std::thread busy([&] {
    long_call = v1::DecodeService::NewStub(channel)->Decode(&context, request, &response);
  });
  httplib::Client probes("127.0.0.1", server.metrics_port());
  probes.set_read_timeout(std::chrono::minutes(2));
  EXPECT_TRUE(Becomes([&] {
    const auto reply = probes.Get("/metrics");
    return reply && !absl::StrContains(reply->body, "beamwright_beam_rows_active 0");
  }));
  server.Signal(SIGTERM);
  server.WaitForLine("draining: ");  // calls are refused from then on
  ASSERT_GT(http_port, 0);
  ExpectFromEveryCall(server, {{}, StatusCode::UNAVAILABLE, 503, "SHUTTING_DOWN"});
  context.TryCancel();
  busy.join();
  EXPECT_EQ(long_call.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(StatusCodesTest, CallsOfOperators) {
  TestRepository repository;
  repository.AddVersion("1");
  ServerProcess server({"--model-repository", repository.path(), "--model-control", "explicit",
                        "--golden-requests", "0"});
  ServerProcess locked({"--model-repository", repository.path(), "--golden-requests", "0"});
  const auto expect = [](ServerProcess& asked, const std::string& model, StatusCode code,
                         int status) {
    const auto stub = inference::GRPCInferenceService::NewStub(Connect(asked.address()));
    httplib::Client http("127.0.0.1", asked.http_port());
    http.set_read_timeout(std::chrono::minutes(2));
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(model);
    inference::RepositoryModelLoadResponse response;
    EXPECT_EQ(stub->RepositoryModelLoad(&context, request, &response).error_code(), code);
    const auto reply = http.Post(absl::StrCat("/v2/repository/models/", model, "/load"), "", kJson);
    EXPECT_EQ(reply->status, status);
    EXPECT_THAT(reply->body, HasSubstr("\"reason\":\""));
  };
  expect(server, "nowhere", StatusCode::NOT_FOUND, 404);
  expect(locked, "g2p-en", StatusCode::FAILED_PRECONDITION, 409);
  repository.AddVersion("2", Made::kNotToLoad);
  expect(server, "g2p-en", StatusCode::FAILED_PRECONDITION, 409);
  repository.AddVersion("3", Made::kDamaged);
  expect(server, "g2p-en", StatusCode::DATA_LOSS, 500);
  const auto stub = inference::GRPCInferenceService::NewStub(Connect(server.address()));
  grpc::ClientContext context;
  inference::RepositoryIndexRequest request;
  request.set_repository_name("other");
  inference::RepositoryIndexResponse response;
  EXPECT_EQ(stub->RepositoryIndex(&context, request, &response).error_code(),
            StatusCode::UNIMPLEMENTED);
}

class HttpRefusalsTest : public E2eTest {};

// What HTTP refuses before anybody looks at the request has a reason as well, in the form of the
// family that was asked.
TEST_F(HttpRefusalsTest, HaveAReason) {
  httplib::Client http("127.0.0.1", server_->http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  for (const std::string family : {"/v1", "/v2"}) {
    const std::string path = family + "/models/g2p-en" + (family == "/v1" ? ":decode" : "/infer");
    const auto expect = [&family](const httplib::Result& reply, int status,
                                  const std::string& reason) {
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->status, status) << reply->body;
      EXPECT_THAT(reply->body, HasSubstr("\"reason\":\"" + reason + "\"")) << status;
      EXPECT_THAT(reply->body,
                  HasSubstr(family == "/v1" ? "{\"error\":{\"code\":" : "{\"error\":\""));
    };
    expect(http.Post(path, std::string((4 << 20) + 1, ' '), kJson), 413, "TOO_LARGE");
    expect(http.Post(path + std::string(2000, 'x'), "{}", kJson), 414, "TOO_LARGE");
    expect(http.Post(path, {{"Content-Encoding", "gzip"}}, "{}", kJson), 415, "INVALID_REQUEST");
    expect(http.Get(path), 405, "WRONG_METHOD");
    expect(http.Put(path, "{}", kJson), 405, "WRONG_METHOD");
    expect(http.Delete(path), 405, "WRONG_METHOD");
    expect(http.Get(family + "/nothing"), 404, "NO_SUCH_PATH");
    expect(http.Post(path, "{", kJson), 400, "INVALID_REQUEST");
  }
}

class EveryMethodTest : public E2eTest {};

// Bytes that are not a message, to every method: a status that says so, and never UNKNOWN.
TEST_F(EveryMethodTest, UnreadableBytesHaveAStatusOfTheirOwn) {
  int num_methods = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::DecodeRequest::descriptor()->file(), v1::ModelDescription::descriptor()->file(),
        inference::ModelInferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto& method = *file->service(i)->method(j);
        if (method.client_streaming()) {
          continue;
        }
        const std::string path =
            absl::StrCat("/", method.service()->full_name(), "/", method.name());
        const grpc::Status status = CallRaw(channel_, path, "\x0a\xff\xff\xff\xff\x0f");
        EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT)
            << path << ": " << status.error_message();
        ++num_methods;
      }
    }
  }
  EXPECT_GT(num_methods, 12);
  EXPECT_EQ(CallRaw(channel_, "/beamwright.v1.DecodeService/None", "").error_code(),
            StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamwright::e2e
