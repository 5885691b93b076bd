// 1. EventQueue: server-sent events that were added and not written yet. NextPiece hands them all
//    to the connection, which asks again when it has written them; an error is the last event.
// 2. StreamReply: a StreamDecode call whose messages are lines of JSON. Lines answers with a status
//    as soon as the first message or the error is there (Take), and the connection pulls a line at
//    a time (NextPiece), so a client that reads slowly holds up its search and no memory.
#include "server/http/event_queue.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/serving/decode_stream.h"

namespace beamwright::http {

void EventQueue::Add(absl::string_view data) {
  absl::StrAppend(&events_, "data: ", absl::StripTrailingAsciiWhitespace(data), "\n\n");
}

void EventQueue::End(const absl::Status& status, absl::string_view last) {
  Add(status.ok() ? last : absl::string_view(ErrorReply(status).body));
  has_ended_ = true;
}

bool EventQueue::NextPiece(std::string& piece) {
  if (events_.empty() && has_ended_) {
    return false;
  }
  piece = std::exchange(events_, "");
  return true;
}

HttpReply EventReply(std::function<bool(std::string&)> next_piece) {
  HttpReply reply;
  reply.content_type = "text/event-stream";
  reply.headers = {{"Cache-Control", "no-cache"}};
  reply.next_piece = std::move(next_piece);
  return reply;
}

namespace {

using serving::DecodeStream;

// One call; its messages are taken on one worker at a time.
class Lines final : public CancellableReply {
 public:
  Lines(const HttpRequest& request, serving::Core& core)
      : CancellableReply(request, core.state()), open_(core.state()) {}

  void Start(const HttpRequest& request, serving::Core& core, const Asked& asked,
             absl::StatusOr<v1::StreamDecodeRequest> body) {
    stream_ = DecodeStream::Start(core, std::move(body), CallerOf(request, asked, cancelled()),
                                  [bell = bell()] { bell->Ring(); });
  }

  // With the first message. A call that fails before it has its HTTP status.
  std::optional<HttpReply> Take() override {
    v1::StreamDecodeResponse first;
    absl::Status end;
    switch (stream_->Take(first, end)) {
      case DecodeStream::Taken::kNothing:
        return std::nullopt;
      case DecodeStream::Taken::kEnd:
        return ErrorReply(end);
      case DecodeStream::Taken::kMessage:
        break;
    }
    HttpReply reply;
    reply.content_type = "application/x-ndjson";
    line_ = MessageReply(first).body;
    reply.next_piece = [this](std::string& piece) { return NextPiece(piece); };
    return reply;
  }

 private:
  bool NextPiece(std::string& piece) {
    if (!line_.empty()) {
      piece = std::exchange(line_, "");
      return true;
    }
    if (has_ended_) {
      return false;
    }
    v1::StreamDecodeResponse message;
    absl::Status end;
    switch (stream_->Take(message, end)) {
      case DecodeStream::Taken::kNothing:
        return true;  // it is empty
      case DecodeStream::Taken::kMessage:
        piece = MessageReply(message).body;
        return true;
      case DecodeStream::Taken::kEnd:
        break;
    }
    has_ended_ = true;
    if (end.ok()) {
      return false;
    }
    piece = ErrorReply(end).body;
    return true;
  }

  const serving::ServingState::OpenCall open_;
  std::shared_ptr<DecodeStream> stream_;
  std::string line_;  // the first one
  bool has_ended_ = false;
};

}  // namespace

HttpReply StreamReply(const HttpRequest& request, serving::Core& core, const Asked& asked,
                      absl::StatusOr<v1::StreamDecodeRequest> body) {
  const auto lines = std::make_shared<Lines>(request, core);
  lines->Start(request, core, asked, std::move(body));
  HttpReply reply;
  reply.later = lines;
  return reply;
}

}  // namespace beamwright::http
