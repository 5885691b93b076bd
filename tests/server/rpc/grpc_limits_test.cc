// Bounds that gRPC has not: memory, and its callback threads.

#include "server/rpc/grpc_limits.h"

#include <grpc/support/cpu.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "ops/base/memory.h"
#include "tests/e2e/becomes.h"

namespace beamwright::rpc {
namespace {

// Small blocks that stay behind large ones which are freed: malloc keeps the large ones.
TEST(MemoryPressureTest, WhatCallersReturnedGoesBackToTheKernel) {
  constexpr int kBlocks = 1500;
  constexpr size_t kBlockBytes = 100 << 10;
  constexpr int64_t kBytes = kBlocks * int64_t{kBlockBytes};
  MemoryPressure pressure(0);
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<std::unique_ptr<char[]>> pins;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.emplace_back(new char[kBlockBytes]);
    std::memset(blocks.back().get(), 1, kBlockBytes);
    pins.emplace_back(new char[5000]);
  }
  pressure.GiveBack(kBytes);
  const int64_t held = ReadProcessMemory().held_bytes();
  blocks.clear();
  EXPECT_GT(ReadProcessMemory().held_bytes(), held - kBytes / 4);  // else this shows nothing
  pressure.GiveBack(0);
  EXPECT_LT(ReadProcessMemory().held_bytes(), held - kBytes / 2);
}

// The same of memory that is in no account, as that of gRPC's calls.
TEST(MemoryPressureTest, WhatMallocKeepsGoesBackToTheKernel) {
  constexpr int kBlocks = 1500;
  constexpr size_t kBlockBytes = 100 << 10;
  MemoryPressure pressure(0);
  pressure.GiveBack(0);
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<std::unique_ptr<char[]>> pins;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.emplace_back(new char[kBlockBytes]);
    std::memset(blocks.back().get(), 1, kBlockBytes);
    pins.emplace_back(new char[5000]);
  }
  const int64_t held = ReadProcessMemory().held_bytes();
  blocks.clear();
  EXPECT_TRUE(e2e::Becomes([&] {
    pressure.GiveBack(0);
    return ReadProcessMemory().held_bytes() < held - kBlocks * int64_t{kBlockBytes} / 2;
  }));
}

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
