// OpenAI's transcriptions as Recognize calls: a form with a sound file goes in, its text comes out.
//
// 1. ReadTranscriptionForm reads the fields of the form (ReadField).
// 2. Transcriber::Open finds the model and opens the file, and sets the configuration: format of
//    the sound, endpoint rules where the model takes them, phrases of the prompt as hotwords
//    (AddHotwords), the language, and times if the format of the answer shows them.
// 3. Start begins the Recognition. From then on nothing waits: when the bell rings a worker calls
//    Take, and Advance adds half seconds of sound until the recognition is full, and takes its
//    messages. After kMostPieces the worker serves other requests first.
// 4. TakeMessages collects segments into the transcript. For a stream, each message becomes an
//    event with the text that is new (AddDelta); a text that another model rewrites is sent at the
//    end of its segment.
// 5. At the end TranscriptReply writes the transcript in the format that was asked for.
#include "server/http/transcription.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "ops/audio/sound_file.h"
#include "ops/base/status.h"
#include "server/http/event_queue.h"
#include "server/http/message_json.h"
#include "server/http/replies.h"
#include "server/http/request_parts.h"
#include "server/serving/recognition.h"
#include "server/serving/sound_windows.h"
#include "server/serving/spoken_language.h"

namespace beamwright::http {
namespace {

constexpr char kFields[] =
    "file, model, language, languages[], prompt, keywords[], response_format, include[], "
    "chunking_strategy, temperature, timestamp_granularities[], stream, options";
// Fields that may be given several times, with or without [] behind their names.
constexpr const char* kLists[] = {"timestamp_granularities", "include", "keywords", "languages"};

// The name of a list without its brackets; empty: the field is no list.
absl::string_view ListOf(absl::string_view field) {
  field = absl::StripSuffix(field, "[]");
  for (const absl::string_view list : kLists) {
    if (field == list) {
      return list;
    }
  }
  return "";
}

absl::Status ReadFormat(absl::string_view value, TranscriptFormat& format) {
  constexpr std::pair<const char*, TranscriptFormat> kFormats[] = {
      {"json", TranscriptFormat::kJson},
      {"text", TranscriptFormat::kText},
      {"srt", TranscriptFormat::kSrt},
      {"vtt", TranscriptFormat::kVtt},
      {"verbose_json", TranscriptFormat::kVerboseJson}};
  for (const auto& [name, meant] : kFormats) {
    if (value == name) {
      format = meant;
      return absl::OkStatus();
    }
  }
  return status::InvalidField("response_format",
                              "is none of json, text, srt, vtt and verbose_json");
}

// A member of chunking_strategy. Pauses end segments; all sound before them is in a segment, so no
// padding is needed, and the model or the loudness decides what is speech, so there is no
// threshold.
absl::Status ReadStrategy(absl::string_view member, const std::string& value,
                          v1::RecognizeConfig& config) {
  constexpr int kMostMs = 600'000;
  const std::string field = absl::StrCat("chunking_strategy[", member.substr(0, 100), "]");
  double number = 0;
  if (member == "type") {
    return value == "server_vad" ? absl::OkStatus()
                                 : status::InvalidField(field, "is not server_vad");
  }
  const bool is_number = absl::SimpleAtod(value, &number);
  if (member == "threshold") {
    return is_number && number >= 0 && number <= 1
               ? absl::OkStatus()
               : status::InvalidField(field, "is not a number from 0 to 1");
  }
  if (member != "silence_duration_ms" && member != "prefix_padding_ms") {
    return status::InvalidField(field,
                                "is no member; there are type, silence_duration_ms, "
                                "prefix_padding_ms and threshold");
  }
  const bool is_silence = member == "silence_duration_ms";
  if (!is_number || !(number >= (is_silence ? 1 : 0) && number <= kMostMs) ||
      number != std::floor(number)) {
    return status::InvalidField(field, "is not a whole number from ", is_silence ? 1 : 0, " to ",
                                kMostMs);
  }
  if (is_silence) {
    config.mutable_endpoint()->set_pause_ms(static_cast<int>(number));
  }
  return absl::OkStatus();
}

// "auto", or the object as JSON.
absl::Status ReadStrategies(const std::string& value, v1::RecognizeConfig& config) {
  if (value == "auto") {
    return absl::OkStatus();
  }
  const absl::StatusOr<google::protobuf::Struct> object = ReadObject(value);
  if (!object.ok()) {
    return status::InvalidField("chunking_strategy",
                                "is neither auto nor an object of the type server_vad");
  }
  for (const auto& [name, member] : object->fields()) {
    BW_RETURN_IF_ERROR(ReadStrategy(
        name,
        member.has_number_value() ? absl::StrCat(member.number_value()) : member.string_value(),
        config));
  }
  return absl::OkStatus();
}

absl::Status ReadListItem(absl::string_view list, std::string value, TranscriptionForm& form) {
  if (list == "keywords") {
    form.keywords.push_back(std::move(value));
  } else if (list == "languages") {
    // Several are a hint; the model hears which one it is.
    form.languages.push_back(std::move(value));
  } else if (list == "include") {
    if (value != "logprobs") {
      return status::InvalidField("include[]", "is not logprobs");
    }
    form.has_log_probs = true;
  } else {
    if (value != "word" && value != "segment") {
      return status::InvalidField("timestamp_granularities[]", "is neither word nor segment");
    }
    form.has_words = form.has_words || value == "word";
  }
  return absl::OkStatus();
}

absl::Status ReadField(const FormPart& part, TranscriptionForm& form) {
  constexpr size_t kMostBytes = size_t{16} << 10;  // a prompt takes many times its size when read
  constexpr size_t kMostOptionsBytes = size_t{1} << 20;
  constexpr absl::string_view kStrategy = "chunking_strategy[";
  if (absl::StartsWith(part.name, "known_speaker_")) {
    return status::InvalidField(part.name.substr(0, 100),
                                "is not served: no model says who speaks");
  }
  const size_t most_bytes = part.name == "options" ? kMostOptionsBytes : kMostBytes;
  if (part.name != "file" && part.content.size() > most_bytes) {
    return status::InvalidField(part.name.substr(0, 100), part.content.size(), " bytes; at most ",
                                most_bytes, " are allowed");
  }
  std::string value(part.content);
  if (const absl::string_view list = ListOf(part.name); !list.empty()) {
    return ReadListItem(list, std::move(value), form);
  }
  if (part.name == "file") {
    form.file = std::move(value);  // the largest part by far
  } else if (part.name == "model") {
    form.config.set_model(value);
  } else if (part.name == "language") {
    form.language = value;
  } else if (part.name == "prompt") {
    form.prompt = value;
  } else if (part.name == "response_format") {
    return ReadFormat(value, form.format);
  } else if (part.name == "temperature") {
    double temperature = 0;  // of sampling, which a search by frames has not
    if (!absl::SimpleAtod(value, &temperature) || !(temperature >= 0 && temperature <= 1)) {
      return status::InvalidField(part.name, "is not a number from 0 to 1");
    }
  } else if (part.name == "chunking_strategy") {
    return ReadStrategies(value, form.config);
  } else if (absl::StartsWith(part.name, kStrategy) && absl::EndsWith(part.name, "]")) {
    return ReadStrategy(part.name.substr(kStrategy.size(), part.name.size() - kStrategy.size() - 1),
                        value, form.config);
  } else if (part.name == "stream") {
    const std::string lower = absl::AsciiStrToLower(value);
    if (lower != "true" && lower != "false") {
      return status::InvalidField(part.name, "is neither true nor false");
    }
    form.streams = lower == "true";
  } else if (part.name == "options") {
    return status::AtField(ReadRequest(value, *form.config.mutable_options()), part.name);
  } else {
    return status::InvalidField(part.name.substr(0, 100),
                                "is no field of a transcription; there are ", kFields);
  }
  return absl::OkStatus();
}

// The keywords and the phrases of the prompt, between commas and line ends, that the model can
// write.
void AddHotwords(const engine::DecodeModel& model, const TranscriptionForm& form,
                 v1::DecodeOptions& options) {
  constexpr int kMost = 64;
  int num_added = 0;
  std::vector<absl::string_view> phrases(form.keywords.begin(), form.keywords.end());
  for (const absl::string_view phrase : absl::StrSplit(form.prompt, absl::ByAnyChar(",;\n\r"))) {
    phrases.push_back(phrase);
  }
  for (absl::string_view phrase : phrases) {
    phrase = absl::StripAsciiWhitespace(phrase);
    if (!phrase.empty() && num_added < kMost && model.target().EncodePart(phrase).ok()) {
      options.add_hotwords()->set_text(std::string(phrase));
      ++num_added;
    }
  }
}

// One call. Workers call Take and NextPiece, one at a time; its bell rings when the engine has news
// or room for sound.
class Transcriber final : public PendingReply {
 public:
  Transcriber(const HttpRequest& request, serving::Core& core, TranscriptionForm form)
      : core_(core), abandoned_(request.abandoned), form_(std::move(form)) {}
  // The connection may have ended early: then no client waits for the answer.
  ~Transcriber() override { GiveUp(); }

