// Recognition: the client's requests, from the configuration to the end of the source.
//
// 1. Add gives a request to Dispatch. While an earlier request is read on the thread for long work
//    (ReadLater), later requests wait in `early_` (Defer), and ReadWaiting reads them in order.
// 2. Open, for the first request: the model and whether it may be called. ReadConfig resolves the
//    options, the endpoint rules and the format of the sound (OpenSound).
// 3. Begin: a model that is searched as frames arrive gets a FrameFeed and goes to the engine at
//    once. A model that reads the whole source goes to the engine in Complete.
// 4. AddSound and AddFeatures take one of three ways: features into the feed; features into
//    `collected_`, until the source is complete; or bytes into windows of sound.
// 5. Complete, after the client's last request: the rest of the sound becomes features, and the
//    feed or the windows end, or the collected source is decoded.
//
// An allocation that fails in 2 to 5 is an error of the call (Read).
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/request/media_sources.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/core.h"
#include "server/serving/recognition.h"
#include "server/serving/sound_windows.h"

namespace beamwright::serving {
namespace {

// Rows of `columns` values, as a piece of a source.
ops::Tensor AsTensor(const std::vector<float>& values, int64_t columns) {
  return ops::Tensor::Of<float>({1, static_cast<int64_t>(values.size()) / columns, columns},
                                values);
}

// Limits the bytes of a request. The features computed from its sound may take more bytes.
absl::Status CheckPiece(size_t bytes, const char* field) {
  return bytes <= kMaxPieceBytes
             ? absl::OkStatus()
             : status::InvalidField(field, "has ", bytes, " bytes; a request has ", kMaxPieceBytes,
                                    " at most");
}

// With the fields' names as a client's configuration has them.
absl::Status AtConfig(const absl::Status& status) {
  return status::WithFields(status,
                            [](absl::string_view name) { return absl::StrCat("config.", name); });
}

}  // namespace

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
        self->ReadWaiting(outcome.ok() && held.has_value()
                              ? status::OrOutOfMemory([&] { return self->ReadConfig(*held); })
                              : outcome);
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
      status = Read(*next);
    }
  }
  room_();
  wake_();
}

void Recognition::Add(absl::StatusOr<v1::RecognizeRequest> request) {
  if (Defer(&request)) {
    return;
  }
  if (const absl::Status status = Read(request); !status.ok()) {
    End(status);
  }
}

absl::Status Recognition::Read(const absl::StatusOr<v1::RecognizeRequest>& request) {
  return request.ok() ? status::OrOutOfMemory([&] { return Dispatch(*request); })
                      : request.status();
}

absl::Status Recognition::Dispatch(const v1::RecognizeRequest& request) {
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
      return AddFeatures(request.features());
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
  if (!TakeLongToRead(*model_, asked_)) {
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

// Hands the stream to the engine, which then waits for frames, or for features to encode.
void Recognition::Begin() {
  if (model_->reads_whole_source()) {
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    feed_ = std::make_shared<engine::FrameFeed>([weak = weak_from_this()] {
      if (const std::shared_ptr<Recognition> self = weak.lock()) {
        self->HoldFeed();
        self->room_();
      }
    });
  }
  if (!MayBegin()) {
    return;
  }
  core_.engine().Recognize(model_, options_, CallForEngine(),
                           [self = shared_from_this()](absl::StatusOr<v1::Decoded> answer) {
                             self->OnAnswer(std::move(answer));
                           });
}

absl::Status Recognition::Feed(absl::StatusOr<engine::PreparedSource> piece) {
  if (!piece.ok()) {
    return AtSource(piece.status());
  }
  feed_->Add(model_->has_encoder() ? *std::move(piece->encoder_input)
                                   : std::move(piece->decoder_inputs[0]));
  return HoldFeed() ? absl::OkStatus() : MemoryRunsShort();
}

bool Recognition::HoldFeed() {
  absl::MutexLock lock(&mutex_);
  return feed_hold_.Resize(feed_->num_bytes());
}

absl::Status Recognition::AddFeatures(const v1::Tensor& features) {
  absl::StatusOr<engine::PreparedSource> prepared = engine::PreparePiece(*model_, features);
  if (feed_ != nullptr || !prepared.ok()) {
    return Feed(std::move(prepared));
  }
  const ops::Tensor& piece = *prepared->encoder_input;
  if (piece.dtype() != ops::DType::kF32 || piece.rank() != 3 ||
      (num_columns_ > 0 && piece.dim(2) != num_columns_)) {
    return status::InvalidField("features.shape", "pieces are f32 [frames, ",
                                num_columns_ > 0 ? absl::StrCat(num_columns_) : "columns", "]");
  }
  num_columns_ = piece.dim(2);
  const float* const data = piece.data<float>();
  collected_.insert(collected_.end(), data, data + piece.num_elements());
  return CheckCollected(engine::MaxSourceLength(*model_));
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
                                        /*is_whole=*/false));
  }
  num_columns_ = sound.stream_width();
  collected_.insert(collected_.end(), features.begin(), features.end());
  return CheckCollected(sound.StreamFramesOf(engine::MaxSourceLength(*model_)));
}

absl::Status Recognition::CheckCollected(int64_t most) const {
  return static_cast<int64_t>(collected_.size()) <= most * num_columns_
             ? absl::OkStatus()
             : status::InvalidField(source_field(), "the source has more than ", most,
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
                            : status::OrOutOfMemory([this] { return Complete(); });
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
  absl::StatusOr<engine::PreparedSource> source = engine::PrepareFeatures(
      *model_,
      sound_.has_value() ? engine::SoundSource(*model_, std::exchange(collected_, {}))
                         : AsTensor(std::exchange(collected_, {}), num_columns_),
      /*is_whole=*/true);
  if (!source.ok()) {
    return AtSource(source.status());
  }
  if (MayBegin()) {
    core_.engine().DecodePrepared(model_, *std::move(source), options_, CallForEngine(),
                                  [self = shared_from_this()](absl::StatusOr<v1::Decoded> answer) {
                                    self->OnAnswer(std::move(answer));
                                  });
  }
  return absl::OkStatus();
}

}  // namespace beamwright::serving
