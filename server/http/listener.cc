// Accepts HTTP connections. Sockets are handled by Boost.Asio on io_threads, requests by workers
// (Workers), so that a handler that waits does not keep sockets from being read.
//
// 1. Accept takes a connection; Serve makes a Connection (with TLS if there is a context), or, if
//    all are in use, answers 503 (Refuse). If there are many young connections, the idlest gives
//    its place to the new one (Excess).
// 2. AcceptLater: accept fails if the process has no file left. If a connection waits, the listener
//    closes one of the files that it keeps open for nothing (SpareFiles), so that it can accept; if
//    none is left, the idlest connection is asked to close.
// 3. Stop closes the acceptor, lets open requests end, then stops workers and threads, in this
//    order.
//
// Everything about one socket runs on its strand, one handler at a time, so that connections need
// no locks.
#include "server/http/listener.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "ops/base/status.h"
#include "server/http/connection.h"
#include "server/http/listener_parts.h"
#include "server/http/replies.h"
#include "server/http/transport.h"

namespace beamwright::http {
namespace {

using boost::asio::ip::tcp;
using Error = boost::system::error_code;

// Pause before the next attempt if the process has no file left.
constexpr auto kAcceptPause = std::chrono::milliseconds(20);

// Files that are kept open so that they can be closed for connections.
class SpareFiles {
 public:
  explicit SpareFiles(int count) : count_(static_cast<size_t>(count)) { Restore(); }
  ~SpareFiles() {
    while (Give()) {
    }
  }
  SpareFiles(const SpareFiles&) = delete;
  SpareFiles& operator=(const SpareFiles&) = delete;

  // Closes one; false if it has none.
  bool Give() {
    if (files_.empty()) {
      return false;
    }
    close(files_.back());
    files_.pop_back();
    return true;
  }
  // Opens as many again as there should be and may be.
  void Restore() {
    while (files_.size() < count_) {
      const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (file < 0) {
        return;
      }
      files_.push_back(file);
    }
  }

 private:
  const size_t count_;
  std::vector<int> files_;
};

}  // namespace

// The work on one socket runs on one thread at a time and never blocks.
class Listener::Impl {
 public:
  Impl(const ListenerOptions& options, http::Handler handler, const BoundSocket& bound)
      : options_(options),
        handler_(std::move(handler)),
        open_(options.bounds),
        workers_(options.threads, options.large_threads, options.max_waiting, options.thread_name),
        site_{options_, handler_, workers_, open_},
        spare_(options.spare_files),
        acceptor_(boost::asio::make_strand(io_)),
        pause_(acceptor_.get_executor()) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    getsockname(bound.fd, reinterpret_cast<sockaddr*>(&address), &size);
    Error ignored;  // of a socket that listens
    acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), bound.fd, ignored);
    Accept();
    for (int i = 0; i < options_.io_threads; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
  }
  ~Impl() { Stop(); }

  int num_connections() const { return open_.size(); }

  void Leave() { site_.leaving = true; }

  void Stop() {
    if (threads_.empty()) {
      return;
    }
    site_.stopping = true;
    boost::asio::post(acceptor_.get_executor(), [this] {
      Error ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      for (const std::shared_ptr<OpenConnection>& connection : open_.All()) {
        connection->Leave();
      }
    });
    open_.WaitUntilNone();
    workers_.Stop();
    io_.stop();
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), options_.thread_name.c_str());
    const auto work = boost::asio::make_work_guard(io_);
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
    acceptor_.async_accept(boost::asio::make_strand(io_),
                           [this](const Error& error, tcp::socket socket) {
                             if (!acceptor_.is_open()) {
                               return;
                             }
                             if (error) {
                               AcceptLater();
                               return;
                             }
                             Serve(std::move(socket));
                             spare_.Restore();
                             Accept();
                           });
  }

  // Perhaps no file is left: connections that wait in the kernel are taken when there are files
  // again; until then, a spare file or the idlest connection is given up.
  void AcceptLater() {
    // Without a file accept fails whether a connection waits or not.
    pollfd entry{acceptor_.native_handle(), POLLIN, 0};
    if (poll(&entry, 1, 0) == 0) {
      acceptor_.async_wait(tcp::acceptor::wait_read, [this](const Error&) {
        if (acceptor_.is_open()) {
          Accept();
        }
      });
      return;
    }
    if (spare_.Give()) {
      Accept();
      return;
    }
    if (const std::shared_ptr<OpenConnection> idlest = open_.Idlest()) {
      idlest->MakeRoom();
    }
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const Error& cancelled) {
      if (!cancelled) {
        Accept();
      }
    });
  }

  void Serve(tcp::socket socket) {
    if (open_.IsFull()) {
      Refuse(socket);
      return;
    }
    Error ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(boost::asio::socket_base::send_buffer_size(options_.send_buffer_bytes),
                      ignored);
    const std::shared_ptr<SSL_CTX> tls =
        options_.tls == nullptr ? nullptr : options_.tls->current();
    std::make_shared<Connection>(site_, Transport::Make(std::move(socket), tls))->Start();
    while (const std::shared_ptr<OpenConnection> excess = open_.Excess()) {
      excess->MakeRoom();
    }
  }

  // Answers in clear text also on a port with TLS: a handshake is more work than the refusal is
  // worth.
  void Refuse(tcp::socket& socket) {
    static const auto* const text = new std::string(LastAnswer(503));
    send(socket.native_handle(), text->data(), text->size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    Error ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    if (options_.refused != nullptr) {
      HttpRequest unread;
      unread.header = [](const char*) { return std::string(); };
      options_.refused(unread, Refusal(503));
    }
  }

  const ListenerOptions options_;
  const http::Handler handler_;
  OpenConnections open_;
  Workers workers_;
  ConnectionSite site_;
  boost::asio::io_context io_;  // what is taken may end with it
  SpareFiles spare_;
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::vector<std::thread> threads_;
};

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const ListenerOptions& options,
                                                          Handler handler) {
  BW_ASSIGN_OR_RETURN(const BoundSocket bound, BindSocket(options.address));
  std::unique_ptr<Listener> listener(new Listener);
  listener->port_ = bound.port;
  listener->address_ = bound.address;
  listener->impl_ = std::make_unique<Impl>(options, std::move(handler), bound);
  return listener;
}

void Listener::Leave() { impl_->Leave(); }

void Listener::Stop() {
  if (impl_ != nullptr) {
    impl_->Stop();
  }
}

int Listener::num_connections() const { return impl_->num_connections(); }

Listener::Listener() = default;
Listener::~Listener() { Stop(); }

}  // namespace beamwright::http
