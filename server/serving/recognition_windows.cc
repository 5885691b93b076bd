// Recognition: sound in windows, one after the other (StartWindow, DecodeNextWindow, OnWindow). The
// first window may be decoded twice: for its language, and then in that language (OnLanguage).
//
// Then the text of a segment as another model writes it, with punctuation for example.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/core.h"
#include "server/serving/recognition.h"
#include "server/serving/spoken_language.h"

namespace beamwright::serving {
namespace {

SoundWindows::Window RestOf(const SoundWindows::Window& window, double from_ms,
                            const v1::AudioFormat& audio) {
  const sound::Format format = sound::ReadFormat(audio).value_or(sound::Format());
  const auto samples = static_cast<size_t>(from_ms * format.sample_rate / 1000);
  SoundWindows::Window rest;
  rest.bytes = window.bytes.substr(
      std::min(samples * static_cast<size_t>(format.sample_bytes()), window.bytes.size()));
  rest.begin_ms = window.begin_ms + from_ms;
  rest.end_ms = window.end_ms;
  return rest;
}

}  // namespace

absl::Status Recognition::SetWindowLanguage(const v1::RecognizeConfig& config) {
  const std::string& language = config.language();
  if (LanguageOf(*model_, asked_).empty()) {
    return language.empty() || language == kAnyLanguage
               ? absl::OkStatus()
               : status::InvalidField("language", "model '", model_->name(), "' has its own");
  }
  if (language == kAnyLanguage) {
    hears_language_ = config.has_audio() && HearsLanguage(*model_, asked_);
    if (hears_language_) {
      return absl::OkStatus();
    }
  } else if (!language.empty()) {
    BW_RETURN_IF_ERROR(SetLanguage(*model_, language, asked_));
  }
  absl::MutexLock lock(&mutex_);
  summary_.set_language(LanguageOf(*model_, asked_));
  return absl::OkStatus();
}

void Recognition::TakeWindows() {
  while (std::optional<SoundWindows::Window> window = sound_windows_->Next()) {
    if (!window->is_silent) {
      absl::MutexLock lock(&mutex_);
      windows_.push_back(*std::move(window));
    }
  }
  StartWindow();
}

void Recognition::StartWindow() {
  bool is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stage_ != Stage::kWaits || (windows_.empty() && !has_all_windows_)) {
      return;
    }
    is_over = windows_.empty();
    stage_ = Stage::kDecodes;
  }
  if (is_over) {
    EndWindows();
    return;
  }
  const absl::Status status = status::OrOutOfMemory([this] { return DecodeNextWindow(); });
  if (!status.ok()) {
    OnAnswer(status);
  }
}

void Recognition::EndWindows() {
  v1::Decoded all;
  {
    absl::MutexLock lock(&mutex_);
    all = all_windows_;
  }
  CountSource(std::move(all));
  core_.quarantine().Count(*model_, 1, 0, SteadyNow());
  {
    absl::MutexLock lock(&mutex_);
    summary_.set_final_ms(absl::ToDoubleMilliseconds(SteadyNow() - completed_));
    stage_ = Stage::kEnded;
  }
  wake_();
}

absl::Status Recognition::DecodeNextWindow() {
  v1::Source source;
  bool has_room = false;
  {
    absl::MutexLock lock(&mutex_);
    has_room = windows_.size() == kMostWindows;
    window_ = std::move(windows_.front());
    windows_.pop_front();
    *source.mutable_audio()->mutable_format() = audio_format_;
    source.mutable_audio()->set_data(writes_times_
                                         ? window_.bytes  // a part of it may be heard again
                                         : std::exchange(window_.bytes, std::string()));
  }
  if (has_room) {
    room_();
  }
  BW_ASSIGN_OR_RETURN(engine::PreparedSource prepared, engine::PrepareSource(*model_, source));
  if (!hears_language_) {
    DecodeWindow(std::move(prepared));
    return absl::OkStatus();
  }
  hears_language_ = false;
  BW_ASSIGN_OR_RETURN(const auto options, LanguageSearch(*model_));
  engine::CallOptions call = CallForEngine();
  call.progress = nullptr;
  call.num_provisional = 0;
  call_.timeline = nullptr;  // it has the times of the first decoding
  core_.engine().DecodePrepared(
      model_, prepared, options, call,
      [self = shared_from_this(), prepared](absl::StatusOr<v1::Decoded> answer) {
        self->OnLanguage(prepared, std::move(answer));
      });
  return absl::OkStatus();
}

void Recognition::OnLanguage(engine::PreparedSource source, absl::StatusOr<v1::Decoded> answer) {
  bool was_stopped = false;
  {
    absl::MutexLock lock(&mutex_);
    was_stopped = has_ended();
  }
  if (!answer.ok() || was_stopped) {
    OnAnswer(std::move(answer));
    return;
  }
  const std::string language = LanguageOf(*model_, *answer);
  if (language.empty()) {
    DecodeWindow(std::move(source));
    return;
  }
  SetLanguage(*model_, language, asked_).IgnoreError();  // it is one of the model's
  {
    absl::MutexLock lock(&mutex_);
    summary_.set_language(language);
  }
  if (!TakeLongToRead(*model_, asked_)) {
    DecodeInLanguage(std::move(source));
    return;
  }
  const absl::Status posted = core_.long_work().Post(
      caller_, [self = shared_from_this(), source](const absl::Status& outcome) {
        outcome.ok() ? self->DecodeInLanguage(source) : self->OnAnswer(outcome);
      });
  if (!posted.ok()) {
    OnAnswer(posted);
  }
}

