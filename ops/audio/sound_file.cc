// Sound files: WAV is read by wav_reader.cc, other kinds by libsndfile, which is loaded when a file
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
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"

namespace beamwright::audio {
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
