// A pattern that takes long to compile, over every protocol: no other call waits for it.
#include <gmock/gmock.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "beamwright/v1/translate.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/faulty_server.h"
#include "tests/server/websocket/raw_client.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::chaos {
namespace {

// A model that hears and chooses token after token, so that it takes patterns.
constexpr char kSpeech[] = "whisper_speech";
constexpr char kPattern[] = "[A-Za-z0-9 ]*";
constexpr char kOptions[] = R"({"regex": "[A-Za-z0-9 ]*"})";
const auto kLong = std::chrono::minutes(2);

inference::ModelInferRequest InferRequest(bool is_sequence) {
  inference::ModelInferRequest request;
  request.set_model_name(is_sequence ? kSpeech : "g2p-en");
  auto& input = *request.add_inputs();
  input.set_name(is_sequence ? "source_audio" : "source_text");
  input.set_datatype(is_sequence ? "FP32" : "BYTES");
  input.add_shape(1);
  input.add_shape(is_sequence ? 1600 : 1);
  if (is_sequence) {
    for (int i = 0; i < 1600; ++i) {
      input.mutable_contents()->add_fp32_contents(0);
    }
    auto& parameters = *request.mutable_parameters();
    parameters["sequence_id"].set_int64_param(7);
    parameters["sequence_start"].set_bool_param(true);
  } else {
    input.mutable_contents()->add_bytes_contents("beam");
  }
  (*request.mutable_parameters())["regex"].set_string_param(kPattern);
  return request;
}

std::string Infer(e2e::ServerProcess& server, const inference::ModelInferRequest& request) {
  grpc::ClientContext context;
  inference::ModelInferResponse response;
  return inference::GRPCInferenceService::NewStub(Connect(server.address()))
      ->ModelInfer(&context, request, &response)
      .error_message();
}

std::string Post(e2e::ServerProcess& server, const std::string& path, const std::string& body) {
  httplib::Client http("127.0.0.1", server.http_port());
  http.set_read_timeout(kLong);
  const auto reply = http.Post(path, body, "application/json");
  return reply ? reply->body : httplib::to_string(reply.error());
}

struct Path {
  const char* name;
  // Returns when the call has ended: how.
  std::string (*call)(e2e::ServerProcess& server);
};

const std::vector<Path>& Paths() {
  static const auto* const paths = new std::vector<Path>{
      {"Decode",
       [](e2e::ServerProcess& server) {
         grpc::ClientContext context;
         v1::DecodeRequest request = WordRequest(0);
         request.mutable_options()->set_regex(kPattern);
         v1::DecodeResponse response;
         return v1::DecodeService::NewStub(Connect(server.address()))
             ->Decode(&context, request, &response)
             .error_message();
       }},
      {"StreamDecode",
       [](e2e::ServerProcess& server) {
         grpc::ClientContext context;
         v1::StreamDecodeRequest request;
         request.set_model("g2p-en");
         request.mutable_source()->set_text("beam");
         request.mutable_options()->set_regex(kPattern);
         const auto stream =
             v1::DecodeService::NewStub(Connect(server.address()))->StreamDecode(&context, request);
         v1::StreamDecodeResponse response;
         while (stream->Read(&response)) {
         }
         return stream->Finish().error_message();
       }},
      {"Recognize",
       [](e2e::ServerProcess& server) {
         grpc::ClientContext context;
         const auto stream =
             v1::RecognizeService::NewStub(Connect(server.address()))->Recognize(&context);
         v1::RecognizeRequest request;
         request.mutable_config()->set_model(kSpeech);
         request.mutable_config()->mutable_audio();
         request.mutable_config()->mutable_options()->set_regex(kPattern);
         stream->Write(request);
         request.set_audio(std::string(3200, '\0'));
         stream->Write(request);
         stream->WritesDone();
         v1::RecognizeResponse response;
         while (stream->Read(&response)) {
         }
         return stream->Finish().error_message();
       }},
      {"ModelInfer", [](e2e::ServerProcess& server) { return Infer(server, InferRequest(false)); }},
      {"ModelInfer of sound",
       [](e2e::ServerProcess& server) { return Infer(server, InferRequest(true)); }},
      {"HTTP :decode",
       [](e2e::ServerProcess& server) {
         return Post(server, "/v1/models/g2p-en:decode",
                     absl::StrCat(R"({"sources": [{"text": "beam"}], "options": )", kOptions, "}"));
       }},
      {"HTTP :streamDecode",
       [](e2e::ServerProcess& server) {
         return Post(server, "/v1/models/g2p-en:streamDecode",
                     absl::StrCat(R"({"source": {"text": "beam"}, "options": )", kOptions, "}"));
       }},
      {"HTTP infer",
       [](e2e::ServerProcess& server) {
         return Post(
             server, "/v2/models/g2p-en/infer",
             absl::StrCat(R"({"inputs": [{"name": "source_text", "datatype": "BYTES", )",
                          R"("shape": [1, 1], "data": ["beam"]}], "parameters": )", kOptions, "}"));
       }},
      {"transcriptions",
       [](e2e::ServerProcess& server) {
         httplib::Client http("127.0.0.1", server.http_port());
         http.set_read_timeout(kLong);
         const std::string wav = ops::testing_tools::ReadWholeFile(
             BEAMWRIGHT_SOURCE_DIR "/models/digits-en/spoken-1.wav");
         const auto reply =
             http.Post("/v1/audio/transcriptions",
                       httplib::MultipartFormDataItems{{"file", wav, "a.wav", ""},
                                                       {"model", kSpeech, "", ""},
                                                       {"options", kOptions, "", ""}});
         return reply ? reply->body : httplib::to_string(reply.error());
       }},
      {"WebSocket",
       [](e2e::ServerProcess& server) {
         websocket::RawClient client(server.websocket_port());
         client.Open(
             absl::StrCat("/?model=", kSpeech, "&options=%7B%22regex%22:%22%5Ba-z%5D*%22%7D"));
         client.SendMessage(websocket::kBinary, std::string(3200, '\0'));
         client.SendMessage(websocket::kText, "Done");
         return client.ReadFrame().second;
       }},
  };
  return *paths;
}

// Calls whose pattern is a bundle's default one, which was compiled when the bundle was loaded.
const std::vector<Path>& PathsOfDefaults() {
  static const auto* const paths = new std::vector<Path>{
      {"Translate by a bundle with a pattern",
       [](e2e::ServerProcess& server) {
         grpc::ClientContext context;
         v1::TranslateRequest request;
         request.add_texts("beam");
         request.set_source_language("en");
         request.set_target_language("fr");
         v1::TranslateResponse response;
         return v1::TranslateService::NewStub(Connect(server.address()))
             ->Translate(&context, request, &response)
             .error_message();
       }},
      {"HTTP translate by it",
       [](e2e::ServerProcess& server) {
         return Post(server, "/translate", R"({"q": "beam", "source": "en", "target": "fr"})");
       }},
      {"Recognize, where it rewrites texts",
       [](e2e::ServerProcess& server) {
         grpc::ClientContext context;
         const auto stream =
             v1::RecognizeService::NewStub(Connect(server.address()))->Recognize(&context);
         v1::RecognizeRequest request;
         request.mutable_config()->set_model("rewritten");
         request.mutable_config()->mutable_audio();
         stream->Write(request);
         stream->WritesDone();
         return stream->Finish().error_message();
       }},
  };
  return *paths;
}

// A bundle of models/ under another name, with other lines in its configuration.
void CopyBundle(const std::string& from, const std::string& to, const std::string& line,
                const std::string& other) {
  std::filesystem::create_directories(std::filesystem::path(to).parent_path());
  std::filesystem::copy(absl::StrCat(BEAMWRIGHT_SOURCE_DIR "/models/", from, "/1"), to);
  const std::string file = to + "/model.textproto";
  const std::string name = std::filesystem::path(to).parent_path().filename();
  const std::string text = ops::testing_tools::ReadWholeFile(file);
  std::filesystem::remove(file);
  std::filesystem::remove(to + "/MANIFEST.sha256");
  std::ofstream(file) << absl::StrReplaceAll(
      text, {{absl::StrCat("name: \"", from, "\""), absl::StrCat("name: \"", name, "\"")},
             {line, other}});
}

class PatternsTest : public FaultyServer {};

TEST_F(PatternsTest, NoOtherCallWaitsForOneThatTakesLong) {
  const std::string exports = testing_support::TestData(absl::StrCat("e2e/exports/", kSpeech));
  const std::string bundle = absl::StrCat(folder_, "/models/", kSpeech, "/1");
  std::filesystem::create_directories(bundle);
  const ops::testing_tools::Outcome init = ops::testing_tools::RunProgram(
      {BEAMWRIGHT_GRAPH_PROGRAM, "init", exports + "/optimum/encoder_model.onnx",
       exports + "/optimum/decoder_model_merged.onnx", "--out", bundle, "--name", kSpeech});
  ASSERT_EQ(init.exit_code, 0) << init.errors;
  CopyBundle("g2p-en", folder_ + "/models/patterned/1", "default_options {",
             "translation { source_language: \"en\" target_language: \"fr\" }\n"
             "default_options { regex: \"[A-Z0-9 ]*\"");
  CopyBundle("digits-en", folder_ + "/models/rewritten/1", "sound {}",
             "sound {} rewrite { model: \"patterned\" }");
  // So that one call that keeps a thread of a listener keeps all of them.
  Start({"--http-threads", "1", "--websocket-address", "127.0.0.1:0"});
  const auto stub = v1::DecodeService::NewStub(channel_);
  Set("options.pattern delay 2m");
  std::atomic<int> num_ended{0};
  std::vector<std::thread> callers;
  std::vector<std::string> outcomes(Paths().size());
  for (size_t i = 0; i < Paths().size(); ++i) {
    SCOPED_TRACE(Paths()[i].name);
    callers.emplace_back([&, i] {
      outcomes[i] = Paths()[i].call(*server_);
      ++num_ended;
    });
    absl::SleepFor(absl::Milliseconds(50));  // it comes first, or nothing is tested
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::DecodeResponse response;
    const grpc::Status status = stub->Decode(&context, WordRequest(0), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    httplib::Client http("127.0.0.1", server_->http_port());
    http.set_read_timeout(20);
    const auto reply = http.Post("/v1/models/g2p-en:decode", R"({"sources": [{"text": "beam"}]})",
                                 "application/json");
    EXPECT_TRUE(reply && reply->status == 200) << httplib::to_string(reply.error());
    websocket::RawClient sound(server_->websocket_port());
    EXPECT_THAT(sound.Open(absl::StrCat("/?model=", kSpeech)), ::testing::HasSubstr("101"));
  }
  std::vector<std::string> defaults;
  for (const Path& path : PathsOfDefaults()) {
    defaults.push_back(path.call(*server_));
  }
  EXPECT_EQ(defaults[0], "");
  EXPECT_THAT(defaults[1], ::testing::HasSubstr("translatedText"));
  EXPECT_EQ(defaults[2], "source: has no frames");
  EXPECT_EQ(num_ended, 0) << outcomes[0] << outcomes[1] << outcomes[2];  // all of them wait
  server_->Signal(SIGKILL);
  for (std::thread& caller : callers) {
    caller.join();
  }
}

}  // namespace
}  // namespace beamwright::chaos
