#include "server/rpc/listening_sockets.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::rpc {
namespace {

using ::testing::HasSubstr;

ListeningSockets MustOpen(const std::string& address) {
  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open(address);
  EXPECT_TRUE(sockets.ok()) << sockets.status();
  return sockets.ok() ? *std::move(sockets) : ListeningSockets();
}

bool HasIpv6() {
  const ClientSocket probe(AF_INET6);
  sockaddr_in6 own{};
  own.sin6_family = AF_INET6;
  own.sin6_addr = in6addr_loopback;
  return bind(probe.fd(), reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0;
}

TEST(ListeningSocketsTest, OneFamilyWhereTheAddressIsOfOne) {
  const ListeningSockets v4 = MustOpen("127.0.0.1:0");
  EXPECT_EQ(v4.fds().size(), 1);
  EXPECT_GT(v4.port(), 0);
  EXPECT_TRUE(ClientSocket().ConnectV4(v4.port()));
  if (!HasIpv6()) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  EXPECT_FALSE(ClientSocket(AF_INET6).ConnectV6(v4.port()));
  const ListeningSockets v6 = MustOpen("[::1]:0");
  EXPECT_TRUE(ClientSocket(AF_INET6).ConnectV6(v6.port()));
  EXPECT_FALSE(ClientSocket().ConnectV4(v6.port()));
}

TEST(ListeningSocketsTest, AWildcardStandsForBothFamilies) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", ":0"}) {
    const ListeningSockets sockets = MustOpen(address);
    EXPECT_TRUE(ClientSocket().ConnectV4(sockets.port())) << address;
    EXPECT_TRUE(ClientSocket(AF_INET6).ConnectV6(sockets.port()) || !HasIpv6()) << address;
  }
}

TEST(ListeningSocketsTest, ANameStandsForItsAddressesOnOnePort) {
  const ListeningSockets sockets = MustOpen("localhost:0");
  EXPECT_TRUE(ClientSocket().ConnectV4(sockets.port()) ||
              ClientSocket(AF_INET6).ConnectV6(sockets.port()));
  for (const int fd : sockets.fds()) {
    sockaddr_in6 own{};
    socklen_t size = sizeof(own);
    ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size), 0);
    EXPECT_EQ(ntohs(own.sin6_port), sockets.port());
  }
}

TEST(ListeningSocketsTest, APortIsNeverShared) {
  const ListeningSockets first = MustOpen("0.0.0.0:0");
  for (const char* host : {"127.0.0.1", "0.0.0.0", "[::]"}) {
    const std::string address = absl::StrCat(host, ":", first.port());
    const absl::Status status = ListeningSockets::Open(address).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << address;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("cannot listen on '", address, "'")));
  }
}

TEST(ListeningSocketsTest, APortIsFreeAgainAfterClose) {
  ListeningSockets first = MustOpen("127.0.0.1:0");
  const int port = first.port();
  const ClientSocket client;  // its end of the connection waits for a while yet
  ASSERT_TRUE(client.ConnectV4(port));
  close(accept(first.fds()[0], nullptr, nullptr));
  first.Close();
  EXPECT_FALSE(ClientSocket().ConnectV4(port));
  MustOpen(absl::StrCat("127.0.0.1:", port));
}

TEST(ListeningSocketsTest, WhatIsAcceptedSendsSmallMessagesAtOnceAndProbesItsPeer) {
  const ListeningSockets sockets = MustOpen("0.0.0.0:0");
  EXPECT_NE(fcntl(sockets.fds()[0], F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(sockets.fds()[0], F_GETFD) & FD_CLOEXEC, 0);
  const ClientSocket client;
  ASSERT_TRUE(client.ConnectV4(sockets.port()));
  const int fd = accept(sockets.fds()[0], nullptr, nullptr);
  for (const auto& [level, option] :
       {std::pair<int, int>(IPPROTO_TCP, TCP_NODELAY), {SOL_SOCKET, SO_KEEPALIVE}}) {
    int value = 0;
    socklen_t size = sizeof(value);
    EXPECT_EQ(getsockopt(fd, level, option, &value, &size), 0);
    EXPECT_NE(value, 0) << option;
  }
  close(fd);
}

TEST(ListeningSocketsTest, WhatIsNoAddressIsNamed) {
  for (const char* address : {"", "localhost", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]", "a:b"}) {
    EXPECT_EQ(ListeningSockets::Open(address).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
  for (const std::string& address :
       {std::string("unix:"), "unix:/" + std::string(200, 'x'), std::string("192.0.2.1:0"),
        std::string("no.such.invalid:0")}) {
    const absl::Status status = ListeningSockets::Open(address).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + address + "'"));
  }
}

TEST(ListeningSocketsTest, AUnixSocketAndItsFile) {
  const bundle::TempFolder temp;
  const std::string path = temp.At("socket");
  {
    const ListeningSockets sockets = MustOpen("unix:" + path);
    EXPECT_EQ(sockets.port(), 0);
    EXPECT_TRUE(ClientSocket(AF_UNIX).ConnectUnix(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ListeningSocketsTest, ASocketThatIsListenedOnIsNotTakenOver) {
  const bundle::TempFolder temp;
  const std::string path = temp.At("socket");
  const ListeningSockets first = MustOpen("unix:" + path);
  const absl::Status status = ListeningSockets::Open("unix:" + path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Address already in use"));
  EXPECT_TRUE(ClientSocket(AF_UNIX).ConnectUnix(path));
}

TEST(ListeningSocketsTest, TheFileThatACrashHasLeftIsReplaced) {
  const bundle::TempFolder temp;
  const std::string path = temp.At("socket");
  {
    ClientSocket crashed(AF_UNIX);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(bind(crashed.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(crashed.fd(), 1), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  const ListeningSockets sockets = MustOpen("unix:" + path);
  EXPECT_TRUE(ClientSocket(AF_UNIX).ConnectUnix(path));
}

TEST(ListeningSocketsTest, TheFileOfASuccessorStays) {
  const bundle::TempFolder temp;
  const std::string path = temp.At("socket");
  ListeningSockets first = MustOpen("unix:" + path);
  std::filesystem::remove(path);
  const ListeningSockets second = MustOpen("unix:" + path);
  first.Close();
  EXPECT_TRUE(ClientSocket(AF_UNIX).ConnectUnix(path));
}

TEST(ListeningSocketsTest, OtherFilesAreNotReplaced) {
  const bundle::TempFolder temp;
  temp.Write("file", "content");
  EXPECT_FALSE(ListeningSockets::Open("unix:" + temp.At("file")).ok());
  EXPECT_EQ(temp.Read("file"), "content");
}

TEST(ListeningSocketsTest, AUnixSocketWithoutAFile) {
  const std::string name = absl::StrCat("beamwright-test-", getpid());
  const ListeningSockets sockets = MustOpen("unix-abstract:" + name);
  sockaddr_un own{};
  socklen_t size = sizeof(own);
  ASSERT_EQ(getsockname(sockets.fds()[0], reinterpret_cast<sockaddr*>(&own), &size), 0);
  EXPECT_EQ(size, sizeof(sa_family_t) + 1 + name.size());
  EXPECT_EQ(std::string(own.sun_path + 1, name.size()), name);
}

}  // namespace
}  // namespace beamwright::rpc
