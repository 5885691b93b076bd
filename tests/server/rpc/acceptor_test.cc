#include "server/rpc/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::rpc {
namespace {

using ::testing::HasSubstr;

// What gRPC is to an acceptor: it owns what it is given and closes it when it likes.
class Taker {
 public:
  ~Taker() {
    while (!fds_.empty()) {
      CloseOne();
    }
  }

  void Take(int fd) {
    absl::MutexLock lock(&mutex_);
    fds_.push_back(fd);
  }
  void WaitFor(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto arrived = [this, count]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return fds_.size() >= count; };
    mutex_.Await(absl::Condition(&arrived));
    EXPECT_EQ(fds_.size(), count);
  }
  void Read(size_t number, size_t size) {
    absl::MutexLock lock(&mutex_);
    std::string bytes(size, '\0');
    for (size_t left = size; left > 0;) {
      pollfd entry{fds_[number], POLLIN, 0};
      ASSERT_EQ(poll(&entry, 1, 60'000), 1);
      const ssize_t got = recv(fds_[number], bytes.data(), left, 0);
      ASSERT_GT(got, 0);
      left -= static_cast<size_t>(got);
    }
  }
  bool IsBroken(size_t number) {
    absl::MutexLock lock(&mutex_);
    char c = 0;
    return send(fds_[number], &c, 1, MSG_NOSIGNAL) < 0;
  }
  void CloseOne() {
    absl::MutexLock lock(&mutex_);
    close(fds_.back());
    fds_.pop_back();
  }

 private:
  absl::Mutex mutex_;
  std::vector<int> fds_ ABSL_GUARDED_BY(mutex_);
};

class AcceptorTest : public ::testing::Test {
 protected:
  void Listen(int max_connections, int max_connections_per_client = 0,
              const std::string& address = "127.0.0.1:0") {
    AcceptorOptions options;
    options.address = address;
    options.max_connections = max_connections;
    options.max_connections_per_client = max_connections_per_client;
    options.refused = [this] { ++refused_; };
    absl::StatusOr<std::unique_ptr<Acceptor>> acceptor = Acceptor::Listen(options);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }
  void Start() {
    acceptor_->Start([this](int fd) { taker_.Take(fd); });
  }
  ClientSocket Connect() {
    ClientSocket client;
    EXPECT_TRUE(client.ConnectV4(acceptor_->port()));
    return client;
  }

  std::atomic<int> refused_{0};
  Taker taker_;
  std::unique_ptr<Acceptor> acceptor_;  // hands to the taker
};

TEST_F(AcceptorTest, WhatIsTooMuchIsClosedAndCounted) {
  Listen(2);
  Start();
  const ClientSocket a = Connect();
  const ClientSocket b = Connect();
  taker_.WaitFor(2);
  EXPECT_EQ(acceptor_->CountOpen(), 2);
  EXPECT_TRUE(Connect().IsHungUpOn());
  EXPECT_TRUE(Connect().IsHungUpOn());
  taker_.CloseOne();
  EXPECT_EQ(acceptor_->CountOpen(), 1);
  const ClientSocket c = Connect();
  taker_.WaitFor(2);
  acceptor_->Stop();
  EXPECT_EQ(refused_, 2);
}

TEST_F(AcceptorTest, OneClientLeavesRoomForOthers) {
  Listen(10, 1, "0.0.0.0:0");
  Start();
  const ClientSocket a = Connect();
  taker_.WaitFor(1);
  EXPECT_TRUE(Connect().IsHungUpOn());
  const ClientSocket other;
  ASSERT_TRUE(other.ConnectV4(acceptor_->port(), "127.0.0.1", "127.0.0.2"));
  taker_.WaitFor(2);
}

TEST_F(AcceptorTest, AfterStopNothingIsTakenAndWhatWasTakenLives) {
  Listen(2);
  Start();
  const ClientSocket client = Connect();
  taker_.WaitFor(1);
  const int port = acceptor_->port();
  acceptor_->Stop();
  EXPECT_FALSE(ClientSocket().ConnectV4(port));
  EXPECT_EQ(acceptor_->CountOpen(), 1);
  taker_.CloseOne();
  EXPECT_TRUE(client.IsHungUpOn());
}

TEST_F(AcceptorTest, ConnectionsThatAreGoneBeforeTheyAreTakenHarmNobody) {
  Listen(100);
  for (int i = 0; i < 10; ++i) {
    Connect().Reset();
  }
  acceptor_->Start([](int fd) {
    send(fd, "x", 1, MSG_NOSIGNAL);
    close(fd);
  });
  EXPECT_FALSE(Connect().IsHungUpOn());
  EXPECT_EQ(refused_, 0);
}

TEST_F(AcceptorTest, TheConnectionThatIsReadFromMostIsReset) {
  Listen(10, 0, "0.0.0.0:0");
  Start();
  const int port = acceptor_->port();
  const ClientSocket greedy;
  ASSERT_TRUE(greedy.ConnectV4(port));
  taker_.WaitFor(1);
  const ClientSocket modest;
  ASSERT_TRUE(modest.ConnectV4(port, "127.0.0.1", "127.0.0.2"));
  taker_.WaitFor(2);
  const ConnectionTable::Progress before = acceptor_->ListProgress();
  EXPECT_EQ(before.size(), 2);
  const std::string much(100'000, 'x');
  const std::string little(100, 'x');
  ASSERT_EQ(send(greedy.fd(), much.data(), much.size(), 0), static_cast<ssize_t>(much.size()));
  ASSERT_EQ(send(modest.fd(), little.data(), little.size(), 0),
            static_cast<ssize_t>(little.size()));
  // Connections that wait in the kernel harm no other.
  EXPECT_FALSE(acceptor_->CutOffGreedy(before, 1000, "test"));
  taker_.Read(0, much.size());
  taker_.Read(1, little.size());
  EXPECT_FALSE(acceptor_->CutOffGreedy(before, 200'000, "test"));
  EXPECT_TRUE(acceptor_->CutOffGreedy(before, 1000, "test"));
  EXPECT_EQ(acceptor_->CountCutOff(), 1);
  EXPECT_TRUE(greedy.IsHungUpOn());
  EXPECT_TRUE(taker_.IsBroken(0));
  EXPECT_FALSE(taker_.IsBroken(1));
  // Its address is not refused: others may be behind it.
  const ClientSocket other = Connect();
  taker_.WaitFor(3);
}

TEST_F(AcceptorTest, HeldOffConnectionsWaitWhateverTheirAddress) {
  Listen(10, 0, "0.0.0.0:0");
  Start();
  const auto begin = std::chrono::steady_clock::now();
  acceptor_->HoldOff(std::chrono::milliseconds(300));
  const ClientSocket a = Connect();
  const ClientSocket b;
  ASSERT_TRUE(b.ConnectV4(acceptor_->port(), "127.0.0.1", "127.0.0.2"));
  taker_.WaitFor(2);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
  EXPECT_EQ(refused_, 0);
}

// Waits for the first line that is logged while it lives.
class LogLine : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string Wait() {
    there_.WaitForNotification();
    return line_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!there_.HasBeenNotified()) {
      line_.assign(message.payload.data(), message.payload.size());
      there_.Notify();
    }
  }
  void flush_() override {}

 private:
  absl::Notification there_;
  std::string line_;
};

TEST_F(AcceptorTest, WithoutFilesConnectionsWaitUntilThereAreSome) {
  Listen(10);
  Start();
  const auto line = std::make_shared<LogLine>();
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", line));
  const absl::Cleanup restore_log = [&] { spdlog::set_default_logger(before); };
  const ClientSocket client;
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const int next = dup(STDERR_FILENO);
  close(next);
  const rlimit none{static_cast<rlim_t>(next), files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Cleanup restore_files = [&] { setrlimit(RLIMIT_NOFILE, &files); };
  ASSERT_TRUE(client.ConnectV4(acceptor_->port()));
  EXPECT_THAT(line->Wait(), HasSubstr("Too many open files"));
  setrlimit(RLIMIT_NOFILE, &files);
  taker_.WaitFor(1);
}

}  // namespace
}  // namespace beamwright::rpc
