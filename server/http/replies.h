// Replies of the two HTTP families, and replies that come later.
#ifndef BEAMWRIGHT_SERVER_HTTP_REPLIES_H_
#define BEAMWRIGHT_SERVER_HTTP_REPLIES_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "ops/base/json_writer.h"
#include "server/access/access.h"
#include "server/http/listener.h"
#include "server/serving/core.h"

namespace beamwright::http {

// PendingReply: an answer that is not there yet, for which no thread waits. A handler returns it in
// HttpReply::later; the connection takes the answer when its bell has rung.

// Thread-safe. Shared by who rings and who answers it, in whatever order they come and go.
class Bell {
 public:
  // There is something to take.
  void Ring() {
    absl::MutexLock lock(&mutex_);
    if (wake_ != nullptr) {
      wake_();
    } else {
      has_rung_ = true;
    }
  }
  // Calls `wake` at each ring, on any thread, and at once if it has rung before.
  void Answer(std::function<void()> wake) {
    absl::MutexLock lock(&mutex_);
    wake_ = std::move(wake);
    if (has_rung_) {
      wake_();
    }
  }

 private:
  absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  bool has_rung_ ABSL_GUARDED_BY(mutex_) = false;
};

// Destroyed when no client waits any more, which cancels the call.
class PendingReply {
 public:
  virtual ~PendingReply() = default;

  const std::shared_ptr<Bell>& bell() const { return bell_; }
  // The answer, on a worker; nothing if it is not there yet.
  virtual std::optional<HttpReply> Take() = 0;
  // Every so often until then, on the listener's thread: looks whether the call is to be given up.
  virtual void Look() = 0;

 private:
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
};

HttpReply JsonReply(const JsonWriter& json);
// A message in protobuf's JSON form.
HttpReply MessageReply(const google::protobuf::Message& message);
// A message as the Open Inference Protocol writes it.
HttpReply V2Reply(const google::protobuf::Message& message);

// {"error": {"code": 3, "status": "INVALID_ARGUMENT", "message": "...", "details": [...]}}, as
// Google's APIs have it.
HttpReply ErrorReply(const absl::Status& status);
// {"error": "...", "details": [...]}: the Open Inference Protocol's form, and the same details.
HttpReply V2ErrorReply(const absl::Status& status);

// Either, by what `path` belongs to.
HttpReply ErrorReplyFor(const std::string& path, const absl::Status& status);
// 405.
absl::Status WrongMethod(const char* allowed);
HttpReply WrongMethodReply(const std::string& path, const char* allowed);
// Why the listener refuses a request by itself, of the HTTP status that it answers: 400, 405, 408,
// 413, 414, 415, 431, 503; and that answer.
absl::Status Refusal(int http_status);
HttpReply RefusalReply(const std::string& path, int http_status);

// What the headers say of a call.
serving::CallContext ContextOf(const HttpRequest& request);

// Who asks, if they may: by the headers Authorization and Beamwright-Tenant and by the certificate.
// Errors as Access::Admit's.
absl::StatusOr<access::Identity> Admit(const access::Access& access, const HttpRequest& request);

// The same where credentials come another way, as the header Authorization would have them.
absl::StatusOr<access::Identity> Admit(const access::Access& access, const HttpRequest& request,
                                       const std::string& authorization);

// What is asked, and for whom.
struct Asked {
  serving::Method method;
  access::Identity identity;
  absl::Duration timeout;
};

serving::Caller CallerOf(const HttpRequest& request, const Asked& asked,
                         std::shared_ptr<engine::CancelFlag> cancelled = nullptr);

// A call that has been started, for which no thread waits. Meanwhile a client that hangs up cancels
// it, and so does a server that ends.
class CancellableReply : public PendingReply {
 public:
  CancellableReply(const HttpRequest& request, const serving::ServingState& state)
      : abandoned_(request.abandoned), state_(state) {}
  ~CancellableReply() override { cancelled_->Cancel(); }

  const std::shared_ptr<engine::CancelFlag>& cancelled() const { return cancelled_; }
  void Look() override {
    if (abandoned_() || state_.phase() == serving::Phase::kEnding) {
      cancelled_->Cancel();
    }
  }

 private:
  const std::function<bool()> abandoned_;
  const serving::ServingState& state_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
};

// A call with one answer.
template <typename Answer>
class PendingAnswer final : public CancellableReply {
 public:
  using Finish = std::function<HttpReply(const absl::StatusOr<Answer>&)>;

  PendingAnswer(const HttpRequest& request, serving::ServingState& state, Finish finish)
      : CancellableReply(request, state), state_(state), finish_(std::move(finish)) {}

  // To be called once with the answer; it may outlive this.
  std::function<void(absl::StatusOr<Answer>)> Done() {
    const auto open = std::make_shared<serving::ServingState::OpenCall>(state_);
    return [open, slot = slot_, bell = bell()](absl::StatusOr<Answer> answer) {
      {
        absl::MutexLock lock(&slot->mutex);
        slot->answer = std::move(answer);
      }
      bell->Ring();
    };
  }

  std::optional<HttpReply> Take() override {
    std::optional<absl::StatusOr<Answer>> answer;
    {
      absl::MutexLock lock(&slot_->mutex);
      answer.swap(slot_->answer);
    }
    return answer.has_value() ? std::optional<HttpReply>(finish_(*answer)) : std::nullopt;
  }

 private:
  struct Slot {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<Answer>> answer ABSL_GUARDED_BY(mutex);
  };

  serving::ServingState& state_;
  const Finish finish_;
  const std::shared_ptr<Slot> slot_ = std::make_shared<Slot>();
};

// Starts a call, which calls back with its answer, of which `finish` makes the reply.
template <typename Answer>
HttpReply AnswerLater(const HttpRequest& request, serving::ServingState& state, const Asked& asked,
                      const std::function<void(const serving::Caller&,
                                               std::function<void(absl::StatusOr<Answer>)>)>& start,
                      typename PendingAnswer<Answer>::Finish finish) {
  const auto pending = std::make_shared<PendingAnswer<Answer>>(request, state, std::move(finish));
  start(CallerOf(request, asked, pending->cancelled()), pending->Done());
  HttpReply reply;
  reply.later = pending;
  return reply;
}

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_REPLIES_H_
