// Replies that come in parts: server-sent events, and messages as lines of JSON.
#ifndef BEAMWRIGHT_SERVER_HTTP_EVENT_QUEUE_H_
#define BEAMWRIGHT_SERVER_HTTP_EVENT_QUEUE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/serving/core.h"

namespace beamwright::http {

// EventQueue: the server-sent events of a reply (HTML Standard, section 9.2), from the call that
// makes them to the connection that sends them.

// One thread at a time.
class EventQueue {
 public:
  // data: one line.
  void Add(absl::string_view data);
  // The last event: `last`, or of a call that failed its error. No other may follow.
  void End(const absl::Status& status, absl::string_view last);

  bool is_empty() const { return events_.empty(); }
  // The events that wait, as HttpReply::next_piece has it. False: all were sent.
  bool NextPiece(std::string& piece);

 private:
  std::string events_;
  bool has_ended_ = false;
};

// A reply whose body is events.
HttpReply EventReply(std::function<bool(std::string&)> next_piece);

// A StreamDecode call over HTTP: the messages as lines of JSON (application/x-ndjson), each sent as
// soon as it is there.

// No thread waits for a message. A call that fails before the first one has its own HTTP status;
// one that fails later ends with a line {"error": ...}. A client that hangs up cancels, and so does
// a server that ends.
HttpReply StreamReply(const HttpRequest& request, serving::Core& core, const Asked& asked,
                      absl::StatusOr<v1::StreamDecodeRequest> body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_EVENT_QUEUE_H_
