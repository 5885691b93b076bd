#include "server/http/transcript.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "ops/base/json_writer.h"
#include "server/http/replies.h"
#include "server/serving/words.h"

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
Heard WhenHeard(const engine::DecodeModel& model, const v1::RecognizedSegment& segment) {
  const std::vector<serving::Word> words = serving::WordsOf(model, Best(segment));
  return words.empty() ? Heard{segment.begin_ms(), segment.end_ms()}
                       : Heard{segment.begin_ms() + words.front().begin_ms,
                               segment.begin_ms() + words.back().end_ms};
}

std::string SubtitleTime(double ms, char mark) {
  const auto all = static_cast<int64_t>(std::llround(ms));
  return absl::StrFormat("%02d:%02d:%02d%c%03d", all / 3'600'000, all / 60'000 % 60,
                         all / 1000 % 60, mark, all % 1000);
}

std::string Subtitles(const engine::DecodeModel& model, const Transcript& transcript, bool is_vtt) {
  std::string text = is_vtt ? "WEBVTT\n\n" : "";
  int number = 0;
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    const Heard heard = WhenHeard(model, segment);
    const char mark = is_vtt ? '.' : ',';
    if (!is_vtt) {
      absl::StrAppend(&text, ++number, "\n");
    }
    absl::StrAppend(
        &text, SubtitleTime(heard.begin_ms, mark), " --> ", SubtitleTime(heard.end_ms, mark), "\n",
        absl::StrReplaceAll(Best(segment).text(), {{"-->", "->"}, {"\n", " "}}), "\n\n");
  }
  return text;
}

void WriteSegments(const engine::DecodeModel& model, const Transcript& transcript,
                   JsonWriter& json) {
  json.Key("segments").BeginArray();
  int id = 0;
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    const v1::Hypothesis& best = Best(segment);
    const Heard heard = WhenHeard(model, segment);
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

void WriteWords(const engine::DecodeModel& model, const Transcript& transcript, JsonWriter& json) {
  json.Key("words").BeginArray();
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    for (const serving::Word& word : serving::WordsOf(model, Best(segment))) {
      json.BeginObject().Key("word").String(word.text);
      json.Key("start").Double(AsSeconds(segment.begin_ms() + word.begin_ms));
      json.Key("end").Double(AsSeconds(segment.begin_ms() + word.end_ms)).EndObject();
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

std::string Event(absl::string_view type, absl::string_view key, const std::string& text) {
  JsonWriter json;
  json.BeginObject().Key("type").String(type).Key(key).String(text).EndObject();
  return absl::StrCat("data: ", json.text(), "\n\n");
}

}  // namespace

std::string TextOf(const Transcript& transcript) {
  std::string text;
  for (const v1::RecognizedSegment& segment : transcript.segments) {
    const std::string& part = Best(segment).text();
    absl::StrAppend(&text, text.empty() ? "" : " ", part);
  }
  return text;
}

HttpReply TranscriptReply(const engine::DecodeModel& model, const Transcript& transcript,
                          TranscriptFormat format, bool has_words) {
  if (format == TranscriptFormat::kText) {
    return PlainReply(TextOf(transcript) + "\n");
  }
  if (format == TranscriptFormat::kSrt || format == TranscriptFormat::kVtt) {
    return PlainReply(Subtitles(model, transcript, format == TranscriptFormat::kVtt));
  }
  JsonWriter json;
  json.BeginObject();
  if (format == TranscriptFormat::kVerboseJson) {
    json.Key("task").String("transcribe").Key("language").String(transcript.language);
    json.Key("duration").Double(AsSeconds(transcript.duration_seconds * 1000));
  }
  json.Key("text").String(TextOf(transcript));
  if (format == TranscriptFormat::kVerboseJson) {
    WriteSegments(model, transcript, json);
    if (has_words) {
      WriteWords(model, transcript, json);
    }
  }
  json.EndObject();
  return JsonReply(json);
}

std::string DeltaEvent(const std::string& delta) {
  return Event("transcript.text.delta", "delta", delta);
}

std::string DoneEvent(const std::string& text) {
  return Event("transcript.text.done", "text", text);
}

}  // namespace beamwright::http
