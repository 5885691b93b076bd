// From bytes to features: formats, rates, and what is refused.
#include "engine/sound/sound_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace beamwright::sound {
namespace {

using ::testing::HasSubstr;

std::vector<float> Tone(int rate, int count, double frequency) {
  std::vector<float> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back(
        static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * frequency * i / rate)));
  }
  return samples;
}

std::string Bytes(const std::vector<float>& samples, bool is_f32) {
  std::string bytes;
  for (const float sample : samples) {
    const auto integer = static_cast<int16_t>(std::lround(sample * 32768));
    bytes.append(
        is_f32 ? reinterpret_cast<const char*>(&sample) : reinterpret_cast<const char*>(&integer),
        is_f32 ? 4 : 2);
  }
  return bytes;
}

std::vector<float> Features(const Format& format, const std::string& bytes) {
  SoundStream stream(*FrontEnd::Create({}), format);
  std::vector<float> features;
  EXPECT_TRUE(stream.Add(bytes, features).ok());
  stream.Finish(features);
  return features;
}

TEST(SoundStreamTest, FormatsOfOneSoundSayTheSame) {
  // Samples that 16 bits hold exactly.
  std::vector<float> samples = Tone(16000, 4000, 440);
  for (float& sample : samples) {
    sample = static_cast<float>(std::lround(sample * 32768)) / 32768;
  }
  EXPECT_EQ(Features({false, 16000}, Bytes(samples, false)),
            Features({true, 16000}, Bytes(samples, true)));
}

TEST(SoundStreamTest, OfAnotherRateSaysNearlyTheSame) {
  const auto own = Features({true, 16000}, Bytes(Tone(16000, 8000, 440), true));
  const auto other = Features({true, 44100}, Bytes(Tone(44100, 22050, 440), true));
  ASSERT_EQ(own.size(), other.size());
  // Where the tone is, in frames away from the ends.
  const size_t frame = 20 * 80;
  const auto loudest = static_cast<size_t>(
      std::max_element(own.begin() + frame, own.begin() + frame + 80) - own.begin());
  EXPECT_NEAR(own[loudest], other[loudest], 0.02);
}

TEST(SoundStreamTest, RefusesHalfASampleAndWhatIsNotFinite) {
  SoundStream stream(*FrontEnd::Create({}), {false, 16000});
  std::vector<float> features;
  EXPECT_THAT(std::string(stream.Add("abc", features).message()),
              HasSubstr("3 bytes are not whole samples of 2 bytes"));
  SoundStream floats(*FrontEnd::Create({}), {true, 16000});
  const std::string bytes = Bytes(
      {0, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}, true);
  EXPECT_THAT(std::string(floats.Add(bytes, features).message()), HasSubstr("sample 1 is nan"));
  EXPECT_THAT(std::string(floats.Add(Bytes({-3e38F}, true), features).message()),
              HasSubstr("sample 0 is -3e+38; at most"));
  // Nothing was taken of them.
  const std::string rest = Bytes(Tone(16000, 700, 440), true);
  ASSERT_TRUE(floats.Add(rest, features).ok());
  floats.Finish(features);
  EXPECT_EQ(features, Features({true, 16000}, rest));
}

TEST(SoundStreamTest, TheLoudestSampleHasFiniteFeatures) {
  std::vector<float> samples(16000);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = i % 2 == 0 ? 2147483648.0F : -2147483648.0F;
  }
  const std::vector<float> features = Features({true, 16000}, Bytes(samples, true));
  ASSERT_FALSE(features.empty());
  EXPECT_TRUE(std::all_of(features.begin(), features.end(),
                          [](float feature) { return std::isfinite(feature); }));
}

TEST(SoundStreamTest, RefusesFormats) {
  const auto message = [](int rate, int samples) {
    v1::AudioFormat format;
    format.set_sample_rate(rate);
    format.set_samples(static_cast<v1::SampleFormat>(samples));
    return std::string(ReadFormat(format).status().message());
  };
  EXPECT_THAT(message(5999, 1), HasSubstr("format.sample_rate"));
  EXPECT_THAT(message(192001, 1), HasSubstr("format.sample_rate"));
  EXPECT_EQ(message(16001, 1), "");
  EXPECT_THAT(message(16000, 3), HasSubstr("format.samples"));
  EXPECT_EQ(message(44100, 2), "");
  EXPECT_EQ(ReadFormat({})->sample_rate, 16000);
  EXPECT_FALSE(ReadFormat({})->is_f32);
}

}  // namespace
}  // namespace beamwright::sound
