// Reads WAV files as they come, in pieces of any size, and gives samples of one channel, or the
// mean of all channels, from -1 to 1.
//
//   "RIFF" size "WAVE"
//   chunks: name (4 bytes), size (4 bytes), content, a byte of padding if the size is odd
//     "fmt "  encoding, channels, rate, bits per sample
//     "data"  the samples, frame by frame
//     others  are skipped
//
// Add appends to a buffer and runs a state machine: TakeHead takes the head or the chunk that is
// next, as soon as it is complete, up to the samples; TakeSamples then converts whole frames
// (Sample). A size of 0 or 2^32 - 1 of "data" means "to the end", as programs write it that do not
// know the length when they begin.
//
// Encodings: integers of 8 to 32 bits (8 bits have no sign), floats of 32 and 64 bits, A-law and
// mu-law.
#include "ops/audio/wav_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ops/base/status.h"

namespace beamwright::audio {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kRiffBytes = 12;
constexpr size_t kChunkHeadBytes = 8;
constexpr size_t kLeastFormat = 16;
constexpr size_t kMostFormat = 4096;
constexpr uint64_t kToTheEnd = std::numeric_limits<uint64_t>::max();

template <typename Number>
Number At(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

// G.711: sign, exponent of three bits, mantissa of four; A-law has its even bits inverted, mu-law
// all of them. Both as 16-bit integers.
int FromALaw(uint8_t code) {
  code ^= 0x55;
  const int exponent = (code >> 4) & 7;
  const int mantissa = code & 15;
  const int size =
      exponent == 0 ? (mantissa << 4) + 8 : ((mantissa << 4) + 0x108) << (exponent - 1);
  return (code & 0x80) != 0 ? size : -size;
}

int FromMuLaw(uint8_t code) {
  constexpr int kBias = 0x84;
  code = static_cast<uint8_t>(~code);
  const int size = ((((code & 15) << 3) + kBias) << ((code >> 4) & 7)) - kBias;
  return (code & 0x80) != 0 ? -size : size;
}

}  // namespace

bool WavReader::fits_16_bits() const {
  const bool is_one_channel = channel_ > 0 || num_channels_ == 1;
  return is_one_channel && encoding_ != Encoding::kFloat && sample_bytes_ <= 2;
}

absl::Status WavReader::ReadFormat(absl::string_view chunk) {
  constexpr int kExtensible = 0xFFFE;
  constexpr size_t kSubFormat = 24;
  int kind = At<uint16_t>(chunk.data());
  if (kind == kExtensible && chunk.size() >= kSubFormat + 2) {
    kind = At<uint16_t>(chunk.data() + kSubFormat);
  }
  num_channels_ = At<uint16_t>(chunk.data() + 2);
  sample_rate_ = static_cast<int>(
      std::min<uint32_t>(At<uint32_t>(chunk.data() + 4), std::numeric_limits<int32_t>::max()));
  const int bits = At<uint16_t>(chunk.data() + 14);
  if (num_channels_ < 1 || num_channels_ > kMaxChannels) {
    return Invalid("the WAV file has ", num_channels_, " channels; 1 to ", kMaxChannels,
                   " are read");
  }
  if (channel_ > num_channels_) {
    return Invalid("the WAV file has ", num_channels_, " channels; there is no channel ", channel_);
  }
  constexpr int kIntegers = 1;
  constexpr int kFloats = 3;
  constexpr int kALaws = 6;
  constexpr int kMuLaws = 7;
  sample_bytes_ = static_cast<size_t>(bits + 7) / 8;
  if (kind == kIntegers && bits >= 1 && bits <= 32) {
    encoding_ = Encoding::kInteger;
  } else if (kind == kFloats && (bits == 32 || bits == 64)) {
    encoding_ = Encoding::kFloat;
  } else if ((kind == kALaws || kind == kMuLaws) && bits == 8) {
    encoding_ = kind == kALaws ? Encoding::kALaw : Encoding::kMuLaw;
  } else {
    return absl::UnimplementedError(absl::StrCat(
        "the WAV file has samples of ", bits, " bits in format ", kind,
        "; integers of 8 to 32 bits (1), floats of 32 and 64 bits (3), A-law (6) and mu-law (7) "
        "are read"));
  }
  has_format_ = true;
  return absl::OkStatus();
}

absl::Status WavReader::BeginChunk(absl::string_view name, uint32_t size) {
  left_ = size;
  is_odd_ = size % 2 != 0;
  if (name == "fmt ") {
    if (size < kLeastFormat || size > kMostFormat) {
      return Invalid("the WAV file's format has ", size, " bytes; it has ", kLeastFormat, " to ",
                     kMostFormat);
    }
    state_ = State::kFormat;
  } else if (name == "data") {
    if (!has_format_) {
      return Invalid("the WAV file's samples come before their format");
    }
    state_ = State::kSamples;
    if (size == 0 || size == std::numeric_limits<uint32_t>::max()) {
      left_ = kToTheEnd;
    }
  } else {
    state_ = State::kSkip;
    left_ += size % 2;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> WavReader::TakeHead() {
  size_t taken = 0;
  if (state_ == State::kRiff) {
    taken = kRiffBytes;
    if (buffer_.size() < taken) {
      return false;
    }
    const absl::string_view head = buffer_;
    if ((head.substr(0, 4) != "RIFF" && head.substr(0, 4) != "RF64") ||
        head.substr(8, 4) != "WAVE") {
      return Invalid("it is not a WAV file: it does not begin with RIFF and WAVE");
    }
    state_ = State::kChunk;
  } else if (state_ == State::kChunk) {
    taken = kChunkHeadBytes;
    if (buffer_.size() < taken) {
      return false;
    }
    BW_RETURN_IF_ERROR(
        BeginChunk(absl::string_view(buffer_).substr(0, 4), At<uint32_t>(buffer_.data() + 4)));
  } else if (state_ == State::kFormat) {
    taken = static_cast<size_t>(left_) + (is_odd_ ? 1 : 0);
    if (buffer_.size() < taken) {
      return false;
    }
    BW_RETURN_IF_ERROR(
        ReadFormat(absl::string_view(buffer_).substr(0, static_cast<size_t>(left_))));
    state_ = State::kChunk;
  } else {
    taken = static_cast<size_t>(std::min<uint64_t>(left_, buffer_.size()));
    left_ -= taken;
    if (left_ > 0) {
      buffer_.clear();
      return false;
    }
    state_ = State::kChunk;
  }
  buffer_.erase(0, taken);
  return true;
}

float WavReader::Sample(const char* bytes) const {
  constexpr float kScale16 = 32768;
  switch (encoding_) {
    case Encoding::kALaw:
      return static_cast<float>(FromALaw(static_cast<uint8_t>(*bytes))) / kScale16;
    case Encoding::kMuLaw:
      return static_cast<float>(FromMuLaw(static_cast<uint8_t>(*bytes))) / kScale16;
    case Encoding::kFloat:
      return sample_bytes_ == 8 ? static_cast<float>(At<double>(bytes)) : At<float>(bytes);
    case Encoding::kInteger:
      break;
  }
  if (sample_bytes_ == 1) {  // 8 bits alone have no sign
    return (static_cast<float>(static_cast<uint8_t>(*bytes)) - 128) / 128;
  }
  uint32_t top = 0;  // the sample as the highest bytes of a 32-bit integer
  std::memcpy(reinterpret_cast<char*>(&top) + sizeof(top) - sample_bytes_, bytes, sample_bytes_);
  constexpr double kScale32 = 2147483648.0;
  return static_cast<float>(static_cast<int32_t>(top) / kScale32);
}

void WavReader::TakeSamples(std::vector<float>& samples) {
  const size_t frame_bytes = sample_bytes_ * static_cast<size_t>(num_channels_);
  const auto size = static_cast<size_t>(std::min<uint64_t>(left_, buffer_.size()));
  const size_t num_frames = size / frame_bytes;
  for (size_t i = 0; i < num_frames; ++i) {
    const char* const frame = buffer_.data() + i * frame_bytes;
    if (channel_ > 0) {
      samples.push_back(Sample(frame + static_cast<size_t>(channel_ - 1) * sample_bytes_));
      continue;
    }
    float sum = 0;
    for (size_t c = 0; c < static_cast<size_t>(num_channels_); ++c) {
      sum += Sample(frame + c * sample_bytes_);
    }
    samples.push_back(sum / static_cast<float>(num_channels_));
  }
  buffer_.erase(0, num_frames * frame_bytes);
  if (left_ != kToTheEnd) {
    left_ -= num_frames * frame_bytes;
    if (left_ < frame_bytes) {
      state_ = State::kEnd;
    }
  }
}

absl::Status WavReader::Add(absl::string_view bytes, std::vector<float>& samples) {
  if (state_ == State::kEnd) {
    return absl::OkStatus();
  }
  buffer_.append(bytes.data(), bytes.size());
  while (!has_begun()) {
    BW_ASSIGN_OR_RETURN(const bool is_taken, TakeHead());
    if (!is_taken) {
      return absl::OkStatus();
    }
  }
  TakeSamples(samples);
  if (state_ == State::kEnd) {
    buffer_.clear();
  }
  return absl::OkStatus();
}

absl::Status WavReader::Finish() const {
  return has_begun() ? absl::OkStatus() : Invalid("the WAV file has no samples");
}

}  // namespace beamwright::audio
