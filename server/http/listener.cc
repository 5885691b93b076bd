#include "server/http/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"
#include "ops/base/status.h"
#include "server/http/bind_socket.h"
#include "server/http/connection.h"
#include "server/http/pool.h"
#include "server/http/replies.h"

namespace beamwright::http {
namespace {

constexpr int kMaxRequestsPerConnection = 10000;
// The library matches paths with std::regex, which recurses once for each character.
constexpr size_t kMaxPath = 1024;
constexpr size_t kMaxHeadBytes = 64 << 10;

// The whole answer to a connection that is not served any further.
std::string LastAnswer(int status, const char* phrase) {
  const HttpReply reply = RefusalReply("", status);
  std::string text = absl::StrCat("HTTP/1.1 ", status, " ", phrase, "\r\n");
  for (const auto& [name, value] : reply.headers) {
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&text, "Content-Type: ", reply.content_type,
                  "\r\nContent-Length: ", reply.body.size(), "\r\nConnection: close\r\n\r\n",
                  reply.body);
  return text;
}

const std::string& Busy() {
  static const auto* const text = new std::string(LastAnswer(503, "Service Unavailable"));
  return *text;
}

const std::string& TooSlow() {
  static const auto* const text = new std::string(LastAnswer(408, "Request Timeout"));
  return *text;
}

void Fill(const HttpReply& reply, httplib::Response& response) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) {
    response.set_header(name, value);
  }
  if (reply.next_piece == nullptr) {
    response.set_content(reply.body, reply.content_type);
  }
}

// Where the request ends can be read in one way only (RFC 9112, 5.1, 6.1 and 6.3). A proxy that
// reads it in another would take what follows for somebody else's request.
bool EndIsClear(const httplib::Request& request) {
  for (const auto& [name, value] : request.headers) {
    if (std::any_of(name.begin(), name.end(), absl::ascii_isspace)) {
      return false;
    }
  }
  const size_t encodings = request.get_header_value_count("Transfer-Encoding");
  const size_t lengths = request.get_header_value_count("Content-Length");
  if (encodings + lengths != 1) {
    return false;
  }
  // The library reads the bodies of POST only (RFC 9110, 9.3.1, lets us refuse them elsewhere).
  const bool has_body = request.method == "POST";
  if (encodings == 1) {
    return has_body &&
           absl::EqualsIgnoreCase(request.get_header_value("Transfer-Encoding"), "chunked");
  }
  const std::string length = request.get_header_value("Content-Length");
  return !length.empty() && std::all_of(length.begin(), length.end(), absl::ascii_isdigit) &&
         (has_body || length == "0");
}

// What is refused before its body is read: the HTTP status; 0 for what is not. There is a length,
// or an encoding.
int RefusedBecause(const httplib::Request& request, bool takes_options) {
  if (request.path.size() > kMaxPath) {
    return 414;
  }
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST" &&
      !(takes_options && request.method == "OPTIONS")) {
    return 405;
  }
  if (!EndIsClear(request)) {
    return 400;
  }
  // A few bytes could unpack to gigabytes.
  const std::string encoding = request.get_header_value("Content-Encoding");
  return encoding.empty() || encoding == "identity" ? 0 : 415;
}

}  // namespace

