#include "tests/chaos/faulty_server.h"

#include <httplib.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"

namespace beamwright::chaos {

namespace fs = std::filesystem;

FaultyServer::FaultyServer() {
  std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
  folder_ = mkdtemp(name.data());
  setenv("BEAMWRIGHT_FAULTS", (folder_ + "/faults").c_str(), 1);
  AddVersion("1");
}

FaultyServer::~FaultyServer() { fs::remove_all(folder_); }

void FaultyServer::AddVersion(const std::string& version) const {
  fs::create_directories(folder_ + "/models/g2p-en/");
  fs::copy(e2e::DefaultModel(), folder_ + "/models/g2p-en/" + version);
}

void FaultyServer::Set(const std::string& faults) const {
  std::ofstream(folder_ + "/faults.new", std::ios::trunc) << faults << "\n";
  fs::rename(folder_ + "/faults.new", folder_ + "/faults");
}

void FaultyServer::Start(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--model-control", "explicit", "--golden-requests", "0"});
  StartWith(arguments);
  ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
  channel_ = Connect(server_->address());
}

void FaultyServer::StartWith(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"--model-repository", folder_ + "/models"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  server_ = std::make_unique<e2e::ServerProcess>(all, BEAMWRIGHT_SERVER_WITH_FAULTS);
}

grpc::Status FaultyServer::Load() {
  grpc::ClientContext context;
  inference::RepositoryModelLoadRequest request;
  request.set_model_name("g2p-en");
  inference::RepositoryModelLoadResponse response;
  return inference::GRPCInferenceService::NewStub(channel_)->RepositoryModelLoad(&context, request,
                                                                                 &response);
}

std::string FaultyServer::Version() {
  grpc::ClientContext context;
  v1::DecodeResponse response;
  const grpc::Status status =
      v1::DecodeService::NewStub(channel_)->Decode(&context, WordRequest(0), &response);
  return status.ok() ? response.version() : status.error_message();
}

int FaultyServer::Probe(const std::string& path) {
  httplib::Client client("127.0.0.1", server_->metrics_port());
  client.set_read_timeout(std::chrono::minutes(2));
  const auto reply = client.Get(path);
  return reply ? reply->status : 0;
}

void FaultyServer::WaitForProbe(const std::string& path, int status) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (Probe(path) != status && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(Probe(path), status) << path;
}

}  // namespace beamwright::chaos
