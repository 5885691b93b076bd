// Cuts a stream of sound into windows at pauses, for models that read whole sources. Sound is
// divided into frames of 20 ms; Judge says of each whether it is speech, and Next takes a window
// when a pause has lasted pause_frames_, or when the window is as long as it may be.
//
// 1. Judge: with an activity model, by its probabilities, with a higher threshold to begin speech
//    than to end it; without one, by the power relative to a level that falls slowly (IsSpeech).
// 2. Next: a pause ends the window in its middle, or shortly after the speech if silence is
//    dropped. Without a pause, the cut is at the quietest place of the last two fifths
//    (QuietFrame).
// 3. With an activity model, sound without speech is not given on, but kPadFrames around the speech
//    are kept; speech shorter than kLeastSpeechFrames counts as noise.
#include "server/serving/sound_windows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/bundle/rules.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

constexpr double kSilence = 1e-7;  // power of -70 dB at full scale 1
constexpr int kFramesASecond = 50;
constexpr int64_t kQuietFrames = 10;  // a fifth of a second: what a cut looks for
constexpr int64_t kLeastFrames = kFramesASecond / 2;

// Without a model: a pause is this far below the level before it, and the level falls this fast.
constexpr double kPauseBelow = 1e-2;   // 20 dB
constexpr double kFallAFrame = 0.986;  // 3 dB a second

// Thresholds of Silero's program: speech begins and ends at these probabilities, is longer than a
// quarter of a second, and has some sound around it.
constexpr float kSpeechBegins = 0.5F;
constexpr float kSpeechEnds = 0.35F;
constexpr int64_t kLeastSpeechFrames = 12;
constexpr int64_t kPadFrames = 10;

}  // namespace

SoundWindows::SoundWindows(const sound::Format& format, const Rules& rules,
                           const std::shared_ptr<const engine::ActivityModel>& activity)
    : format_(format),
      frame_samples_(std::max(format.sample_rate / kFramesASecond, 1)),
      most_samples_(std::max(int64_t{rules.window_ms} * format.sample_rate / 1000,
                             kLeastFrames * frame_samples_)),
      pause_frames_(
          rules.pause_ms <= 0 ? 0 : std::max<int64_t>(rules.pause_ms * kFramesASecond / 1000, 1)) {
  if (activity != nullptr) {
    activity_.emplace(activity, format.sample_rate);
  }
}

absl::Status SoundWindows::Add(absl::string_view bytes) {
  std::vector<float> samples;
  BW_RETURN_IF_ERROR(sound::ReadSamples(format_, bytes, samples));
  if (activity_.has_value()) {
    BW_RETURN_IF_ERROR(activity_->Add(samples, probabilities_));
  }
  bytes_.erase(0, used_);
  used_ = 0;
  bytes_.append(bytes.data(), bytes.size());
  for (const float sample : samples) {
    sum_ += static_cast<double>(sample) * static_cast<double>(sample);
    if (++num_samples_ % frame_samples_ == 0) {
      unjudged_.push_back(sum_ / static_cast<double>(frame_samples_));
      sum_ = 0;
    }
  }
  Judge();
  return absl::OkStatus();
}

void SoundWindows::Finish() {
  is_complete_ = true;
  Judge();
}

bool SoundWindows::IsSpeech(double power) {
  level_ = std::max(power, level_ * kFallAFrame);
  return power >= std::max(kSilence, level_ * kPauseBelow);
}

void SoundWindows::Judge() {
  while (!unjudged_.empty()) {
    if (activity_.has_value()) {
      const double frame = static_cast<double>(first_frame_ + static_cast<int64_t>(frames_.size()));
      const double ms = (frame + 0.5) * static_cast<double>(frame_samples_) * 1000 /
                        static_cast<double>(format_.sample_rate);
      const auto window = static_cast<size_t>(ms / engine::ActivityModel::kWindowMs);
      if (window < probabilities_.size()) {
        hears_speech_ = probabilities_[window] >= (hears_speech_ ? kSpeechEnds : kSpeechBegins);
      } else if (!is_complete_) {
        return;  // the model has not heard it yet
      }
    } else {
      hears_speech_ = IsSpeech(unjudged_.front());
    }
    frames_.push_back({unjudged_.front(), hears_speech_});
    unjudged_.pop_front();
  }
}