  // The file must have been opened, and the model found.
  absl::Status Open() {
    BW_ASSIGN_OR_RETURN(hold_, core_.memory().Reserve(static_cast<int64_t>(form_.file.size())));
    BW_ASSIGN_OR_RETURN(model_,
                        core_.models().Lookup(form_.config.model(), form_.config.version()));
    absl::StatusOr<std::unique_ptr<audio::SoundFile>> file =
        audio::SoundFile::Open(form_.file, /*channel=*/0);
    if (!file.ok()) {
      return status::InvalidField("file", file.status().message());
    }
    file_ = *std::move(file);
    form_.config.mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
    form_.config.mutable_audio()->set_sample_rate(file_->sample_rate());
    if (serving::TakesEndpoint(*model_)) {
      form_.config.mutable_endpoint();
    }
    AddHotwords(*model_, form_, *form_.config.mutable_options());
    v1::DecodeOptions& options = *form_.config.mutable_options();
    const bool is_any = form_.language.empty() && !options.has_target_prefix();
    if (form_.format != TranscriptFormat::kJson && form_.format != TranscriptFormat::kText) {
      serving::AskForTimes(*model_, options);
    }
    if (is_any) {
      form_.config.set_language(serving::kAnyLanguage);
    } else if (!serving::LanguageOf(*model_, options).empty() && !form_.language.empty()) {
      BW_RETURN_IF_ERROR(serving::SetLanguage(*model_, form_.language, options));
    }
    return absl::OkStatus();
  }

