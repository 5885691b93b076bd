// SoundFile: recordings of the usual kinds as samples of one channel. WAV is read here; FLAC, Ogg
// (Vorbis, Opus), AIFF, AU, CAF, W64, MP3 and rare encodings of WAV by libsndfile where the machine
// has it. Nothing is ever taken for raw samples because its kind is unknown.
#ifndef BEAMWRIGHT_OPS_AUDIO_SOUND_FILE_H_
#define BEAMWRIGHT_OPS_AUDIO_SOUND_FILE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/audio/wav_reader.h"

namespace beamwright::audio {

// Bytes of a file that KindOf looks at.
inline constexpr size_t kKindBytes = 12;

struct SoundKind {
  const char* name;     // "FLAC"
  bool is_wav = false;  // read without libsndfile
  bool is_read = true;  // else known by name alone
  bool is_sure = true;  // its mark is at least three bytes; raw samples begin so once in a lifetime
};

// What a file is by its first bytes; nullopt: none of the kinds that are known.
std::optional<SoundKind> KindOf(absl::string_view bytes);

// One file. One thread at a time.
class SoundFile {
 public:
  class Decoder;  // libsndfile's handle

  // `bytes`, the whole file, must outlive it. channel: as of WavReader. InvalidArgument: no known
  // kind, a kind that is not read, a broken file, no such channel. FailedPrecondition: libsndfile
  // is needed and not installed.
  static absl::StatusOr<std::unique_ptr<SoundFile>> Open(absl::string_view bytes, int channel);
  ~SoundFile();

  int sample_rate() const { return sample_rate_; }
  // Whether each sample, times 32768, is a 16-bit integer.
  bool fits_16_bits() const { return fits_16_bits_; }
  // Appends the next samples, at full scale 1, some `most`; none at the end. InvalidArgument: the
  // file is broken here.
  absl::Status Read(size_t most, std::vector<float>& samples);

 private:
  SoundFile(absl::string_view bytes, int channel);
  absl::Status OpenWav();

  absl::string_view bytes_;  // of a WAV file: those that wav_ has not got yet
  WavReader wav_;
  std::vector<float> begun_;  // samples that came with the head
  std::unique_ptr<Decoder> decoder_;
  int sample_rate_ = 0;
  bool fits_16_bits_ = false;
};

}  // namespace beamwright::audio

#endif  // BEAMWRIGHT_OPS_AUDIO_SOUND_FILE_H_
