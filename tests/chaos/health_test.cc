// The table of docs/operations.md, 'Health', read from the page and held against a server in each
// of its states, by every endpoint of every protocol.
#include <gmock/gmock.h>
#include <httplib.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/faulty_server.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/test_repository.h"

namespace beamwright::chaos {
namespace {

namespace fs = std::filesystem;

constexpr char kWell[] = "g2p-en";
constexpr char kIll[] = "ill";

// By endpoint and state; "-" where the page says nothing.
using Table = std::map<std::string, std::map<std::string, std::string>>;

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells = absl::StrSplit(line, '|');
  for (std::string& cell : cells) {
    cell = std::string(absl::StripAsciiWhitespace(cell));
  }
  return {cells.begin() + 1, cells.end() - 1};
}

Table ReadTable() {
  std::ifstream page(BEAMWRIGHT_SOURCE_DIR "/docs/operations.md");
  Table table;
  std::vector<std::string> states;
  for (std::string line; std::getline(page, line);) {
    if (absl::StartsWith(line, "| endpoint | starting |")) {
      states = Cells(line);
      std::getline(page, line);  // what separates head and rows
    } else if (!states.empty()) {
      if (!absl::StartsWith(line, "|")) {
        break;
      }
      const std::vector<std::string> cells = Cells(line);
      for (size_t i = 1; i < cells.size() && i < states.size(); ++i) {
        table[cells[0]][states[i]] = cells[i];
      }
    }
  }
  return table;
}

class HealthTest : public FaultyServer {
 protected:
  // With the model that is well.
  void AddIllModel() const {
    const e2e::TestRepository made;
    made.AddVersion("1", e2e::Made::kToFail);
    const std::string folder = folder_ + "/models/" + kIll;
    fs::copy(made.path() + "/g2p-en", folder, fs::copy_options::recursive);
    std::stringstream config;
    config << std::ifstream(folder + "/1/model.textproto").rdbuf();
    std::ofstream(folder + "/1/model.textproto", std::ios::trunc)
        << absl::StrReplaceAll(config.str(), {{"name: \"g2p-en\"", "name: \"ill\""}});
  }
  // Asks the model for a word, and gives up after a while.
  void Ask(const std::string& model, absl::Duration timeout) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    v1::DecodeRequest request = e2e::Request({"cat"});
    request.set_model(model);
    v1::DecodeResponse response;
    v1::DecodeService::NewStub(channel_)->Decode(&context, request, &response);
  }

