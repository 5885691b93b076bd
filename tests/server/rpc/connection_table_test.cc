#include "server/rpc/connection_table.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::rpc {
namespace {

// A table looks through what it has at most once in some milliseconds.
bool EnterSoon(ConnectionTable& table, int fd, const std::string& client) {
  for (int i = 0; i < 10'000'000; ++i) {
    if (table.Enter(fd, client)) {
      return true;
    }
  }
  return false;
}

TEST(ConnectionTableTest, HoldsAsManyAsItMay) {
  ConnectionTable table({2, 0});
  ClientSocket a;
  const ClientSocket b;
  const ClientSocket c;
  EXPECT_EQ(table.CountOpen(), 0);
  EXPECT_TRUE(table.Enter(a.fd(), "x"));
  EXPECT_TRUE(table.Enter(b.fd(), "x"));
  EXPECT_FALSE(table.Enter(c.fd(), "x"));
  EXPECT_EQ(table.CountOpen(), 2);
  a.Close();
  EXPECT_EQ(table.CountOpen(), 1);
  EXPECT_TRUE(table.Enter(c.fd(), "x"));
  EXPECT_EQ(table.CountOpen(), 2);
}

TEST(ConnectionTableTest, AFullTableLooksByItself) {
  ConnectionTable table({1, 0});
  ClientSocket a;
  const ClientSocket b;
  EXPECT_TRUE(table.Enter(a.fd(), ""));
  a.Close();
  EXPECT_TRUE(EnterSoon(table, b.fd(), ""));
}

TEST(ConnectionTableTest, ANumberThatIsAnotherFilesIsNoConnection) {
  ConnectionTable table({2, 0});
  const ClientSocket a;
  const ClientSocket b;
  const ClientSocket c;
  EXPECT_TRUE(table.Enter(a.fd(), ""));
  EXPECT_TRUE(table.Enter(b.fd(), ""));
  ASSERT_EQ(dup2(c.fd(), a.fd()), a.fd());         // another socket
  ASSERT_EQ(dup2(STDERR_FILENO, b.fd()), b.fd());  // no socket
  EXPECT_EQ(table.CountOpen(), 0);
}

TEST(ConnectionTableTest, ANumberThatComesAgainIsCountedOnce) {
  ConnectionTable table({2, 2});
  const ClientSocket a;
  const ClientSocket b;
  const ClientSocket c;
  EXPECT_TRUE(table.Enter(a.fd(), "x"));
  ASSERT_EQ(dup2(c.fd(), a.fd()), a.fd());
  EXPECT_TRUE(table.Enter(a.fd(), "x"));
  EXPECT_EQ(table.CountOpen(), 1);
  EXPECT_TRUE(table.Enter(b.fd(), "x"));
  EXPECT_EQ(table.CountOpen(), 2);
}

// A connection of TCP within this test: `near` was read from, `far` sends.
struct TcpPair {
  TcpPair() {
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listening, 1), 0);
    getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
    far = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(far, reinterpret_cast<sockaddr*>(&address), size), 0);
    near = accept(listening, nullptr, nullptr);
    close(listening);
  }
  ~TcpPair() {
    close(far);
    close(near);
  }
  void Send(size_t num_bytes) const {
    std::string bytes(num_bytes, 'x');
    EXPECT_EQ(send(far, bytes.data(), num_bytes, 0), static_cast<ssize_t>(num_bytes));
    EXPECT_EQ(recv(near, bytes.data(), num_bytes, MSG_WAITALL), static_cast<ssize_t>(num_bytes));
  }
  void CloseNear() {
    close(near);
    near = -1;
  }
  int near = -1;
  int far = -1;
};

TEST(ConnectionTableTest, WhatWasReadFromConnectionsThatEndedIsTheirClients) {
  ConnectionTable table({8, 0});
  TcpPair before;
  TcpPair first;
  TcpPair second;
  const TcpPair other;
  ASSERT_TRUE(table.Enter(before.near, "x"));
  before.Send(1000);
  table.ListProgress();
  table.BeginWindow();  // what was read until now does not count
  before.Send(50);
  ASSERT_TRUE(table.Enter(first.near, "x"));
  ASSERT_TRUE(table.Enter(second.near, "y"));
  ASSERT_TRUE(table.Enter(other.near, "y"));
  first.Send(300);
  second.Send(7);
  other.Send(5000);
  table.ListProgress();
  before.CloseNear();
  first.CloseNear();
  second.CloseNear();
  EXPECT_EQ(table.ListClosed(), (ConnectionTable::ClientProgress{{"x", 350}, {"y", 7}}));
  table.BeginWindow();
  EXPECT_TRUE(table.ListClosed().empty());
}

