// A StreamDecode call over HTTP: the messages as lines of JSON (application/x-ndjson), each sent as
// soon as it is there.
#ifndef BEAMWRIGHT_SERVER_HTTP_STREAM_REPLY_H_
#define BEAMWRIGHT_SERVER_HTTP_STREAM_REPLY_H_

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/serving/core.h"

namespace beamwright::http {

// No thread waits for a message. A call that fails before the first one has its own HTTP status;
// one that fails later ends with a line {"error": ...}. A client that hangs up cancels, and so does
// a server that ends.
HttpReply StreamReply(const HttpRequest& request, serving::Core& core, const Asked& asked,
                      absl::StatusOr<v1::StreamDecodeRequest> body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_STREAM_REPLY_H_
