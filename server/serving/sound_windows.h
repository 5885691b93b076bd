// SoundWindows: sound in windows, for models that read a bounded piece at a time, or whole sources.
// A window ends in a pause, or where it is as long as it may be: there it is cut where it is
// quietest in its last two fifths. Without a model that hears speech, a pause is sound that is
// 20 dB below the sound before it, windows follow each other without gaps, and those in which
// nothing is louder than -70 dB are marked: models write words for silence, too. With one, what is
// no speech is in no window.
#ifndef BEAMWRIGHT_SERVER_SERVING_SOUND_WINDOWS_H_
#define BEAMWRIGHT_SERVER_SERVING_SOUND_WINDOWS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "engine/model/parts.h"
#include "engine/search/frames/frame_search.h"
#include "engine/sound/sound_stream.h"

namespace beamwright::serving {

// One source. One thread at a time. Holds at most a window, and the last piece.
class SoundWindows {
 public:
  struct Window {
    std::string bytes;  // in the format of the source; shorter ones than 0.5 s, unless they are the
                        // whole source, are filled up with silence
    double begin_ms = 0;
    double end_ms = 0;
    bool is_silent = false;
  };

  struct Rules {
    int window_ms = 30'000;  // the longest window, at least half a second
    int pause_ms = 0;        // that end a window; 0: none does
  };

  // activity: hears speech; null: its loudness says so.
  SoundWindows(const sound::Format& format, const Rules& rules,
               const std::shared_ptr<const engine::ActivityModel>& activity = nullptr);

  // As sound::ReadSamples; an error leaves the source as it was.
  absl::Status Add(absl::string_view bytes);
  // The source is complete: what is left is the last window.
  void Finish();
  bool has_sound() const { return num_samples_ > 0; }
  // The next window of what was added, if it is complete.
  std::optional<Window> Next();

 private:
  // A fiftieth of a second.
  struct Frame {
    double power = 0;  // the mean of its samples' squares
    bool is_speech = false;
  };

  int64_t FrameOf(int64_t sample) const { return sample / frame_samples_; }
  const Frame& At(int64_t frame) const {
    return frames_[static_cast<size_t>(frame - first_frame_)];
  }
  // Judges the frames of which enough is known.
  void Judge();
  bool IsSpeech(double power);
  // The frame, of a window as long as it may be, at which it is cut.
  int64_t QuietFrame() const;
  // The window up to a sample, where the next one begins.
  Window Take(int64_t end);
  // Sound before a sample is in no window.
  void SkipTo(int64_t sample);

  const sound::Format format_;
  const int64_t frame_samples_;
  const int64_t most_samples_;  // of a window
  const int64_t pause_frames_;  // 0: no pause ends a window
  std::optional<engine::ActivityStream> activity_;

  int64_t num_samples_ = 0;  // of the source so far
  bool is_complete_ = false;
  // Of the windows to come: their bytes, behind `used_` that are not, and their frames.
  std::string bytes_;
  size_t used_ = 0;
  int64_t begin_ = 0;  // sample at which the next window begins, a multiple of frame_samples_
  std::deque<Frame> frames_;
  int64_t first_frame_ = 0;
  double sum_ = 0;  // of the squares in the frame that is not complete
  // Of hearing speech.
  std::deque<double> unjudged_;       // powers of frames, behind `frames_`
  std::vector<float> probabilities_;  // of the model's windows, from the source's begin on
  double level_ = 0;                  // of the sound so far, without a model
  bool hears_speech_ = false;
  // Of the window that goes on.
  int64_t scanned_ = 0;  // frames of the source
  bool has_speech_ = false;
  int64_t last_speech_ = 0;  // its last frame with speech
  int64_t num_speech_ = 0;   // frames
};

// When a segment of a source ends, as a request asks for it.

// Whether segments of sound should end before the source does where a client says nothing.
bool TakesEndpoint(const engine::DecodeModel& model);
// Whether segments are cut from the sound, before the model hears it.
bool CutsSound(const engine::DecodeModel& model);

// Rules in frames of the model, those that are not set as recognize.proto has them; none for a
// model for which sound is cut. InvalidArgument, by field, for what the model cannot follow or what
// is out of range. is_sound: not features.
absl::StatusOr<std::vector<search::EndpointRule>> ReadEndpoint(const v1::Endpoint& endpoint,
                                                               const engine::DecodeModel& model,
                                                               bool is_sound);

// How sound is cut for a model; endpoint: null if the request has none.
SoundWindows::Rules WindowRules(const v1::Endpoint* endpoint, const engine::DecodeModel& model);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SOUND_WINDOWS_H_
