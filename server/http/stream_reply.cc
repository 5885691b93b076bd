#include "server/http/stream_reply.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "server/http/replies.h"
#include "server/serving/decode_stream.h"

namespace beamwright::http {
namespace {

using serving::DecodeStream;

// One call; used by the thread of its connection.
class Lines {
 public:
  Lines(const HttpRequest& request, serving::Core& core, const access::Identity& identity,
        absl::Duration timeout, absl::StatusOr<v1::StreamDecodeRequest> body)
      : open_(core.state()), state_(core.state()), abandoned_(request.abandoned) {
    serving::Caller caller;
    caller.method = serving::Method::kHttpStreamDecode;
    caller.deadline = absl::Now() + timeout;
    caller.cancelled = cancelled_;
    caller.context = ContextOf(request);
    caller.tenant = identity.tenant;
    caller.priority = identity.priority;
    stream_ = DecodeStream::Start(core, std::move(body), caller, nullptr);
  }
  // Where the connection ends early, nobody waits for the answer.
  ~Lines() { cancelled_->Cancel(); }

  // Waits for the next message; false at the end, whose status is then set.
  bool Next(v1::StreamDecodeResponse& message, absl::Status& end) {
    constexpr absl::Duration kLook = absl::Milliseconds(100);
    for (;;) {
      const DecodeStream::Taken taken = stream_->Take(message, end);
      if (taken != DecodeStream::Taken::kNothing) {
        return taken == DecodeStream::Taken::kMessage;
      }
      stream_->Wait(kLook);
      if (abandoned_() || state_.phase() == serving::Phase::kEnding) {
        cancelled_->Cancel();
      }
    }
  }

 private:
  const serving::ServingState::OpenCall open_;
  const serving::ServingState& state_;
  const std::function<bool()> abandoned_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<DecodeStream> stream_;
};

}  // namespace

HttpReply StreamReply(const HttpRequest& request, serving::Core& core,
                      const access::Identity& identity, absl::Duration timeout,
                      absl::StatusOr<v1::StreamDecodeRequest> body) {
  const auto lines = std::make_shared<Lines>(request, core, identity, timeout, std::move(body));
  v1::StreamDecodeResponse first;
  absl::Status end;
  if (!lines->Next(first, end)) {
    return ErrorReply(end);
  }
  HttpReply reply;
  reply.content_type = "application/x-ndjson";
  reply.next_piece = [lines, line = MessageReply(first).body,
                      ended = false](std::string& piece) mutable {
    if (!line.empty()) {
      piece = std::exchange(line, "");
      return true;
    }
    v1::StreamDecodeResponse message;
    absl::Status status;
    if (!ended && lines->Next(message, status)) {
      piece = MessageReply(message).body;
      return true;
    }
    if (!ended && !status.ok()) {
      ended = true;
      piece = ErrorReply(status).body;
      return true;
    }
    return false;
  };
  return reply;
}

}  // namespace beamwright::http
