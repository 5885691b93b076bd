#include "server/rpc/one_callback_thread.h"

#include <grpc/support/cpu.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/version_info.h>

#include <atomic>

namespace beamwright::rpc {
namespace {

// gRPC takes half as many threads as there are cores, at least two (CallbackAlternativeCQ in
// src/cpp/common/completion_queue_cc.cc).
constexpr unsigned kMostCores = 5;
constexpr bool kIsKnown = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51;

// The threads are the process's: a second one held would be the last.
std::atomic<bool> is_held{false};

}  // namespace

std::unique_ptr<OneCallbackThread> OneCallbackThread::Hold(grpc::Server& server) {
  if (!kIsKnown || gpr_cpu_num_cores() > kMostCores || is_held.exchange(true)) {
    return nullptr;
  }
  return std::unique_ptr<OneCallbackThread>(new OneCallbackThread(server));
}

// Any call will do, and it may fail: its callback is what holds the thread.
OneCallbackThread::OneCallbackThread(grpc::Server& server)
    : stub_(grpc::health::v1::Health::NewStub(server.InProcessChannel(grpc::ChannelArguments()))) {
  stub_->async()->Check(&context_, &request_, &response_, [this](const grpc::Status&) {
    give_back_.WaitForNotification();
    given_back_.Notify();
  });
}

OneCallbackThread::~OneCallbackThread() {
  give_back_.Notify();
  given_back_.WaitForNotification();
  is_held = false;
}

}  // namespace beamwright::rpc
