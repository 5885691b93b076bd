// The least that a gRPC client can do: Decode calls in flight on a completion queue, counted, and
// nothing else. What `beamwright load-test` reaches of it is what measuring costs.
//   beamwright-bench-calls --server 127.0.0.1:8001 --concurrency 16 --connections 4 --seconds 5
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "beamwright/v1/decode.grpc.pb.h"
#include "ops/base/threads.h"

namespace beamwright::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string server = "127.0.0.1:8001";
  std::string source = "a";
  int concurrency = 16;
  int connections = 4;
  double seconds = 5;
  double timeout = 30;
};

struct Call {
  std::unique_ptr<grpc::ClientContext> context;
  v1::DecodeResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::DecodeResponse>> reader;
};

// Answers a second; -1 when a call fails.
double Measure(const Flags& flags) {
  std::vector<std::unique_ptr<v1::DecodeService::Stub>> stubs;
  for (int i = 0; i < flags.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else all share one connection
    stubs.push_back(v1::DecodeService::NewStub(
        grpc::CreateCustomChannel(flags.server, grpc::InsecureChannelCredentials(), arguments)));
  }
  v1::DecodeRequest request;
  request.add_sources()->set_text(flags.source);
  grpc::CompletionQueue queue;
  std::vector<Call> calls(static_cast<size_t>(flags.concurrency));
  size_t next = 0;
  const auto start = [&](Call& call) {
    call.context = std::make_unique<grpc::ClientContext>();
    if (flags.timeout > 0) {
      call.context->set_deadline(std::chrono::system_clock::now() +
                                 std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                     std::chrono::duration<double>(flags.timeout)));
    }
    call.reader = stubs[next++ % stubs.size()]->AsyncDecode(call.context.get(), request, &queue);
    call.reader->Finish(&call.response, &call.status, &call);
  };
  for (Call& call : calls) {
    start(call);
  }
  const Clock::time_point warm = Clock::now() + std::chrono::seconds(1);
  const Clock::time_point end = warm + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(flags.seconds));
  int64_t answered = 0;
  size_t in_flight = calls.size();
  bool failed = false;
  void* tag = nullptr;
  bool ok = false;
  while (in_flight > 0 && queue.Next(&tag, &ok)) {
    Call& call = *static_cast<Call*>(tag);
    failed = failed || !call.status.ok();
    const Clock::time_point now = Clock::now();
    answered += now >= warm && now < end ? 1 : 0;
    if (now < end && !failed) {
      start(call);
    } else {
      --in_flight;
    }
  }
  queue.Shutdown();
  return failed ? -1 : static_cast<double>(answered) / flags.seconds;
}

int Main(int argc, char** argv) {
  SkipDeadlockSearch();
  CLI::App app("Keeps Decode calls in flight and prints how many are answered a second.",
               "beamwright-bench-calls");
  Flags flags;
  app.add_option("--server", flags.server, "HOST:PORT");
  app.add_option("--source", flags.source, "The text of every call");
  app.add_option("--concurrency", flags.concurrency, "Calls in flight")->check(CLI::Range(1, 4096));
  app.add_option("--connections", flags.connections, "Connections")->check(CLI::Range(1, 64));
  app.add_option("--seconds", flags.seconds, "How long")->check(CLI::Range(0.1, 3600.0));
  app.add_option("--timeout", flags.timeout, "Seconds until a call's deadline; 0: it has none")
      ->check(CLI::Range(0.0, 3600.0));
  CLI11_PARSE(app, argc, argv);
  const double rate = Measure(flags);
  if (rate < 0) {
    std::fprintf(stderr, "beamwright-bench-calls: a call failed\n");
    return 1;
  }
  std::printf("%.1f\n", rate);
  return 0;
}

}  // namespace
}  // namespace beamwright::bench

int main(int argc, char** argv) { return beamwright::bench::Main(argc, argv); }
