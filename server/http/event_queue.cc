#include "server/http/event_queue.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/http/replies.h"

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

}  // namespace beamwright::http
