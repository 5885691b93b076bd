// Versions replaced under load: no call fails, and every answer is one version's entirely.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

namespace fs = std::filesystem;
using e2e::BackToZero;
using e2e::DefaultModel;
using e2e::Scrape;
using e2e::ServerProcess;
using e2e::Sum;

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() {
    std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
    repository_ = mkdtemp(name.data());
  }
  ~ReloadTest() override { fs::remove_all(repository_); }

  // Publishes a version by rename. Odd ones are the default model; of even ones encoder, decoder
  // and vocabulary differ, so that any mixture of two versions gives a third answer.
  void AddVersion(int version) const {
    const std::string draft = repository_ + "/.draft";
    fs::create_directories(draft);
    fs::copy(DefaultModel(), draft);
    fs::remove(draft + "/MANIFEST.sha256");
    fs::remove(draft + "/golden.jsonl");
    if (version % 2 == 0) {
      Perturb(draft + "/encoder.bin");
      Perturb(draft + "/decoder.bin");
      std::ifstream in(draft + "/target.vocab");
      const std::string vocabulary((std::istreambuf_iterator<char>(in)), {});
      std::ofstream(draft + "/target.vocab") << absl::StrReplaceAll(vocabulary, {{"AA", "aa"}});
    }
    fs::create_directories(repository_ + "/g2p-en");
    fs::rename(draft, absl::StrCat(repository_, "/g2p-en/", version));
  }

  std::string repository_;

 private:
  // Makes every thousandth weight a little larger.
  static void Perturb(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4000) {
      float value = 0;
      std::memcpy(&value, &bytes[at], 4);
      // What is not a weight (an integer, say) stays as it is.
      if (std::abs(value) > 1e-3f && std::abs(value) < 10.0f) {
        value *= 1.03f;
        std::memcpy(&bytes[at], &value, 4);
      }
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
};

TEST_F(ReloadTest, NoCallFailsAndEveryAnswerIsOneVersionsEntirely) {
  constexpr int kClients = 6;
  const int reloads = Form(6, 50);
  Golden golden;
  for (int version : {1, 2}) {
    AddVersion(version);
    ServerProcess alone({"--model-path", absl::StrCat(repository_, "/g2p-en/", version)});
    AddGolden(alone.address(), golden);
  }
  fs::rename(repository_ + "/g2p-en/2", repository_ + "/.kept");
  ASSERT_NE(golden["1"], golden["2"]);
  for (int version = 3; version <= reloads + 1; ++version) {
    const std::string name = absl::StrCat(version);
    golden[name] = golden[version % 2 == 0 ? "2" : "1"];
    // The version's number is part of the answer.
    for (std::string& content : golden[name]) {
      v1::DecodeResponse response;
      ASSERT_TRUE(response.ParseFromString(content));
      response.set_version(name);
      content = response.SerializeAsString();
    }
  }
  ServerProcess server({"--model-repository", repository_, "--model-control", "explicit"});
  const std::string address = server.address();
  Tally tally;
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      const auto stub = v1::DecodeService::NewStub(Connect(address));
      for (int i = client; !stop; ++i) {
        Call(*stub, i % kNumRequests, golden, tally);
      }
    });
  }
  const auto control = inference::GRPCInferenceService::NewStub(Connect(address));
  for (int version = 2; version <= reloads + 1; ++version) {
    if (version == 2) {
      fs::rename(repository_ + "/.kept", repository_ + "/g2p-en/2");
    } else {
      AddVersion(version);
    }
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("g2p-en");
    inference::RepositoryModelLoadResponse response;
    const grpc::Status status = control->RepositoryModelLoad(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  stop = true;
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(tally.of(grpc::StatusCode::OK), tally.all()) << tally.ToString();
  EXPECT_EQ(tally.wrong(), 0) << tally.ToString();
  EXPECT_GT(tally.versions().size(), 2u);
  EXPECT_TRUE(BackToZero(server.metrics_port()));
  EXPECT_EQ(Sum(Scrape(server.metrics_port()), "beamwright_requests_total", "code=\"OK\""),
            static_cast<double>(tally.all()));
  std::cout << reloads << " reloads under " << kClients << " clients: " << tally.all()
            << " calls, all answered, each by one of " << tally.versions().size() << " versions\n";
}

}  // namespace
}  // namespace beamwright::chaos
