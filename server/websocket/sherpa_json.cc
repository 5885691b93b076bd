// Writes results of recognition as the JSON of sherpa-onnx's server, for its clients.
//
// Append turns a response into messages. A finished segment waits until the next response
// (waiting_), since the last message of a source has is_final and is_eof, and it is not known
// before whether another follows. Provisional text is written only if it has changed (told_).
#include "server/websocket/sherpa_json.h"

#include <cmath>

#include "absl/strings/str_replace.h"
#include "ops/base/json_writer.h"
#include "server/serving/partial_answer.h"

namespace beamwright::websocket {
namespace {

constexpr double kMsPerSecond = 1000;

// To the millisecond, as times of frames are read.
double Seconds(double ms) { return std::round(ms) / kMsPerSecond; }

// A piece as sherpa-onnx prints it: with a space for the mark of a word's beginning.
std::string PieceText(const std::string& token) {
  return absl::StrReplaceAll(token, {{"\xe2\x96\x81", " "}});
}

}  // namespace

std::string SherpaJson::Write(const v1::RecognizedSegment& segment, bool is_final,
                              bool is_eof) const {
  static const v1::Hypothesis kNothing;
  const v1::Hypothesis& best = segment.hypotheses().empty() ? kNothing : segment.hypotheses(0);
  const double frame_ms = model_.config().frame_ms();
  JsonWriter json;
  json.BeginObject().Key("text").String(best.text());
  json.Key("tokens").BeginArray();
  for (const int32_t token : best.tokens()) {
    json.String(PieceText(model_.target().TokenText(token)));
  }
  json.EndArray().Key("timestamps").BeginArray();
  if (frame_ms > 0) {
    for (const int32_t frame : best.token_frames()) {
      json.Double(Seconds(frame * frame_ms));
    }
  }
  json.EndArray().Key("ys_probs").BeginArray();
  for (const float log_prob : best.token_log_probs()) {
    json.Float(log_prob);
  }
  json.EndArray();
  for (const char* unknown : {"lm_probs", "context_scores"}) {
    json.Key(unknown).BeginArray().EndArray();
  }
  json.Key("words").BeginArray();
  for (const v1::Word& word : segment.words()) {
    json.BeginObject().Key("word").String(word.text());
    json.Key("start").Double(Seconds(word.begin_ms() - segment.begin_ms()));
    json.Key("end").Double(Seconds(word.end_ms() - segment.begin_ms()));
    json.Key("confidence").Double(std::round(word.confidence() * 1000) / 1000).EndObject();
  }
  json.EndArray();
  json.Key("segment").Int(segment.number());
  json.Key("start_time").Double(Seconds(segment.begin_ms()));
  json.Key("is_final").Bool(is_final).Key("is_eof").Bool(is_eof);
  json.Key("stable").String(is_final ? best.text() : stable_);
  if (segment.hypotheses_size() > 1) {
    json.Key("hypotheses").BeginArray();
    for (const v1::Hypothesis& hypothesis : segment.hypotheses()) {
      json.BeginObject().Key("text").String(hypothesis.text());
      json.Key("score").Double(hypothesis.score()).EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  return json.text();
}

void SherpaJson::Flush(std::vector<std::string>& texts) {
  if (waiting_.has_value()) {
    texts.push_back(Write(*waiting_, true, false));
    waiting_.reset();
  }
}

void SherpaJson::Append(const v1::RecognizeResponse& message, bool is_complete,
                        std::vector<std::string>& texts) {
  const bool is_last = message.has_summary();
  for (const v1::RecognizedSegment& segment : message.segments()) {
    Flush(texts);
    waiting_ = segment;
    so_far_.Clear();
    so_far_.set_number(segment.number() + 1);
    so_far_.set_begin_ms(segment.end_ms());
    stable_.clear();
    told_.clear();
  }
  if (is_last) {
    so_far_.clear_hypotheses();
    so_far_.clear_words();
    texts.push_back(Write(waiting_.has_value() ? *waiting_ : so_far_, true, true));
    waiting_.reset();
    return;
  }
  if (!is_complete || message.has_stable() || message.has_provisional()) {
    Flush(texts);
  }
  if (message.has_stable()) {
    stable_ = message.stable().text();
  }
  if (message.has_provisional()) {
    so_far_.clear_hypotheses();
    *so_far_.add_hypotheses() = message.provisional();
    so_far_.mutable_hypotheses()->Add(message.alternatives().begin(), message.alternatives().end());
    serving::SetWords(model_, so_far_);
  }
  if (message.has_stable() || message.has_provisional()) {
    std::string text = Write(so_far_, false, false);
    if (text != told_) {
      told_ = text;
      texts.push_back(std::move(text));
    }
  }
}

}  // namespace beamwright::websocket
