// The least that a gRPC server can do: a callback service that answers every Decode and ModelInfer
// call with the same response, at once. What `beamwright-server` takes beyond it is tokenising,
// decoding and the reply. Load generators are tried against it, too: they must find its delay, and
// what becomes of users while it stalls.
//   beamwright-bench-echo --port 8001 --tokens 12 --hypotheses 5
//   beamwright-bench-echo --port 0 --delay-ms 20 --stall-at-ms 2000 --stall-ms 2000
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "beamwright/v1/decode.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "ops/base/threads.h"

namespace beamwright::bench {
namespace {

// When answers are sent: so long after each call, and none while the server stalls, which it does
// once, counted from the first call.
class Delay {
 public:
  using Clock = std::chrono::system_clock;

  Delay(int delay_ms, int stall_at_ms, int stall_ms)
      : delay_(delay_ms), stall_at_(stall_at_ms), stall_(stall_ms) {}

  void Finish(grpc::ServerUnaryReactor* reactor) {
    if (delay_.count() == 0 && stall_.count() == 0) {
      reactor->Finish(grpc::Status::OK);
      return;
    }
    const Clock::time_point now = Clock::now();
    std::call_once(began_, [&] { first_ = now; });
    const Clock::time_point stalls = first_ + stall_at_, goes_on = stalls + stall_;
    Clock::time_point due = now + delay_;
    if (due >= stalls && due < goes_on) {
      due = goes_on;
    }
    const auto alarm = std::make_shared<grpc::Alarm>();
    alarm->Set(due, [alarm, reactor](bool /*ok*/) { reactor->Finish(grpc::Status::OK); });
  }

 private:
  const std::chrono::milliseconds delay_, stall_at_, stall_;
  std::once_flag began_;
  Clock::time_point first_;
};

class EchoInfer final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit EchoInfer(Delay& delay) : delay_(delay) {}

  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* response) override {
    response->set_model_name(request->model_name());
    auto& output = *response->add_outputs();
    output.set_name("output");
    output.set_datatype("INT32");
    output.add_shape(1);
    response->add_raw_output_contents(std::string(sizeof(int32_t), '\0'));
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    delay_.Finish(reactor);
    return reactor;
  }

 private:
  Delay& delay_;
};

class Echo final : public v1::DecodeService::CallbackService {
 public:
  Echo(int hypotheses, int tokens, Delay& delay) : delay_(delay) {
    v1::Decoded& decoded = *answer_.add_results()->mutable_decoded();
    for (int i = 0; i < hypotheses; ++i) {
      v1::Hypothesis& hypothesis = *decoded.add_hypotheses();
      for (int token = 0; token < tokens; ++token) {
        hypothesis.add_tokens(token);
        hypothesis.add_token_log_probs(-0.5F);
      }
      hypothesis.set_log_prob(-0.5 * tokens);
      hypothesis.set_score(-0.5 * tokens);
    }
  }

  grpc::ServerUnaryReactor* Decode(grpc::CallbackServerContext* context,
                                   const v1::DecodeRequest* /*request*/,
                                   v1::DecodeResponse* response) override {
    *response = answer_;
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    delay_.Finish(reactor);
    return reactor;
  }

 private:
  v1::DecodeResponse answer_;
  Delay& delay_;
};

int Main(int argc, char** argv) {
  SkipDeadlockSearch();
  CLI::App app("Answers every Decode call with the same response.", "beamwright-bench-echo");
  int port = 8001;
  int tokens = 12;
  int hypotheses = 5;
  int delay_ms = 0, stall_at_ms = 0, stall_ms = 0;
  app.add_option("--port", port, "Where to listen on 127.0.0.1; 0: a free one, which is printed")
      ->check(CLI::Range(0, 65535));
  app.add_option("--delay-ms", delay_ms, "Of each answer")->check(CLI::Range(0, 60'000));
  app.add_option("--stall-at-ms", stall_at_ms, "When it stalls, since the first call")
      ->check(CLI::Range(0, 3'600'000));
  app.add_option("--stall-ms", stall_ms, "How long")->check(CLI::Range(0, 60'000));
  app.add_option("--tokens", tokens, "Of each hypothesis")->check(CLI::Range(0, 65536));
  app.add_option("--hypotheses", hypotheses, "In each answer")->check(CLI::Range(0, 256));
  CLI11_PARSE(app, argc, argv);
  // The signals that end it are waited for: blocked before any thread starts, so that all inherit
  // it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Delay delay(delay_ms, stall_at_ms, stall_ms);
  Echo echo(hypotheses, tokens, delay);
  EchoInfer infer(delay);
  grpc::ServerBuilder builder;
  const std::string address = "127.0.0.1:" + std::to_string(port);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&echo);
  builder.RegisterService(&infer);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "beamwright-bench-echo: cannot listen on %s\n", address.c_str());
    return 1;
  }
  std::printf("%d\n", port);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace beamwright::bench

int main(int argc, char** argv) { return beamwright::bench::Main(argc, argv); }
