#include "include/beamwright/client.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/channels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"

namespace beamwright::client {
namespace {

using ::testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Minutes(2); }

std::unique_ptr<Client> Connect(const FakeServer& server, ClientOptions options = {}) {
  options.address = server.address();
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

v1::DecodeRequest RequestOf(const std::string& text) {
  v1::DecodeRequest request;
  request.add_sources()->set_text(text);
  return request;
}

TEST(ClientTest, DecodesAndTellsErrorsOfSourcesApart) {
  FakeServer server;
  auto client = Connect(server);
  v1::DecodeRequest request = RequestOf("hello");
  request.add_sources()->set_text("bad one");
  const auto response = client->Decode(request, Soon());
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->results_size(), 2);
  EXPECT_TRUE(ResultStatus(response->results(0)).ok());
  EXPECT_EQ(response->results(0).decoded().hypotheses(0).text(), "HELLO");
  EXPECT_EQ(ResultStatus(response->results(1)),
            absl::InvalidArgumentError("cannot decode bad one"));
  EXPECT_EQ(ResultStatus(v1::Result()).code(), absl::StatusCode::kInternal);
}

TEST(ClientTest, KeepsCodeAndMessageOfEveryStatus) {
  FakeServer server(
      [](grpc::ServerContext&, const v1::DecodeRequest& request, v1::DecodeResponse&) {
        const int code = request.sources(0).ids().ids(0);
        return grpc::Status(static_cast<grpc::StatusCode>(code), "said the server");
      });
  auto client = Connect(server, {.max_attempts = 1});
  for (int code = 1; code <= 16; ++code) {
    v1::DecodeRequest request;
    request.add_sources()->mutable_ids()->add_ids(code);
    EXPECT_EQ(client->Decode(request, Soon()).status(),
              absl::Status(static_cast<absl::StatusCode>(code), "said the server"));
  }
}

TEST(ClientTest, RetriesUnavailableOnly) {
  std::atomic<int> failures{2};
  std::atomic<grpc::StatusCode> code{grpc::StatusCode::UNAVAILABLE};
  const DecodeHandler fail_at_first = [&](grpc::ServerContext& context,
                                          const v1::DecodeRequest& request,
                                          v1::DecodeResponse& response) {
    return failures.fetch_sub(1) > 0 ? grpc::Status(code, "not now")
                                     : EchoAll(context, request, response);
  };
  {
    FakeServer server(fail_at_first);
    EXPECT_TRUE(Connect(server)->Decode(RequestOf("a"), Soon()).ok());
    EXPECT_EQ(server.requests().size(), 3u);
  }
  {
    failures = 2;
    FakeServer server(fail_at_first);
    auto client = Connect(server, {.max_attempts = 1});
    EXPECT_EQ(client->Decode(RequestOf("a"), Soon()).status(), absl::UnavailableError("not now"));
    EXPECT_EQ(server.requests().size(), 1u);
  }
  {
    failures = 2;
    code = grpc::StatusCode::RESOURCE_EXHAUSTED;
    FakeServer server(fail_at_first);
    EXPECT_EQ(Connect(server)->Decode(RequestOf("a"), Soon()).status().code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(server.requests().size(), 1u);
  }
}

// What a server that dies may have in flight is not more than the throttle of retries lets pass.
TEST(ClientTest, ACrowdOfCallsIsRetried) {
  constexpr int kCalls = 100;
  std::atomic<int> failures{kCalls};
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    return failures.fetch_sub(1) > 0 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")
                                     : EchoAll(context, request, response);
  });
  auto client = Connect(server);
  absl::BlockingCounter answered(kCalls);
  std::atomic<int> good{0};
  for (int i = 0; i < kCalls; ++i) {
    client->DecodeAsync(RequestOf("a"), Soon(), [&](absl::StatusOr<v1::DecodeResponse> response) {
      good += response.ok();
      answered.DecrementCount();
    });
  }
  answered.Wait();
  EXPECT_EQ(good, kCalls);
}

// With those of deploy/grpc retries go on for as long as every other attempt has an answer. gRPC
// 1.51 takes a ratio of "1" for zero, so it says 1.0.
TEST(ClientTest, RetriesLastWhereHalfOfTheAttemptsFail) {
  for (const char* file :
       {"deploy/grpc/round_robin.json", "deploy/grpc/weighted_round_robin.json"}) {
    std::ostringstream config;
    config << std::ifstream(file).rdbuf();
    std::atomic<int> attempts{0};
    FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                          v1::DecodeResponse& response) {
      return attempts++ % 2 == 0 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")
                                 : EchoAll(context, request, response);
    });
    auto client = Connect(server, {.service_config = absl::StrReplaceAll(
                                       config.str(), {{"\"maxTokens\": 500", "\"maxTokens\": 20"},
                                                      {"\"0.05s\"", "\"0.005s\""}})});
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(client->Decode(RequestOf("a"), Soon()).ok()) << file << " " << i;
    }
  }
}

