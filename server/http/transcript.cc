// Writes a transcript in the forms of OpenAI's API: text, JSON, JSON with segments and words,
// SubRip and WebVTT (TranscriptReply), and events of a stream (DeltaEvent, DoneEvent).
//
// A segment's time is from its first word to its last where words have times (WhenHeard). Members
// that clients expect, and that describe how Whisper decodes (seek, temperature, compression_ratio,
// no_speech_prob), have constant values.
#include "server/http/transcript.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ops/audio/subtitles.h"
#include "ops/base/json_writer.h"
#include "server/http/replies.h"

namespace beamwright::http {
namespace {

double AsSeconds(double ms) { return std::round(ms) / 1000; }

const v1::Hypothesis& Best(const v1::RecognizedSegment& segment) {
  return segment.hypotheses().empty() ? v1::Hypothesis::default_instance() : segment.hypotheses(0);
}

struct Heard {
  double begin_ms;
  double end_ms;
};

// From the first word to the last; the segment where words have no times.
Heard WhenHeard(const v1::RecognizedSegment& segment) {
  return segment.words().empty()
             ? Heard{segment.begin_ms(), segment.end_ms()}
             : Heard{segment.words(0).begin_ms(), segment.words().rbegin()->end_ms()};
}

std::string Subtitles(const Transcript& transcript, audio::SubtitleForm form) {
  std::string text = audio::SubtitleHeader(form);
  int number = 0;
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    const Heard heard = WhenHeard(segment);
    text += audio::Subtitle(form, ++number, heard.begin_ms, heard.end_ms, Best(segment).text());
  }
  return text;
}

void WriteSegments(const Transcript& transcript, JsonWriter& json) {
  json.Key("segments").BeginArray();
  int id = 0;
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    const v1::Hypothesis& best = Best(segment);
    const Heard heard = WhenHeard(segment);
    double log_prob = 0;
    for (const float token : best.token_log_probs()) {
      log_prob += token;
    }
    json.BeginObject().Key("id").Int(id++).Key("seek").Int(0);
    json.Key("start").Double(AsSeconds(heard.begin_ms));
    json.Key("end").Double(AsSeconds(heard.end_ms));
    json.Key("text").String(best.text()).Key("tokens").BeginArray();
    for (const int32_t token : best.tokens()) {
      json.Int(token);
    }
    json.EndArray().Key("temperature").Double(0);
    json.Key("avg_logprob").Double(log_prob / std::max(best.token_log_probs_size(), 1));
    // Whisper's signs of a text that it made up; other models have none.
    json.Key("compression_ratio").Double(1).Key("no_speech_prob").Double(0).EndObject();
  }
  json.EndArray();
}

void WriteWords(const Transcript& transcript, JsonWriter& json) {
  json.Key("words").BeginArray();
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    for (const v1::Word& word : segment.words()) {
      json.BeginObject().Key("word").String(word.text());
      json.Key("start").Double(AsSeconds(word.begin_ms()));
      json.Key("end").Double(AsSeconds(word.end_ms())).EndObject();
    }
  }
  json.EndArray();
}

HttpReply PlainReply(std::string text) {
  HttpReply reply;
  reply.content_type = "text/plain; charset=utf-8";
  reply.body = std::move(text);
  return reply;
}

// "logprobs", unless there are no tokens.
void WriteLogProbs(const std::vector<TokenScore>& tokens, JsonWriter& json) {
  if (tokens.empty()) {
    return;
  }
  json.Key("logprobs").BeginArray();
  for (const TokenScore& token : tokens) {
    json.BeginObject().Key("token").String(token.bytes).Key("bytes").BeginArray();
    for (const char byte : token.bytes) {
      json.Int(static_cast<unsigned char>(byte));
    }
    json.EndArray().Key("logprob").Float(token.log_prob).EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string TextOf(const Transcript& transcript) {
  std::string text;
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    // Byte-level BPE writes a space in front of each word, also the first one.
    const absl::string_view part = absl::StripLeadingAsciiWhitespace(Best(segment).text());
    absl::StrAppend(&text, text.empty() ? "" : " ", part);
  }
  return text;
}

HttpReply TranscriptReply(const Transcript& transcript, TranscriptFormat format, bool has_words) {
  if (format == TranscriptFormat::kText) {
    return PlainReply(TextOf(transcript) + "\n");
  }
  if (format == TranscriptFormat::kSrt || format == TranscriptFormat::kVtt) {
    return PlainReply(Subtitles(transcript, format == TranscriptFormat::kVtt
                                                ? audio::SubtitleForm::kVtt
                                                : audio::SubtitleForm::kSrt));
  }
  JsonWriter json;
  json.BeginObject();
  if (format == TranscriptFormat::kVerboseJson) {
    json.Key("task").String("transcribe").Key("language").String(transcript.language);
    json.Key("duration").Double(AsSeconds(transcript.duration_seconds * 1000));
  }
  json.Key("text").String(TextOf(transcript));
  if (format == TranscriptFormat::kVerboseJson) {
    WriteSegments(transcript, json);
    if (has_words) {
      WriteWords(transcript, json);
    }
  }
  WriteLogProbs(transcript.tokens, json);
  json.EndObject();
  return JsonReply(json);
}

std::string DeltaEvent(const std::string& delta) {
  JsonWriter json;
  json.BeginObject().Key("type").String("transcript.text.delta");
  json.Key("delta").String(delta).EndObject();
  return json.text();
}

std::string DoneEvent(const Transcript& transcript) {
  JsonWriter json;
  json.BeginObject().Key("type").String("transcript.text.done");
  json.Key("text").String(TextOf(transcript));
  WriteLogProbs(transcript.tokens, json);
  json.EndObject();
  return json.text();
}

}  // namespace beamwright::http
