#include "server/http/transcription.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "engine/status/fault.h"
#include "ops/audio/sound_file.h"
#include "ops/base/status.h"
#include "server/http/event_queue.h"
#include "server/http/multipart.h"
#include "server/http/pending_reply.h"
#include "server/http/request_json.h"
#include "server/serving/endpoint_rules.h"
#include "server/serving/recognition.h"
#include "server/serving/sources_call.h"

namespace beamwright::http {
namespace {

constexpr char kFields[] =
    "file, model, language, prompt, response_format, temperature, timestamp_granularities[], "
    "stream, options";

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

absl::Status ReadField(const FormPart& part, TranscriptionForm& form) {
  constexpr size_t kMostBytes = size_t{16} << 10;  // a prompt takes many times its size when read
  const bool is_long = part.name == "file" || part.name == "options";
  if (!is_long && part.content.size() > kMostBytes) {
    return status::InvalidField(part.name.substr(0, 100), part.content.size(), " bytes; at most ",
                                kMostBytes, " are allowed");
  }
  std::string value(part.content);
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
  } else if (part.name == "timestamp_granularities[]" || part.name == "timestamp_granularities") {
    if (value != "word" && value != "segment") {
      return status::InvalidField(part.name, "is neither word nor segment");
    }
    form.has_words = form.has_words || value == "word";
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

// Phrases of the prompt that the model can write, between commas and line ends.
void AddHotwords(const engine::DecodeModel& model, const std::string& prompt,
                 v1::DecodeOptions& options) {
  constexpr int kMost = 64;
  int num_added = 0;
  for (absl::string_view phrase : absl::StrSplit(prompt, absl::ByAnyChar(",;\n\r"))) {
    phrase = absl::StripAsciiWhitespace(phrase);
    if (!phrase.empty() && num_added < kMost && model.target().EncodePart(phrase).ok()) {
      options.add_hotwords()->set_text(std::string(phrase));
      ++num_added;
    }
  }
}

// Whether a token is that of a language, <|de|>.
bool IsLanguage(const engine::DecodeModel& model, int32_t id) {
  const std::string text = model.target().TokenText(id);
  return text.size() >= 6 && text.size() <= 7 && absl::StartsWith(text, "<|") &&
         absl::EndsWith(text, "|>") && text != "<|pnc|>" && text != "<|itn|>";
}

// Tokens of the languages that a model hears, for its answers begin with one, as Whisper's do; else
// none.
std::vector<int32_t> LanguagesHeard(const engine::DecodeModel& model) {
  const auto& prefix = model.config().default_options().target_prefix().ids().ids();
  std::vector<int32_t> languages;
  if (!prefix.empty() && IsLanguage(model, prefix[0])) {
    for (int32_t id = 0; id < model.target_vocabulary_size(); ++id) {
      if (IsLanguage(model, id)) {
        languages.push_back(id);
      }
    }
  }
  return languages;
}

// Scores of tokens of languages as the first one of an answer.
struct HeardLanguages {
  absl::Mutex mutex;
  std::optional<absl::StatusOr<v1::Scored>> scores ABSL_GUARDED_BY(mutex);  // set once
};

// Of a model whose default target prefix names the language of the sound, such as Whisper's <|en|>:
// another one in its place. Canary's prefix has that of the text, too, which follows where both are
// equal.
absl::Status SetLanguage(const engine::DecodeModel& model, const std::string& language,
                         v1::DecodeOptions& options) {
  const v1::TargetTokens& prefix = model.config().default_options().target_prefix();
  const auto& given = prefix.ids().ids();
  const auto first = std::find_if(given.begin(), given.end(),
                                  [&model](int32_t id) { return IsLanguage(model, id); });
  if (language.empty() || options.has_target_prefix() || first == given.end()) {
    return absl::OkStatus();
  }
  const int32_t id = model.target().TokenId(absl::StrCat("<|", language, "|>"));
  if (id < 0 || !IsLanguage(model, id)) {
    return status::InvalidField("language", "'", language,
                                "' is no language that the model hears; it takes codes such as en");
  }
  const int32_t before = *first;
  *options.mutable_target_prefix() = prefix;
  auto& ids = *options.mutable_target_prefix()->mutable_ids()->mutable_ids();
  std::replace(ids.begin(), ids.end(), before, id);
  return absl::OkStatus();
}

// One call. Workers call Take and NextPiece, one at a time; its bell rings when the engine has news
// or room for sound.
class Transcriber final : public PendingReply {
 public:
  Transcriber(const HttpRequest& request, serving::Core& core, TranscriptionForm form)
      : core_(core), abandoned_(request.abandoned), form_(std::move(form)) {}
  // Where the connection ends early, no client waits for the answer.
  ~Transcriber() override { GiveUp(); }

  // The file must have been opened, and the model found.
  absl::Status Open() {
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
    if (form_.language.empty() && !form_.config.options().has_target_prefix()) {
      languages_ = LanguagesHeard(*model_);
    }
    AddHotwords(*model_, form_.prompt, *form_.config.mutable_options());
    return SetLanguage(*model_, form_.language, *form_.config.mutable_options());
  }

  void Start(serving::Caller caller) {
    caller_ = std::move(caller);
    if (languages_.empty()) {
      Recognize();
    } else {
      HearLanguage();
    }
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
  // Elsewhere: it rings the bell, which may be held here.
  void GiveUp() {
    if (recognition_ != nullptr) {
      core_.replies().Post([recognition = recognition_] { recognition->GiveUp(); });
    }
  }

  void Recognize() {
    const auto ring = [bell = bell()] { bell->Ring(); };
    recognition_ = serving::Recognition::Make(core_, *std::move(caller_), ring, ring);
    v1::RecognizeRequest first;
    *first.mutable_config() = form_.config;
    recognition_->Add(std::move(first));
  }

  // Scores the languages by the sound of the first window.
  void HearLanguage() {
    const int window_ms = serving::WindowRules(nullptr, *model_).window_ms;
    const auto most = static_cast<size_t>(int64_t{file_->sample_rate()} * window_ms / 1000);
    for (size_t before = 0; first_.size() < most; before = first_.size()) {
      read_status_ = file_->Read(most - before, first_);
      if (!read_status_.ok() || first_.size() == before) {
        break;
      }
    }
    v1::ScoreSource source;
    v1::Audio& audio = *source.mutable_source()->mutable_audio();
    *audio.mutable_format() = form_.config.audio();
    audio.set_data(first_.data(), std::min(first_.size(), most) * sizeof(float));
    for (const int32_t id : languages_) {
      source.add_targets()->mutable_ids()->add_ids(id);
    }
    v1::ScoreOptions options;
    options.set_end_token(false);
    core_.engine().Score(model_, std::move(source), options,
                         serving::EngineOptions(core_, *caller_),
                         [heard = heard_, bell = bell()](absl::StatusOr<v1::Scored> scores) {
                           {
                             absl::MutexLock lock(&heard->mutex);
                             heard->scores = std::move(scores);
                           }
                           bell->Ring();
                         });
  }

  // Begins to recognise in the language that was heard, or the model's own where none was; false:
  // it is not known yet.
  bool TakeLanguage() {
    absl::StatusOr<v1::Scored> scores;
    {
      absl::MutexLock lock(&heard_->mutex);
      if (!heard_->scores.has_value()) {
        return false;
      }
      scores = *std::move(heard_->scores);
    }
    int best = 0;
    for (int i = 0; scores.ok() && i < scores->targets_size(); ++i) {
      best =
          scores->targets(i).hypothesis().log_prob() > scores->targets(best).hypothesis().log_prob()
              ? i
              : best;
    }
    if (scores.ok() && !scores->targets().empty()) {
      const std::string token = model_->target().TokenText(languages_[static_cast<size_t>(best)]);
      form_.language = token.substr(2, token.size() - 4);
      SetLanguage(*model_, form_.language, *form_.config.mutable_options())
          .IgnoreError();  // it is one of the model's
    }
    Recognize();
    return true;
  }

  // Gives the engine sound while it takes some, and takes what it knows.
  void Advance() {
    constexpr int kMostPieces = 32;  // before other requests have the worker
    if (recognition_ == nullptr && !TakeLanguage()) {
      return;  // the bell rings when the language is known
    }
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
    const size_t most = rate / 2 + 1;
    absl::Status status = read_status_;
    if (num_samples_ < first_.size()) {
      const auto from = first_.begin() + static_cast<std::ptrdiff_t>(num_samples_);
      const size_t count = std::min(most, first_.size() - num_samples_);
      samples.assign(from, from + static_cast<std::ptrdiff_t>(count));
      status = absl::OkStatus();
    } else if (status.ok()) {
      status = file_->Read(most, samples);
    }
    if (!status.ok()) {
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
          transcript_.language = form_.language;
          if (form_.streams) {
            events_.End(end_, DoneEvent(TextOf(transcript_)));
          }
          return;
        case serving::Recognition::Taken::kMessage:
          break;
      }
      for (v1::RecognizedSegment& segment : *message.mutable_segments()) {
        AddDelta(segment.hypotheses().empty() ? "" : segment.hypotheses(0).text());
        sent_text_.clear();
        if (!segment.hypotheses().empty() && !segment.hypotheses(0).text().empty()) {
          transcript_.segments.push_back(std::move(segment));  // else it is silence
        }
      }
      if (message.has_stable()) {
        AddDelta(message.stable().text());
      }
    }
  }

  // What a text, of the segment that goes on, has more than was sent.
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
  serving::ModelPtr model_;
  std::unique_ptr<audio::SoundFile> file_;  // of form_.file
  std::optional<serving::Caller> caller_;   // until recognition_ has it
  // Of hearing the language.
  std::vector<int32_t> languages_;  // tokens; none: the language is known
  const std::shared_ptr<HeardLanguages> heard_ = std::make_shared<HeardLanguages>();
  std::vector<float> first_;                           // samples of the first window
  absl::Status read_status_;                           // behind them
  std::shared_ptr<serving::Recognition> recognition_;  // null: the language is being heard
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
    if (!absl::StartsWith(part.name, "timestamp_granularities") && !seen.insert(part.name).second) {
      return status::InvalidField(part.name.substr(0, 100), "is given twice");
    }
    BW_RETURN_IF_ERROR(ReadField(part, form));
  }
  for (const char* needed : {"file", "model"}) {
    if (seen.count(needed) == 0) {
      return status::InvalidField(needed, "is missing");
    }
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
