// Start, health, reflection, drain; bundles that don't load.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"
#include "tests/server/websocket/raw_client.h"

namespace beamwright::e2e {
namespace {

namespace fs = std::filesystem;
using ::grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LifecycleTest : public E2eTest {};

TEST_F(LifecycleTest, HealthOfTheServerAndOfEachService) {
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  for (const char* service : {"", "beamwright.v1.DecodeService", "beamwright.v1.RecognizeService",
                              "beamwright.v1.TranslateService", "beamwright.v1.ModelService"}) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    ASSERT_TRUE(health->Check(&context, request, &response).ok()) << service;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("none");
  HealthCheckResponse response;
  EXPECT_EQ(health->Check(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(LifecycleTest, ReflectionListsTheServices) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&] {
    void* tag = nullptr;
    bool good = false;
    return queue.Next(&tag, &good) && good;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  const grpc::Slice slice(std::string{0x3A, 0x01, '*'});  // list_services: "*"
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(wait());
  grpc::Slice answer;
  ASSERT_TRUE(response.DumpToSingleSlice(&answer).ok());
  const std::string text(reinterpret_cast<const char*>(answer.begin()), answer.size());
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("beamwright.v1.DecodeService"), HasSubstr("beamwright.v1.RecognizeService"),
            HasSubstr("beamwright.v1.TranslateService"), HasSubstr("beamwright.v1.ModelService")));
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
}

TEST_F(LifecycleTest, ModelsAreListedAndDescribed) {
  grpc::ClientContext list_context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(models_->ListModels(&list_context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_EQ(list.models(0).name(), "g2p-en");
  EXPECT_TRUE(list.models(0).ready());
  grpc::ClientContext context;
  v1::DescribeModelRequest request;
  v1::ModelDescription description;
  ASSERT_TRUE(models_->DescribeModel(&context, request, &description).ok());
  EXPECT_EQ(description.summary().name(), "g2p-en");
  EXPECT_EQ(description.target_vocabulary_size(), 71);
  EXPECT_EQ(description.source_vocabulary_size(), 30);
  EXPECT_EQ(description.config().limits().max_beam_size(), 64);
  EXPECT_FALSE(description.numerics().empty());
  EXPECT_TRUE(description.encoder_batching().together());
  EXPECT_EQ(description.encoder_batching().reason(), "");
  EXPECT_TRUE(description.length_batching().together());
  EXPECT_EQ(description.length_batching().reason(), "");
  grpc::ClientContext other_context;
  request.set_model("x");
  EXPECT_EQ(models_->DescribeModel(&other_context, request, &description).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

// Calls in flight, each with its status.
class Calls {
 public:
  Calls(v1::DecodeService::Stub& stub, const v1::DecodeRequest& request, int count)
      : request_(request), calls_(static_cast<size_t>(count)), open_(count) {
    for (Call& call : calls_) {
      stub.async()->Decode(&call.context, &request_, &call.response, [&](grpc::Status status) {
        call.status = std::move(status);
        if (!any_.exchange(true)) {
          first_.Notify();
        }
        open_.DecrementCount();
      });
    }
  }
  void WaitForFirst() { first_.WaitForNotification(); }
  void WaitForAll() { open_.Wait(); }

  struct Call {
    grpc::ClientContext context;
    v1::DecodeResponse response;
    grpc::Status status;
  };
  const std::vector<Call>& calls() const { return calls_; }
  std::vector<Call>& calls() { return calls_; }

 private:
  const v1::DecodeRequest request_;
  std::vector<Call> calls_;
  std::atomic<bool> any_{false};
  absl::Notification first_;
  absl::BlockingCounter open_;
};

// Many seconds of work, in a message that fits into one HTTP/2 frame.
constexpr int kManySources = 600;

// A channel that is connected: one that is not yet sends what it was given meanwhile in any order.
std::shared_ptr<grpc::Channel> Connected(const std::string& address) {
  auto channel = Connect(address);
  EXPECT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1)));
  return channel;
}

// Returns when the server has read what was sent on the connected channel before: a connection
// keeps the order, and the answer to this call comes at once.
void WaitUntilRead(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(v1::ModelService::NewStub(channel)->ListModels(&context, {}, &list).ok());
}

v1::DecodeRequest HeavyRequest(int num_sources) {
  v1::DecodeRequest request =
      Request(std::vector<std::string>(static_cast<size_t>(num_sources), "incomprehensibilities"));
  request.mutable_options()->set_beam_size(16);
  request.mutable_options()->set_stop(v1::STOP_MODE_NEVER);
  return request;
}

TEST(DrainTest, WhatRunsAtSigtermIsAnsweredAndTheExitCodeIsZero) {
  ServerProcess server({"--model-path", DefaultModel()});
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  Calls calls(*stub, HeavyRequest(2), 24);
  calls.WaitForFirst();
  server.Signal(SIGTERM);
  calls.WaitForAll();
  int answered = 0;
  for (const Calls::Call& call : calls.calls()) {
    if (!call.status.ok()) {
      EXPECT_EQ(call.status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << call.status.error_message();
      continue;
    }
    ++answered;
    ASSERT_EQ(call.response.results_size(), 2);
    for (const v1::Result& result : call.response.results()) {
      EXPECT_TRUE(result.has_decoded()) << result.ShortDebugString();
    }
  }
  // The first answer came with 23 calls sent: the server had read most of them, and drains in any
  // case more than the one.
  EXPECT_GT(answered, 1);
  EXPECT_EQ(server.Wait(), 0) << server.log();
  EXPECT_EQ(Decode(*stub, Request({"cat"})).first.error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Clients of streams that send nothing hold up no drain: without an end they would take all of its
// time. They hear why it ends.
TEST(DrainTest, IdleStreamsEndSoon) {
  const bundle::TempFolder temp;
  sound::WriteTonesChunksBundle(temp.path(), "chunks");
  ServerProcess server({"--model-path", temp.At("chunks"), "--drain-timeout", "10m",
                        "--stream-idle-timeout", "0", "--websocket-address", "127.0.0.1:0"});
  const auto stub = v1::RecognizeService::NewStub(Connect(server.address()));
  grpc::ClientContext context;
  const auto stream = stub->Recognize(&context);
  v1::RecognizeRequest config;
  config.mutable_config()->set_model("chunks");
  config.mutable_config()->mutable_audio()->set_sample_rate(16000);
  ASSERT_TRUE(stream->Write(config));
  websocket::RawClient client(server.websocket_port());
  client.Open();
  client.SendMessage(websocket::kBinary, sound::AsF32(sound::Tones({3})));
  EXPECT_TRUE(Becomes(
      [&] { return Sum(Scrape(server.metrics_port()), "beamwright_requests_running") == 2; }));
  server.Signal(SIGTERM);
  v1::RecognizeResponse message;
  while (stream->Read(&message)) {
  }
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  std::pair<int, std::string> frame = client.ReadFrame();
  for (; frame.first == websocket::kText; frame = client.ReadFrame()) {
  }
  EXPECT_EQ(frame.first, websocket::kClose);
  EXPECT_EQ(frame.second.substr(0, 2), "\x03\xe9");  // 1001
  EXPECT_EQ(server.Wait(), 0) << server.log();
}

TEST(DrainTest, ASecondSignalEndsAtOnce) {
  ServerProcess server({"--model-path", DefaultModel()});
  const auto channel = Connected(server.address());
  const auto stub = v1::DecodeService::NewStub(channel);
  Calls calls(*stub, HeavyRequest(kManySources), 1);
  WaitUntilRead(channel);
  server.Signal(SIGTERM);
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 1) << server.log();
  calls.WaitForAll();
}

TEST(DrainTest, TheDrainTimeoutEndsWhatIsLeft) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-timeout", "0"});
  const auto channel = Connected(server.address());
  const auto stub = v1::DecodeService::NewStub(channel);
  Calls calls(*stub, HeavyRequest(kManySources), 1);
  v1::DecodeRequest patient = HeavyRequest(kManySources);
  patient.mutable_options()->set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  Calls best_so_far(*stub, patient, 1);
  WaitUntilRead(channel);
  server.Signal(SIGTERM);
  calls.WaitForAll();
  best_so_far.WaitForAll();
  EXPECT_EQ(server.Wait(), 0) << server.log();
  EXPECT_THAT(server.log(), HasSubstr("they end now"));
  // Of the one no source is answered but those that were done; of the other those too that ran.
  for (const Calls* each : {&calls, &best_so_far}) {
    const Calls::Call& call = each->calls()[0];
    EXPECT_TRUE(call.status.ok() || call.status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << call.status.error_message();
    for (const v1::Result& result : call.response.results()) {
      if (result.has_error()) {
        EXPECT_EQ(result.error().code(), static_cast<int>(grpc::StatusCode::UNAVAILABLE));
      } else if (each == &calls) {
        EXPECT_NE(result.decoded().hypotheses(0).finish_reason(), v1::FINISH_REASON_SHUTDOWN);
      }
    }
  }
}

TEST(CancelTest, CancelAndDeadlineEndACall) {
  ServerProcess server({"--model-path", DefaultModel()});
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  Calls calls(*stub, HeavyRequest(kManySources), 1);
  calls.calls()[0].context.TryCancel();
  calls.WaitForAll();
  EXPECT_EQ(calls.calls()[0].status.error_code(), grpc::StatusCode::CANCELLED);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::DecodeResponse response;
  EXPECT_EQ(stub->Decode(&context, HeavyRequest(kManySources), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // Behind all these heavy sources this would wait for minutes.
  EXPECT_TRUE(Decode(*stub, Request({"cat"})).first.ok());
}

class StartTest : public ::testing::Test {
 protected:
  StartTest() {
    std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
    repository_ = mkdtemp(name.data());
  }
  ~StartTest() override { fs::remove_all(repository_); }

  // A copy of the default model without checksums, for tests to spoil.
  std::string AddVersion(const std::string& version) {
    const std::string folder = repository_ + "/g2p-en/" + version;
    fs::create_directories(folder);
    fs::copy(DefaultModel(), folder);
    fs::remove(folder + "/MANIFEST.sha256");
    return folder + "/";
  }
  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::trunc) << content;
  }
  // The log of a server that must not come up.
  std::string FailToStart() {
    ServerProcess server({"--model-repository", repository_});
    EXPECT_EQ(server.WaitForPort(), 0);
    EXPECT_EQ(server.Wait(), 1);
    return server.log();
  }

  std::string repository_;
};

TEST_F(StartTest, BundlesThatDoNotLoadAreNamed) {
  std::string folder = AddVersion("1");
  Write(folder + "decoder.xml", "<net><layers><layer");
  EXPECT_THAT(FailToStart(), AllOf(HasSubstr("decoder.graph"), HasSubstr("decoder.xml")));
  fs::remove_all(folder);
  AddVersion("1");
  fs::remove(folder + "decoder.bin");
  EXPECT_THAT(FailToStart(), HasSubstr("decoder.bin"));
  fs::remove_all(folder);
  AddVersion("1");
  fs::resize_file(folder + "encoder.bin", 1000);
  EXPECT_THAT(FailToStart(), HasSubstr("encoder.xml"));
  fs::remove_all(folder);
  AddVersion("1");
  Write(folder + "model.textproto", "format_version: 1\nencoder {\n");
  EXPECT_THAT(FailToStart(), HasSubstr("model.textproto: 3:1"));
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy(DefaultModel(), folder);
  Write(folder + "source.vocab", "<unk>\na\n");
  EXPECT_THAT(FailToStart(), AllOf(HasSubstr("source.vocab"), HasSubstr("MANIFEST.sha256")));
}

TEST_F(StartTest, ABadNewVersionLeavesTheGoodOneServing) {
  AddVersion("1");
  Write(AddVersion("2") + "decoder.xml", "<net/>");
  ServerProcess server({"--model-repository", repository_});
  const auto channel = Connect(server.address());
  const auto stub = v1::DecodeService::NewStub(channel);
  const auto [status, response] = Decode(*stub, Request({"cat"}));
  ASSERT_TRUE(status.ok()) << status.error_message() << server.log();
  EXPECT_EQ(response.version(), "1");
  grpc::ClientContext context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(v1::ModelService::NewStub(channel)->ListModels(&context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_TRUE(list.models(0).ready());
  EXPECT_EQ(list.models(1).version(), "2");
  EXPECT_FALSE(list.models(1).ready());
  EXPECT_THAT(list.models(1).reason(), HasSubstr("decoder.xml"));
}

TEST_F(StartTest, NothingToServe) {
  EXPECT_THAT(FailToStart(), HasSubstr("no model"));
  repository_ += "/missing";
  EXPECT_THAT(FailToStart(), HasSubstr(repository_));
  fs::create_directories(repository_);
}

TEST_F(StartTest, APortThatIsTaken) {
  ServerProcess first({"--model-path", DefaultModel()});
  const std::string address = first.address();
  ServerProcess second({"--model-path", DefaultModel(), "--grpc-address", address});
  EXPECT_EQ(second.WaitForPort(), 0);
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.log(), HasSubstr("cannot listen on '" + address + "'"));
}

TEST_F(StartTest, AllPortsThatAreTakenAreNamedAtOnce) {
  ServerProcess first({"--model-path", DefaultModel(), "--websocket-address", "127.0.0.1:0"});
  ASSERT_GT(first.WaitForPort(), 0);
  const std::pair<std::string, int> taken[] = {{"grpc", first.WaitForPort()},
                                               {"http", first.http_port()},
                                               {"websocket", first.websocket_port()},
                                               {"metrics", first.metrics_port()},
                                               {"admin", first.admin_port()}};
  std::vector<std::string> arguments = {"--model-path", DefaultModel()};
  for (const auto& [listener, port] : taken) {
    arguments.insert(arguments.end(),
                     {"--" + listener + "-address", absl::StrCat("127.0.0.1:", port)});
  }
  ServerProcess second(arguments);
  EXPECT_EQ(second.Wait(), 1);
  for (const auto& [listener, port] : taken) {
    EXPECT_THAT(second.log(), HasSubstr(absl::StrCat(listener,
                                                     "-address: cannot listen on "
                                                     "'127.0.0.1:",
                                                     port, "'")));
  }
}

// For the stacks of its threads.
TEST_F(StartTest, TheLogSaysWhoCanCall) {
  ServerProcess local({"--model-path", DefaultModel(), "--http-address", "none"});
  EXPECT_EQ(local.WaitForLine("only this machine can call; to admit others: "),
            "--grpc-address 0.0.0.0:0 (docs/security.md)");
  ServerProcess open({"--model-path", DefaultModel(), "--grpc-address", "0.0.0.0:0"});
  EXPECT_EQ(open.WaitForLine("other machines can call "),
            "0.0.0.0:0 without TLS and without tokens (docs/security.md)");
}

TEST_F(StartTest, TooLittleAddressSpaceIsSaid) {
  for (const int kilobytes : {300'000, 800'000}) {
    ServerProcess server(
        {"-c",
         absl::StrCat("ulimit -s 8192; ulimit -v ", kilobytes, "; exec ", BEAMWRIGHT_SERVER,
                      " --model-path ", DefaultModel(), " \"$@\""),
         "sh"},
        "/bin/sh");
    EXPECT_EQ(server.Wait(), 1);
    EXPECT_THAT(server.log(), HasSubstr("(ulimit -v)"));
  }
}

TEST_F(StartTest, NonsenseOnTheCommandLine) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& message) {
    ServerProcess server(arguments);
    EXPECT_EQ(server.Wait(), 2) << message;
    EXPECT_THAT(server.log(), HasSubstr(message));
  };
  expect({}, "--model-repository");
  expect({"--model-path", "x", "--threads", "many"}, "--threads");
  expect({"--model-path", "x", "--threads", "-1"}, "--threads");
  expect({"--model-path", "x", "--max-rows", "0"}, "--max-rows");
  expect({"--model-path", "x", "--max-rows", "3.5"}, "--max-rows");
  expect({"--model-path", "x", "--drain-timeout", "soon"}, "--drain-timeout");
  expect({"--model-path", "x", "--log-level", "loud"}, "--log-level");
  expect({"--model-path", "x", "--no-such-flag"}, "--no-such-flag");
  expect({"--model-path", "x", "stray"}, "stray");
}

}  // namespace
}  // namespace beamwright::e2e
