// A closed loop over the Open Inference Protocol, for servers that speak nothing else (Triton):
// --concurrency ModelInfer calls of one source each are kept in flight, and a JSON object is
// printed with the names of `beamwright load-test --json`.
//   beamwright-bench-oip --server HOST:PORT --model NAME --file IDS --concurrency 32 --seconds 5
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/load/histogram.h"
#include "inference/grpc_service.grpc.pb.h"

namespace beamwright::bench {
namespace {

using Clock = std::chrono::steady_clock;
using inference::GRPCInferenceService;
using inference::ModelInferRequest;

struct Flags {
  std::string server;
  std::string model;
  std::string file;
  std::vector<std::string> parameters;  // name=integer
  int concurrency = 16;
  int connections = 4;
  double seconds = 5;
  double warmup = 1;
};

// One request for each line of ids.
std::vector<ModelInferRequest> ReadRequests(const Flags& flags) {
  std::vector<ModelInferRequest> requests;
  std::ifstream file(flags.file);
  for (std::string line; std::getline(file, line);) {
    ModelInferRequest& request = requests.emplace_back();
    request.set_model_name(flags.model);
    auto& input = *request.add_inputs();
    input.set_name("source_ids");
    input.set_datatype("INT32");
    std::istringstream ids(line);
    for (int32_t id = 0; ids >> id;) {
      input.mutable_contents()->add_int_contents(id);
    }
    input.add_shape(1);
    input.add_shape(input.contents().int_contents_size());
    for (const std::string& parameter : flags.parameters) {
      const size_t equals = parameter.find('=');
      auto& value = (*request.mutable_parameters())[parameter.substr(0, equals)];
      const std::string text = parameter.substr(equals + 1);
      if (text.find_first_not_of("0123456789") == std::string::npos) {
        value.set_int64_param(std::stol(text));
      } else {
        value.set_string_param(text);
      }
    }
  }
  return requests;
}

class Loop {
 public:
  Loop(const Flags& flags, std::vector<ModelInferRequest> requests)
      : flags_(flags), requests_(std::move(requests)), warm_(Clock::now() + Of(flags.warmup)) {
    for (int i = 0; i < flags.connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt("beamwright.connection", i);  // else all share one connection
      stubs_.push_back(GRPCInferenceService::NewStub(
          grpc::CreateCustomChannel(flags.server, grpc::InsecureChannelCredentials(), arguments)));
    }
  }

  // False: no call was answered.
  bool Run() {
    in_flight_ = flags_.concurrency;
    for (int i = 0; i < flags_.concurrency; ++i) {
      Start(i);
    }
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](Loop* self)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) { return self->in_flight_ == 0; },
        this));
    const double elapsed = std::chrono::duration<double>(Clock::now() - warm_).count();
    const auto ms = [&](double part) {
      return absl::ToDoubleMilliseconds(latency_.Percentile(part));
    };
    const double rate = static_cast<double>(latency_.count()) / elapsed;
    std::printf(
        "{\"answered_calls\": %lld, \"failed\": %d, \"first_failure\": \"code %d\",\n"
        " \"sources_per_second\": %.3f, \"calls_per_second\": %.3f,\n"
        " \"latency_ms\": {\"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f}}\n",
        static_cast<long long>(latency_.count()), failed_, first_failure_, rate, rate, ms(0.5),
        ms(0.9), ms(0.99));
    return latency_.count() > 0;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    Clock::time_point started;
  };

  static Clock::duration Of(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void Start(int slot) {
    auto call = std::make_shared<Call>();
    call->started = Clock::now();
    const ModelInferRequest& request = requests_[next_++ % requests_.size()];
    stubs_[static_cast<size_t>(slot) % stubs_.size()]->async()->ModelInfer(
        &call->context, &request, &call->response,
        [this, slot, call](const grpc::Status& status) { Finish(slot, *call, status); });
  }

  void Finish(int slot, const Call& call, const grpc::Status& status) {
    const Clock::time_point now = Clock::now();
    if (status.ok() && call.started >= warm_) {
      latency_.Record(absl::FromChrono(now - call.started));
    }
    {
      absl::MutexLock lock(&mutex_);
      if (!status.ok() && failed_++ == 0) {
        first_failure_ = status.error_code();
      }
      if (now >= warm_ + Of(flags_.seconds) || failed_ > 1000) {
        --in_flight_;
        return;
      }
    }
    Start(slot);
  }

  const Flags& flags_;
  const std::vector<ModelInferRequest> requests_;
  const Clock::time_point warm_;
  std::vector<std::unique_ptr<GRPCInferenceService::Stub>> stubs_;
  client::Histogram latency_;
  std::atomic<size_t> next_{0};
  absl::Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;
  int first_failure_ ABSL_GUARDED_BY(mutex_) = 0;
};

int Main(int argc, char** argv) {
  CLI::App app("Keeps Open Inference calls in flight and prints rate and latency.",
               "beamwright-bench-oip");
  Flags flags;
  app.add_option("--server", flags.server, "HOST:PORT")->required();
  app.add_option("--model", flags.model, "Model name")->required();
  app.add_option("--file", flags.file, "Source ids, one source a line")->required();
  app.add_option("--parameter", flags.parameters, "NAME=VALUE, sent with every call");
  app.add_option("--concurrency", flags.concurrency, "Calls in flight")->check(CLI::Range(1, 4096));
  app.add_option("--connections", flags.connections, "Connections")->check(CLI::Range(1, 64));
  app.add_option("--seconds", flags.seconds, "How long calls are counted");
  app.add_option("--warmup", flags.warmup, "How long they are not, first");
  CLI11_PARSE(app, argc, argv);
  std::vector<ModelInferRequest> requests = ReadRequests(flags);
  if (requests.empty()) {
    std::fprintf(stderr, "beamwright-bench-oip: '%s' has no line\n", flags.file.c_str());
    return 1;
  }
  return Loop(flags, std::move(requests)).Run() ? 0 : 1;
}

}  // namespace
}  // namespace beamwright::bench

int main(int argc, char** argv) { return beamwright::bench::Main(argc, argv); }
