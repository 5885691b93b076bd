// Requests to /v1/completions: JSON objects as OpenAI's clients send them. docs/client.md has the
// fields.
#ifndef BEAMWRIGHT_SERVER_HTTP_COMPLETION_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_COMPLETION_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::http {

struct CompletionBody {
  v1::StreamDecodeRequest request;  // its target prefix is the prompt
  int most_choices = 0;             // the best of all samples; 0: all are answered
  int logprobs = -1;                // most probable tokens of each place; -1: no log-probabilities
  bool echo = false;
  bool streams = false;
  bool counts_streamed = false;  // the last event of a stream has the numbers of tokens
};

// InvalidArgument naming every member that is missing, wrong, or not served. ReadObject's errors
// where the body is no JSON object.
absl::StatusOr<CompletionBody> ReadCompletionBody(const std::string& body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_COMPLETION_JSON_H_
