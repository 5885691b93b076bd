#include "tests/chaos/chaos.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {

bool IsLong() {
  const char* form = std::getenv("BEAMWRIGHT_CHAOS");
  return form != nullptr && std::string(form) == "long";
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::string& service_config) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A server that was restarted is found again soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  if (!service_config.empty()) {
    arguments.SetServiceConfigJSON(service_config);
  }
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

v1::DecodeRequest WordRequest(int number) {
  static constexpr const char* kWords[] = {
      "recurrent", "cat",      "beam",   "internationalisation",
      "wright",    "colonel",  "search", "phoneme",
      "through",   "sequence", "model",  "zebra"};
  v1::DecodeRequest request;
  request.set_model("g2p-en");
  for (int i = 0; i <= number % 3; ++i) {
    request.add_sources()->set_text(
        kWords[static_cast<size_t>(number + 3 * i) % std::size(kWords)]);
  }
  request.mutable_options()->set_beam_size(2 + number % 4);
  request.mutable_options()->set_n_best(2);
  return request;
}

std::string Content(v1::DecodeResponse response) {
  for (v1::Result& result : *response.mutable_results()) {
    if (result.has_decoded()) {
      result.mutable_decoded()->clear_queue_ms();
      result.mutable_decoded()->clear_compute_ms();
    }
  }
  return response.SerializeAsString();
}

void AddGolden(const std::string& address, Golden& golden) {
  const auto stub = v1::DecodeService::NewStub(Connect(address));
  for (int number = 0; number < kNumRequests; ++number) {
    grpc::ClientContext context;
    v1::DecodeResponse response;
    const grpc::Status status = stub->Decode(&context, WordRequest(number), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::Result& result : response.results()) {
      ASSERT_TRUE(result.has_decoded()) << result.error().message();
    }
    golden[response.version()].push_back(Content(response));
  }
}

void Tally::Count(const grpc::Status& status, const v1::DecodeResponse& response, int number,
                  const Golden& golden) {
  const std::string content = status.ok() ? Content(response) : "";
  absl::MutexLock lock(&mutex_);
  ++codes_[status.error_code()];
  if (status.ok()) {
    ++versions_[response.version()];
    const auto version = golden.find(response.version());
    wrong_ += version == golden.end() || version->second[static_cast<size_t>(number)] != content;
  } else if (messages_.size() < 5) {
    messages_.push_back(absl::StrCat(status.error_code(), " ", status.error_message()));
  }
}

int64_t Tally::of(grpc::StatusCode code) const {
  absl::MutexLock lock(&mutex_);
  const auto found = codes_.find(code);
  return found == codes_.end() ? 0 : found->second;
}

int64_t Tally::all() const {
  absl::MutexLock lock(&mutex_);
  int64_t all = 0;
  for (const auto& [code, count] : codes_) {
    all += count;
  }
  return all;
}

int64_t Tally::wrong() const {
  absl::MutexLock lock(&mutex_);
  return wrong_;
}

std::map<std::string, int64_t> Tally::versions() const {
  absl::MutexLock lock(&mutex_);
  return versions_;
}

std::string Tally::ToString() const {
  absl::MutexLock lock(&mutex_);
  std::string text = absl::StrCat("wrong: ", wrong_);
  for (const auto& [code, count] : codes_) {
    absl::StrAppend(&text, ", code ", code, ": ", count);
  }
  for (const std::string& message : messages_) {
    absl::StrAppend(&text, "\n  ", message);
  }
  return text;
}

grpc::Status Call(v1::DecodeService::Stub& stub, int number, const Golden& golden, Tally& tally) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  v1::DecodeResponse response;
  grpc::Status status = stub.Decode(&context, WordRequest(number), &response);
  tally.Count(status, response, number, golden);
  return status;
}

int64_t HeapBytes(int metrics_port) {
  return static_cast<int64_t>(e2e::Sum(e2e::Scrape(metrics_port), "beamwright_heap_bytes"));
}

int64_t ResidentBytes(int metrics_port) {
  return static_cast<int64_t>(e2e::Sum(e2e::Scrape(metrics_port), "process_resident_memory_bytes"));
}

}  // namespace beamwright::chaos