void Recognition::DecodeInLanguage(engine::PreparedSource source) {
  auto options = status::OrOutOfMemory([this] { return engine::ResolveOptions(*model_, asked_); });
  if (!options.ok()) {
    OnAnswer(options.status());
    return;
  }
  options_ = *std::move(options);
  DecodeWindow(std::move(source));
}

void Recognition::DecodeWindow(engine::PreparedSource source) {
  engine::CallOptions call = CallForEngine();
  if (writes_times_) {  // nothing is known of a segment before its window is complete
    call.progress = nullptr;
    call.num_provisional = 0;
  }
  call_.timeline = nullptr;  // it has the times of the first window
  core_.engine().DecodePrepared(model_, std::move(source), options_, call,
                                [self = shared_from_this()](absl::StatusOr<v1::Decoded> answer) {
                                  self->OnWindow(std::move(answer));
                                });
}

void Recognition::OnWindow(absl::StatusOr<v1::Decoded> answer) {
  bool is_last = false;
  {
    absl::MutexLock lock(&mutex_);
    is_last = !answer.ok() || has_ended();
    if (!is_last) {
      AddWindow(*answer);
    }
  }
  if (is_last) {
    OnAnswer(std::move(answer));
    return;
  }
  EndIfMemoryLacks();
  wake_();
  StartWindow();
}

void Recognition::AddWindow(const v1::Decoded& answer) {
  engine::Segment segment = WholeSource(answer);
  const double frame_ms = summary_.frame_ms();
  segment.first_frame =
      frame_ms > 0 ? std::llround(window_.begin_ms / frame_ms) : summary_.num_frames();
  if (model_->parts().frames == nullptr) {
    segment.num_frames = answer.source_length();
  }
  v1::RecognizedSegment made = MakeSegment(std::move(segment), &window_);
  if (writes_times_) {
    TimedSegments timed =
        SplitAtTimes(*model_, options_->search.processors.first_timestamp, std::move(made));
    summary_.set_num_segments(summary_.num_segments() - 1 +
                              static_cast<int>(timed.segments.size()));
    for (v1::RecognizedSegment& part : timed.segments) {
      AddSegment(std::move(part));
    }
    if (timed.resume_ms > 0) {
      windows_.push_front(RestOf(window_, timed.resume_ms, audio_format_));
    }
  } else {
    AddSegment(std::move(made));
  }
  all_windows_.set_queue_ms(all_windows_.queue_ms() + answer.queue_ms());
  all_windows_.set_compute_ms(all_windows_.compute_ms() + answer.compute_ms());
  all_windows_.set_source_length(all_windows_.source_length() + answer.source_length());
  *all_windows_.mutable_hypotheses() = answer.hypotheses();
  stage_ = Stage::kWaits;
}

// Recognition: the text of a segment as another model writes it, with punctuation for example.

namespace {

constexpr char kNoLabel[] = "O";
constexpr char kCapital[] = "U";

// Words with what the tagger's labels put behind them. Empty: there is not a label for each word.
std::string Labelled(const engine::DecodeModel& tagger, const std::string& text,
                     const v1::Hypothesis& labels) {
  std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.size() != static_cast<size_t>(labels.tokens_size())) {
    return "";
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string label = tagger.target().TokenText(labels.tokens(static_cast<int>(i)));
    absl::string_view rest = label;
    if (absl::ConsumePrefix(&rest, kCapital)) {
      words[i][0] = absl::ascii_toupper(static_cast<unsigned char>(words[i][0]));
    }
    if (rest != kNoLabel) {
      absl::StrAppend(&words[i], rest);
    }
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

absl::Status Recognition::FindRewriter() {
  const std::string& name = model_->config().rewrite().model();
  if (name.empty()) {
    return absl::OkStatus();
  }
  absl::StatusOr<ModelPtr> rewriter = core_.models().Lookup(name, "");
  if (!rewriter.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("rewrite.model of model '", model_->name(),
                                                      "': ", rewriter.status().message()));
  }
  rewriter_ = *std::move(rewriter);
  return absl::OkStatus();
}

absl::Status Recognition::OpenRewriter() {
  if (rewriter_ != nullptr) {
    BW_ASSIGN_OR_RETURN(rewriter_options_, engine::ResolveOptions(*rewriter_, {}));
  }
  return absl::OkStatus();
}

void Recognition::Rewrite(int number, const std::string& text) {
  v1::Source source;
  source.set_text(text);
  engine::CallOptions options = EngineOptions(core_, caller_);
  options.call = call_.call;  // its segments take turns as the sources of one call
  core_.engine().DecodeResolved(
      rewriter_, std::move(source), rewriter_options_, options,
      [self = shared_from_this(), number](const absl::StatusOr<v1::Decoded>& answer) {
        self->OnRewritten(number, answer);
      });
}

// A text that the model could not rewrite stays as it was heard.
void Recognition::OnRewritten(int number, const absl::StatusOr<v1::Decoded>& answer) {
  {
    absl::MutexLock lock(&mutex_);
    for (EndedSegment& ended : segments_) {
      if (ended.segment.number() != number) {
        continue;
      }
      ended.is_ready = true;
      std::string& text = *ended.segment.mutable_hypotheses(0)->mutable_text();
      if (answer.ok() && !answer->hypotheses().empty()) {
        const v1::Hypothesis& best = answer->hypotheses(0);
        std::string written =
            rewriter_->config().has_tags() ? Labelled(*rewriter_, text, best) : best.text();
        text = written.empty() ? std::move(text) : std::move(written);
      }
    }
  }
  wake_();
}

}  // namespace beamwright::serving