TEST(ConnectionTableTest, AClientIsCutOffWithAllThatItHas) {
  ConnectionTable table({8, 0});
  const TcpPair a;
  const TcpPair b;
  const TcpPair other;
  const TcpPair again;
  ASSERT_TRUE(table.Enter(a.near, "x"));
  ASSERT_TRUE(table.Enter(b.near, "x"));
  ASSERT_TRUE(table.Enter(other.near, "y"));
  EXPECT_EQ(table.CutOffClient("x"), 2);
  char byte = 0;
  EXPECT_EQ(recv(a.far, &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(recv(b.far, &byte, 1, 0), -1);
  // Its address is not refused: others may have it, too.
  EXPECT_TRUE(table.Enter(again.near, "x"));
  other.Send(1);
}

// What the acceptor enters, and what gRPC would name it.
bool Enter(ConnectionTable& table, const TcpPair& pair) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(pair.near, reinterpret_cast<sockaddr*>(&address), &size);
  return table.Enter(pair.near, "x", ConnectionCalls::PeerOf(address));
}

ConnectionCalls::Counts& CountsOf(ConnectionCalls& calls, const TcpPair& pair) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(pair.near, reinterpret_cast<sockaddr*>(&address), &size);
  return *calls.Find(ConnectionCalls::PeerOf(address));
}

bool IsShutDown(const TcpPair& pair) {
  char byte = 0;
  return recv(pair.far, &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(ConnectionTableTest, AFullTableClosesTheConnectionOfWhichNoRequestHasCome) {
  ConnectionCalls calls;
  ConnectionTable table({4, 0}, &calls);
  const TcpPair asking;
  const TcpPair asked;
  const TcpPair older;
  const TcpPair younger;
  const TcpPair next;
  for (const TcpPair* pair : {&asking, &asked, &older, &younger}) {
    ASSERT_TRUE(Enter(table, *pair));
  }
  ++CountsOf(calls, asking).num_open;
  ++CountsOf(calls, asked).num_asked;
  const auto enter = [&table](const TcpPair& pair) {
    while (!Enter(table, pair)) {  // in two seconds
      absl::SleepFor(absl::Milliseconds(20));
    }
  };
  enter(next);
  EXPECT_FALSE(IsShutDown(asking));
  EXPECT_FALSE(IsShutDown(asked));
  EXPECT_TRUE(IsShutDown(older));
  const TcpPair last;
  enter(last);
  EXPECT_TRUE(IsShutDown(younger));
}

TEST(ConnectionTableTest, WithoutFilesTheTableIsFull) {
  const TcpPair a;
  ConnectionTable table({4, 0, a.near + 1});
  const TcpPair b;
  EXPECT_TRUE(table.Enter(a.near, "x"));
  EXPECT_GT(b.near, a.near);
  EXPECT_FALSE(table.Enter(b.near, "x"));
}

TEST(ConnectionTableTest, AClientThatIsCutOffKeepsConnectionsOfWhichRequestsCame) {
  ConnectionCalls calls;
  ConnectionTable table({4, 0}, &calls);
  const TcpPair asked;
  const TcpPair silent;
  ASSERT_TRUE(Enter(table, asked));
  ASSERT_TRUE(Enter(table, silent));
  ++CountsOf(calls, asked).num_asked;
  EXPECT_EQ(table.CutOffClient("x"), 1);
  char byte = 0;
  EXPECT_EQ(recv(silent.far, &byte, 1, 0), -1);
  asked.Send(1);
}

TEST(ConnectionTableTest, OneClientLeavesRoomForOthers) {
  ConnectionTable table({4, 1});
  ClientSocket a;
  const ClientSocket b;
  const ClientSocket c;
  const ClientSocket d;
  EXPECT_TRUE(table.Enter(a.fd(), "x"));
  EXPECT_FALSE(table.Enter(b.fd(), "x"));
  EXPECT_TRUE(table.Enter(b.fd(), "y"));
  // Without a name no connection is counted.
  EXPECT_TRUE(table.Enter(c.fd(), ""));
  EXPECT_TRUE(table.Enter(d.fd(), ""));
  a.Close();
  const ClientSocket e;
  EXPECT_TRUE(EnterSoon(table, e.fd(), "x"));
}

TEST(ConnectionTableTest, WhatIsClosedAlreadyIsNotEntered) {
  ConnectionTable table({1, 0});
  EXPECT_FALSE(table.Enter(-1, ""));
  EXPECT_EQ(table.CountOpen(), 0);
}

}  // namespace
}  // namespace beamwright::rpc
