// Two replicas restarted in turn under load: clients that balance over both and watch their health,
// as gRPC does by itself, see no failure. They have no retry policy; gRPC's transparent retries, of
// calls that no server has seen, are all there is.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"

namespace beamwright::chaos {
namespace {

using e2e::DefaultModel;
using e2e::ServerProcess;

// A port that was free a moment ago; a replica comes back on its own.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

std::unique_ptr<ServerProcess> StartReplica(int port) {
  auto server = std::make_unique<ServerProcess>(
      std::vector<std::string>{"--model-path", DefaultModel(), "--drain-delay", "500ms",
                               "--grpc-address", absl::StrCat("127.0.0.1:", port)});
  EXPECT_EQ(server->WaitForPort(), port) << server->log();
  return server;
}

TEST(RollingRestartTest, NoCallFails) {
  constexpr int kClients = 4;
  const int rounds = Form(2, 20);
  const int ports[] = {FreePort(), FreePort()};
  std::unique_ptr<ServerProcess> replicas[] = {StartReplica(ports[0]), StartReplica(ports[1])};
  Golden golden;
  AddGolden(replicas[0]->address(), golden);
  const std::string both = absl::StrCat("ipv4:127.0.0.1:", ports[0], ",127.0.0.1:", ports[1]);
  const char* policy = R"({"loadBalancingConfig": [{"round_robin": {}}],
                           "healthCheckConfig": {"serviceName": ""}})";
  Tally tally;
  std::atomic<int> answered[2][kClients] = {};  // by replica and client
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      const auto channel = Connect(both, policy);
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1));
      const auto stub = v1::DecodeService::NewStub(channel);
      for (int i = client; !stop; ++i) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
        v1::DecodeResponse response;
        const grpc::Status status =
            stub->Decode(&context, WordRequest(i % kNumRequests), &response);
        tally.Count(status, response, i % kNumRequests, golden);
        for (const int which : {0, 1}) {
          if (absl::EndsWith(context.peer(), absl::StrCat(":", ports[which]))) {
            ++answered[which][client];
          }
        }
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    for (const int which : {0, 1}) {
      absl::SleepFor(absl::Milliseconds(200));
      replicas[which]->Signal(SIGTERM);
      EXPECT_EQ(replicas[which]->Wait(), 0);
      replicas[which] = StartReplica(ports[which]);
      // As a rollout does: the next one goes when this one takes everybody's calls again.
      for (int client = 0; client < kClients; ++client) {
        for (const int before = answered[which][client]; answered[which][client] == before;) {
          absl::SleepFor(absl::Milliseconds(20));
        }
      }
    }
  }
  stop = true;
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(tally.of(grpc::StatusCode::OK), tally.all()) << tally.ToString();
  EXPECT_EQ(tally.wrong(), 0);
  std::cout << 2 * rounds << " restarts of two replicas: " << tally.all() << " calls, no failure\n";
}

}  // namespace
}  // namespace beamwright::chaos
