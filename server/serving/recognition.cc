// A Recognize call as a state machine between three parties: the thread that adds the client's
// requests, the engine's callbacks, and the protocol, which takes messages (Take) after `wake_` was
// called. Requests go in, one by one; messages with segments, stable and provisional tokens come
// out, and at the end a summary or an error.
//
// 1. Add gives a request to Dispatch. While an earlier request is read on the thread for long work
//    (ReadLater), later requests wait in `early_` (Defer), and ReadWaiting reads them in order.
// 2. Open, for the first request: the model and whether it may be called. ReadConfig resolves the
//    options, the endpoint rules and the format of the sound (OpenSound).
// 3. Begin: a model that is searched as frames arrive gets a FrameFeed and goes to the engine at
//    once. A model that reads the whole source goes to the engine in Complete.
// 4. AddSound and AddFeatures take one of three ways: features into the feed; features into
//    `collected_`, until the source is complete; or bytes into windows of sound, each decoded as
//    one source (recognition_windows.cc).
// 5. Complete, after the client's last request: the rest of the sound becomes features, and the
//    feed or the windows end, or the collected source is decoded.
// 6. OnProgress and OnAnswer store what the engine found; Take hands it out. A text that another
//    model rewrites holds up the segments behind it (recognition_rewrite.cc).
//
// The call ends once: the first of End and OnAnswer ends the stages and sets the status. It is also
// counted once: by OnAnswer where the engine has the call (Stage::kDecodes), else by End.
#include "server/serving/recognition.h"

#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/request/media_sources.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/sound_windows.h"
#include "server/serving/sources_call.h"

