#include "server/websocket/listener.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <map>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"
#include "server/http/bind_socket.h"
#include "server/serving/serving_state.h"
#include "server/websocket/session.h"

namespace beamwright::websocket {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kMaxThreads = 4;
// Answers that a client has not read: what comes behind them says more than they do.
constexpr int kSendBufferBytes = 64 << 10;
constexpr absl::Duration kFarewell = absl::Seconds(2);
constexpr auto kPause = std::chrono::milliseconds(50);

// The sockets of a listener that are open.
class OpenSessions {
 public:
  uint64_t Add(const std::shared_ptr<Session>& session) {
    absl::MutexLock lock(&mutex_);
    sessions_.emplace(++last_, session);
    return last_;
  }
  void Remove(uint64_t number) {
    absl::MutexLock lock(&mutex_);
    sessions_.erase(number);
  }
  int size() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(sessions_.size());
  }
  std::vector<std::shared_ptr<Session>> All() const {
    absl::MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<Session>> all;
    for (const auto& [number, weak] : sessions_) {
      if (std::shared_ptr<Session> session = weak.lock()) {
        all.push_back(std::move(session));
      }
    }
    return all;
  }
  // Returns when there is none, or after `timeout`.
  void WaitUntilNone(absl::Duration timeout) const {
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return sessions_.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

class Listener::Impl {
 public:
  Impl(const ListenerOptions& options, serving::Core& core, const access::Access& access,
       const http::Cors& cors, http::BoundSocket bound)
      : options_(options),
        site_{core,
              access,
              cors,
              options.default_model,
              options.transfer_timeout,
              options.quiet_time},
        bound_(std::move(bound)),
        acceptor_(asio::make_strand(io_)),
        pause_(acceptor_.get_executor()) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    getsockname(bound_.fd, reinterpret_cast<sockaddr*>(&address), &size);
    error_code ignored;  // of a socket that listens
    acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), bound_.fd, ignored);
    Accept();
    const int threads = std::clamp(UsableCpus(), 1, kMaxThreads);
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
  }
  ~Impl() { Stop(); }

  const http::BoundSocket& bound() const { return bound_; }
  int num_connections() const { return sessions_.size(); }

  void Leave() {
    for (const std::shared_ptr<Session>& session : sessions_.All()) {
      session->Leave();
    }
  }

  void Stop() {
    if (threads_.empty()) {
      return;
    }
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    Leave();
    sessions_.WaitUntilNone(kFarewell);
    io_.stop();
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
    const absl::MutexLock lock(&site_.doorbell->mutex);
    site_.doorbell->works = false;
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "bw-websocket");
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::bad_alloc&) {
        // The connection whose turn it was is gone with what it waited for.
      }
    }
  }

  void Accept() {
    acceptor_.async_accept(
        asio::make_strand(io_), [this](const error_code& error, tcp::socket socket) {
          if (!acceptor_.is_open()) {
            return;
          }
          if (error) {  // no file descriptors are left, perhaps; others may be closed soon
            pause_.expires_after(kPause);
            pause_.async_wait([this](const error_code& cancelled) {
              if (!cancelled) Accept();
            });
            return;
          }
          Serve(std::move(socket));
          Accept();
        });
  }

  void Serve(tcp::socket socket) {
    if (sessions_.size() >= options_.max_connections) {
      Refuse(socket);
      return;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
    const asio::any_io_executor executor = socket.get_executor();
    std::unique_ptr<WebSocket> web = WebSocket::Make(
        std::move(socket), options_.tls == nullptr ? nullptr : options_.tls->current(),
        {serving::kMaxPieceBytes, options_.transfer_timeout});
    // Removed when it goes, by whoever holds it last.
    const auto number = std::make_shared<uint64_t>(0);
    const std::shared_ptr<Session> session(new Session(site_, std::move(web)),
                                           [this, number](Session* gone) {
                                             delete gone;
                                             sessions_.Remove(*number);
                                           });
    *number = sessions_.Add(session);
    asio::post(executor, [session] { session->Start(); });
  }

  // In clear text also where TLS is spoken: a handshake is more work than the refusal is worth.
  void Refuse(tcp::socket& socket) {
    const absl::Status why = serving::TooManyConnections();
    site_.core.calls().Refuse(why, serving::Caller{serving::Method::kWebSocketRecognize});
    static const auto* const text = new std::string(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n");
    send(socket.native_handle(), text->data(), text->size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    error_code ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  const ListenerOptions options_;
  const Site site_;
  const http::BoundSocket bound_;
  OpenSessions sessions_;
  asio::io_context io_;  // sessions end with it
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::vector<std::thread> threads_;
};

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const ListenerOptions& options,
                                                          serving::Core& core,
                                                          const access::Access& access,
                                                          const http::Cors& cors) {
  BW_ASSIGN_OR_RETURN(http::BoundSocket bound, http::BindSocket(options.address));
  return std::unique_ptr<Listener>(
      new Listener(std::make_unique<Impl>(options, core, access, cors, std::move(bound))));
}

const std::string& Listener::address() const { return impl_->bound().address; }
int Listener::port() const { return impl_->bound().port; }
int Listener::num_connections() const { return impl_->num_connections(); }
void Listener::Leave() { impl_->Leave(); }
void Listener::Stop() { impl_->Stop(); }

}  // namespace beamwright::websocket
