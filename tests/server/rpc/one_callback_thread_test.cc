#include <grpc/support/cpu.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "server/rpc/grpc_limits.h"

namespace beamwright::rpc {
namespace {

using grpc::health::v1::Health;

// Threads that answer these calls made at once.
std::set<std::thread::id> ThreadsOf(Health::Stub& stub, int calls) {
  struct Call {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
  };
  std::vector<Call> all(static_cast<size_t>(calls));
  absl::Mutex mutex;
  std::set<std::thread::id> threads;
  int answered = 0;
  for (Call& call : all) {
    stub.async()->Check(&call.context, &call.request, &call.response,
                        [&](const grpc::Status& status) {
                          EXPECT_TRUE(status.ok()) << status.error_message();
                          absl::MutexLock lock(&mutex);
                          threads.insert(std::this_thread::get_id());
                          ++answered;
                        });
  }
  absl::MutexLock lock(&mutex);
  const auto is_done = [&] { return answered == calls; };
  mutex.Await(absl::Condition(&is_done));
  return threads;
}

// Callbacks run while it holds a thread, when a second server wants to hold one too, which would be
// the last, and afterwards.
TEST(OneCallbackThreadTest, OneThreadIsLeft) {
  grpc::EnableDefaultHealthCheckService(true);
  v1::ModelService::CallbackService service;  // a server must have one
  const auto start = [&service] {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    return builder.BuildAndStart();
  };
  const std::unique_ptr<grpc::Server> server = start();
  const std::unique_ptr<grpc::Server> other = start();
  const auto stub = Health::NewStub(server->InProcessChannel(grpc::ChannelArguments()));
  for (int round = 0; round < 2; ++round) {
    const auto held = OneCallbackThread::Hold(*server);
    if (held == nullptr) {
      EXPECT_GT(gpr_cpu_num_cores(), 5u);
      GTEST_SKIP() << "gRPC has other threads here";
    }
    EXPECT_EQ(OneCallbackThread::Hold(*other), nullptr);
    ThreadsOf(*stub, 1);  // the thread may not be held yet
    ThreadsOf(*stub, 100);
  }
  ThreadsOf(*stub, 100);
}

}  // namespace
}  // namespace beamwright::rpc