// With the service configs of deploy/grpc, a call that a server holds is made again elsewhere.
TEST(ClientTest, AnAttemptThatIsNotAnsweredIsMadeAgain) {
  for (const char* file :
       {"deploy/grpc/round_robin.json", "deploy/grpc/weighted_round_robin.json"}) {
    std::ostringstream config;
    config << std::ifstream(file).rdbuf();
    absl::Notification release;
    std::atomic<int> calls{0};
    FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                          v1::DecodeResponse& response) {
      if (++calls == 1) {
        release.WaitForNotification();
      }
      return EchoAll(context, request, response);
    });
    auto client = Connect(
        server, {.service_config = absl::StrReplaceAll(config.str(), {{"\"2s\"", "\"0.2s\""}})});
    EXPECT_TRUE(client->Decode(RequestOf("a"), Soon()).ok()) << file;
    EXPECT_GE(calls, 2) << file;
    release.Notify();
  }
}

// By the client itself: gRPC's retries may leave a stream waiting for ever (channels.cc).
TEST(ClientTest, StreamsThatDidNotBeginAreTriedAgain) {
  for (const auto& [code, tries] : {std::pair(grpc::StatusCode::UNAVAILABLE, 3u),
                                    std::pair(grpc::StatusCode::RESOURCE_EXHAUSTED, 1u)}) {
    std::atomic<int> failures{2};
    FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                          v1::DecodeResponse& response) {
      return failures.fetch_sub(1) > 0 ? grpc::Status(code, "not now")
                                       : EchoAll(context, request, response);
    });
    v1::StreamDecodeRequest request;
    request.mutable_source()->set_text("a");
    int messages = 0;
    const absl::Status status = Connect(server)->StreamDecode(
        request, Soon(), [&](const v1::StreamDecodeResponse&) { return ++messages > 0; });
    EXPECT_EQ(status.ok(), tries == 3) << status;
    EXPECT_EQ(messages, tries == 3 ? 3 : 0);
    EXPECT_EQ(server.requests().size(), tries);
  }
}

TEST(ClientTest, DeadlineTravelsAndExpires) {
  std::chrono::system_clock::time_point seen;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    seen = context.deadline();
    return EchoAll(context, request, response);
  });
  auto client = Connect(server);
  const absl::Time deadline = absl::Now() + absl::Hours(1);
  ASSERT_TRUE(client->Decode(RequestOf("a"), deadline).ok());
  EXPECT_LT(absl::AbsDuration(absl::FromChrono(seen) - deadline), absl::Minutes(5));
  ASSERT_TRUE(client->Decode(RequestOf("a"), absl::InfiniteFuture()).ok());
  EXPECT_GT(absl::FromChrono(seen), deadline + absl::Hours(24));
  EXPECT_EQ(client->Decode(RequestOf("a"), absl::Now() - absl::Seconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ClientTest, ManyAsynchronousCallsAnswerOnceEach) {
  constexpr int kCalls = 200;
  FakeServer server;
  auto client = Connect(server, {.connections = 2});
  std::atomic<int> num_right{0};
  absl::BlockingCounter left(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    const std::string text = absl::StrCat("x", i);
    client->DecodeAsync(RequestOf(text), Soon(), [&, i](absl::StatusOr<v1::DecodeResponse> answer) {
      if (answer.ok() &&
          answer->results(0).decoded().hypotheses(0).text() == absl::StrCat("X", i)) {
        ++num_right;
      }
      left.DecrementCount();
    });
  }
  left.Wait();
  EXPECT_EQ(num_right, kCalls);
  EXPECT_EQ(server.requests().size(), static_cast<size_t>(kCalls));
}

TEST(ClientTest, DestructorCancelsAndWaitsForCallbacks) {
  absl::Notification release;
  FakeServer server([&](grpc::ServerContext&, const v1::DecodeRequest&, v1::DecodeResponse&) {
    release.WaitForNotification();
    return grpc::Status::OK;
  });
  auto client = Connect(server);
  std::atomic<int> num_cancelled{0};
  for (int i = 0; i < 3; ++i) {
    client->DecodeAsync(RequestOf("a"), Soon(), [&](absl::StatusOr<v1::DecodeResponse> answer) {
      num_cancelled += absl::IsCancelled(answer.status()) ? 1 : 0;
    });
  }
  server.WaitForRequests(3);
  client.reset();
  EXPECT_EQ(num_cancelled, 3);
  release.Notify();
}

TEST(ClientTest, ALoopRunsCallbacksOnItsThread) {
  constexpr int kCalls = 50;
  FakeServer server;
  auto client = Connect(server);
  int num_here = 0;
  CallbackLoop loop(*client);
  for (int i = 0; i < kCalls; ++i) {
    client->DecodeAsync(RequestOf("a"), Soon(),
                        [&, here = std::this_thread::get_id()](const auto& answer) {
                          EXPECT_TRUE(answer.ok()) << answer.status();
                          num_here += here == std::this_thread::get_id() ? 1 : 0;
                        });
  }
  server.WaitForRequests(kCalls);
  EXPECT_EQ(num_here, 0);  // no other thread runs them
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_TRUE(loop.RunOne(Soon()));
  }
  EXPECT_EQ(num_here, kCalls);
  EXPECT_FALSE(loop.RunOne(absl::InfinitePast()));
}

