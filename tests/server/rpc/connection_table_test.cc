#include "server/rpc/connection_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

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
  ConnectionTable table(2, 0);
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
  ConnectionTable table(1, 0);
  ClientSocket a;
  const ClientSocket b;
  EXPECT_TRUE(table.Enter(a.fd(), ""));
  a.Close();
  EXPECT_TRUE(EnterSoon(table, b.fd(), ""));
}

TEST(ConnectionTableTest, ANumberThatIsAnotherFilesIsNoConnection) {
  ConnectionTable table(2, 0);
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
  ConnectionTable table(2, 2);
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

TEST(ConnectionTableTest, OneClientLeavesRoomForOthers) {
  ConnectionTable table(4, 1);
  ClientSocket a;
  const ClientSocket b;
  const ClientSocket c;
  const ClientSocket d;
  EXPECT_TRUE(table.Enter(a.fd(), "x"));
  EXPECT_FALSE(table.Enter(b.fd(), "x"));
  EXPECT_TRUE(table.Enter(b.fd(), "y"));
  // Without a name nobody is counted.
  EXPECT_TRUE(table.Enter(c.fd(), ""));
  EXPECT_TRUE(table.Enter(d.fd(), ""));
  a.Close();
  const ClientSocket e;
  EXPECT_TRUE(EnterSoon(table, e.fd(), "x"));
}

TEST(ConnectionTableTest, WhatIsClosedAlreadyIsNotEntered) {
  ConnectionTable table(1, 0);
  EXPECT_FALSE(table.Enter(-1, ""));
  EXPECT_EQ(table.CountOpen(), 0);
}

}  // namespace
}  // namespace beamwright::rpc