int64_t SoundWindows::QuietFrame() const {
  const int64_t begin = FrameOf(begin_);
  const int64_t num_frames = most_samples_ / frame_samples_;
  int64_t cut = num_frames;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t first = num_frames * 3 / 5; first + kQuietFrames <= num_frames; ++first) {
    double power = 0;
    for (int64_t i = 0; i < kQuietFrames; ++i) {
      power += At(begin + first + i).power;
    }
    if (power <= least) {
      cut = first + kQuietFrames / 2;
      least = power;
    }
  }
  return begin + cut;
}

void SoundWindows::SkipTo(int64_t sample) {
  used_ += static_cast<size_t>((sample - begin_) * format_.sample_bytes());
  begin_ = sample;
  const int64_t num_frames =
      std::min(FrameOf(sample) - first_frame_, static_cast<int64_t>(frames_.size()));
  frames_.erase(frames_.begin(), frames_.begin() + num_frames);
  first_frame_ += num_frames;
  if (last_speech_ < first_frame_) {
    has_speech_ = false;
    num_speech_ = 0;
  }
}

SoundWindows::Window SoundWindows::Take(int64_t end) {
  const auto ms = [&](int64_t sample) {
    return 1000.0 * static_cast<double>(sample) / format_.sample_rate;
  };
  Window window;
  window.begin_ms = ms(begin_);
  window.end_ms = ms(end);
  window.bytes = bytes_.substr(used_, static_cast<size_t>((end - begin_) * format_.sample_bytes()));
  if (begin_ > 0 || !is_complete_ || end < num_samples_) {
    const auto least = static_cast<size_t>(kLeastFrames * frame_samples_ * format_.sample_bytes());
    window.bytes.resize(std::max(window.bytes.size(), least), '\0');
  }
  window.is_silent = true;
  for (int64_t frame = FrameOf(begin_); frame < FrameOf(end); ++frame) {
    window.is_silent = window.is_silent && At(frame).power < kSilence;
  }
  SkipTo(end);
  return window;
}

std::optional<SoundWindows::Window> SoundWindows::Next() {
  const int64_t num_judged = first_frame_ + static_cast<int64_t>(frames_.size());
  const bool drops = activity_.has_value();
  for (; scanned_ < num_judged; ++scanned_) {
    const int64_t frame = scanned_;
    if (At(frame).is_speech) {
      has_speech_ = true;
      last_speech_ = frame;
      ++num_speech_;
    }
    if (has_speech_ && pause_frames_ > 0 && frame - last_speech_ >= pause_frames_) {
      // In the middle of the pause, or shortly behind the speech.
      const int64_t after = drops ? std::min(kPadFrames, pause_frames_) : (pause_frames_ + 1) / 2;
      const int64_t end = std::min(last_speech_ + 1 + after, frame + 1) * frame_samples_;
      const bool is_speech = !drops || num_speech_ >= kLeastSpeechFrames;
      if (is_speech) {
        ++scanned_;
        return Take(end);
      }
      SkipTo(end);
    }
    if (drops && !has_speech_) {
      SkipTo(std::max(begin_, (frame + 1 - kPadFrames) * frame_samples_));
    } else if ((frame + 1) * frame_samples_ - begin_ > most_samples_) {
      ++scanned_;
      num_speech_ = kLeastSpeechFrames;  // what follows a cut is a part of this speech
      return Take(QuietFrame() * frame_samples_);
    }
  }
  if (!is_complete_ || begin_ == num_samples_) {
    return std::nullopt;
  }
  if (num_samples_ - begin_ > most_samples_) {
    return Take(QuietFrame() * frame_samples_);  // a part of a frame is left over
  }
  if (drops && (!has_speech_ || num_speech_ < kLeastSpeechFrames)) {
    SkipTo(num_samples_);
    return std::nullopt;
  }
  const int64_t end = (last_speech_ + 1 + kPadFrames) * frame_samples_;
  Window window = Take(drops ? std::min(end, num_samples_) : num_samples_);
  SkipTo(num_samples_);
  return window;
}