  std::string Http(int port, const std::string& path) {
    httplib::Client client("127.0.0.1", port);
    client.set_read_timeout(std::chrono::minutes(1));
    const auto reply = client.Get(path);
    return reply ? std::to_string(reply->status) : httplib::to_string(reply.error());
  }
  // By both listeners, which say the same.
  std::string ProbeOfBoth(const std::string& path) {
    const std::string status = Http(server_->metrics_port(), path);
    EXPECT_EQ(Http(http_port_, path), status) << path;
    return status;
  }
  std::string Health(const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status =
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response);
    return status.error_code() == grpc::StatusCode::NOT_FOUND ? "NOT_FOUND"
           : status.ok()
               ? grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())
               : status.error_message();
  }
  template <typename Response, typename Request>
  std::string Asked(grpc::Status (inference::GRPCInferenceService::Stub::*call)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request, bool (Response::*is)() const) {
    grpc::ClientContext context;
    Response response;
    inference::GRPCInferenceService::Stub stub(channel_);
    const grpc::Status status = (stub.*call)(&context, request, &response);
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ? "UNAVAILABLE"
           : !status.ok()                                       ? status.error_message()
           : (response.*is)()                                   ? "true"
                                                                : "false";
  }
  std::string ModelReady(const std::string& model) {
    inference::ModelReadyRequest request;
    request.set_name(model);
    return Asked(&inference::GRPCInferenceService::Stub::ModelReady, request,
                 &inference::ModelReadyResponse::ready);
  }
  std::string ContainerCheck() {
    const std::string command = absl::StrCat(BEAMWRIGHT_CLIENT, " health --server ", address_,
                                             " > ", folder_, "/health.out 2>&1");
    return std::to_string(WEXITSTATUS(std::system(command.c_str())));
  }

  // What every endpoint says now.
  std::map<std::string, std::string> AskEveryone() {
    using Stub = inference::GRPCInferenceService::Stub;
    const std::string of_server = Health("");
    EXPECT_EQ(Health("beamwright.v1.DecodeService"), of_server);
    EXPECT_EQ(Health("inference.GRPCInferenceService"), of_server);
    EXPECT_EQ(ProbeOfBoth("/healthz"), ProbeOfBoth("/readyz"));
    return {
        {"`/livez`", ProbeOfBoth("/livez")},
        {"`/startupz`", ProbeOfBoth("/startupz")},
        {"`/readyz`, `/healthz`", ProbeOfBoth("/readyz")},
        {"gRPC health of `\"\"`, `DecodeService`, `GRPCInferenceService`", of_server},
        {"gRPC health of `ModelService`", Health("beamwright.v1.ModelService")},
        {"gRPC health of a well model", Health(kWell)},
        {"gRPC health of an ill model", Health(kIll)},
        {"`ServerLive`", Asked(&Stub::ServerLive, inference::ServerLiveRequest(),
                               &inference::ServerLiveResponse::live)},
        {"`/v2/health/live`", Http(http_port_, "/v2/health/live")},
        {"`ServerReady`", Asked(&Stub::ServerReady, inference::ServerReadyRequest(),
                                &inference::ServerReadyResponse::ready)},
        {"`/v2/health/ready`", Http(http_port_, "/v2/health/ready")},
        {"`ModelReady` of a well model", ModelReady(kWell)},
        {"`/v2/models/NAME/ready` of a well model",
         Http(http_port_, absl::StrCat("/v2/models/", kWell, "/ready"))},
        {"`ModelReady` of an ill model", ModelReady(kIll)},
        {"`/v2/models/NAME/ready` of an ill model",
         Http(http_port_, absl::StrCat("/v2/models/", kIll, "/ready"))},
        {"`beamwright health`, as the container's check: exit code", ContainerCheck()},
    };
  }

  void ExpectState(const std::string& state) {
    SCOPED_TRACE(state);
    for (const auto& [endpoint, told] : AskEveryone()) {
      ASSERT_EQ(table_[endpoint].count(state), 1u) << endpoint;
      if (table_[endpoint][state] != "-") {
        EXPECT_EQ(told, table_[endpoint][state]) << endpoint;
      }
      asked_.insert({endpoint, state});
    }
  }

  // One that loads for longer than this test takes.
  void StartLoading() {
    Set("model.load delay 1h");
    StartWith({});
    address_ = server_->WaitForLine("gRPC on ");
    http_port_ = std::stoi("0" + server_->WaitForLine("HTTP on 127.0.0.1:"));
    channel_ = e2e::Connect(address_);
  }
  void StartServing() {
    Set("");
    Start({"--warm-up", "false", "--quarantine-failures", "1", "--quarantine-pause", "1h",
           "--liveness-timeout", "1s", "--drain-delay", "1m", "--max-rows", "8", "--max-queue",
           "1"});
    address_ = server_->address();
    http_port_ = server_->http_port();
  }
  void Unload() {
    grpc::ClientContext context;
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name(kWell);
    inference::RepositoryModelUnloadResponse response;
    EXPECT_TRUE(inference::GRPCInferenceService::NewStub(channel_)
                    ->RepositoryModelUnload(&context, request, &response)
                    .ok());
  }
  // Fills the engine with slow turns and the queue behind it.
  void ExpectStateWhenOverloaded() {
    Set("engine.turn delay 100ms");
    std::atomic<bool> stop{false};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        while (!stop) {
          Ask(kWell, absl::Minutes(1));
        }
      });
    }
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (e2e::Sum(e2e::Scrape(server_->metrics_port()), "beamwright_requests_rejected_total",
                    "queue_full") == 0 &&
           absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    ExpectState("overloaded");
    stop = true;
    Set("");
    for (std::thread& client : clients) {
      client.join();
    }
  }

  Table table_ = ReadTable();
  std::set<std::pair<std::string, std::string>> asked_;
  std::string address_;
  int http_port_ = 0;
};

TEST_F(HealthTest, EveryEndpointSaysWhatTheTableOfTheDocumentationSays) {
  AddIllModel();
  StartLoading();
  ExpectState("starting");
  server_ = nullptr;

  StartServing();
  ExpectState("ready");
  Ask(kIll, absl::Minutes(1));
  ExpectState("one model ill");
  Unload();
  ExpectState("all models ill");
  EXPECT_TRUE(Load().ok());
  ExpectStateWhenOverloaded();
  Set("engine.turn delay 1h");
  Ask(kWell, absl::Milliseconds(100));
  WaitForProbe("/livez", 503);
  ExpectState("engine hung");
  server_ = nullptr;

  StartServing();
  server_->Signal(SIGTERM);
  WaitForProbe("/readyz", 503);
  ExpectState("draining");

  // And nothing else is in the table.
  for (const auto& [endpoint, states] : table_) {
    for (const auto& [state, told] : states) {
      EXPECT_EQ(asked_.count({endpoint, state}), 1u) << endpoint << ", " << state;
    }
  }
}

}  // namespace
}  // namespace beamwright::chaos
