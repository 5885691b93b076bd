// A server in a separate cgroup, whose memory clients try to use up.
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/http2_attack.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

constexpr int64_t kLimit = int64_t{512} << 20;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A cgroup below this process' own, of version 1 or 2, with a limit.
class MemoryCgroup {
 public:
  // None where this process may not make one.
  static std::optional<std::string> Make() {
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(ReadText("/proc/self/cgroup"), '\n'))) {
      const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
      if (fields.size() != 3 || (fields[1] != "memory" && !fields[1].empty())) {
        continue;
      }
      const bool is_v2 = fields[1].empty();
      const std::string folder = absl::StrCat("/sys/fs/cgroup", is_v2 ? "" : "/memory", fields[2],
                                              "/beamwright-test-", getpid());
      if (mkdir(folder.c_str(), 0755) != 0) {
        continue;
      }
      std::ofstream limit(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
      limit << kLimit;
      limit.close();
      if (limit.good()) {
        return folder;
      }
      rmdir(folder.c_str());
    }
    return std::nullopt;
  }
  // The most that was charged so far: 0 where the kernel does not say.
  static int64_t PeakBytes(const std::string& folder) {
    const std::string text =
        ReadText(folder + "/memory.max_usage_in_bytes") + ReadText(folder + "/memory.peak");
    return std::atoll(text.c_str());
  }
};

// This number of calls at once, of 15 MiB each, over separate connections; the client holds the
// bytes once. How they ended, by code.
std::map<int, int> Flood(const std::string& address, int connections, int calls) {
  const grpc::Slice slice(std::string(15 << 20, 'x'));
  const grpc::ByteBuffer message(&slice, 1);
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  for (int i = 0; i < connections; ++i) {
    stubs.push_back(std::make_unique<grpc::GenericStub>(Connect(address)));
  }
  std::vector<grpc::ClientContext> contexts(static_cast<size_t>(calls));
  std::vector<grpc::ByteBuffer> replies(static_cast<size_t>(calls));
  std::vector<int> codes(static_cast<size_t>(calls));
  absl::BlockingCounter open(calls);
  for (size_t i = 0; i < codes.size(); ++i) {
    contexts[i].set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    stubs[i % stubs.size()]->UnaryCall(&contexts[i], "/beamwright.v1.DecodeService/Decode", {},
                                       &message, &replies[i], [&, i](const grpc::Status& status) {
                                         codes[i] = status.error_code();
                                         open.DecrementCount();
                                       });
  }
  open.Wait();
  std::map<int, int> counts;
  for (const int code : codes) {
    ++counts[code];
  }
  return counts;
}

// The command line of a server in the cgroup, for /bin/sh.
std::vector<std::string> ServerIn(const std::string& cgroup) {
  return {
      "-c",
      absl::StrCat("echo $$ > ", cgroup, "/cgroup.procs && exec ", BEAMWRIGHT_SERVER, " \"$@\""),
      "sh", "--model-path", e2e::DefaultModel()};
}

TEST(MemoryLimitTest, LargeRequestsDoNotEndTheServer) {
  const std::optional<std::string> cgroup = MemoryCgroup::Make();
  if (!cgroup.has_value()) {
    GTEST_SKIP() << "this process may not make a memory cgroup";
  }
  {
    e2e::ServerProcess server(ServerIn(*cgroup), "/bin/sh");
    const std::string address = server.address();
    Golden golden;
    AddGolden(address, golden);
    Tally tally;
    for (int round = 0; round < Form(3, 10); ++round) {
      const auto stub = v1::DecodeService::NewStub(Connect(address));
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
      v1::DecodeResponse response;
      const grpc::Status status = stub->Decode(&context, WordRequest(0), &response);
      tally.Count(status, response, 0, golden);
      // gRPC reads forty faster than it ends calls: then connections are reset.
      const int connections = round % 3 == 0 ? 4 : round % 3 == 1 ? 1 : 40;
      for (const auto& [code, count] : Flood(address, connections, 300)) {
        std::printf("code %d: %d, ", code, count);
        // What was read whole is not a valid request.
        EXPECT_TRUE(code == grpc::StatusCode::INVALID_ARGUMENT ||
                    code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                    (connections == 40 && code == grpc::StatusCode::UNAVAILABLE))
            << code;
      }
      std::printf("over %d connections; peak %.0f %% of the limit\n", connections,
                  100.0 * static_cast<double>(MemoryCgroup::PeakBytes(*cgroup)) / kLimit);
    }
    if (IsLong()) {
      EXPECT_LE(MemoryCgroup::PeakBytes(*cgroup), kLimit * 8 / 10);
    }
    EXPECT_EQ(tally.of(grpc::StatusCode::OK), tally.all()) << tally.ToString();
    EXPECT_EQ(tally.wrong(), 0);
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
  rmdir(cgroup->c_str());
}

// Calls that take many times what their client sends, without credentials.
TEST(MemoryLimitTest, CallsThatGrowDoNotEndTheServer) {
  const std::optional<std::string> cgroup = MemoryCgroup::Make();
  if (!cgroup.has_value()) {
    GTEST_SKIP() << "this process may not make a memory cgroup";
  }
  {
    e2e::ServerProcess server(ServerIn(*cgroup), "/bin/sh");
    const int port = server.WaitForPort();
    ASSERT_GT(port, 0);
    for (const Http2Attack& attack : {HeaderReferences(), UnknownMethods(), Reflection()}) {
      const Attackers attackers(port, attack, 2);
      absl::SleepFor(Form(absl::Milliseconds(700), absl::Seconds(8)));
    }
    std::printf("peak %.0f %% of the limit\n",
                100.0 * static_cast<double>(MemoryCgroup::PeakBytes(*cgroup)) / kLimit);
    // Calls are refused until the memory is back.
    EXPECT_TRUE(e2e::Becomes([&] {
      const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
      grpc::ClientContext call;
      v1::DecodeResponse response;
      return stub->Decode(&call, WordRequest(0), &response).ok();
    }));
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
  rmdir(cgroup->c_str());
}

// A list of its fields takes ten times the body.
TEST(MemoryLimitTest, FormsOfManyFieldsDoNotEndTheServer) {
  const std::optional<std::string> cgroup = MemoryCgroup::Make();
  if (!cgroup.has_value()) {
    GTEST_SKIP() << "this process may not make a memory cgroup";
  }
  {
    e2e::ServerProcess server(ServerIn(*cgroup), "/bin/sh");
    const int port = server.http_port();
    std::string form;
    for (int i = 0; i < 900'000; ++i) {
      form += "q=a&";
    }
    std::atomic<bool> stop{false};
    std::vector<std::thread> clients;
    for (int i = 0; i < 40; ++i) {
      clients.emplace_back([&] {
        while (!stop) {
          httplib::Client client("127.0.0.1", port);
          client.Post("/translate", form, "application/x-www-form-urlencoded");
        }
      });
    }
    absl::SleepFor(Form(absl::Seconds(2), absl::Seconds(8)));
    stop = true;
    for (std::thread& client : clients) {
      client.join();
    }
    std::printf("peak %.0f %% of the limit\n",
                100.0 * static_cast<double>(MemoryCgroup::PeakBytes(*cgroup)) / kLimit);
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
  rmdir(cgroup->c_str());
}

}  // namespace
}  // namespace beamwright::chaos
