#include "client/cli/wav.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

template <typename Number>
Number At(absl::string_view bytes, size_t position) {
  Number number;
  std::memcpy(&number, bytes.data() + position, sizeof(number));
  return number;
}

// What the chunk "fmt " says.
absl::StatusOr<v1::AudioFormat> ReadFormat(absl::string_view chunk) {
  constexpr size_t kShortest = 16;
  if (chunk.size() < kShortest) {
    return Invalid("the WAV file's format has ", chunk.size(), " bytes; it has ", kShortest,
                   " at least");
  }
  constexpr int kIntegers = 1;
  constexpr int kFloats = 3;
  constexpr int kExtensible = 0xFFFE;
  constexpr size_t kSubFormat = 24;
  int kind = At<uint16_t>(chunk, 0);
  if (kind == kExtensible && chunk.size() >= kSubFormat + 2) {
    kind = At<uint16_t>(chunk, kSubFormat);
  }
  const int channels = At<uint16_t>(chunk, 2);
  const int bits = At<uint16_t>(chunk, 14);
  if (channels != 1) {
    return Invalid("the WAV file has ", channels, " channels; sound has one");
  }
  v1::AudioFormat format;
  if (kind == kIntegers && bits == 16) {
    format.set_samples(v1::SAMPLE_FORMAT_PCM16);
  } else if (kind == kFloats && bits == 32) {
    format.set_samples(v1::SAMPLE_FORMAT_F32);
  } else {
    return Invalid("the WAV file has samples of ", bits, " bits in format ", kind,
                   "; 16-bit integers (1) and 32-bit floats (3) are read");
  }
  format.set_sample_rate(static_cast<int32_t>(
      std::min<uint32_t>(At<uint32_t>(chunk, 4), std::numeric_limits<int32_t>::max())));
  return format;
}

}  // namespace

size_t SampleBytes(const v1::AudioFormat& format) {
  return format.samples() == v1::SAMPLE_FORMAT_F32 ? 4 : 2;
}

bool IsWav(absl::string_view bytes) {
  return absl::StartsWith(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WAVE";
}

absl::StatusOr<WavFile> ParseWav(absl::string_view bytes) {
  if (!IsWav(bytes)) {
    return Invalid("it is not a WAV file: it does not begin with RIFF and WAVE");
  }
  WavFile file;
  bool has_format = false;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const absl::string_view name = bytes.substr(at, 4);
    const size_t size = At<uint32_t>(bytes, at + 4);
    const absl::string_view chunk = bytes.substr(at + 8, size);
    if (name == "fmt ") {
      BW_ASSIGN_OR_RETURN(file.format, ReadFormat(chunk));
      has_format = true;
    } else if (name == "data") {
      if (!has_format) {
        return Invalid("the WAV file's samples come before their format");
      }
      const size_t width = SampleBytes(file.format);
      file.samples = chunk.substr(0, chunk.size() / width * width);
      return file;
    }
    at += 8 + size + size % 2;
  }
  return Invalid("the WAV file has no samples");
}

}  // namespace beamwright::client