TEST(ClientTest, WhatALoopLeavesIsAnsweredAllTheSame) {
  constexpr int kCalls = 3;
  FakeServer server;
  auto client = Connect(server);
  absl::BlockingCounter left(kCalls);
  auto loop = std::make_unique<CallbackLoop>(*client);
  for (int i = 0; i < kCalls - 1; ++i) {
    client->DecodeAsync(RequestOf("a"), Soon(), [&](const auto&) { left.DecrementCount(); });
  }
  loop.reset();
  client->DecodeAsync(RequestOf("a"), Soon(), [&](const auto&) { left.DecrementCount(); });
  left.Wait();
}

TEST(ClientTest, ConnectionsAreConnectionsOfTheirOwn) {
  absl::Mutex mutex;
  std::set<std::string> peers;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    absl::MutexLock lock(&mutex);
    peers.insert(context.peer());
    return EchoAll(context, request, response);
  });
  auto client = Connect(server, {.connections = 3});
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(client->Decode(RequestOf("a"), Soon()).ok());
  }
  EXPECT_EQ(peers.size(), 3u);
}

TEST(ClientTest, TakesAnswersLargerThanGrpcsDefault) {
  FakeServer server(
      [](grpc::ServerContext&, const v1::DecodeRequest&, v1::DecodeResponse& response) {
        response.set_numerics(std::string(6 << 20, 'x'));
        return grpc::Status::OK;
      });
  EXPECT_TRUE(Connect(server)->Decode(RequestOf("a"), Soon()).ok());
  EXPECT_EQ(Connect(server, {.max_receive_bytes = 1 << 20})
                ->Decode(RequestOf("a"), Soon())
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ClientTest, ModelsAndHealth) {
  FakeServer server;
  auto client = Connect(server);
  const auto models = client->ListModels(Soon());
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_EQ(models->models_size(), 4);
  const auto model = client->DescribeModel("echo", "7", Soon());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->source_vocabulary_size(), 12345);
  EXPECT_EQ(client->DescribeModel("echo", "8", Soon()).status(),
            absl::NotFoundError("there is no model echo 8"));
  using grpc::health::v1::HealthCheckResponse;
  EXPECT_EQ(*client->Health("", Soon()), HealthCheckResponse::SERVING);
  server.set_serving(false);
  EXPECT_EQ(*client->Health("", Soon()), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(absl::IsNotFound(client->Health("nonsense", Soon()).status()));
}

TEST(ClientTest, RefusesOptionsOutOfRange) {
  const auto message = [](const ClientOptions& options) {
    return std::string(Client::Connect(options).status().message());
  };
  EXPECT_THAT(message({.address = ""}), HasSubstr("address"));
  EXPECT_THAT(message({.address = "a b:1"}), HasSubstr("white space"));
  EXPECT_THAT(message({.connections = 0}), HasSubstr("1 to 64"));
  EXPECT_THAT(message({.max_receive_bytes = 0}), HasSubstr("max_receive_bytes"));
  EXPECT_THAT(message({.max_attempts = 6}), HasSubstr("1 to 5"));
  EXPECT_THAT(message({.service_config = "{"}), HasSubstr("service_config is not a JSON object"));
  EXPECT_THAT(message({.service_config = "[]"}), HasSubstr("service_config is not a JSON object"));
  EXPECT_THAT(message({.keepalive = absl::Seconds(1)}), HasSubstr("keepalive"));
}

TEST(ClientTest, AddsTheDefaultPort) {
  EXPECT_EQ(WithDefaultPort("host"), "host:8001");
  EXPECT_EQ(WithDefaultPort("host:1"), "host:1");
  EXPECT_EQ(WithDefaultPort("[::1]"), "[::1]:8001");
  EXPECT_EQ(WithDefaultPort("[::1]:1"), "[::1]:1");
  EXPECT_EQ(WithDefaultPort("unix:/run/x"), "unix:/run/x");
}

}  // namespace
}  // namespace beamwright::client
