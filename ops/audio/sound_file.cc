// Sound files: WAV is read by sound_file.cc, other kinds by libsndfile, which is loaded when a file
// first needs it.
//
// 1. KindOf recognizes a file by its first bytes (kMarks), or as a frame of MPEG audio
//    (KindOfFrame). Kinds that are known and not read have a message that names them.
// 2. Open: WAV is read directly, until the reader has the header; a WAV with a codec that it lacks
//    goes to libsndfile.
// 3. Decoder reads through callbacks on the bytes in memory (MemoryFile); no file is opened, and
//    nothing is written.
// 4. Read returns mono samples: one channel, or the mean of all.
//
// libsndfile is found by dlopen: programs run without it, and a server that gets no such file does
// not hold its decoders in memory. Files come from clients: all sizes are clamped, and the number
// of channels is limited.
#include "ops/audio/sound_file.h"

#include <dlfcn.h>
#include <sndfile.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"

namespace beamwright::audio {

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

namespace {

struct Mark {
  size_t at;  // the mark's first byte
  absl::string_view bytes;
  absl::string_view at_8;  // bytes from 8 on; empty: any
  SoundKind kind;
};

constexpr SoundKind Unread(const char* name) { return {name, false, false}; }

constexpr Mark kMarks[] = {
    {0, "RIFF", "WAVE", {"WAV", true}},
    {0, "RF64", "WAVE", {"WAV", true}},
    {0, "RIFX", "WAVE", {"big-endian WAV"}},
    {0, "riff\x2e\x91\xcf\x11", "", {"W64"}},
    {0, "fLaC", "", {"FLAC"}},
    {0, "OggS", "", {"Ogg"}},
    {0, "FORM", "AIFF", {"AIFF"}},
    {0, "FORM", "AIFC", {"AIFF"}},
    {0, ".snd", "", {"AU"}},
    {0, "dns.", "", {"AU"}},
    {0, "caff", "", {"CAF"}},
    {0, "ID3", "", {"MP3"}},
    {4, "ftyp", "", Unread("MP4 (M4A, AAC)")},
    {0, "\x1a\x45\xdf\xa3", "", Unread("WebM or Matroska")},
    {0, "#!AMR", "", Unread("AMR")},
    {0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", "", Unread("WMA")},
    {0, "wvpk", "", Unread("WavPack")},
    {0, "MAC ", "", Unread("Monkey's Audio")},
    {0, "FLV\x01", "", Unread("FLV")},
};

// A frame's head of MPEG audio: twelve set bits, and fields of which some values are reserved.
std::optional<SoundKind> KindOfFrame(absl::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0xFF || (byte(1) & 0xE0) != 0xE0) {
    return std::nullopt;
  }
  const int version = (byte(1) >> 3) & 3;
  const int layer = (byte(1) >> 1) & 3;
  if (layer == 0 && version >= 2) {
    return SoundKind{"AAC", false, false, false};
  }
  const int bit_rate = byte(2) >> 4;
  const int sample_rate = (byte(2) >> 2) & 3;
  if (version == 1 || layer == 0 || bit_rate == 0 || bit_rate == 15 || sample_rate == 3) {
    return std::nullopt;
  }
  return SoundKind{"MP3", false, true, false};
}

// The functions of libsndfile, loaded when a file first needs them.
struct Library {
  decltype(&sf_open_virtual) open = nullptr;
  decltype(&sf_readf_float) read = nullptr;
  decltype(&sf_error) error = nullptr;
  decltype(&sf_strerror) message = nullptr;
  decltype(&sf_close) close = nullptr;

  static const Library* Get() {
    static const Library* const library = Load();
    return library;
  }

 private:
  // Null if the library is not installed or lacks a function.
  static const Library* Load() {
    void* const handle = dlopen("libsndfile.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return nullptr;
    }
    static Library library;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    const bool is_whole = find(library.open, "sf_open_virtual") &&
                          find(library.read, "sf_readf_float") && find(library.error, "sf_error") &&
                          find(library.message, "sf_strerror") && find(library.close, "sf_close");
    return is_whole ? &library : nullptr;
  }
};

// A file in memory, as libsndfile reads it.
struct MemoryFile {
  absl::string_view bytes;
  sf_count_t at = 0;

