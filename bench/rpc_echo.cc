// The least that a gRPC server can do: a callback service that answers every Decode call with the
// same response, at once. What `beamwright-server` takes beyond it is tokenising, decoding and the
// reply.
//   beamwright-bench-echo --port 8001 --tokens 12 --hypotheses 5
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "beamwright/v1/decode.grpc.pb.h"
#include "ops/base/mutex_checks.h"

namespace beamwright::bench {
namespace {

class Echo final : public v1::DecodeService::CallbackService {
 public:
  Echo(int hypotheses, int tokens) {
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
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  v1::DecodeResponse answer_;
};

int Main(int argc, char** argv) {
  SkipDeadlockSearch();
  CLI::App app("Answers every Decode call with the same response.", "beamwright-bench-echo");
  int port = 8001;
  int tokens = 12;
  int hypotheses = 5;
  app.add_option("--port", port, "Where to listen on 127.0.0.1")->check(CLI::Range(1, 65535));
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

  Echo echo(hypotheses, tokens);
  grpc::ServerBuilder builder;
  const std::string address = "127.0.0.1:" + std::to_string(port);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "beamwright-bench-echo: cannot listen on %s\n", address.c_str());
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace beamwright::bench

int main(int argc, char** argv) { return beamwright::bench::Main(argc, argv); }
