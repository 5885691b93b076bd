// Acceptor: takes connections in gRPC's place, because gRPC takes any number of them, and none ever
// again once it has run out of files. It hands over as many as may be open at a time and closes
// further ones, so that a client's library reports Unavailable and backs off. It has a thread
// that wakes for new connections alone; calls never pass it.
#ifndef BEAMWRIGHT_SERVER_RPC_ACCEPTOR_H_
#define BEAMWRIGHT_SERVER_RPC_ACCEPTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/connection_table.h"
#include "server/rpc/listening_sockets.h"

namespace beamwright::rpc {

struct AcceptorOptions {
  std::string address;  // as of ListeningSockets::Open
  int max_connections = 4096;
  // Of one client: an IPv4 address or the first 64 bits of an IPv6 one. 0: as many as there may be.
  int max_connections_per_client = 0;
  // As ConnectionLimits::max_files.
  int max_files = std::numeric_limits<int>::max();
  // What calls come of each connection; must outlive the acceptor. Null: unknown.
  ConnectionCalls* calls = nullptr;
  // Called for each connection that is refused, on the acceptor's thread.
  std::function<void()> refused = [] {};
};

class Acceptor {
 public:
  // Binds. Connections wait in the kernel until Start. Errors as of ListeningSockets::Open.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(AcceptorOptions options);
  // Stops.
  ~Acceptor();

  // Hands connected sockets, non-blocking, to `take`, which owns them from then on.
  void Start(std::function<void(int fd)> take);
  // Closes the listening sockets; `take` is not called any more. What was handed over stays open.
  void Stop();

  int port() const { return port_; }  // 0 for a Unix socket
  // Thread-safe.
  int CountOpen() { return table_.CountOpen(); }
  bool HasAny() { return table_.HasAny(); }
  ConnectionTable::Progress ListProgress() { return table_.ListProgress(); }
  // Resets the connection that was read from most since `before`, if that is at least `least`
  // bytes, and those that were read from half as much. Logged, with why, and counted. False if
  // there was none.
  bool CutOffGreedy(const ConnectionTable::Progress& before, int64_t least, const std::string& why);
  // The same for clients whose connections ended since BeginWindow, by what was read from those:
  // what is open of such a client by now is reset.
  bool CutOffReturning(int64_t least, const std::string& why);
  // Resets the connection of the peer (ConnectionCalls::PeerOf). Logged, with why, and counted.
  void CutOffPeer(const std::string& peer, const std::string& why);
  int64_t CountReadOfClosed();
  void BeginWindow() { table_.BeginWindow(); }
  // New connections wait in the kernel for so long; then, for half a minute, they are taken one by
  // one. Who was reset connects again at once, from the same address or another: what others have
  // open goes on meanwhile. Thread-safe.
  void HoldOff(std::chrono::milliseconds time);
  int64_t CountCutOff() const { return num_cut_off_; }

 private:
  // Lines of the log that a client can cause as often as it likes, at most one in ten seconds.
  class SeldomLine {
   public:
    // Whether the time has come; `before` is how often it had not since it last had.
    bool Due(int64_t& before);

   private:
    std::chrono::steady_clock::time_point next_;
    int64_t missed_ = 0;
  };

  Acceptor(AcceptorOptions options, ListeningSockets sockets, int stop_fd);
  void Run();
  // Calls `reset`, which returns how many connections it reset, for each of `read` (by whom: bytes)
  // that was read from at least half as much as the one that was read from most.
  template <typename Read, typename Reset>
  bool CutOffMost(const Read& read, int64_t least, const std::string& why, const Reset& reset);
  // For how long connections wait yet, in milliseconds.
  int HeldMs() const;
  // Takes or refuses one connection. False if it is no use to try again at once.
  bool AcceptFrom(int listening);

  const AcceptorOptions options_;
  ListeningSockets sockets_;
  const int port_;
  const int stop_fd_;  // an event
  ConnectionTable table_;
  std::function<void(int fd)> take_;
  SeldomLine refused_line_;
  SeldomLine failed_line_;
  SeldomLine cut_off_line_;
  absl::Mutex peer_line_mutex_;
  SeldomLine peer_line_ ABSL_GUARDED_BY(peer_line_mutex_);
  std::atomic<int64_t> num_cut_off_{0};
  // Times of the steady clock: until when connections wait, and are taken one by one.
  std::atomic<std::chrono::steady_clock::time_point> held_until_{};
  std::atomic<std::chrono::steady_clock::time_point> one_by_one_until_{};
  std::thread thread_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_ACCEPTOR_H_