  static MemoryFile& Of(void* user) { return *static_cast<MemoryFile*>(user); }
  static sf_count_t Size(void* user) { return static_cast<sf_count_t>(Of(user).bytes.size()); }
  static sf_count_t Tell(void* user) { return Of(user).at; }
  static sf_count_t Seek(sf_count_t offset, int whence, void* user) {
    const sf_count_t from = whence == SEEK_CUR ? Tell(user) : whence == SEEK_END ? Size(user) : 0;
    sf_count_t at = 0;
    if (__builtin_add_overflow(from, offset, &at)) {
      return Tell(user);
    }
    return Of(user).at = std::clamp<sf_count_t>(at, 0, Size(user));
  }
  static sf_count_t Read(void* target, sf_count_t count, void* user) {
    MemoryFile& file = Of(user);
    const sf_count_t size =
        std::clamp<sf_count_t>(Size(user) - file.at, 0, std::max<sf_count_t>(count, 0));
    std::memcpy(target, file.bytes.data() + file.at, static_cast<size_t>(size));
    file.at += size;
    return size;
  }
  static sf_count_t Write(const void*, sf_count_t, void*) { return 0; }
};

}  // namespace

std::optional<SoundKind> KindOf(absl::string_view bytes) {
  for (const Mark& mark : kMarks) {
    if (bytes.size() >= mark.at && absl::StartsWith(bytes.substr(mark.at), mark.bytes) &&
        (mark.at_8.empty() ||
         (bytes.size() >= 12 && bytes.substr(8, mark.at_8.size()) == mark.at_8))) {
      return mark.kind;
    }
  }
  return KindOfFrame(bytes);
}

class SoundFile::Decoder {
 public:
  static absl::StatusOr<std::unique_ptr<Decoder>> Open(absl::string_view bytes, const char* kind,
                                                       int channel) {
    const Library* const library = Library::Get();
    if (library == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(kind,
                       " is read by libsndfile.so.1 (Debian: libsndfile1), which is not "
                       "installed where this program runs; WAV is read without it"));
    }
    std::unique_ptr<Decoder> decoder(new Decoder(*library, bytes, kind));
    SF_VIRTUAL_IO io = {&MemoryFile::Size, &MemoryFile::Seek, &MemoryFile::Read, &MemoryFile::Write,
                        &MemoryFile::Tell};
    decoder->file_ = library->open(&io, SFM_READ, &decoder->info_, &decoder->memory_);
    const int num_channels = decoder->info_.channels;
    if (decoder->file_ == nullptr) {
      return Invalid("it begins as ", kind, " and cannot be read: ", library->message(nullptr));
    }
    if (num_channels < 1 || num_channels > kMaxChannels || channel > num_channels) {
      return Invalid("it has ", num_channels, " channels; ",
                     channel > num_channels ? "there is no channel " : "most are ",
                     channel > num_channels ? channel : kMaxChannels);
    }
    decoder->channel_ = channel;
    return decoder;
  }
  ~Decoder() {
    if (file_ != nullptr) {
      library_.close(file_);
    }
  }

  int sample_rate() const { return info_.samplerate; }

  absl::Status Read(size_t most, std::vector<float>& samples) {
    const auto width = static_cast<size_t>(info_.channels);
    frames_.resize(most * width);
    const sf_count_t count = library_.read(file_, frames_.data(), static_cast<sf_count_t>(most));
    if (count <= 0 && library_.error(file_) != 0) {
      return Invalid("the ", kind_, " file is broken: ", library_.message(file_));
    }
    for (size_t i = 0; i < static_cast<size_t>(std::max<sf_count_t>(count, 0)); ++i) {
      const float* const frame = frames_.data() + i * width;
      if (channel_ > 0) {
        samples.push_back(frame[channel_ - 1]);
        continue;
      }
      float sum = 0;
      for (size_t c = 0; c < width; ++c) {
        sum += frame[c];
      }
      samples.push_back(sum / static_cast<float>(width));
    }
    return absl::OkStatus();
  }

 private:
  Decoder(const Library& library, absl::string_view bytes, const char* kind)
      : library_(library), kind_(kind), memory_{bytes} {}

  const Library& library_;
  const char* const kind_;
  MemoryFile memory_;
  SF_INFO info_ = {};
  SNDFILE* file_ = nullptr;
  int channel_ = 0;
  std::vector<float> frames_;  // [most, channels]
};

SoundFile::SoundFile(absl::string_view bytes, int channel) : bytes_(bytes), wav_(channel) {}

SoundFile::~SoundFile() = default;

absl::Status SoundFile::OpenWav() {
  constexpr size_t kHead = 4096;
  while (!wav_.has_begun() && !bytes_.empty()) {
    BW_RETURN_IF_ERROR(wav_.Add(bytes_.substr(0, kHead), begun_));
    bytes_.remove_prefix(std::min(kHead, bytes_.size()));
  }
  BW_RETURN_IF_ERROR(wav_.Finish());
  sample_rate_ = wav_.sample_rate();
  fits_16_bits_ = wav_.fits_16_bits();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SoundFile>> SoundFile::Open(absl::string_view bytes, int channel) {
  const std::optional<SoundKind> kind = KindOf(bytes);
  if (!kind.has_value()) {
    return Invalid(bytes.empty() ? "the file is empty" : "it begins as no known kind of sound file",
                   "; WAV, FLAC, Ogg (Vorbis, Opus), AIFF, AU, CAF and MP3 are read");
  }
  if (!kind->is_read) {
    return Invalid("it is ", kind->name,
                   ", which is not read; convert it, as with ffmpeg -i FILE talk.wav");
  }
  std::unique_ptr<SoundFile> file(new SoundFile(bytes, channel));
  if (kind->is_wav) {
    const absl::Status status = file->OpenWav();
    if (!absl::IsUnimplemented(status)) {
      BW_RETURN_IF_ERROR(status);
      return file;
    }
    if (Library::Get() == nullptr) {
      return Invalid(status.message(), "; further ones by libsndfile.so.1, which is not installed");
    }
  }
  BW_ASSIGN_OR_RETURN(file->decoder_, Decoder::Open(bytes, kind->name, channel));
  file->sample_rate_ = file->decoder_->sample_rate();
  return file;
}

absl::Status SoundFile::Read(size_t most, std::vector<float>& samples) {
  if (decoder_ != nullptr) {
    return decoder_->Read(most, samples);
  }
  if (!begun_.empty()) {
    samples.insert(samples.end(), begun_.begin(), begun_.end());
    begun_.clear();
    return absl::OkStatus();
  }
  // A read without a sample is the end, so bytes go in until one comes out.
  const size_t before = samples.size();
  while (!bytes_.empty() && samples.size() == before) {
    const size_t size = std::min(bytes_.size(), most * 8);
    BW_RETURN_IF_ERROR(wav_.Add(bytes_.substr(0, size), samples));
    bytes_.remove_prefix(size);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::audio
