// Log-mel features: equal to kaldi-native-fbank's, whatever the pieces.
#include "engine/sound/fbank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

std::vector<float> Tones(int count, int rate) {
  std::vector<float> samples;
  for (int i = 0; i < count; ++i) {
    const double at = static_cast<double>(i) / rate;
    const double turn = 2 * std::numbers::pi;
    samples.push_back(static_cast<float>(0.5 * std::sin(turn * 440 * at) +
                                         0.25 * std::sin(turn * (1000 + 3000 * at) * at)));
  }
  return samples;
}

// kaldi-native-fbank's, to the last places of a logarithm. Next to tones a bin holds what was
// rounded off elsewhere, so that any other rounding, in the transform above all, differs by 1e-3
// and more.
void ExpectReferences(const FbankOptions& options, const std::string& suffix) {
  const int count = options.sample_rate / 5 + 37;
  for (const auto& [name, samples] : {std::pair("noise_", Noise(count)),
                                      std::pair("tones_", Tones(count, options.sample_rate))}) {
    const std::string file = name + absl::StrCat(options.sample_rate) + suffix;
    SCOPED_TRACE(file);
    const auto bytes = ReadFile(BEAMWRIGHT_SOURCE_DIR "/tests/engine/sound/data/" + file);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto expected = ops::ParseNpy(*bytes);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const std::vector<float> found = Features(options, samples);
    ASSERT_EQ(static_cast<int64_t>(found.size()), expected->num_elements());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected->data<float>()[i], 4e-6) << "value " << i;
    }
  }
}

TEST(FbankTest, IsThatOfKaldi) {
  FbankOptions options;
  ExpectReferences(options, "_mirror.npy");
  options.integer_scale = true;
  options.snip_edges = true;
  ExpectReferences(options, "_snip.npy");
  FbankOptions telephone;
  telephone.sample_rate = 8000;
  ExpectReferences(telephone, "_mirror.npy");
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

// Kaldi centres a frame at its shift's middle and rounds half of an odd length down: 275 samples
// at 11,025 Hz begin 137 before the centre.
TEST(FbankTest, FramesBeginWhereKaldiHasThem) {
  FbankOptions options;
  options.sample_rate = 11025;
  const auto mirrored = Made(options);
  EXPECT_EQ(mirrored->frame_length(), 275);
  EXPECT_EQ(mirrored->frame_shift(), 110);
  EXPECT_EQ(mirrored->FirstSample(0), 55 - 137);
  EXPECT_EQ(mirrored->FirstSample(3), 330 + 55 - 137);
  options.snip_edges = true;
  EXPECT_EQ(Made(options)->FirstSample(3), 330);
}

// By counting: a frame is one of the source's if its centre lies within it, or with snip_edges all
// of it. Samples come one at a time: a frame is there with its last one.
TEST(FbankTest, AFrameIsThereWithItsLastSample) {
  for (const int rate : {16000, 11025}) {
    for (const bool snip_edges : {false, true}) {
      SCOPED_TRACE(absl::StrCat(rate, " Hz, snip ", snip_edges));
      FbankOptions options;
      options.sample_rate = rate;
      options.num_bins = 10;
      options.snip_edges = snip_edges;
      const int shift = rate / 100;
      const int length = rate / 40;
      const auto last_of = [&](int frame) {  // samples until its end
        return frame * shift + length + (snip_edges ? 0 : shift / 2 - length / 2);
      };
      const auto fbank = Made(options);
      FbankStream stream(fbank);
      std::vector<float> features;
      int complete = 0;
      int within = 0;
      for (int count = 1; count <= 3400; ++count) {
        stream.Add({0.5F}, features);
        complete += last_of(complete) == count ? 1 : 0;
        ASSERT_EQ(stream.num_frames(), complete) << count;
        within += (snip_edges ? last_of(within) : within * shift + shift / 2) == count ? 1 : 0;
        ASSERT_EQ(fbank->NumFrames(count), within) << count;
      }
      EXPECT_GT(complete, 17);
      stream.Finish(features);
      EXPECT_EQ(stream.num_frames(), within);
      EXPECT_EQ(features.size(), static_cast<size_t>(10 * within));
    }
  }
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
