// SoundFile: recordings of the usual kinds as samples of one channel. WAV is read here; FLAC, Ogg
// (Vorbis, Opus), AIFF, AU, CAF, W64, MP3 and rare encodings of WAV by libsndfile where the machine
// has it. Nothing is ever taken for raw samples because its kind is unknown.
#ifndef BEAMWRIGHT_OPS_AUDIO_SOUND_FILE_H_
#define BEAMWRIGHT_OPS_AUDIO_SOUND_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::audio {

// WavReader: the samples of a WAV file while its bytes arrive, from a file or from a pipe. The
// format is described in Microsoft's "Multimedia Programming Interface and Data
// Specifications 1.0"; A-law and mu-law in ITU-T G.711.

// Sound with more channels is refused.
inline constexpr int kMaxChannels = 64;

// Integers of 8, 16, 24 and 32 bits, floats of 32 and 64 bits, A-law and mu-law, in 1 to 64
// channels; RF64 too. One thread at a time.
class WavReader {
 public:
  // channel: which one is read, counted from 1; 0: the mean of all.
  explicit WavReader(int channel) : channel_(channel) {}

  // The next bytes of the file, in pieces of any size. Appends the samples that are complete with
  // them, at full scale 1. A data chunk of size 0, or longer than the file, ends with the file:
  // programs that record into a pipe do not know the size. InvalidArgument: not a WAV file, a
  // broken head, no such channel. Unimplemented: samples in another encoding.
  absl::Status Add(absl::string_view bytes, std::vector<float>& samples);
  // The file is complete. InvalidArgument: it has no samples' chunk.
  absl::Status Finish() const;

  // Whether the samples' chunk has begun, so that the following are known.
  bool has_begun() const { return state_ == State::kSamples || state_ == State::kEnd; }
  int sample_rate() const { return sample_rate_; }
  // Whether each sample, times 32768, is a 16-bit integer.
  bool fits_16_bits() const;

 private:
  enum class State { kRiff, kChunk, kFormat, kSkip, kSamples, kEnd };
  enum class Encoding { kInteger, kFloat, kALaw, kMuLaw };

  // Takes one part of the head from buffer_; false: it is not whole yet.
  absl::StatusOr<bool> TakeHead();
  absl::Status BeginChunk(absl::string_view name, uint32_t size);
  absl::Status ReadFormat(absl::string_view chunk);
  void TakeSamples(std::vector<float>& samples);
  float Sample(const char* bytes) const;

  const int channel_;
  State state_ = State::kRiff;
  std::string buffer_;   // bytes that are not taken yet
  uint64_t left_ = 0;    // bytes of the chunk that is skipped, of the format, or of the samples
  bool is_odd_ = false;  // a byte of padding follows the format
  bool has_format_ = false;
  Encoding encoding_ = Encoding::kInteger;
  size_t sample_bytes_ = 0;  // of one channel
  int num_channels_ = 0;
  int sample_rate_ = 0;
};

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
