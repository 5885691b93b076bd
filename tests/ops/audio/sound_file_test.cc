// Files of sound against libsndfile, which writes them and decodes WAV by code of its authors.
#include "ops/audio/sound_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sndfile.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace beamwright::audio {
namespace {

using ::testing::HasSubstr;

struct Memory {
  std::string bytes;
  sf_count_t at = 0;
};

SF_VIRTUAL_IO InMemory() {
  SF_VIRTUAL_IO io;
  io.get_filelen = [](void* user) {
    return static_cast<sf_count_t>(static_cast<Memory*>(user)->bytes.size());
  };
  io.tell = [](void* user) { return static_cast<Memory*>(user)->at; };
  io.seek = [](sf_count_t offset, int whence, void* user) {
    auto& memory = *static_cast<Memory*>(user);
    memory.at = offset + (whence == SEEK_CUR   ? memory.at
                          : whence == SEEK_END ? static_cast<sf_count_t>(memory.bytes.size())
                                               : 0);
    return memory.at;
  };
  io.read = [](void* target, sf_count_t count, void* user) {
    auto& memory = *static_cast<Memory*>(user);
    const std::string part =
        memory.bytes.substr(static_cast<size_t>(memory.at), static_cast<size_t>(count));
    std::memcpy(target, part.data(), part.size());
    memory.at += static_cast<sf_count_t>(part.size());
    return static_cast<sf_count_t>(part.size());
  };
  io.write = [](const void* source, sf_count_t count, void* user) {
    auto& memory = *static_cast<Memory*>(user);
    const auto end = static_cast<size_t>(memory.at + count);
    memory.bytes.resize(std::max(memory.bytes.size(), end));
    std::memcpy(memory.bytes.data() + memory.at, source, static_cast<size_t>(count));
    memory.at += count;
    return count;
  };
  return io;
}

// Frames of noise and a tone, another one in each channel. [count, channels]
std::vector<float> Noise(int rate, int count, int channels) {
  std::mt19937 random(43);
  std::vector<float> samples;
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) {
      const auto noise = static_cast<float>(random() % 2000) / 10000.F - 0.1F;
      samples.push_back(noise + 0.4F * static_cast<float>(std::sin(2000.0 * (c + 1) * i / rate)));
    }
  }
  return samples;
}

std::string Written(int format, int rate, int channels, int count) {
  SF_INFO info = {};
  info.format = format;
  info.samplerate = rate;
  info.channels = channels;
  Memory memory;
  SF_VIRTUAL_IO io = InMemory();
  SNDFILE* const file = sf_open_virtual(&io, SFM_WRITE, &info, &memory);
  EXPECT_NE(file, nullptr) << sf_strerror(nullptr);
  const std::vector<float> samples = Noise(rate, count, channels);
  EXPECT_EQ(sf_writef_float(file, samples.data(), count), count);
  sf_close(file);
  return memory.bytes;
}

// As libsndfile decodes it: the mean of the channels, or one of them.
std::vector<float> Expected(const std::string& bytes, int channel) {
  Memory memory{bytes};
  SF_VIRTUAL_IO io = InMemory();
  SF_INFO info = {};
  SNDFILE* const file = sf_open_virtual(&io, SFM_READ, &info, &memory);
  std::vector<float> samples;
  std::vector<float> frame(static_cast<size_t>(info.channels));
  while (sf_readf_float(file, frame.data(), 1) == 1) {
    float sum = 0;
    for (const float sample : frame) {
      sum += sample;
    }
    samples.push_back(channel > 0 ? frame[static_cast<size_t>(channel - 1)]
                                  : sum / static_cast<float>(info.channels));
  }
  sf_close(file);
  return samples;
}

std::vector<float> ReadAll(SoundFile& file) {
  std::vector<float> samples;
  for (size_t before = 1; before != samples.size();) {
    before = samples.size();
    EXPECT_TRUE(file.Read(777, samples).ok());
  }
  return samples;
}

struct Case {
  const char* name;
  int format;
  int rate;
  int channels = 1;
  bool fits_16_bits = false;
};

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

