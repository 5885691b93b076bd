#include "server/serving/sound_windows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

constexpr double kSilence = 1e-7;  // power of -70 dB at full scale 1
constexpr int kFramesASecond = 50;
constexpr int64_t kQuietFrames = 10;  // a fifth of a second: what a cut looks for
constexpr int64_t kLeastFrames = kFramesASecond / 2;

// How far below the level before it a pause is, and how the level falls.
constexpr double kPauseBelow = 1e-2;   // 20 dB
constexpr double kFallAFrame = 0.986;  // 3 dB a second

}  // namespace

SoundWindows::SoundWindows(const sound::Format& format, const Rules& rules)
    : format_(format),
      frame_samples_(std::max(format.sample_rate / kFramesASecond, 1)),
      most_samples_(std::max(int64_t{rules.window_ms} * format.sample_rate / 1000,
                             kLeastFrames * frame_samples_)),
      pause_frames_(
          rules.pause_ms <= 0 ? 0 : std::max<int64_t>(rules.pause_ms * kFramesASecond / 1000, 1)) {}

absl::Status SoundWindows::Add(absl::string_view bytes) {
  std::vector<float> samples;
  BW_RETURN_IF_ERROR(sound::ReadSamples(format_, bytes, samples));
  bytes_.erase(0, used_);
  used_ = 0;
  bytes_.append(bytes.data(), bytes.size());
  for (const float sample : samples) {
    sum_ += static_cast<double>(sample) * static_cast<double>(sample);
    if (++num_samples_ % frame_samples_ == 0) {
      const double power = sum_ / static_cast<double>(frame_samples_);
      frames_.push_back({power, IsSpeech(power)});
      sum_ = 0;
    }
  }
  return absl::OkStatus();
}

bool SoundWindows::IsSpeech(double power) {
  level_ = std::max(power, level_ * kFallAFrame);
  return power >= std::max(kSilence, level_ * kPauseBelow);
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
  used_ += static_cast<size_t>((end - begin_) * format_.sample_bytes());
  begin_ = end;
  const int64_t num_frames =
      std::min(FrameOf(end) - first_frame_, static_cast<int64_t>(frames_.size()));
  frames_.erase(frames_.begin(), frames_.begin() + num_frames);
  first_frame_ += num_frames;
  has_speech_ = has_speech_ && last_speech_ >= first_frame_;
  return window;
}

std::optional<SoundWindows::Window> SoundWindows::Next() {
  const int64_t num_frames = first_frame_ + static_cast<int64_t>(frames_.size());
  while (scanned_ < num_frames) {
    const int64_t frame = scanned_++;
    if (At(frame).is_speech) {
      has_speech_ = true;
      last_speech_ = frame;
    }
    if (has_speech_ && pause_frames_ > 0 && frame - last_speech_ >= pause_frames_) {
      has_speech_ = false;
      return Take((last_speech_ + 1 + (pause_frames_ + 1) / 2) * frame_samples_);  // its middle
    }
    if ((frame + 1) * frame_samples_ - begin_ > most_samples_) {
      return Take(QuietFrame() * frame_samples_);
    }
  }
  if (!is_complete_ || begin_ == num_samples_) {
    return std::nullopt;
  }
  // A part of a frame may make it too long.
  return Take(num_samples_ - begin_ > most_samples_ ? QuietFrame() * frame_samples_ : num_samples_);
}

}  // namespace beamwright::serving
