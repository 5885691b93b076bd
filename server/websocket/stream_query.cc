// Reads the query of a WebSocket's address into the configuration of a stream:
// ws://host:port/?model=asr&sample_rate=16000. ReadStreamQuery splits and unescapes the parameters,
// Set sets each; faults are collected, but not without end. Values of `options` and `endpoint` are
// JSON, checked as in a request body.
//
// What a client leaves out is chosen so that clients of sherpa-onnx work without a change: the
// default model or the only one with sound, f32 samples of the model's rate, and segments where the
// model can make them.
#include "server/websocket/stream_query.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/rules.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "server/http/message_json.h"
#include "server/http/request_parts.h"
#include "server/serving/decode_stream.h"
#include "server/serving/sound_windows.h"

namespace beamwright::websocket {
namespace {

constexpr int kMaxTimeoutMs = 24 * 3600 * 1000;
// The answer is not to be a hundred times as large as the question.
constexpr size_t kMostWrong = 20;
constexpr char kParameters[] =
    "model, version, samples, sample_rate, provisional, endpoint, language, options, timeout_ms";

// A name or a value of a query, where '+' is a space (URL Standard, 5.1). False: a wrong escape.
bool ReadPart(absl::string_view text, std::string& plain) {
  return http::Unescape(absl::StrReplaceAll(text, {{"+", " "}}), plain);
}

// A message in JSON, whose faults are those of the parameter.
void ReadJson(const std::string& name, const std::string& text, google::protobuf::Message& message,
              status::Faults& faults) {
  if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) {
    faults.Add(name, "must be a JSON object");
    return;
  }
  const absl::Status status = http::ReadRequest(text, message);
  for (const status::Fault& fault : status::FaultsOf(status)) {
    faults.Add(fault.field.empty() ? name : absl::StrCat(name, ".", fault.field), fault.text);
  }
}

// Sets one parameter; false: there is no such one.
bool Set(const std::string& name, const std::string& value, StreamQuery& query,
         status::Faults& faults) {
  v1::RecognizeConfig& config = query.config;
  if (name == "model") {
    config.set_model(value);
  } else if (name == "version") {
    config.set_version(value);
  } else if (name == "samples") {
    if (value != "f32" && value != "pcm16") {
      faults.Add(name, "'", value, "' is neither f32 nor pcm16");
    }
    config.mutable_audio()->set_samples(value == "pcm16" ? v1::SAMPLE_FORMAT_PCM16
                                                         : v1::SAMPLE_FORMAT_F32);
  } else if (name == "sample_rate") {
    int rate = 0;
    if (!absl::SimpleAtoi(value, &rate)) {
      faults.Add(name, "'", value, "' is not a whole number");
    }
    config.mutable_audio()->set_sample_rate(rate);
  } else if (name == "provisional") {
    if (value != "true" && value != "false" && value != "n_best") {
      faults.Add(name, "'", value, "' is neither true, false nor n_best");
    }
    config.set_provisional(value != "false");
    config.set_provisional_n_best(value == "n_best");
  } else if (name == "endpoint") {
    config.clear_endpoint();
    if (value != "none") {
      ReadJson(name, value, *config.mutable_endpoint(), faults);
    }
  } else if (name == "language") {
    config.set_language(value);
  } else if (name == "options") {
    ReadJson(name, value, *config.mutable_options(), faults);
  } else if (name == "timeout_ms") {
    int ms = 0;
    if (!absl::SimpleAtoi(value, &ms) || ms < 1 || ms > kMaxTimeoutMs) {
      faults.Add(name, "'", value, "' is outside [1, ", kMaxTimeoutMs, "]");
    }
    query.timeout = absl::Milliseconds(ms);
  } else {
    return false;
  }
  return true;
}

// The name of the only model that takes sound; empty if there is not exactly one.
std::string OnlyModelWithSound(const serving::ModelRegistry& models) {
  std::set<std::string> names;
  for (const serving::ServedModelPtr& model : models.AllListed()) {
    if (model->config().has_sound()) {
      names.insert(model->name());
    }
  }
  return names.size() == 1 ? *names.begin() : "";
}

}  // namespace

absl::StatusOr<StreamQuery> ReadStreamQuery(absl::string_view target,
                                            const std::string& default_model,
                                            const serving::ModelRegistry& models) {
  StreamQuery query;
  query.config.set_provisional(true);
  query.config.mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
  bool has_endpoint = false;
  status::Faults faults;
  const size_t mark = target.find('?');
  if (mark != absl::string_view::npos) {
    for (const absl::string_view pair : absl::StrSplit(target.substr(mark + 1), '&')) {
      if (pair.empty()) {
        continue;
      }
      if (faults.size() >= kMostWrong) {
        break;
      }
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(pair, absl::MaxSplits('=', 1));
      std::string name;
      std::string value;
      if (!ReadPart(parts.first, name) || !ReadPart(parts.second, value)) {
        faults.Add(parts.first, "has a '%' without two hexadecimal digits, or a NUL");
        continue;
      }
      has_endpoint = has_endpoint || name == "endpoint";
      if (!Set(name, value, query, faults)) {
        faults.Add(name, "is not a parameter of a stream; there are ", kParameters);
      }
    }
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  BW_RETURN_IF_ERROR(bundle::CheckBounds(query.config));
  if (query.config.model().empty()) {
    query.config.set_model(default_model.empty() ? OnlyModelWithSound(models) : default_model);
  }
  BW_ASSIGN_OR_RETURN(const serving::ModelPtr model,
                      models.Lookup(query.config.model(), query.config.version()));
  if (model->parts().sound == nullptr) {
    return status::InvalidField("model", "the bundle of '", model->name(),
                                "' does not say how sound becomes features (sound)");
  }
  // Clients of sherpa-onnx send sound as the model was trained on, and expect segments.
  if (!query.config.audio().has_sample_rate()) {
    query.config.mutable_audio()->set_sample_rate(model->parts().sound->sample_rate());
  }
  if (!has_endpoint && serving::TakesEndpoint(*model)) {
    query.config.mutable_endpoint();
  }
  return query;
}

// Writes results of recognition as the JSON of sherpa-onnx's server, for its clients.
//
// Append turns a response into messages. A finished segment waits until the next response
// (waiting_), since the last message of a source has is_final and is_eof, and it is not known
// before whether another follows. Provisional text is written only if it has changed (told_).

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
