// POST /v1/audio/transcriptions, as OpenAI's clients send it: a recording in a form, its text in
// the answer, or in server-sent events while it is recognised. docs/speech.md has the fields.
#ifndef BEAMWRIGHT_SERVER_HTTP_TRANSCRIPTION_H_
#define BEAMWRIGHT_SERVER_HTTP_TRANSCRIPTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/recognize.pb.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/http/transcript.h"
#include "server/serving/core.h"

namespace beamwright::http {

// Of a body: OpenAI's clients send files of at most 25 MiB.
inline constexpr size_t kMaxTranscriptionBytes = size_t{26} << 20;

struct TranscriptionForm {
  std::string file;            // the recording
  v1::RecognizeConfig config;  // model and options
  std::string prompt;
  std::vector<std::string> keywords;
  std::string language;
  std::vector<std::string> languages;  // that the sound may have
  TranscriptFormat format = TranscriptFormat::kJson;
  bool has_words = false;
  bool has_log_probs = false;
  bool streams = false;
};

// InvalidArgument naming the field: see ParseForm; a field that is missing, unknown or given twice,
// or whose value is not allowed.
absl::StatusOr<TranscriptionForm> ReadTranscriptionForm(absl::string_view content_type,
                                                        absl::string_view body);

// A Recognize call whose sound is the file's. No thread waits for it: workers decode the file as
// far as the engine takes sound. A client that hangs up cancels, and so does a server that ends.
HttpReply Transcribe(const HttpRequest& request, serving::Core& core, const Asked& asked);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_TRANSCRIPTION_H_
