// POST /v1/completions, as OpenAI's clients send it: a prompt goes on. docs/client.md has the
// fields.
#ifndef BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_
#define BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/serving/core.h"

namespace beamwright::http {

struct CompletionBody {
  v1::StreamDecodeRequest request;  // its target prefix is the prompt
  std::vector<std::string> stop;
  int logprobs = -1;  // most probable tokens of each place; -1: no log-probabilities
  bool echo = false;
  bool streams = false;
};

// InvalidArgument naming every member that is missing, wrong, or not served. bundle::StrictJson's
// errors where the body is no JSON.
absl::StatusOr<CompletionBody> ReadCompletionBody(const std::string& body);

// Where the first of `stop` begins in `text`, from `from` on; npos: nowhere.
size_t FindStop(absl::string_view text, const std::vector<std::string>& stop, size_t from);

// How much of `text` may be sent while it grows: all but an end that may become one of `stop`.
size_t SafeLength(absl::string_view text, const std::vector<std::string>& stop);

// A Decode call, or with `stream` a StreamDecode call whose events are those of OpenAI. No thread
// waits for it.
HttpReply Complete(const HttpRequest& request, serving::Core& core, const Asked& asked);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_
