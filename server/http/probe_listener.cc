#include "server/http/probe_listener.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <list>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ops/base/status.h"
#include "server/http/bind_socket.h"

namespace beamwright::http {
namespace {

// Of silence; a connection that drips is never silent, and goes when there are too many.
constexpr unsigned kIdleSeconds = 30;
// Connections beyond the limit that have their grace; with more than that nobody has.
constexpr int kYoungConnections = 512;
// For connections that were told to go and are not gone yet.
constexpr int kSpareConnections = 512;
// Until the next attempt where the process has no file left: what waits in the kernel would make
// poll return at once.
constexpr int kPauseMs = 100;
// Of one connection: a head larger than that is refused with 431.
constexpr size_t kConnectionBytes = 16 << 10;

using Response = std::shared_ptr<MHD_Response>;

Response MakeResponse(const HttpReply& reply) {
  Response response(
      MHD_create_response_from_buffer(reply.body.size(), const_cast<char*>(reply.body.data()),
                                      MHD_RESPMEM_MUST_COPY),
      MHD_destroy_response);
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, reply.content_type.c_str());
  if (reply.status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  return response;
}

// A body would have to be read, and nobody here wants one.
bool HasBody(MHD_Connection* connection) {
  const char* const length =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  return (length != nullptr && std::string(length) != "0") ||
         MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                     MHD_HTTP_HEADER_TRANSFER_ENCODING) != nullptr;
}

struct Client {
  MHD_socket socket = MHD_INVALID_SOCKET;
  absl::Time quiet_since;
  bool is_answered_soon = false;  // metrics are being written for it
  bool is_told_to_go = false;
  std::list<Client>::iterator place;
};

// A request; those for metrics wait for them.
struct Scrape {
  MHD_Connection* connection = nullptr;
  // Both are set while the connection is suspended. Done without a response: there is no memory.
  bool is_done = false;
  Response response;
};

}  // namespace

// Callbacks of the library come on its one thread; what they share with no other needs no lock.
class ProbeListener::Impl {
 public:
  // Owns `listening` from now on.
  Impl(int listening, const Probes& probes, int max_connections, absl::Duration grace)
      : listening_(listening),
        stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        probes_(probes),
        max_connections_(max_connections),
        grace_(grace) {}

  ~Impl() {
    {
      absl::MutexLock lock(&mutex_);
      stop_ = true;
    }
    eventfd_write(stop_fd_, 1);
    for (std::thread* thread : {&acceptor_, &scraper_}) {
      if (thread->joinable()) {
        thread->join();
      }
    }
    if (daemon_ != nullptr) {
      MHD_stop_daemon(daemon_);
    }
    close(stop_fd_);
    close(listening_);
  }

