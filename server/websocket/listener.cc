// Listens for WebSockets: an HTTP listener (http::Listener) without a handler reads each request
// and gives the connection to Serve, which makes a WebSocket and a Session of it. OpenSessions
// knows the sessions that live, by weak pointers; a session is removed when its last owner lets it
// go.
//
// Stop asks the sessions to end (Leave), waits kFarewell for them, and then stops the listener.
#include "server/websocket/listener.h"

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/http/taken_connection.h"
#include "server/serving/serving_state.h"
#include "server/websocket/session.h"

namespace beamwright::websocket {
namespace {

constexpr int kMaxThreads = 4;
// Buffer for answers that a client has not read: later answers say more than these.
constexpr int kSendBufferBytes = 64 << 10;
constexpr absl::Duration kFarewell = absl::Seconds(2);

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
  // Returns when no session is left, or after `timeout`.
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
       const http::Cors& cors)
      : options_(options), site_{core,
                                 access,
                                 cors,
                                 options.default_model,
                                 options.transfer_timeout,
                                 options.quiet_time} {}
  ~Impl() { Stop(); }

  absl::Status Start() {
    http::ListenerOptions options;
    options.address = options_.address;
    options.threads = 0;  // there is no handler
    options.io_threads = std::clamp(UsableCpus(), 1, kMaxThreads);
    options.takes_post = false;
    options.max_body_bytes = 0;
    options.send_buffer_bytes = kSendBufferBytes;
    options.transfer_timeout = options_.transfer_timeout;
    options.idle_timeout = options_.transfer_timeout;
    options.bounds = {options_.max_connections, options_.transfer_timeout, 0};
    options.tls = options_.tls;
    options.thread_name = "bw-websocket";
    options.take = [this](http::TakenConnection& taken) { Serve(taken); };
    options.refused = [this](const http::HttpRequest& request, const absl::Status& why) {
      serving::Caller caller{serving::Method::kWebSocketRecognize};
      caller.context = http::ContextOf(request);
      site_.core.calls().Refuse(why, caller);
    };
    BW_ASSIGN_OR_RETURN(listener_, http::Listener::Start(options, nullptr));
    return absl::OkStatus();
  }

  const http::Listener& listener() const { return *listener_; }

  void Leave() {
    for (const std::shared_ptr<Session>& session : sessions_.All()) {
      session->Leave();
    }
  }

  void Stop() {
    if (listener_ == nullptr || is_stopped_) {
      return;
    }
    is_stopped_ = true;
    Leave();
    sessions_.WaitUntilNone(kFarewell);
    listener_->Stop();
    const absl::MutexLock lock(&site_.doorbell->mutex);
    site_.doorbell->works = false;
  }

 private:
  void Serve(http::TakenConnection& taken) {
    const boost::asio::any_io_executor executor = taken.transport->socket().get_executor();
    std::unique_ptr<WebSocket> web = WebSocket::Make(
        taken, {serving::kMaxPieceBytes, &site_.core.memory(), options_.transfer_timeout});
    // Removed when its last owner lets go of it.
    const auto number = std::make_shared<uint64_t>(0);
    const std::shared_ptr<Session> session(new Session(site_, std::move(web)),
                                           [this, number](Session* gone) {
                                             delete gone;
                                             sessions_.Remove(*number);
                                           });
    *number = sessions_.Add(session);
    boost::asio::post(executor, [session] { session->Start(); });
  }

  const ListenerOptions options_;
  const Site site_;
  OpenSessions sessions_;
  bool is_stopped_ = false;
  std::unique_ptr<http::Listener> listener_;  // sessions end with it
};

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const ListenerOptions& options,
                                                          serving::Core& core,
                                                          const access::Access& access,
                                                          const http::Cors& cors) {
  auto impl = std::make_unique<Impl>(options, core, access, cors);
  BW_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

const std::string& Listener::address() const { return impl_->listener().address(); }
int Listener::port() const { return impl_->listener().port(); }
int Listener::num_connections() const { return impl_->listener().num_connections(); }
void Listener::Leave() { impl_->Leave(); }
void Listener::Stop() { impl_->Stop(); }

}  // namespace beamwright::websocket
