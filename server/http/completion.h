// POST /v1/completions, as OpenAI's clients send it: a prompt goes on. docs/client.md has the
// fields.
#ifndef BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_
#define BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/http/completion_json.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/serving/core.h"

namespace beamwright::http {

// Where the first of `stop` begins in `text`, from `from` on; npos: nowhere.
size_t FindStop(absl::string_view text, const std::vector<std::string>& stop, size_t from);

// How much of `text` may be sent while it grows: all but an end that may become one of `stop`.
size_t SafeLength(absl::string_view text, const std::vector<std::string>& stop);

// A Decode call, or with `stream` a StreamDecode call whose events are those of OpenAI. No thread
// waits for it.
HttpReply Complete(const HttpRequest& request, serving::Core& core, const Asked& asked);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_