class Listener::Impl final : public httplib::Server {
 public:
  Impl(const ListenerOptions& options, http::Handler handler)
      : handler_(std::move(handler)), told_(options.refused) {
    limits_.max_request_bytes = options.max_body_bytes + kMaxHeadBytes;
    limits_.transfer_timeout = options.transfer_timeout;
    limits_.idle_timeout = options.idle_timeout;
    tls_ = options.tls;
    limits_.waiting = [this] { return waiting_.load(); };
    limits_.crowd = options.threads / 4;
    limits_.stopping = [this] { return stopping_.load(); };
    set_payload_max_length(options.max_body_bytes);
    set_keep_alive_max_count(kMaxRequestsPerConnection);
    set_keep_alive_timeout(absl::ToInt64Seconds(options.idle_timeout));
    new_task_queue = [this, threads = options.threads, max_waiting = options.max_waiting] {
      return new Pool(threads, max_waiting, waiting_);
    };
    set_pre_routing_handler([takes_options = options.takes_options](const httplib::Request& request,
                                                                    httplib::Response& response) {
      // A server may ignore Range (RFC 9110, 14.2). The library would not: it makes a copy of the
      // answer for each of the thousands of ranges that a header may name.
      auto& changed = const_cast<httplib::Request&>(request);
      changed.ranges.clear();
      // Without either header there is no body (RFC 9112, 6.3), as `curl -X POST` sends it. The
      // library would read on until the client closes.
      if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
        changed.headers.emplace("Content-Length", "0");
      }
      // Nobody here asks for the type, and the library would read a form (what curl says unless
      // told otherwise) up to 8 KiB only, or take it to pieces.
      changed.headers.erase("Content-Type");
      const int status = RefusedBecause(request, takes_options);
      if (status != 0) {
        response.status = status;
        return HandlerResponse::Handled;
      }
      return HandlerResponse::Unhandled;
    });
    const httplib::Server::Handler handle = [this](const httplib::Request& request,
                                                   httplib::Response& response) {
      Handle(request, response);
    };
    Get(".*", handle);
    Post(".*", handle);
    Options(".*", handle);
    set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (!handled) {
        Refuse(request, current->was_too_slow() ? 408 : response.status, response);
      }
    });
  }

  // Takes a socket that listens, and serves its connections. The library's own sockets share their
  // port with other processes (SO_REUSEPORT), and tell nobody why they can't be bound.
  void Serve(const BoundSocket& bound) {
    svr_sock_ = bound.fd;
    thread_ = std::thread([this] {
      listen_after_bind();
      ended_ = true;
    });
    // Until then stop() would have no effect.
    while (!is_running() && !ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void Stop() {
    stopping_ = true;
    if (thread_.joinable()) {
      stop();
      thread_.join();
    }
  }

 private:
  void Handle(const httplib::Request& request, httplib::Response& response) {
    HttpRequest call;
    call.method = request.method;
    call.path = request.path;
    call.body = request.body;
    call.header = [&request](const char* name) { return request.get_header_value(name); };
    call.abandoned = [connection = current] { return connection->Abandoned(); };
    call.peers = peers;
    HttpReply reply;
    try {
      reply = handler_(call);
    } catch (const std::bad_alloc&) {
      reply = ErrorReplyFor(request.path, status::OutOfMemory());
    } catch (...) {
      // The library would send the exception's text in a header.
      reply = ErrorReplyFor(request.path, absl::InternalError("the request could not be handled"));
    }
    Fill(reply, response);
    if (reply.next_piece != nullptr) {
      response.set_chunked_content_provider(
          reply.content_type, [next = std::move(reply.next_piece), connection = current](
                                  size_t, httplib::DataSink& sink) {
            std::string piece;
            if (!next(piece)) {
              sink.done();
              return true;
            }
            connection->BeginPiece();
            return sink.write(piece.data(), piece.size());
          });
    }
    handled = true;
  }

  // Answers a request that does not get as far as the handler.
  void Refuse(const httplib::Request& request, int status, httplib::Response& response) const {
    Fill(RefusalReply(request.path, status), response);
    response.set_header("Connection", "close");
    refused = true;
    Tell(request, status);
  }

  void Tell(const httplib::Request& request, int status) const {
    if (told_ == nullptr) {
      return;
    }
    HttpRequest call;
    call.method = request.method;
    call.path = request.path;
    call.header = [&request](const char* name) { return request.get_header_value(name); };
    told_(call, Refusal(status));
  }

  // One whose first line has not come in time, of which the library says nothing.
  void RefuseUnread(Connection& connection) const {
    connection.BeginPiece();
    connection.write(TooSlow().data(), TooSlow().size());
    Tell(httplib::Request(), 408);
  }

  // The library's own loop has no limit on the time that a request takes to arrive.
  bool process_and_close_socket(socket_t socket) override {
    if (Pool::Refusing()) {
      // In clear text also where TLS is spoken: a handshake is more work than the refusal is worth.
      send(socket, Busy().data(), Busy().size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      Tell(httplib::Request(), 503);
    } else {
      ServeClient(socket);
    }
    CloseKindly(socket);
    return true;
  }

  void ServeClient(socket_t socket) {
    const std::shared_ptr<SSL_CTX> tls = tls_ == nullptr ? nullptr : tls_->current();
    Connection connection(socket, limits_, tls.get());
    if (!connection.Handshake()) {
      if (connection.was_too_slow()) {
        Tell(httplib::Request(), 408);
      }
      return;
    }
    current = &connection;
    peers = connection.tls() == nullptr ? std::vector<std::string>()
                                        : access::PeerNames(*connection.tls());
    for (int i = 1; i <= kMaxRequestsPerConnection && connection.WaitForRequest(); ++i) {
      bool closed = false;
      handled = false;
      refused = false;
      if (!process_request(connection, i == kMaxRequestsPerConnection || stopping_, closed,
                           nullptr) ||
          closed) {
        if (connection.was_too_slow() && !handled && !refused) {
          RefuseUnread(connection);
        }
        break;
      }
      // Refused by the library, perhaps with its body unread: what follows could not be understood.
      if (!handled) {
        break;
      }
    }
    current = nullptr;
  }

  // Closing with unread bytes would reset the connection and take the answer away from the client.
  static void CloseKindly(socket_t socket) {
    shutdown(socket, SHUT_WR);
    char rest[4096];
    for (int i = 0; i < 64 && recv(socket, rest, sizeof(rest), MSG_DONTWAIT) > 0; ++i) {
    }
    close(socket);
  }

  static thread_local Connection* current;
  static thread_local std::vector<std::string> peers;  // of its certificate
  static thread_local bool handled;                    // the request got as far as the handler
  static thread_local bool refused;                    // it was answered without the handler

  const http::Handler handler_;
  const std::function<void(const HttpRequest&, const absl::Status&)> told_;
  ConnectionLimits limits_;
  const access::TlsContext* tls_ = nullptr;
  Waiting waiting_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

thread_local Connection* Listener::Impl::current = nullptr;
thread_local std::vector<std::string> Listener::Impl::peers;
thread_local bool Listener::Impl::handled = false;
thread_local bool Listener::Impl::refused = false;

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const ListenerOptions& options,
                                                          Handler handler) {
  BW_ASSIGN_OR_RETURN(const BoundSocket bound, BindSocket(options.address));
  std::unique_ptr<Listener> listener(new Listener);
  listener->port_ = bound.port;
  listener->address_ = bound.address;
  listener->impl_ = std::make_unique<Impl>(options, std::move(handler));
  listener->impl_->Serve(bound);
  return listener;
}

void Listener::Stop() {
  if (impl_ != nullptr) {
    impl_->Stop();
  }
}

Listener::~Listener() { Stop(); }

}  // namespace beamwright::http
