// How many gRPC connections a server holds, however they end.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <httplib.h>
#include <signal.h>

#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::e2e {
namespace {

using rpc::ClientSocket;
using ::testing::HasSubstr;
using ::testing::Not;

// A client's preface and its empty SETTINGS.
constexpr char kHello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

constexpr char kNumOpen[] = "beamwright_grpc_connections";

double Gauge(ServerProcess& server, const std::string& name) {
  return Sum(Scrape(server.metrics_port()), name);
}

// Waits, for a minute at most: what has ended is closed in its own time.
::testing::AssertionResult Becomes(ServerProcess& server, const std::string& name, double value) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (Gauge(server, name) != value) {
    if (absl::Now() > deadline) {
      return ::testing::AssertionFailure() << name << " is " << Gauge(server, name);
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return ::testing::AssertionSuccess();
}

// A connection that gRPC has answered.
ClientSocket Greet(ServerProcess& server) {
  ClientSocket client;
  EXPECT_TRUE(client.ConnectV4(server.WaitForPort()));
  send(client.fd(), kHello, sizeof(kHello) - 1, MSG_NOSIGNAL);
  EXPECT_FALSE(client.IsHungUpOn());
  return client;
}

// A call on a new connection, which is retried soon; how it ends when it waits for a connection
// or does not.
grpc::Status CallAnew(const std::string& address, bool wait) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  const auto stub = inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_wait_for_ready(wait);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  inference::ServerLiveResponse response;
  return stub->ServerLive(&context, {}, &response);
}

TEST(ConnectionsTest, OneTooManyIsUnavailableUntilAnotherEnds) {
  ServerProcess server(
      {"--model-path", DefaultModel(), "--grpc-max-connections", "2", "--access-log-sample", "1"});
  ClientSocket a = Greet(server);
  const ClientSocket b = Greet(server);
  EXPECT_EQ(Gauge(server, kNumOpen), 2);
  EXPECT_EQ(CallAnew(server.address(), /*wait=*/false).error_code(), grpc::StatusCode::UNAVAILABLE);
  // It is counted when it is closed.
  EXPECT_TRUE(e2e::Becomes([&server] {
    return Sum(Scrape(server.metrics_port()), "beamwright_requests_rejected_total",
               "reason=\"too_many_connections\"") >= 1;
  }));
  EXPECT_EQ(Gauge(server, "beamwright_grpc_connections_capacity"), 2);
  a.Close();
  EXPECT_TRUE(CallAnew(server.address(), /*wait=*/true).ok());
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("a connection to gRPC was refused: there are too many "
                                      "(grpc-max-connections 2, "));
  EXPECT_THAT(server.log(), HasSubstr("protocol=grpc method=other"));
}

TEST(ConnectionsTest, OneAddressMayHaveItsShareAlone) {
  ServerProcess server({"--model-path", DefaultModel(), "--grpc-max-connections-per-client", "1"});
  const ClientSocket a = Greet(server);
  EXPECT_EQ(CallAnew(server.address(), /*wait=*/false).error_code(), grpc::StatusCode::UNAVAILABLE);
  const ClientSocket other;
  ASSERT_TRUE(other.ConnectV4(server.WaitForPort(), "127.0.0.1", "127.0.0.2"));
  send(other.fd(), kHello, sizeof(kHello) - 1, MSG_NOSIGNAL);
  EXPECT_FALSE(other.IsHungUpOn());
}

TEST(ConnectionsTest, HoweverAConnectionEndsItsPlaceAndItsFileAreFree) {
  ServerProcess server({"--model-path", DefaultModel(), "--grpc-max-connections", "8"});
  server.WaitForPort();  // /metrics is there earlier
  const double files = Gauge(server, "process_open_fds");
  const std::vector<std::function<void(ClientSocket&)>> ends = {
      [](ClientSocket& client) { client.Close(); },
      [](ClientSocket& client) { client.Reset(); },
      [](ClientSocket& client) { shutdown(client.fd(), SHUT_WR); },
      [](ClientSocket& client) { send(client.fd(), "\0\0\0\0\0\0\0\0\0 no frame", 18, 0); },
  };
  for (size_t i = 0; i < ends.size(); ++i) {
    std::vector<ClientSocket> clients;
    for (int j = 0; j < 8; ++j) {
      clients.push_back(Greet(server));
    }
    EXPECT_EQ(Gauge(server, kNumOpen), 8);
    for (ClientSocket& client : clients) {
      ends[i](client);
    }
    EXPECT_TRUE(Becomes(server, kNumOpen, 0)) << i;
  }
  EXPECT_TRUE(Becomes(server, "process_open_fds", files));
}

