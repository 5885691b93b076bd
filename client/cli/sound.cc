// Opens the sound of a file or of standard input and gives it in pieces of a tenth of a second, as
// 16-bit samples or floats.
//
// OpenSound: a file is read whole and decoded by its kind (SoundOfFile). From a pipe, sound must be
// passed on while it comes: a WAV file is read as it comes (WavOfPipe), raw samples of --samples
// too (RawSound), and other kinds are read to their end first. The kind is found by the first bytes
// (audio::KindOf).
#include "client/cli/sound.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "client/cli/flags.h"
#include "ops/audio/sound_file.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

using audio::SoundFile;
using audio::SoundKind;
using audio::WavReader;

size_t PieceSamples(const v1::AudioFormat& format) {
  return static_cast<size_t>(std::max(format.sample_rate(), 10) / 10);
}

// Samples at full scale 1, as the server reads them.
std::string Encoded(const std::vector<float>& samples, const v1::AudioFormat& format) {
  if (format.samples() == v1::SAMPLE_FORMAT_F32) {
    return {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(float)};
  }
  std::string bytes;
  for (const float sample : samples) {
    const auto integer = static_cast<int16_t>(std::lround(sample * 32768));
    bytes.append(reinterpret_cast<const char*>(&integer), sizeof(integer));
  }
  return bytes;
}

v1::AudioFormat FormatOf(bool fits_16_bits, int sample_rate) {
  v1::AudioFormat format;
  format.set_samples(fits_16_bits ? v1::SAMPLE_FORMAT_PCM16 : v1::SAMPLE_FORMAT_F32);
  format.set_sample_rate(sample_rate);
  return format;
}

// Up to `size` more bytes of standard input; false: it has ended.
bool ReadInput(size_t size, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + size);
  const ssize_t count = ::read(STDIN_FILENO, bytes.data() + before, size);
  bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return count > 0;
}

bool IsRaw(const std::optional<SoundKind>& kind, const SoundFlags& flags) {
  return !flags.samples.empty() && !(kind.has_value() && kind->is_sure);
}

absl::Status NotKnown(const absl::Status& status, const std::optional<SoundKind>& kind) {
  return kind.has_value() ? status
                          : Invalid(status.message(),
                                    "; raw samples need --samples, which says how they are "
                                    "written");
}

// The samples of a file that is there whole.
absl::StatusOr<Sound> SoundOfFile(std::string bytes, const SoundFlags& flags) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  absl::StatusOr<std::unique_ptr<SoundFile>> opened = SoundFile::Open(*kept, flags.channel);
  if (!opened.ok()) {
    return NotKnown(opened.status(), audio::KindOf(*kept));
  }
  std::shared_ptr<SoundFile> file = *std::move(opened);
  Sound sound;
  sound.format = FormatOf(file->fits_16_bits(), file->sample_rate());
  sound.next = [kept, file, format = sound.format, failure = sound.failure] {
    std::vector<float> samples;
    *failure = file->Read(PieceSamples(format), samples);
    return failure->ok() ? Encoded(samples, format) : std::string();
  };
  return sound;
}

// Raw samples: `begun`, and in a pipe what follows on standard input.
Sound RawSound(std::string begun, bool is_pipe, const SoundFlags& flags) {
  Sound sound;
  sound.format = FormatOf(flags.samples != "f32", flags.sample_rate);
  const size_t width = SampleBytes(sound.format);
  const size_t size = PieceSamples(sound.format) * width;
  sound.next = [=, rest = std::move(begun), at = size_t{0}]() mutable {
    while (is_pipe && rest.size() < width && ReadInput(size, rest)) {
    }
    // Half a sample at the end is the server's to refuse.
    const size_t left = rest.size() - at;
    const size_t count = std::min(size, left < width ? left : left / width * width);
    std::string piece = rest.substr(at, count);
    at += count;
    if (is_pipe) {
      rest.erase(0, std::exchange(at, 0));
    }
    return piece;
  };
  return sound;
}

// A WAV file in a pipe, of which `begun` has been read. Its head is read here.
absl::StatusOr<Sound> WavOfPipe(std::string begun, const SoundFlags& flags) {
  constexpr size_t kHead = 256;
  auto reader = std::make_shared<WavReader>(flags.channel);
  std::vector<float> first;
  std::string all = begun;
  absl::Status status = reader->Add(begun, first);
  for (std::string bytes; status.ok() && !reader->has_begun() && ReadInput(kHead, bytes);
       bytes.clear()) {
    all += bytes;
    status = reader->Add(bytes, first);
  }
  if (absl::IsUnimplemented(status)) {  // libsndfile may read it, whole
    while (ReadInput(size_t{1} << 16, all)) {
    }
    return SoundOfFile(std::move(all), flags);
  }
  BW_RETURN_IF_ERROR(status);
  BW_RETURN_IF_ERROR(reader->Finish());
  Sound sound;
  sound.format = FormatOf(reader->fits_16_bits(), reader->sample_rate());
  sound.next = [reader, samples = std::move(first), format = sound.format,
                failure = sound.failure]() mutable {
    std::string bytes;
    while (samples.empty() && failure->ok() && ReadInput(PieceSamples(format) * 2, bytes)) {
      *failure = reader->Add(bytes, samples);
      bytes.clear();
    }
    return Encoded(std::exchange(samples, {}), format);
  };
  return sound;
}

absl::StatusOr<Sound> SoundOfPipe(const SoundFlags& flags) {
  std::string bytes;
  while (bytes.size() < audio::kKindBytes && ReadInput(audio::kKindBytes - bytes.size(), bytes)) {
  }
  const std::optional<SoundKind> kind = audio::KindOf(bytes);
  if (IsRaw(kind, flags)) {
    return RawSound(std::move(bytes), /*is_pipe=*/true, flags);
  }
  if (kind.has_value() && kind->is_wav) {
    return WavOfPipe(std::move(bytes), flags);
  }
  while (kind.has_value() && kind->is_read && ReadInput(size_t{1} << 16, bytes)) {
  }
  return SoundOfFile(std::move(bytes), flags);
}

}  // namespace

void AddChannelFlag(CLI::App& app, SoundFlags& flags) {
  AddIntFlag(app, {"--channel", "Sound", "The channel that is read, from 1; 0: the mean of all."},
             0, audio::kMaxChannels, flags.channel);
}

void AddSoundFlags(CLI::App& app, SoundFlags& flags) {
  AddChannelFlag(app, flags);
  app.add_option("--samples", flags.samples,
                 "Bytes of no known kind are raw samples of this form: pcm16 or f32.")
      ->check(CLI::IsMember({"pcm16", "f32"}))
      ->group("Raw samples");
  AddIntFlag(app, {"--sample-rate", "Raw samples", "Samples a second."}, 6000, 192000,
             flags.sample_rate);
}

size_t SampleBytes(const v1::AudioFormat& format) {
  return format.samples() == v1::SAMPLE_FORMAT_F32 ? 4 : 2;
}

absl::StatusOr<Sound> OpenSound(const std::string& path, const SoundFlags& flags) {
  if (path == "-") {
    return SoundOfPipe(flags);
  }
  BW_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  if (IsRaw(audio::KindOf(bytes), flags)) {
    return RawSound(std::move(bytes), /*is_pipe=*/false, flags);
  }
  return SoundOfFile(std::move(bytes), flags);
}

}  // namespace beamwright::client