namespace {

// Rules where a request says nothing (recognize.proto), ms.
constexpr int kSilenceMs = 2400;
constexpr int kPauseMs = 1200;
constexpr int kMaxSegmentMs = 20000;

constexpr int kWindowMs = 30'000;       // of a decoder that fills no sound up to its own length
constexpr int kMostWindowMs = 120'000;  // of an encoder that reads whole sources

bool HasDecoder(const engine::DecodeModel& model) { return model.parts().frames == nullptr; }

}  // namespace

bool CutsSound(const engine::DecodeModel& model) {
  return model.parts().sound != nullptr && (HasDecoder(model) || model.reads_whole_source());
}

bool TakesEndpoint(const engine::DecodeModel& model) {
  // A window costs Whisper as much as 30 s, so that pauses end none by themselves.
  return CutsSound(model) ? !HasDecoder(model) : model.config().frame_ms() > 0;
}

absl::StatusOr<std::vector<search::EndpointRule>> ReadEndpoint(const v1::Endpoint& endpoint,
                                                               const engine::DecodeModel& model,
                                                               bool is_sound) {
  status::Faults faults;
  beamwright::bundle::CheckRules(endpoint, "endpoint", faults);
  const double frame_ms = model.config().frame_ms();
  const bool is_cut = CutsSound(model) && is_sound;
  if (frame_ms <= 0 && !is_cut) {
    faults.Add("endpoint", "needs a model with a known duration of a frame (frame_ms)");
  }
  if (model.reads_whole_source() && !is_cut) {
    faults.Add("endpoint",
               "the model's encoder reads the whole source, of which sound alone is cut");
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  if (is_cut) {
    return std::vector<search::EndpointRule>();
  }
  const auto frames = [frame_ms](int ms) {
    return std::max<int64_t>(static_cast<int64_t>(ms / frame_ms), 1);
  };
  std::vector<search::EndpointRule> rules;
  const int silence = endpoint.has_silence_ms() ? endpoint.silence_ms() : kSilenceMs;
  const int pause = endpoint.has_pause_ms() ? endpoint.pause_ms() : kPauseMs;
  const int most = endpoint.has_max_segment_ms() ? endpoint.max_segment_ms() : kMaxSegmentMs;
  if (silence > 0) {
    rules.push_back({false, frames(silence), 0});
  }
  if (pause > 0) {
    rules.push_back({true, frames(pause), 0});
  }
  if (most > 0) {
    rules.push_back({false, 0, frames(most)});
  }
  return rules;
}

SoundWindows::Rules WindowRules(const v1::Endpoint* endpoint, const engine::DecodeModel& model) {
  SoundWindows::Rules rules;
  rules.window_ms = kMostWindowMs;
  if (HasDecoder(model)) {
    const int pad_ms = model.config().sound().pad_ms();
    rules.window_ms = pad_ms > 0 ? pad_ms : kWindowMs;
  }
  if (endpoint != nullptr) {
    rules.pause_ms = endpoint->has_pause_ms() ? endpoint->pause_ms() : kPauseMs;
    const int most = endpoint->has_max_segment_ms() ? endpoint->max_segment_ms() : kMaxSegmentMs;
    rules.window_ms = most > 0 ? std::min(rules.window_ms, most) : rules.window_ms;
  }
  return rules;
}

}  // namespace beamwright::serving