  void Start(serving::Caller caller) {
    const auto ring = [bell = bell()] { bell->Ring(); };
    recognition_ = serving::Recognition::Make(core_, std::move(caller), ring, ring);
    v1::RecognizeRequest first;
    *first.mutable_config() = form_.config;
    recognition_->Add(std::move(first));
    bell()->Ring();
  }

  std::optional<HttpReply> Take() override {
    Advance();
    if (has_ended_ && !end_.ok()) {
      return ErrorReply(end_);
    }
    if (!events_.is_empty()) {
      return EventReply([this](std::string& piece) {
        Advance();
        return events_.NextPiece(piece);
      });
    }
    if (!has_ended_) {
      return std::nullopt;
    }
    return TranscriptReply(transcript_, form_.format, form_.has_words);
  }

  void Look() override {
    if (abandoned_() || core_.state().phase() == serving::Phase::kEnding) {
      GiveUp();
    }
  }

 private:
  // On another thread: giving up rings the bell, whose lock may be held here.
  void GiveUp() {
    if (recognition_ != nullptr) {
      core_.replies().Post([recognition = recognition_] { recognition->GiveUp(); });
    }
  }

  // Adds sound while the recognition has room, and takes its messages.
  void Advance() {
    constexpr int kMostPieces = 32;  // before other requests have the worker
    TakeMessages();
    for (int i = 0; i < kMostPieces && !has_ended_ && !is_complete_; ++i) {
      if (recognition_->is_full()) {
        return;  // the bell rings when there is room
      }
      AddPiece();
      TakeMessages();
    }
    if (!has_ended_ && !is_complete_) {
      bell()->Ring();
    }
  }

  void AddPiece() {
    const auto rate = static_cast<size_t>(file_->sample_rate());
    std::vector<float> samples;
    // Half a second, which is less than kMaxPieceBytes at any rate that is served.
    if (const absl::Status status = file_->Read(rate / 2 + 1, samples); !status.ok()) {
      recognition_->Add(status::InvalidField("file", status.message()));
      is_complete_ = true;
      return;
    }
    if (samples.empty()) {
      recognition_->Finish();
      is_complete_ = true;
      return;
    }
    num_samples_ += samples.size();
    transcript_.duration_seconds = static_cast<double>(num_samples_) / static_cast<double>(rate);
    v1::RecognizeRequest piece;
    piece.set_audio(samples.data(), samples.size() * sizeof(float));
    recognition_->Add(std::move(piece));
  }

