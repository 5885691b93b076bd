// SoundWindows: sound for a decoder that reads a bounded piece at a time, such as Whisper's 30 s.
// Longer sound is cut where it is quietest in the last two fifths of a window, which is a pause if
// there is one. Windows in which nothing is louder than -70 dB are marked: such models write words
// for silence, too.
#ifndef BEAMWRIGHT_SERVER_SERVING_SOUND_WINDOWS_H_
#define BEAMWRIGHT_SERVER_SERVING_SOUND_WINDOWS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/sound/sound_stream.h"

namespace beamwright::serving {

// One source. One thread at a time. Holds at most a window, and the last piece.
class SoundWindows {
 public:
  struct Window {
    std::string bytes;  // in the format of the source
    double begin_ms = 0;
    double end_ms = 0;
    bool is_silent = false;
  };

  // window_ms: the longest window, above 0.
  SoundWindows(const sound::Format& format, int window_ms);

  // As sound::ReadSamples; an error leaves the source as it was.
  absl::Status Add(absl::string_view bytes);
  // The source is complete: what is left is the last window.
  void Finish() { is_complete_ = true; }
  bool has_sound() const { return first_sample_ > 0 || !bytes_.empty(); }
  // The next window of what was added, if it is complete.
  std::optional<Window> Next();

 private:
  // The sample, after the first `least`, at which a full window is cut.
  size_t CutOf(const std::vector<float>& samples) const;

  const sound::Format format_;
  const size_t most_samples_;
  std::string bytes_;        // of the windows to come
  size_t first_sample_ = 0;  // of them, in the source
  bool is_complete_ = false;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SOUND_WINDOWS_H_
