// A transcript in the forms of OpenAI's audio API: JSON, plain text, subtitles, server-sent events.
#ifndef BEAMWRIGHT_SERVER_HTTP_TRANSCRIPT_H_
#define BEAMWRIGHT_SERVER_HTTP_TRANSCRIPT_H_

#include <string>
#include <vector>

#include "beamwright/v1/recognize.pb.h"
#include "server/http/listener.h"

namespace beamwright::http {

enum class TranscriptFormat { kJson, kText, kSrt, kVtt, kVerboseJson };

// A token as it is written, with the space before it.
struct TokenScore {
  std::string bytes;
  float log_prob = 0;
};

struct Transcript {
  std::vector<v1::RecognizedSegment> segments;  // each has a text
  double duration_seconds = 0;                  // of the sound
  std::string language;                         // as the request has it
  std::vector<TokenScore> tokens;               // where the request asks for them
};

// Of all segments, with spaces between them.
std::string TextOf(const Transcript& transcript);

// verbose_json has segments and, with `has_words`, words with their times, in seconds of the sound.
// json has the log-probabilities of the tokens if there are any.
HttpReply TranscriptReply(const Transcript& transcript, TranscriptFormat format, bool has_words);

// The data of an event: {"type": "transcript.text.delta", "delta": text} or {"type":
// "transcript.text.done", "text": text}, the last one with the tokens' log-probabilities as well.
std::string DeltaEvent(const std::string& delta);
std::string DoneEvent(const Transcript& transcript);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_TRANSCRIPT_H_