namespace beamwright::serving {
namespace {

// Rows of `columns` values, as a piece of a source.
ops::Tensor AsTensor(const std::vector<float>& values, int64_t columns) {
  return ops::Tensor::Of<float>({1, static_cast<int64_t>(values.size()) / columns, columns},
                                values);
}

// Errors of the engine name source.features; the client knows that field as `field`.
absl::Status Renamed(const absl::Status& status, absl::string_view field) {
  return status::WithFields(status, [field](absl::string_view name) {
    return absl::ConsumePrefix(&name, "source.features") ? absl::StrCat(field, name)
                                                         : std::string(name);
  });
}

// Limits the bytes of a request. The features computed from its sound may take more bytes.
absl::Status CheckPiece(size_t bytes, const char* field) {
  return bytes <= kMaxPieceBytes
             ? absl::OkStatus()
             : status::InvalidField(field, "has ", bytes, " bytes; a request has ", kMaxPieceBytes,
                                    " at most");
}

Caller WithFlag(Caller caller, std::shared_ptr<const engine::CancelFlag> flag) {
  caller.cancelled = std::move(flag);
  return caller;
}

// With the fields' names as a client's configuration has them.
absl::Status AtConfig(const absl::Status& status) {
  return status::WithFields(status,
                            [](absl::string_view name) { return absl::StrCat("config.", name); });
}

}  // namespace

Recognition::Recognition(Core& core, Caller caller, std::function<void()> wake,
                         std::function<void()> room)
    : core_(core),
      caller_(WithFlag(std::move(caller), stop_)),
      wake_(std::move(wake)),
      room_(std::move(room)),
      started_(SteadyNow()),
      heard_(started_) {}

Recognition::~Recognition() = default;

std::shared_ptr<Recognition> Recognition::Make(Core& core, Caller caller,
                                               std::function<void()> wake,
                                               std::function<void()> room) {
  std::shared_ptr<Recognition> made(
      new Recognition(core, std::move(caller), std::move(wake), std::move(room)));
  core.streams().Add(made);
  return made;
}

bool Recognition::Defer(absl::StatusOr<v1::RecognizeRequest>* request) {
  // 32 KiB: features of a second of sound take a millisecond or two.
  constexpr size_t kLongPiece = size_t{32} << 10;
  bool begins = false;
  bool has_room = true;
  {
    absl::MutexLock lock(&mutex_);
    if (has_ended()) {
      return true;  // the client does not know yet
    }
    if (request != nullptr) {
      heard_ = SteadyNow();
    }
    const size_t bytes = request != nullptr && request->ok() ? (*request)->ByteSizeLong() : 0;
    begins = !is_reading_ && stage_ != Stage::kNoSource && bytes > kLongPiece;
    if (!is_reading_ && !begins) {
      return false;
    }
    has_room = early_hold_.Resize(early_hold_.bytes() + static_cast<int64_t>(bytes));
    if (has_room) {
      is_reading_ = true;
      early_.emplace_back();
      if (request != nullptr) {
        early_.back() = std::move(*request);
      }
    }
  }
  if (!has_room) {
    End(MemoryRunsShort());
  } else if (begins) {
    ReadLater(nullptr);
  }
  return true;
}

void Recognition::ReadLater(const v1::RecognizeConfig* config) {
  const std::optional<v1::RecognizeConfig> held =
      config == nullptr ? std::nullopt : std::optional(*config);
  const absl::Status posted = core_.long_work().Post(
      caller_, [self = shared_from_this(), held](const absl::Status& outcome) {
        self->ReadWaiting(outcome.ok() && held.has_value() ? self->ReadConfig(*held) : outcome);
      });
  if (!posted.ok()) {
    ReadWaiting(posted);
  }
}

void Recognition::ReadWaiting(absl::Status status) {
  while (true) {
    if (!status.ok()) {
      End(status);
    }
    std::optional<absl::StatusOr<v1::RecognizeRequest>> next;
    {
      absl::MutexLock lock(&mutex_);
      if (has_ended()) {
        early_.clear();
      }
      if (early_.empty()) {
        early_hold_.Release();
        is_reading_ = false;
        break;
      }
      next = std::move(early_.front());
      early_.pop_front();
    }
    if (!next.has_value()) {
      FinishNow();
    } else {
      status = next->ok() ? Dispatch(**std::move(next)) : next->status();
    }
  }
  room_();
  wake_();
}

void Recognition::Add(absl::StatusOr<v1::RecognizeRequest> request) {
  if (Defer(&request)) {
    return;
  }
  const absl::Status status = request.ok() ? Dispatch(*std::move(request)) : request.status();
  if (!status.ok()) {
    End(status);
  }
}

absl::Status Recognition::Dispatch(v1::RecognizeRequest request) {
  using Kind = v1::RecognizeRequest::KindCase;
  if (phase_ == Phase::kNew) {
    return request.kind_case() == Kind::kConfig
               ? Open(request.config())
               : status::InvalidField("config", "is not set; the first request has it");
  }
  if (phase_ == Phase::kComplete) {
    return Invalid("the source is complete: no request follows finish");
  }
  switch (request.kind_case()) {
    case Kind::kConfig:
      return status::InvalidField("config", "is set a second time; only the first request has it");
    case Kind::kAudio:
      return AddSound(request.audio());
    case Kind::kFeatures:
      if (sound_.has_value() || sound_windows_.has_value()) {
        return status::InvalidField("features", "the source is sound (config.audio)");
      }
      BW_RETURN_IF_ERROR(CheckPiece(request.features().data().size(), "features"));
      return AddFeatures(request.features(), "features");
    case Kind::kFinish:
      return request.finish() ? Complete()
                              : status::InvalidField("finish", "is false; it is true or not sent");
    case Kind::KIND_NOT_SET:
      break;
  }
  return Invalid("the request is empty: set audio, features or finish");
}

absl::Status Recognition::Open(const v1::RecognizeConfig& config) {
  BW_RETURN_IF_ERROR(FaultPoint("call.admit"));
  BW_RETURN_IF_ERROR(core_.state().CheckAccepting());
  open_call_.emplace(core_.state());
  BW_ASSIGN_OR_RETURN(ModelPtr model, core_.models().Lookup(config.model(), config.version()));
  {
    absl::MutexLock lock(&mutex_);  // a call may be given up at this moment
    model_ = std::move(model);
  }
  BW_RETURN_IF_ERROR(core_.quarantine().Check(*model_, started_));
  if (model_->parts().frames == nullptr && model_->parts().sound == nullptr) {
    return status::InvalidField("config.model", "'", model_->name(),
                                "' decodes token by token and takes no sound; Recognize is for "
                                "models that take sound or are searched by frames");
  }
  asked_ = config.options();
  if (const absl::Status status = SetWindowLanguage(config); !status.ok()) {
    return AtConfig(status);
  }
  BW_RETURN_IF_ERROR(FindRewriter());
  if (!TakeLongToRead(*model_, asked_) &&
      (rewriter_ == nullptr || !TakeLongToRead(*rewriter_, {}))) {
    return ReadConfig(config);
  }
  {
    absl::MutexLock lock(&mutex_);
    is_reading_ = true;
  }
  ReadLater(&config);
  return absl::OkStatus();
}

absl::Status Recognition::ReadConfig(const v1::RecognizeConfig& config) {
  auto options = engine::ResolveOptions(*model_, asked_);
  if (!options.ok()) {
    return AtConfig(options.status());
  }
  options_ = *std::move(options);
  writes_times_ = options_->search.processors.first_timestamp >= 0;
  BW_RETURN_IF_ERROR(OpenRewriter());
  call_ = EngineOptions(core_, caller_);
  call_.num_provisional = !config.provisional() ? 0
                          : config.provisional_n_best()
                              ? search::kMaxBeamSize  // its n_best bounds it
                              : 1;
  timelines_ = core_.calls().MakeTimelines(caller_.context, 1);
  call_.timeline = timelines_.empty() ? nullptr : &timelines_[0];
  if (config.has_endpoint()) {
    auto endpoint = ReadEndpoint(config.endpoint(), *model_, config.has_audio());
    if (!endpoint.ok()) {
      return AtConfig(endpoint.status());
    }
    call_.endpoint = *std::move(endpoint);
  }
  if (config.has_audio()) {
    BW_RETURN_IF_ERROR(OpenSound(config));
  }
  {
    absl::MutexLock lock(&mutex_);
    if (!has_ended()) {
      stage_ = Stage::kWaits;
    }
    summary_.set_model(model_->name());
    summary_.set_version(model_->version());
    summary_.set_numerics(model_->numerics());
    summary_.set_frame_ms(model_->config().frame_ms());
  }
  phase_ = Phase::kOpen;
  Begin();
  return absl::OkStatus();
}

absl::Status Recognition::OpenSound(const v1::RecognizeConfig& config) {
  const v1::AudioFormat& format = config.audio();
  const auto& features = model_->parts().sound;
  if (features == nullptr) {
    return status::InvalidField("config.audio", "the bundle of model '", model_->name(),
                                "' does not say how sound becomes features (sound)");
  }
  absl::StatusOr<sound::Format> read = sound::ReadFormat(format);
  if (!read.ok()) {
    return status::WithFields(read.status(), [](absl::string_view name) {
      absl::ConsumePrefix(&name, "format");
      return absl::StrCat("config.audio", name);
    });
  }
  if (model_->parts().frames == nullptr || (config.has_endpoint() && CutsSound(*model_))) {
    audio_format_ = format;
    sound_windows_.emplace(
        *read, WindowRules(config.has_endpoint() ? &config.endpoint() : nullptr, *model_),
        model_->parts().activity);
  } else {
    sound_.emplace(features, *read);
  }
  return absl::OkStatus();
}

bool Recognition::MayBegin() {
  absl::MutexLock lock(&mutex_);
  if (!has_ended()) {
    stage_ = Stage::kDecodes;
  }
  return !has_ended();
}

engine::CallOptions Recognition::CallForEngine() {
  engine::CallOptions call = call_;
  call.feed = feed_;
  call.progress = [self = shared_from_this()](engine::Progress progress) {
    self->OnProgress(std::move(progress));
  };
  return call;
}

// Hands the stream to the engine, which then waits for frames, or for features to encode.
void Recognition::Begin() {
  if (model_->reads_whole_source()) {
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    feed_ = std::make_shared<engine::FrameFeed>(room_);
  }
  if (!MayBegin()) {
    return;
  }
  core_.engine().Recognize(model_, options_, CallForEngine(),
                           [self = shared_from_this()](absl::StatusOr<v1::Decoded> answer) {
                             self->OnAnswer(std::move(answer));
                           });
}

absl::Status Recognition::Feed(absl::StatusOr<engine::PreparedSource> piece, const char* field) {
  if (!piece.ok()) {
    return Renamed(piece.status(), field);
  }
  feed_->Add(model_->has_encoder() ? *std::move(piece->encoder_input)
                                   : std::move(piece->decoder_inputs[0]));
  return absl::OkStatus();
}

absl::Status Recognition::AddFeatures(const v1::Tensor& features, const char* field) {
  absl::StatusOr<engine::PreparedSource> prepared = engine::PreparePiece(*model_, features);
  if (feed_ != nullptr || !prepared.ok()) {
    return Feed(std::move(prepared), field);
  }
  const ops::Tensor& piece = *prepared->encoder_input;
  if (piece.dtype() != ops::DType::kF32 || piece.rank() != 3 ||
      (num_columns_ > 0 && piece.dim(2) != num_columns_)) {
    return status::InvalidField(absl::StrCat(field, ".shape"), "pieces are f32 [frames, ",
                                num_columns_ > 0 ? absl::StrCat(num_columns_) : "columns", "]");
  }
  num_columns_ = piece.dim(2);
  const float* const data = piece.data<float>();
  collected_.insert(collected_.end(), data, data + piece.num_elements());
  return CheckCollected(engine::MaxSourceLength(*model_), field);
}

absl::Status Recognition::AddSound(const std::string& bytes) {
  if (!sound_.has_value() && !sound_windows_.has_value()) {
    return status::InvalidField("audio", "the configuration has no audio format (config.audio)");
  }
  BW_RETURN_IF_ERROR(CheckPiece(bytes.size(), "audio"));
  std::vector<float> features;
  if (const absl::Status status =
          sound_windows_.has_value() ? sound_windows_->Add(bytes) : sound_->Add(bytes, features);
      !status.ok()) {
    return status::InvalidField("audio", status.message());
  }
  if (sound_windows_.has_value()) {
    TakeWindows();
    return absl::OkStatus();
  }
  return AddFeaturesOfSound(features);
}

absl::Status Recognition::AddFeaturesOfSound(const std::vector<float>& features) {
  const sound::FrontEnd& sound = *model_->parts().sound;
  if (features.empty()) {
    return absl::OkStatus();
  }
  if (feed_ != nullptr) {
    return Feed(engine::PrepareFeatures(*model_, AsTensor(features, sound.stream_width()),
                                        /*is_whole=*/false),
                "audio");
  }
  num_columns_ = sound.stream_width();
  collected_.insert(collected_.end(), features.begin(), features.end());
  return CheckCollected(sound.StreamFramesOf(engine::MaxSourceLength(*model_)), "audio");
}

absl::Status Recognition::CheckCollected(int64_t most, const char* field) const {
  return static_cast<int64_t>(collected_.size()) <= most * num_columns_
             ? absl::OkStatus()
             : status::InvalidField(field, "the source has more than ", most,
                                    " frames, the most that the model takes");
}

void Recognition::Finish() {
  if (!Defer(nullptr)) {
    FinishNow();
  }
}

void Recognition::FinishNow() {
  if (phase_ == Phase::kComplete) {
    return;
  }
  const absl::Status status =
      phase_ == Phase::kNew ? status::InvalidField("config", "is not set; the call has no request")
                            : Complete();
  if (!status.ok()) {
    End(status);
  }
}

absl::Status Recognition::Complete() {
  // 1. No request may follow, and the time until the answer is measured from here.
  phase_ = Phase::kComplete;
  {
    absl::MutexLock lock(&mutex_);
    completed_ = SteadyNow();
  }
  // 2. Sound in windows: the rest of the sound is the last window.
  if (sound_windows_.has_value()) {
    if (!sound_windows_->has_sound()) {
      return status::InvalidField("source", "has no frames");
    }
    sound_windows_->Finish();
    TakeWindows();
    {
      absl::MutexLock lock(&mutex_);
      has_all_windows_ = true;
    }
    StartWindow();
    return absl::OkStatus();
  }
  // 3. Other sound: its last samples become features. A model with a feed is already running.
  if (sound_.has_value()) {
    std::vector<float> features;
    sound_->Finish(features);
    BW_RETURN_IF_ERROR(AddFeaturesOfSound(features));
  }
  if (feed_ != nullptr) {
    feed_->Finish();
    return absl::OkStatus();
  }
  // 4. A model that reads the whole source gets it now.
  if (collected_.empty()) {
    return status::InvalidField("source", "has no frames");
  }
  if (!MayBegin()) {
    return absl::OkStatus();
  }
  absl::StatusOr<engine::PreparedSource> source = status::OutOfMemory();
  try {
    source = engine::PrepareFeatures(
        *model_,
        sound_.has_value() ? engine::SoundSource(*model_, std::exchange(collected_, {}))
                           : AsTensor(std::exchange(collected_, {}), num_columns_),
        /*is_whole=*/true);
  } catch (const std::bad_alloc&) {
    // The status says so.
  }
  if (!source.ok()) {
    OnAnswer(source.status());
    return absl::OkStatus();
  }
  core_.engine().DecodePrepared(model_, *std::move(source), options_, CallForEngine(),
                                [self = shared_from_this()](absl::StatusOr<v1::Decoded> answer) {
                                  self->OnAnswer(std::move(answer));
                                });
  return absl::OkStatus();
}

void Recognition::GiveUp() {
  stop_->Cancel();
  End(stop_->Outcome(caller_.deadline, SteadyNow()));
}

bool Recognition::EndIfIdle(absl::Time now, absl::Duration idle) {
  {
    absl::MutexLock lock(&mutex_);
    const bool is_complete = completed_ != absl::InfinitePast();
    if (has_ended() || is_complete) {
      return true;  // no more requests are expected
    }
    const bool is_rewriting = !segments_.empty() && !segments_.front().is_ready;
    if (is_reading_ || is_rewriting || (feed_ != nullptr && feed_->is_full()) ||
        windows_.size() >= kMostWindows) {
      heard_ = now;  // the call is full: the client cannot send, by no fault of its reading
    }
    if (now - heard_ < idle) {
      return false;
    }
  }
  End(absl::DeadlineExceededError(absl::StrCat("nothing has come of the stream for ",
                                               absl::FormatDuration(idle),
                                               " (stream-idle-timeout)")));
  return true;
}

bool Recognition::is_reading() const {
  absl::MutexLock lock(&mutex_);
  return is_reading_;
}

bool Recognition::is_full() const {
  absl::MutexLock lock(&mutex_);
  return !early_.empty() || (feed_ != nullptr && feed_->is_full()) ||
         windows_.size() >= kMostWindows || segments_.size() >= kMostSegments;
}

v1::RecognizedSegment Recognition::MakeSegment(engine::Segment segment,
                                               const SoundWindows::Window* window) {
  v1::RecognizedSegment made;
  made.set_number(summary_.num_segments());
  made.set_first_frame(segment.first_frame);
  made.set_num_frames(segment.num_frames);
  made.set_begin_ms(summary_.frame_ms() * static_cast<double>(segment.first_frame));
  made.set_end_ms(summary_.frame_ms() *
                  static_cast<double>(segment.first_frame + segment.num_frames));
  if (window != nullptr) {
    made.set_begin_ms(window->begin_ms);
    made.set_end_ms(window->end_ms);
  }
  for (v1::Hypothesis& hypothesis : segment.hypotheses) {
    *made.add_hypotheses() = std::move(hypothesis);
  }
  SetWords(*model_, made);
  summary_.set_num_segments(summary_.num_segments() + 1);
  summary_.set_num_frames(segment.first_frame + segment.num_frames);
  return made;
}

void Recognition::AddSegment(v1::RecognizedSegment segment) {
  // In memory it takes about four times as many bytes as on the wire.
  const int64_t bytes = 4 * static_cast<int64_t>(segment.ByteSizeLong());
  if (lacks_memory_ || !segments_hold_.Resize(segments_hold_.bytes() + bytes)) {
    lacks_memory_ = true;
    return;
  }
  EndedSegment& added = segments_.emplace_back();
  added.segment = std::move(segment);
  added.bytes = bytes;
  stable_ = {};
  provisional_.clear();
  const auto& hypotheses = added.segment.hypotheses();
  if (rewriter_ == nullptr || hypotheses.empty() || hypotheses[0].text().empty()) {
    return;
  }
  added.is_ready = false;
  core_.replies().Post([self = shared_from_this(), number = added.segment.number(),
                        text = hypotheses[0].text()] { self->Rewrite(number, text); });
}

void Recognition::EndIfMemoryLacks() {
  {
    absl::MutexLock lock(&mutex_);
    if (!lacks_memory_) {
      return;
    }
  }
  End(MemoryRunsShort(), Stage::kAnswered);
}

void Recognition::OnProgress(engine::Progress progress) {
  {
    absl::MutexLock lock(&mutex_);
    for (engine::Segment& segment : progress.segments) {
      AddSegment(MakeSegment(std::move(segment), nullptr));
    }
    for (const search::StableTokens::Piece& piece : progress.stable) {
      stable_.tokens.insert(stable_.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    if (!progress.provisional.empty()) {
      provisional_ = std::move(progress.provisional);
    }
    text_end_ = {std::move(progress.stop_strings), progress.prefix_length};
  }
  EndIfMemoryLacks();
  wake_();
}

engine::Segment Recognition::WholeSource(const v1::Decoded& decoded) {
  engine::Segment segment;
  segment.num_frames = decoded.steps();
  segment.hypotheses.assign(decoded.hypotheses().begin(), decoded.hypotheses().end());
  return segment;
}

void Recognition::OnAnswer(absl::StatusOr<v1::Decoded> answer) {
  absl::Status status = answer.status();
  bool was_stopped = false;
  {
    absl::MutexLock lock(&mutex_);
    was_stopped = has_ended();
    if (was_stopped) {
      status = end_;  // the reason for which the engine was stopped
    }
  }
  if (status.ok() && feed_ == nullptr) {
    absl::MutexLock lock(&mutex_);
    AddSegment(MakeSegment(WholeSource(*answer), nullptr));
    status = lacks_memory_ ? MemoryRunsShort() : status;
  }
  if (!status.ok()) {
    status =
        Renamed(status, sound_.has_value() || sound_windows_.has_value() ? "audio" : "features");
    answer = status;
  }
  CountSource(std::move(answer));
  core_.quarantine().Count(*model_, status.ok() ? 1 : 0, 0, SteadyNow());
  {
    absl::MutexLock lock(&mutex_);
    if (completed_ != absl::InfinitePast()) {
      summary_.set_final_ms(absl::ToDoubleMilliseconds(SteadyNow() - completed_));
    }
    stage_ = was_stopped ? stage_ : Stage::kAnswered;
    end_ = status;
  }
  wake_();
}

void Recognition::CountSource(absl::StatusOr<v1::Decoded> answer) {
  const absl::Status status = answer.status();
  v1::DecodeResponse response;
  CallWork work{1, &response, timelines_};
  if (answer.ok()) {
    work.queue_ms = answer->queue_ms();
    work.compute_ms = answer->compute_ms();
    *response.add_results()->mutable_decoded() = *std::move(answer);
  } else {
    *response.add_results()->mutable_error() = status::ToRpcStatus(status);
    work.num_failed = 1;
  }
  core_.calls().Count(caller_, model_.get(), status, started_, work);
  core_.metrics().CountSources(*model_, response);
}

void Recognition::End(const absl::Status& status, Stage ended) {
  Stage before = Stage::kNoSource;
  const engine::DecodeModel* model = nullptr;
  std::shared_ptr<engine::FrameFeed> feed;
  {
    absl::MutexLock lock(&mutex_);
    if (has_ended()) {
      return;
    }
    feed = feed_;
    model = model_.get();
    before = std::exchange(stage_, ended);
    end_ = status;
  }
  if (before == Stage::kDecodes) {
    // The call is counted when the engine has let go of it.
    stop_->Cancel();
    if (feed != nullptr) {
      feed->GiveUp();
    }
  } else if (before == Stage::kWaits) {
    CountSource(status);
  } else {
    core_.calls().Count(caller_, model, status, started_, {});
    core_.metrics().CountRejection(status);
  }
  wake_();
}

Recognition::Taken Recognition::Take(v1::RecognizeResponse& message, absl::Status& end) {
  Taken taken = Taken::kNothing;
  bool has_room = false;
  {
    absl::MutexLock lock(&mutex_);
    const bool was_full = segments_.size() >= kMostSegments;
    taken = TakeNow(message, end);
    has_room = was_full && segments_.size() < kMostSegments;
  }
  if (has_room) {
    room_();
  }
  return taken;
}

Recognition::Taken Recognition::TakeNow(v1::RecognizeResponse& message, absl::Status& end) {
  message.Clear();
  // 1. After the end: an error, except that segments which the engine had found before its error
  //    are sent first.
  const bool has_rest = stage_ == Stage::kAnswered && !segments_.empty();
  if (has_ended() && (stage_ == Stage::kTaken || (!end_.ok() && !has_rest))) {
    end = end_;
    return Taken::kEnd;
  }
  // 2. Segments, in order, up to the first whose text is still being rewritten.
  for (; !segments_.empty() && segments_.front().is_ready; segments_.pop_front()) {
    *message.add_segments() = std::move(segments_.front().segment);
    segments_hold_.Resize(segments_hold_.bytes() - segments_.front().bytes);
  }
  if (!segments_.empty()) {  // its text is being rewritten: later news waits
    return message.segments().empty() ? Taken::kNothing : Taken::kMessage;
  }
  if (!has_ended() && message.segments().empty() && !stable_.has_news() && provisional_.empty()) {
    return Taken::kNothing;
  }
  // 3. News of the segment that goes on: stable tokens; then the summary, or the newest provisional
  //    hypotheses.
  if (stable_.has_news()) {
    TakeStable(*model_, text_end_, stable_, *message.mutable_stable());
  }
  if (has_ended() && end_.ok()) {
    *message.mutable_summary() = summary_;
    stage_ = Stage::kTaken;
  } else if (!provisional_.empty()) {
    *message.mutable_provisional() = MakeProvisional(*model_, text_end_, provisional_[0]);
    for (size_t i = 1; i < provisional_.size(); ++i) {
      *message.add_alternatives() = MakeProvisional(*model_, text_end_, provisional_[i]);
    }
    provisional_.clear();
  }
  return Taken::kMessage;
}

}  // namespace beamwright::serving