TEST(ConnectionsTest, ATlsHandshakeThatFailsLeavesNothing) {
  const bundle::TempFolder temp;
  access::TestAuthority authority("server authority");
  PutPair(temp, "server", authority.Issue("server", "IP:127.0.0.1"));
  Put(temp, "ca.crt", authority.cert());
  client::SecurityOptions trusting;
  trusting.ca_file = temp.At("ca.crt");
  ServerProcess server({"--model-path", DefaultModel(), "--tls-cert", temp.At("server.crt"),
                        "--tls-key", temp.At("server.key"), "--grpc-max-connections", "1"});
  for (int i = 0; i < 3; ++i) {
    const ClientSocket client;
    ASSERT_TRUE(client.ConnectV4(server.WaitForPort()));
    send(client.fd(), kHello, sizeof(kHello) - 1, MSG_NOSIGNAL);  // in clear
    while (!client.IsHungUpOn()) {
    }
    EXPECT_TRUE(Becomes(server, kNumOpen, 0));
  }
  EXPECT_TRUE(DecodeAs(server.address(), trusting).ok());
}

TEST(ConnectionsTest, AServerThatEndsSaysSoToWhoeverIsConnected) {
  ServerProcess server({"--model-path", DefaultModel()});
  const ClientSocket idle = Greet(server);
  ClientSocket silent;
  ASSERT_TRUE(silent.ConnectV4(server.WaitForPort()));
  EXPECT_TRUE(Becomes(server, kNumOpen, 2));
  server.Signal(SIGTERM);
  std::string last;
  char bytes[256];
  for (ssize_t size = 0; (size = recv(idle.fd(), bytes, sizeof(bytes), 0)) > 0;) {
    last.append(bytes, static_cast<size_t>(size));
  }
  // GOAWAY of connection 0.
  EXPECT_THAT(last, HasSubstr(std::string("\7\0\0\0\0\0", 6)));
  EXPECT_EQ(server.Wait(), 0);
}

// gRPC's own rule allows a ping in two hours and closes the connection after the third.
TEST(ConnectionsTest, ClientsThatPingWithoutCallsAreNotCutOff) {
  ServerProcess server({"--model-path", DefaultModel()});
  const ClientSocket client = Greet(server);
  const std::string ping("\0\0\x08\6\0\0\0\0\0 a ping ", 17);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(send(client.fd(), ping.data(), ping.size(), MSG_NOSIGNAL), 17);
    absl::SleepFor(absl::Milliseconds(1600));
  }
  shutdown(client.fd(), SHUT_WR);
  std::string answers;
  char bytes[256];
  for (ssize_t size = 0; (size = recv(client.fd(), bytes, sizeof(bytes), 0)) > 0;) {
    answers.append(bytes, static_cast<size_t>(size));
  }
  EXPECT_THAT(answers, HasSubstr(" a ping "));
  EXPECT_THAT(answers, Not(HasSubstr("too_many_pings")));
}

// Idle connections to all listeners use up the files of the process: each listener answers.
TEST(ConnectionsTest, AServerWithFewFilesAnswersOnEveryPort) {
  ServerProcess server({"-c", absl::StrCat("ulimit -n 160 && exec ", BEAMWRIGHT_SERVER, " \"$@\""),
                        "sh", "--model-path", DefaultModel(), "--websocket-address", "127.0.0.1:0",
                        "--admin-address", "127.0.0.1:0"},
                       "/bin/sh");
  const std::string address = server.address();
  std::vector<ClientSocket> crowd;
  for (int i = 0; i < 80; ++i) {
    for (const int port :
         {server.http_port(), server.websocket_port(), server.admin_port(), server.WaitForPort()}) {
      crowd.emplace_back();
      EXPECT_TRUE(crowd.back().ConnectV4(port));
    }
  }
  for (const int port :
       {server.http_port(), server.admin_port(), server.metrics_port(), server.websocket_port()}) {
    httplib::Client client("127.0.0.1", port);
    client.set_read_timeout(std::chrono::minutes(2));
    const auto reply = client.Get("/livez");
    ASSERT_TRUE(reply) << "port " << port;
    EXPECT_EQ(reply->status, port == server.websocket_port() ? 426 : 200);
  }
  EXPECT_TRUE(CallAnew(address, /*wait=*/true).ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.log();
}

TEST(ConnectionsTest, OverAUnixSocket) {
  const bundle::TempFolder temp;
  const std::string address = "unix:" + temp.At("socket");
  ServerProcess server(
      {"--model-path", DefaultModel(), "--grpc-address", address, "--grpc-max-connections", "1"});
  // The port of a Unix socket is 0: it serves when the other listener says so.
  EXPECT_TRUE(Becomes(server, "beamwright_ready", 1));
  EXPECT_TRUE(CallAnew(address, /*wait=*/true).ok());
  EXPECT_TRUE(Becomes(server, kNumOpen, 0));
  EXPECT_TRUE(CallAnew(address, /*wait=*/true).ok());
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("ready on " + address));
  EXPECT_FALSE(std::filesystem::exists(temp.At("socket")));
}

}  // namespace
}  // namespace beamwright::e2e