  void TakeMessages() {
    v1::RecognizeResponse message;
    while (!has_ended_) {
      switch (recognition_->Take(message, end_)) {
        case serving::Recognition::Taken::kNothing:
          return;
        case serving::Recognition::Taken::kEnd:
          has_ended_ = true;
          if (transcript_.language.empty()) {
            transcript_.language = form_.language;
          }
          if (form_.has_log_probs) {
            AddTokens();
          }
          if (form_.streams) {
            events_.End(end_, DoneEvent(transcript_));
          }
          return;
        case serving::Recognition::Taken::kMessage:
          break;
      }
      if (message.has_summary()) {
        transcript_.language = message.summary().language();
      }
      for (v1::RecognizedSegment& segment : *message.mutable_segments()) {
        AddDelta(segment.hypotheses().empty() ? "" : segment.hypotheses(0).text());
        sent_text_.clear();
        if (!segment.hypotheses().empty() && !segment.hypotheses(0).text().empty()) {
          transcript_.segments.push_back(std::move(segment));  // others are silence
        }
      }
      // A rewritten text differs from the stable one: it is sent at its end.
      if (message.has_stable() && !model_->config().has_rewrite()) {
        AddDelta(message.stable().text());
      }
    }
  }

  // The tokens of all segments' texts, as they were heard.
  void AddTokens() {
    const bundle::TextCodec& target = model_->target();
    const std::vector<int32_t>& ends = target.end_ids();
    for (const v1::RecognizedSegment& segment : transcript_.segments) {
      const v1::Hypothesis& best = segment.hypotheses(0);
      int32_t before = -1;
      for (int i = best.prefix_length(); i < best.tokens_size(); ++i) {
        const int32_t token = best.tokens(i);
        if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
          continue;
        }
        std::string bytes = target.WrittenBehind(token, before);
        if (before < 0 && !transcript_.tokens.empty() && !absl::StartsWith(bytes, " ")) {
          bytes.insert(0, 1, ' ');  // between segments
        }
        transcript_.tokens.push_back({std::move(bytes), best.token_log_probs(i)});
        before = token;
      }
    }
  }

  // Adds an event with the part of the current segment's text that was not sent yet.
  void AddDelta(absl::string_view text) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (!form_.streams || text.size() <= sent_text_.size() || !absl::StartsWith(text, sent_text_)) {
      return;
    }
    const bool is_next = sent_text_.empty() && has_sent_delta_;
    events_.Add(DeltaEvent(absl::StrCat(is_next ? " " : "", text.substr(sent_text_.size()))));
    sent_text_ = std::string(text);
    has_sent_delta_ = true;
  }

  serving::Core& core_;
  const std::function<bool()> abandoned_;
  TranscriptionForm form_;
  serving::MemoryAccount::Hold hold_;  // of the file
  serving::ModelPtr model_;
  std::unique_ptr<audio::SoundFile> file_;  // of form_.file
  std::shared_ptr<serving::Recognition> recognition_;
  size_t num_samples_ = 0;
  bool is_complete_ = false;  // all of the file was added
  bool has_ended_ = false;
  absl::Status end_;
  Transcript transcript_;
  // Of a stream.
  EventQueue events_;
  std::string sent_text_;        // of the segment that goes on
  bool has_sent_delta_ = false;  // anything at all
};

}  // namespace

absl::StatusOr<TranscriptionForm> ReadTranscriptionForm(absl::string_view content_type,
                                                        absl::string_view body) {
  BW_ASSIGN_OR_RETURN(const std::vector<FormPart> parts, ParseForm(content_type, body));
  TranscriptionForm form;
  std::set<std::string> seen;
  for (const FormPart& part : parts) {
    if (ListOf(part.name).empty() && !seen.insert(part.name).second) {
      return status::InvalidField(part.name.substr(0, 100), "is given twice");
    }
    BW_RETURN_IF_ERROR(ReadField(part, form));
  }
  for (const char* needed : {"file", "model"}) {
    if (seen.count(needed) == 0) {
      return status::InvalidField(needed, "is missing");
    }
  }
  if (form.has_log_probs && form.format != TranscriptFormat::kJson) {
    return status::InvalidField("include[]", "logprobs need the response_format json");
  }
  if (form.language.empty() && form.languages.size() == 1) {
    form.language = form.languages[0];
  }
  return form;
}

HttpReply Transcribe(const HttpRequest& request, serving::Core& core, const Asked& asked) {
  serving::Caller caller = CallerOf(request, asked);
  absl::StatusOr<TranscriptionForm> form =
      ReadTranscriptionForm(request.header("Content-Type"), request.body);
  std::shared_ptr<Transcriber> transcriber;
  absl::Status status = form.status();
  if (status.ok()) {
    transcriber = std::make_shared<Transcriber>(request, core, *std::move(form));
    status = transcriber->Open();
  }
  if (!status.ok()) {
    core.calls().Refuse(status, caller);
    return ErrorReply(status);
  }
  transcriber->Start(std::move(caller));
  HttpReply reply;
  reply.later = transcriber;
  return reply;
}

}  // namespace beamwright::http
