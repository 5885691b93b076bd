// POST /v1/completions, as OpenAI's clients send it: a prompt goes on. docs/client.md has the
// fields.
#ifndef BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_
#define BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_

#include "server/http/completion_json.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/serving/core.h"

namespace beamwright::http {

// A Decode call, or with `stream` a StreamDecode call whose events are those of OpenAI. No thread
// waits for it.
HttpReply Complete(const HttpRequest& request, serving::Core& core, const Asked& asked);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_COMPLETION_H_
