// WAV files and subtitles.
#include "client/cli/wav.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cli/subtitles.h"

namespace beamwright::client {
namespace {

using ::testing::HasSubstr;

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

TEST(WavTest, FindsFormatAndSamples) {
  const std::string bytes =
      Wav(Chunk("LIST", "odd") + Format(1, 1, 44100, 16) + Chunk("data", "abcd"));
  const auto wav = ParseWav(bytes);
  ASSERT_TRUE(wav.ok()) << wav.status();
  EXPECT_EQ(wav->format.samples(), v1::SAMPLE_FORMAT_PCM16);
  EXPECT_EQ(wav->format.sample_rate(), 44100);
  EXPECT_EQ(wav->samples, "abcd");
  const std::string floats = Wav(Format(3, 1, 8000, 32) + Chunk("data", "abcd"));
  EXPECT_EQ(ParseWav(floats)->format.samples(), v1::SAMPLE_FORMAT_F32);
}

TEST(WavTest, WhatIsMissingAtTheEndIsLeftOut) {
  // A program that records writes a size that it does not know yet.
  const std::string bytes = Wav(Format(1, 1, 16000, 16) + "data" + Number(0xFFFFFFFF, 4) + "abcde");
  const auto wav = ParseWav(bytes);
  ASSERT_TRUE(wav.ok()) << wav.status();
  EXPECT_EQ(wav->samples, "abcd");
}

TEST(WavTest, RefusesWhatItDoesNotRead) {
  const auto message = [](const std::string& bytes) {
    return std::string(ParseWav(bytes).status().message());
  };
  EXPECT_THAT(message("RIFX"), HasSubstr("not a WAV file"));
  EXPECT_THAT(message(Wav("")), HasSubstr("has no samples"));
  EXPECT_THAT(message(Wav(Chunk("data", "ab"))), HasSubstr("come before their format"));
  EXPECT_THAT(message(Wav(Chunk("fmt ", "short"))), HasSubstr("has 5 bytes"));
  EXPECT_THAT(message(Wav(Format(1, 2, 16000, 16))), HasSubstr("has 2 channels; sound has one"));
  EXPECT_THAT(message(Wav(Format(1, 1, 16000, 24))), HasSubstr("samples of 24 bits in format 1"));
  // Whatever bytes come.
  const std::string good = Wav(Format(1, 1, 16000, 16) + Chunk("data", "abcd"));
  for (size_t length = 0; length < good.size(); ++length) {
    ParseWav(good.substr(0, length)).status().IgnoreError();
  }
}

TEST(SubtitleTest, StandsWhereTheWordsAreHeard) {
  v1::RecognizedSegment segment;
  segment.set_num_frames(100);
  segment.set_begin_ms(3'601'000);
  segment.set_end_ms(3'605'000);
  v1::Hypothesis& best = *segment.add_hypotheses();
  best.set_text("two --> words");
  best.add_tokens(1);
  best.add_token_frames(10);
  best.add_token_durations(1);
  best.add_tokens(2);
  best.add_token_frames(50);
  best.add_token_durations(5);
  EXPECT_EQ(Subtitle(3, segment), "3\n01:00:01,400 --> 01:00:03,200\ntwo -> words\n\n");
}

}  // namespace
}  // namespace beamwright::client
