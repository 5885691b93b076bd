// Takes connections for gRPC and limits them. One thread (Run) waits in poll for the listening
// sockets and for stop_fd_, which Stop raises.
//
// 1. AcceptFrom takes a connection and enters it into the table (ConnectionTable), which counts all
//    connections and those of each client (ClientOf). If the table has room, gRPC gets the socket;
//    else it is closed at once, and the client's library reports Unavailable and waits before it
//    tries again.
// 2. When accept fails because the process has no file or memory left, the thread pauses for
//    kPauseMs: the connection still waits in the kernel, and poll would return at once for ever. A
//    failure that is the connection's own (IsOfTheConnection) needs no pause.
// 3. When connections take too much of the server, the connection watch calls CutOffGreedy,
// CutOffReturning or
//    CutOffPeer, which reset the connections that read most, and HoldOff, after which new
//    connections wait for a while and then come one by one, so that their behaviour can be seen
//    before the next is taken.
//
// Lines of the log that a client can cause are written at most once in ten seconds, with a count of
// those left out (SeldomLine).
#include "server/rpc/acceptor.h"

#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/base/status.h"

namespace beamwright::rpc {
namespace {

// Pause before the next attempt when the process or the machine has no file or memory left: the
// connections that wait in the kernel would make poll return at once.
constexpr int kPauseMs = 100;
// After a connection was cut off, for kOneByOne: a new connection is taken every kOneByOneMs, which
// leaves time to see what each of them does.
constexpr int kOneByOneMs = 10;
constexpr std::chrono::seconds kOneByOne(30);
constexpr std::chrono::seconds kBetweenLines(10);

// The key that connections are counted by: an IPv4 address or the first 64 bits of an IPv6 one;
// empty for a Unix socket.
std::string ClientOf(const sockaddr_storage& peer) {
  const auto bytes = [](const void* data, size_t size) {
    return std::string(static_cast<const char*>(data), size);
  };
  if (peer.ss_family == AF_INET) {
    return bytes(&reinterpret_cast<const sockaddr_in&>(peer).sin_addr, 4);
  }
  if (peer.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    // A network of 64 bits is the least that a site is given: its hosts choose the rest as they
    // like.
    return IN6_IS_ADDR_V4MAPPED(&address) ? bytes(address.s6_addr + 12, 4) : bytes(&address, 8);
  }
  return "";
}

// Whether accept failed because of the one connection that it was about to take (accept(2)).
bool IsOfTheConnection(int error) {
  switch (error) {
    case EINTR:
    case EAGAIN:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Acceptor::SeldomLine::Due(int64_t& before) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) {
    ++missed_;
    return false;
  }
  next_ = now + kBetweenLines;
  before = std::exchange(missed_, 0);
  return true;
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(AcceptorOptions options) {
  BW_ASSIGN_OR_RETURN(ListeningSockets sockets, ListeningSockets::Open(options.address));
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) {
    return absl::ErrnoToStatus(errno, "eventfd");
  }
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(options), std::move(sockets), stop_fd));
}

Acceptor::Acceptor(AcceptorOptions options, ListeningSockets sockets, int stop_fd)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      port_(sockets_.port()),
      stop_fd_(stop_fd),
      table_(ConnectionLimits{options_.max_connections, options_.max_connections_per_client,
                              options_.max_files},
             options_.calls) {}

Acceptor::~Acceptor() {
  Stop();
  close(stop_fd_);
}

void Acceptor::Start(std::function<void(int fd)> take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_fd_, 1);
    thread_.join();
  }
  sockets_.Close();
}

bool Acceptor::CutOffGreedy(const ConnectionTable::Progress& before, int64_t least,
                            const std::string& why) {
  ConnectionTable::Progress read = table_.ListProgress();
  for (auto& [connection, bytes] : read) {
    if (const auto was = before.find(connection); was != before.end()) {
      bytes -= was->second;
    }
  }
  return CutOffMost(read, least, why,
                    [this](const ConnectionTable::Progress::key_type& connection) {
                      return table_.CutOff(connection) ? 1 : 0;
                    });
}

