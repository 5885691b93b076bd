// Log-mel features: equal to kaldi-native-fbank's, whatever the pieces.
#include "server/sound/fbank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <string>

#include "ops/base/file.h"
#include "ops/numpy/npy.h"

namespace beamwright::sound {
namespace {

using ::testing::HasSubstr;

// As make_references.py has it.
std::vector<float> Noise(int count) {
  uint32_t state = 1;
  std::vector<float> samples;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    samples.push_back((static_cast<float>(state >> 16) - 32768) / 131072);
  }
  return samples;
}

std::shared_ptr<const Fbank> Made(const FbankOptions& options) {
  auto fbank = Fbank::Create(options);
  EXPECT_TRUE(fbank.ok()) << fbank.status();
  return *fbank;
}

std::vector<float> Features(const FbankOptions& options, const std::vector<float>& samples) {
  FbankStream stream(Made(options));
  std::vector<float> features;
  stream.Add(samples, features);
  stream.Finish(features);
  return features;
}

void ExpectReference(const FbankOptions& options, const std::string& file) {
  const auto bytes = ReadFile(BEAMWRIGHT_SOURCE_DIR "/tests/server/sound/data/" + file);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto expected = ops::ParseNpy(*bytes);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::vector<float> found = Features(options, Noise(options.sample_rate / 5 + 37));
  ASSERT_EQ(static_cast<int64_t>(found.size()), expected->num_elements());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected->data<float>()[i], 1e-4) << "value " << i;
  }
}

TEST(FbankTest, IsThatOfKaldi) {
  FbankOptions options;
  ExpectReference(options, "noise_16000_mirror.npy");
  options.integer_scale = true;
  options.snip_edges = true;
  ExpectReference(options, "noise_16000_snip.npy");
  FbankOptions telephone;
  telephone.sample_rate = 8000;
  ExpectReference(telephone, "noise_8000_mirror.npy");
}

// kaldi-native-fbank 1.23 on the same samples, to its five digits.
TEST(FbankTest, OfTwoTonesIsThatOfKaldiWhereTheySound) {
  std::vector<float> samples;
  for (int i = 0; i < 16000; ++i) {
    const double angle = 2 * std::numbers::pi * i / 16000;
    samples.push_back(
        static_cast<float>(0.5 * std::sin(440 * angle) + 0.25 * std::sin(3000 * angle)));
  }
  const std::vector<float> features = Features({}, samples);
  ASSERT_EQ(features.size(), 100 * 80);
  const int bins[] = {0, 10, 20, 40, 60, 79};
  const double first[] = {-4.48058, 0.10181, -0.12377, -3.75901, 0.33987, -4.50806};
  const double middle[] = {-11.04822, -4.82206, -6.88769, -13.50997, -11.32649, -15.94238};
  double sum = 0;
  for (const float value : features) {
    sum += value;
  }
  EXPECT_NEAR(sum / 8000, -9.933554, 1e-4);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(features[static_cast<size_t>(bins[i])], first[i], 1e-4) << bins[i];
    // A bin with a millionth of its frame's energy, or less, is noise there in single precision.
    EXPECT_NEAR(features[static_cast<size_t>(50 * 80 + bins[i])], middle[i], 2e-3) << bins[i];
  }
}

TEST(FbankTest, SilenceIsTheFloor) {
  for (const float value : Features({}, std::vector<float>(1000, 0))) {
    EXPECT_NEAR(value, std::log(std::pow(2.0, -23)), 1e-5);
  }
}

TEST(FbankTest, PiecesChangeNoBit) {
  std::mt19937 random(26);
  for (int i = 0; i < 300; ++i) {
    FbankOptions options;
    options.sample_rate = i % 3 == 0 ? 8000 : 16000;
    options.snip_edges = i % 2 == 0;
    options.integer_scale = i % 5 == 0;
    const std::vector<float> samples = Noise(static_cast<int>(random() % 3000));
    const auto fbank = Made(options);
    FbankStream stream(fbank);
    std::vector<float> features;
    for (size_t at = 0; at < samples.size();) {
      const size_t end = std::min(samples.size(), at + random() % 500);
      stream.Add(absl::MakeConstSpan(samples).subspan(at, end - at), features);
      at = end;
    }
    stream.Finish(features);
    EXPECT_EQ(features, Features(options, samples)) << i;
    EXPECT_EQ(stream.num_frames(), fbank->NumFrames(static_cast<int64_t>(samples.size())));
  }
}

TEST(FbankTest, FramesAreThereAsSoonAsTheirSamplesAre) {
  FbankStream stream(Made({}));
  std::vector<float> features;
  for (int i = 0; i < 1000; ++i) {
    stream.Add(Noise(16), features);
  }
  EXPECT_EQ(stream.num_frames(), 99);  // the last one is mirrored
  stream.Finish(features);
  EXPECT_EQ(stream.num_frames(), 100);
}

TEST(FbankTest, RefusesOptionsThatMakeNoSense) {
  const auto message = [](int rate, int bins, float low, float high) {
    FbankOptions options{rate, bins, low, high};
    return std::string(Fbank::Create(options).status().message());
  };
  EXPECT_THAT(message(999, 80, 20, -400), HasSubstr("sample_rate: 999 is outside [1000, 48000]"));
  EXPECT_THAT(message(16000, 2, 20, -400), HasSubstr("num_bins: 2 is outside [3, 256]"));
  EXPECT_THAT(message(16000, 80, 20, 9000), HasSubstr("do not lie within [0, 8000]"));
  EXPECT_THAT(message(16000, 80, 7900, -400), HasSubstr("mel bins from 7900 to 7600"));
  EXPECT_THAT(message(8000, 256, 20, -400), HasSubstr("num_bins: 256 are too many"));
}

}  // namespace
}  // namespace beamwright::sound