  absl::Status Start() {
    fcntl(listening_, F_SETFL, fcntl(listening_, F_GETFL) | O_NONBLOCK);
    // The library does not accept: once it had no file for a connection, it would take none again
    // until another one ends.
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0,
        nullptr, nullptr, &OnRequest, this, MHD_OPTION_CONNECTION_LIMIT,
        static_cast<unsigned>(max_connections_ + kYoungConnections + kSpareConnections),
        MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        kConnectionBytes, MHD_OPTION_NOTIFY_CONNECTION, &OnConnection, this,
        MHD_OPTION_NOTIFY_COMPLETED, &OnCompleted, this, MHD_OPTION_END);
    if (daemon_ == nullptr || stop_fd_ < 0) {
      return absl::ResourceExhaustedError(
          "no thread or no epoll for probes and metrics; see 'ulimit -n' and 'ulimit -u'");
    }
    scraper_ = std::thread([this] { WriteMetrics(); });
    acceptor_ = std::thread([this] { Accept(); });
    return absl::OkStatus();
  }

 private:
  void Accept() {
    pthread_setname_np(pthread_self(), "bw-probes");
    pollfd polled[] = {{stop_fd_, POLLIN, 0}, {listening_, POLLIN, 0}};
    for (bool paused = false;;) {
      const int ready = poll(polled, paused ? 1 : 2, paused ? kPauseMs : -1);
      if (ready > 0 && polled[0].revents != 0) {
        return;
      }
      paused = false;
      if (ready <= 0) {
        continue;
      }
      sockaddr_storage peer{};
      socklen_t size = sizeof(peer);
      const int fd = accept4(listening_, reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        MHD_add_connection(daemon_, fd, reinterpret_cast<sockaddr*>(&peer), size);
      } else {
        paused = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      }
    }
  }

  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode code) {
    auto& impl = *static_cast<Impl*>(self);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      *context = impl.Enter(connection);
    } else if (*context != nullptr) {
      impl.Leave(*static_cast<Client*>(*context));
    }
  }

  static Client* ClientOf(MHD_Connection* connection) {
    return static_cast<Client*>(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  }

  // Null if there is no memory for it: then its requests are not answered.
  Client* Enter(MHD_Connection* connection) {
    try {
      quiet_.emplace_back();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    Client& client = quiet_.back();
    client.place = std::prev(quiet_.end());
    client.quiet_since = absl::Now();
    client.socket =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    MakeRoom(client.quiet_since - grace_);
    return &client;
  }

  // Tells those above the limit to go that have been quiet since `before`, and more if there are
  // too many for that. The library sees the end of a connection at its next turn and closes it.
  void MakeRoom(absl::Time before) {
    while (static_cast<int>(quiet_.size()) > max_connections_) {
      auto quietest = std::find_if(quiet_.begin(), quiet_.end(),
                                   [](const Client& client) { return !client.is_answered_soon; });
      quietest = quietest == quiet_.end() ? quiet_.begin() : quietest;
      if (quietest->quiet_since > before &&
          static_cast<int>(quiet_.size()) <= max_connections_ + kYoungConnections) {
        return;
      }
      quietest->is_told_to_go = true;
      shutdown(quietest->socket, SHUT_RDWR);
      leaving_.splice(leaving_.end(), quiet_, quietest);
    }
  }

  void Leave(const Client& client) {
    (client.is_told_to_go ? leaving_ : quiet_).erase(client.place);
  }

  static void OnCompleted(void* self, MHD_Connection* connection, void** context,
                          MHD_RequestTerminationCode /*why*/) {
    delete static_cast<Scrape*>(*context);
    *context = nullptr;
    auto& impl = *static_cast<Impl*>(self);
    Client* client = ClientOf(connection);
    if (client == nullptr) {
      return;
    }
    client->is_answered_soon = false;
    client->quiet_since = absl::Now();
    if (!client->is_told_to_go) {
      impl.quiet_.splice(impl.quiet_.end(), impl.quiet_, client->place);
    }
  }

  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char* /*version*/, const char* /*body*/,
                              size_t* /*body_size*/, void** context) {
    if (ClientOf(connection) == nullptr) {
      return MHD_NO;
    }
    try {
      return static_cast<Impl*>(self)->Handle(connection, path, method,
                                              reinterpret_cast<Scrape**>(context));
    } catch (const std::bad_alloc&) {
      return MHD_NO;  // the connection is closed
    }
  }

  // Called when the head is there, again when the request is, and again when metrics are.
  MHD_Result Handle(MHD_Connection* connection, const char* path, const char* method,
                    Scrape** scrape) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    const bool is_read = request.method == "GET" || request.method == "HEAD";
    if (*scrape == nullptr) {
      if (is_read && HasBody(connection)) {
        return Answer(connection, {400, "text/plain; charset=utf-8", "probes take no body\n", {}});
      }
      if (!is_read) {
        return Answer(connection, probes_.Handle(request));  // and the connection is closed
      }
      *scrape = new Scrape{connection};
      return MHD_YES;
    }
    if ((*scrape)->is_done) {
      return MHD_queue_response(connection, MHD_HTTP_OK, (*scrape)->response.get());
    }
    if (request.path != "/metrics") {
      return Answer(connection, probes_.Handle(request));
    }
    absl::MutexLock lock(&mutex_);
    if (stop_) {
      return MHD_NO;
    }
    scrapes_.push_back(*scrape);
    ClientOf(connection)->is_answered_soon = true;
    MHD_suspend_connection(connection);
    return MHD_YES;
  }

  static MHD_Result Answer(MHD_Connection* connection, const HttpReply& reply) {
    return MHD_queue_response(connection, static_cast<unsigned>(reply.status),
                              MakeResponse(reply).get());
  }

  bool HasScrapes() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !scrapes_.empty(); }

  // All who ask while a text is written share the next one.
  void WriteMetrics() {
    pthread_setname_np(pthread_self(), "bw-metrics");
    HttpRequest request;
    request.method = "GET";
    request.path = "/metrics";
    for (;;) {
      std::vector<Scrape*> scrapes;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &Impl::HasScrapes));
        scrapes.swap(scrapes_);
      }
      if (scrapes.empty()) {
        return;  // stop_
      }
      Response response;
      try {
        response = MakeResponse(probes_.Handle(request));
      } catch (const std::bad_alloc&) {
        // Who asks again may be luckier.
      }
      for (Scrape* scrape : scrapes) {
        scrape->is_done = true;
        scrape->response = response;
        MHD_resume_connection(scrape->connection);
      }
    }
  }

  const int listening_;
  const int stop_fd_;
  const Probes& probes_;
  const int max_connections_;
  const absl::Duration grace_;
  MHD_Daemon* daemon_ = nullptr;
  std::list<Client> quiet_;    // the one that has been quiet for longest first
  std::list<Client> leaving_;  // told to go
  absl::Mutex mutex_;
  std::vector<Scrape*> scrapes_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread scraper_;
  std::thread acceptor_;
};

ProbeListener::ProbeListener() = default;
ProbeListener::~ProbeListener() = default;

absl::StatusOr<std::unique_ptr<ProbeListener>> ProbeListener::Start(const std::string& address,
                                                                    const Probes& probes,
                                                                    int max_connections,
                                                                    absl::Duration grace) {
  BW_ASSIGN_OR_RETURN(const BoundSocket bound, BindSocket(address));
  std::unique_ptr<ProbeListener> listener(new ProbeListener);
  listener->address_ = bound.address;
  listener->port_ = bound.port;
  listener->impl_ = std::make_unique<Impl>(bound.fd, probes, max_connections, grace);
  BW_RETURN_IF_ERROR(listener->impl_->Start());
  return listener;
}

}  // namespace beamwright::http