const Case kCases[] = {
    {"8 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 6000, 1, true},
    {"16 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, true},
    {"16 bits, stereo", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 44100, 2},
    {"24 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_24, 96000},
    {"24 bits, 6 channels", SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, 48000, 6},
    {"32 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_32, 192000},
    {"floats", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 11025, 2},
    {"doubles", SF_FORMAT_WAV | SF_FORMAT_DOUBLE, 22050},
    {"mu-law", SF_FORMAT_WAV | SF_FORMAT_ULAW, 8000, 1, true},
    {"A-law", SF_FORMAT_WAV | SF_FORMAT_ALAW, 8000, 1, true},
    {"RF64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, 16000, 2},
    {"GSM in WAV", SF_FORMAT_WAV | SF_FORMAT_GSM610, 8000},
    {"ADPCM in WAV", SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, 16000},
    {"FLAC", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 2},
    {"Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 2},
    {"Opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000},
    {"AIFF", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 32000, 2},
    {"AU", SF_FORMAT_AU | SF_FORMAT_ULAW, 8000},
    {"CAF", SF_FORMAT_CAF | SF_FORMAT_PCM_24, 48000},
    {"W64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, 16000},
    {"MP3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 44100, 2},
};

class SoundFileTest : public testing::TestWithParam<Case> {};

TEST_P(SoundFileTest, HasTheSamplesThatLibsndfileDecodes) {
  const Case& one = GetParam();
  const std::string bytes = Written(one.format, one.rate, one.channels, 5000);
  for (int channel = 0; channel <= one.channels; ++channel) {
    const auto file = SoundFile::Open(bytes, channel);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->sample_rate(), one.rate);
    if (one.channels == 1) {
      EXPECT_EQ((*file)->fits_16_bits(), one.fits_16_bits);
    }
    const std::vector<float> samples = ReadAll(**file);
    const std::vector<float> expected = Expected(bytes, channel);
    ASSERT_EQ(samples.size(), expected.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      ASSERT_NEAR(samples[i], expected[i], 1e-6) << "sample " << i << ", channel " << channel;
      if ((*file)->fits_16_bits()) {
        ASSERT_EQ(samples[i] * 32768, std::round(samples[i] * 32768));
      }
    }
  }
  EXPECT_THAT(SoundFile::Open(bytes, one.channels + 1).status().message(),
              HasSubstr(absl::StrCat("there is no channel ", one.channels + 1)));
}

// A file that ends early has the samples up to there or is refused; nothing else happens.
TEST_P(SoundFileTest, EndsAnywhere) {
  const Case& one = GetParam();
  const std::string bytes = Written(one.format, one.rate, one.channels, 300);
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    const std::string part = bytes.substr(0, size);
    const auto file = SoundFile::Open(part, 0);
    std::vector<float> samples;
    for (size_t before = 1; file.ok() && before != samples.size();) {
      before = samples.size();
      if (!(*file)->Read(100, samples).ok()) {
        break;
      }
    }
    EXPECT_LE(samples.size(), 10000U);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SoundFileTest, testing::ValuesIn(kCases));

std::string Number(uint32_t number, size_t width) {
  return {reinterpret_cast<const char*>(&number), width};
}

std::string Chunk(const std::string& name, const std::string& content) {
  return name + Number(static_cast<uint32_t>(content.size()), 4) + content +
         std::string(content.size() % 2, '\0');
}

std::string Format(uint32_t kind, uint32_t channels, uint32_t rate, uint32_t bits) {
  return Chunk("fmt ", Number(kind, 2) + Number(channels, 2) + Number(rate, 4) + Number(0, 4) +
                           Number(0, 2) + Number(bits, 2));
}

std::string Wav(const std::string& chunks) { return "RIFF" + Number(0, 4) + "WAVE" + chunks; }

TEST(WavReaderTest, PiecesChangeNothing) {
  const std::string bytes = Written(SF_FORMAT_WAV | SF_FORMAT_PCM_24, 16000, 2, 500);
  std::vector<float> whole;
  WavReader reader(0);
  ASSERT_TRUE(reader.Add(bytes, whole).ok());
  ASSERT_EQ(whole.size(), 500U);
  for (const size_t size : {1, 2, 3, 7, 44, 100}) {
    std::vector<float> samples;
    WavReader other(0);
    for (size_t at = 0; at < bytes.size(); at += size) {
      ASSERT_TRUE(other.Add(bytes.substr(at, size), samples).ok());
    }
    EXPECT_TRUE(other.Finish().ok());
    EXPECT_EQ(samples, whole) << size;
  }
}

TEST(WavReaderTest, ASizeThatWasNotKnownEndsWithTheFile) {
  for (const uint32_t size : {0U, 0xFFFFFFFFU, 0x7FFFF000U}) {
    const std::string bytes =
        Wav(Chunk("LIST", "odd") + Format(1, 1, 16000, 16) + "data" + Number(size, 4) + "abcde");
    const auto file = SoundFile::Open(bytes, 0);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(ReadAll(**file), testing::ElementsAre(0x6261 / 32768.F, 0x6463 / 32768.F));
  }
}

TEST(WavReaderTest, BytesBehindTheSamplesAreNoSamples) {
  const std::string bytes =
      Wav(Format(1, 1, 16000, 16) + Chunk("data", "ab") + Chunk("LIST", "tags"));
  const auto file = SoundFile::Open(bytes, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ReadAll(**file).size(), 1U);
}

std::string MessageOf(const std::string& bytes) {
  return std::string(SoundFile::Open(bytes, 0).status().message());
}

TEST(SoundFileTest, RefusesFilesThatItCannotRead) {
  EXPECT_THAT(MessageOf(""), HasSubstr("the file is empty; WAV, FLAC"));
  EXPECT_THAT(MessageOf("abcdefghijkl"), HasSubstr("begins as no known kind of sound file"));
  EXPECT_THAT(MessageOf(std::string("\0\0\0\x20", 4) + "ftypM4A "), HasSubstr("it is MP4"));
  EXPECT_THAT(MessageOf("\x1a\x45\xdf\xa3 and so on"), HasSubstr("it is WebM"));
  EXPECT_THAT(MessageOf("\xff\xf1\x50\x80 and so on"), HasSubstr("it is AAC"));
  EXPECT_THAT(MessageOf("fLaC and then nothing of it"), HasSubstr("begins as FLAC and cannot"));
  EXPECT_THAT(MessageOf(Wav("")), HasSubstr("has no samples"));
  EXPECT_THAT(MessageOf(Wav(Chunk("data", "ab"))), HasSubstr("come before their format"));
  EXPECT_THAT(MessageOf(Wav(Chunk("fmt ", "short"))), HasSubstr("has 5 bytes; it has 16 to"));
  EXPECT_THAT(MessageOf(Wav(Format(1, 65, 16000, 16))), HasSubstr("has 65 channels; 1 to 64"));
  // Encodings that neither reads.
  EXPECT_FALSE(SoundFile::Open(Wav(Format(77, 1, 16000, 16) + Chunk("data", "ab")), 0).ok());
}

TEST(SoundFileTest, MarksOfTwoBytesAreNotSure) {
  EXPECT_FALSE(KindOf("\xff\xfb\x90\x44 frame")->is_sure);
  EXPECT_TRUE(KindOf("ID3\x04 frame")->is_sure);
  EXPECT_FALSE(KindOf("\xff\xff\xff\xff samples").has_value());
}

// Whatever follows a mark: an answer, no crash.
TEST(SoundFileTest, SurvivesNoiseBehindEveryMark) {
  std::mt19937 random(7);
  for (const Case& one : kCases) {
    const std::string good = Written(one.format, one.rate, one.channels, 300);
    for (int round = 0; round < 30; ++round) {
      std::string bytes = good;
      for (int i = 0; i < 8; ++i) {
        bytes[12 + random() % (bytes.size() - 12)] = static_cast<char>(random());
      }
      const auto file = SoundFile::Open(bytes, 0);
      std::vector<float> samples;
      for (int i = 0; file.ok() && i < 50 && (*file)->Read(100, samples).ok(); ++i) {
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::audio