int64_t Acceptor::CountReadOfClosed() {
  int64_t read = 0;
  for (const auto& [client, bytes] : table_.ListClosed()) {
    read += bytes;
  }
  return read;
}

bool Acceptor::CutOffReturning(int64_t least, const std::string& why) {
  return CutOffMost(table_.ListClosed(), least, why, [this](const std::string& client) {
    return client.empty() ? 0 : table_.CutOffClient(client);
  });
}

template <typename Read, typename Reset>
bool Acceptor::CutOffMost(const Read& read, int64_t least, const std::string& why,
                          const Reset& reset) {
  int64_t most = 0;
  for (const auto& [who, bytes] : read) {
    most = std::max(most, bytes);
  }
  int64_t num_reset = 0;
  for (const auto& [who, bytes] : read) {
    num_reset += most >= least && bytes >= most / 2 ? reset(who) : 0;
  }
  num_cut_off_ += num_reset;
  int64_t others = 0;
  if (num_reset > 0 && cut_off_line_.Due(others)) {
    spdlog::warn(
        "{} gRPC connections were reset, {} KiB came from one of their clients: {}; {} more such "
        "times since the last such line",
        num_reset, most >> 10, why, others);
  }
  return num_reset > 0;
}

void Acceptor::CutOffPeer(const std::string& peer, const std::string& why) {
  if (!table_.CutOffPeer(peer)) {
    return;
  }
  ++num_cut_off_;
  int64_t others = 0;
  absl::MutexLock lock(&peer_line_mutex_);
  if (peer_line_.Due(others)) {
    spdlog::warn("a gRPC connection was reset: {}; {} more since the last such line", why, others);
  }
}

void Acceptor::HoldOff(std::chrono::milliseconds time) {
  const auto now = std::chrono::steady_clock::now();
  held_until_ = std::max(held_until_.load(), now + time);
  one_by_one_until_ = now + time + kOneByOne;
}

int Acceptor::HeldMs() const {
  const auto left = held_until_.load() - std::chrono::steady_clock::now();
  return std::max(
      0, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1));
}

void Acceptor::Run() {
  std::vector<pollfd> polled = {{stop_fd_, POLLIN, 0}};
  for (const int fd : sockets_.fds()) {
    polled.push_back({fd, POLLIN, 0});
  }
  for (int pause_ms = 0;;) {
    const int ready =
        poll(polled.data(), pause_ms > 0 ? 1 : polled.size(), pause_ms > 0 ? pause_ms : -1);
    if (ready > 0 && polled[0].revents != 0) {
      return;
    }
    const bool is_paused = pause_ms > 0;
    const bool is_broken = ready < 0 && errno != EINTR;
    pause_ms = std::max(HeldMs(), is_broken ? kPauseMs : 0);
    if (is_paused || pause_ms > 0 || ready <= 0) {
      continue;
    }
    bool failed = false;
    for (size_t i = 1; i < polled.size(); ++i) {
      failed = (polled[i].revents != 0 && !AcceptFrom(polled[i].fd)) || failed;
    }
    const bool one_by_one = one_by_one_until_.load() > std::chrono::steady_clock::now();
    pause_ms = failed ? kPauseMs : one_by_one ? kOneByOneMs : 0;
  }
}

bool Acceptor::AcceptFrom(int listening) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  const int fd =
      accept4(listening, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  int64_t before = 0;
  if (fd < 0) {
    if (IsOfTheConnection(errno)) {
      return true;
    }
    const int error = errno;
    if (failed_line_.Due(before)) {
      spdlog::error("no connection to gRPC can be taken: {}; those that wait are tried again",
                    std::strerror(error));
    }
    return false;
  }
  if (table_.Enter(fd, ClientOf(peer), ConnectionCalls::PeerOf(peer))) {
    take_(fd);
    return true;
  }
  close(fd);
  options_.refused();
  if (refused_line_.Due(before)) {
    spdlog::warn(
        "a connection to gRPC was refused: there are too many (grpc-max-connections {}, "
        "grpc-max-connections-per-client {}), or too few files, and none was idle; {} "
        "more since the last such line",
        options_.max_connections, options_.max_connections_per_client, before);
  }
  return true;
}

}  // namespace beamwright::rpc
