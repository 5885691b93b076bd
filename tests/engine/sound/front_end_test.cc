// Features of sound: equal to those of the toolkits, whatever the pieces.
#include "engine/sound/front_end.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/file.h"
#include "ops/numpy/npz.h"
#include "tests/support/test_data.h"

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

std::shared_ptr<const FrontEnd> Made(const v1::SoundConfig& options) {
  auto front_end = FrontEnd::Create(options);
  EXPECT_TRUE(front_end.ok()) << front_end.status();
  return *front_end;
}

std::vector<float> Features(const v1::SoundConfig& options, const std::vector<float>& samples) {
  FrontEndStream stream(Made(options));
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
void ExpectReferences(const v1::SoundConfig& options, const std::string& suffix) {
  const int count = options.sample_rate() / 5 + 37;
  for (const auto& [name, samples] : {std::pair("noise_", Noise(count)),
                                      std::pair("tones_", Tones(count, options.sample_rate()))}) {
    const std::string file = name + absl::StrCat(options.sample_rate()) + suffix;
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

TEST(FrontEndTest, IsThatOfKaldi) {
  v1::SoundConfig options;
  options.set_sample_rate(16000);
  ExpectReferences(options, "_mirror.npy");
  options.set_integer_scale(true);
  options.set_snip_edges(true);
  ExpectReferences(options, "_snip.npy");
  v1::SoundConfig telephone;
  telephone.set_sample_rate(8000);
  ExpectReferences(telephone, "_mirror.npy");
}

ops::Tensor Reference(const std::string& name) {
  const auto bytes =
      ReadFile(testing_support::TestData("engine/sound/data/front_ends/" + name + ".npy"));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto tensor = ops::ParseNpy(*bytes);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return *std::move(tensor);
}

v1::SoundConfig Config(const std::string& text) {
  v1::SoundConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

std::vector<float> Completed(const v1::SoundConfig& config, const std::vector<float>& samples) {
  std::vector<float> features = Features(config, samples);
  Made(config)->Complete(features);
  return features;
}

// Those of the other toolkits. Most compute in single precision; `bound` is above 1e-4 where their
// own rounding is: of torch's window next to a tone. Where a sound's values are large, as those of
// MFCC are (1,100), a millionth of the largest is the bound: 8 to 16 times the distance of two
// floats.
TEST(FrontEndTest, IsThatOfEachToolkit) {
  const int count = 16000 / 5 + 37;
  const ops::Tensor speech = Reference("speech");
  const std::vector<float> sounds[] = {
      std::vector<float>(speech.data<float>(), speech.data<float>() + count), Noise(count),
      Tones(count, 16000), std::vector<float>(count, 0)};
  const struct {
    const char* name;
    const char* config;
    float bound;
  } kinds[] = {
      {"nemo", "kind: SOUND_KIND_NEMO", 1e-4F},
      {"whisper_80", "kind: SOUND_KIND_WHISPER", 1e-4F},
      {"whisper_128", "kind: SOUND_KIND_WHISPER num_bins: 128", 1e-4F},
      {"torchaudio", "kind: SOUND_KIND_TORCHAUDIO num_bins: 80", 1e-3F},
      {"torchaudio_mfcc", "kind: SOUND_KIND_TORCHAUDIO num_coefficients: 40", 1e-4F},
      {"librosa",
       "kind: SOUND_KIND_LIBROSA window_length: 400 window_shift: 160 fft_size: 512 num_bins: 64",
       2e-4F},
      {"librosa_mfcc", "kind: SOUND_KIND_LIBROSA num_coefficients: 20", 1e-4F},
      {"kaldi_mfcc", "num_bins: 40 num_coefficients: 13", 1e-4F},
      {"low_frame_rate",
       "window: SOUND_WINDOW_HAMMING integer_scale: true snip_edges: true high_frequency: 0 "
       "stack: 7 stack_shift: 6",
       1e-5F},
      {"wav2vec2", "kind: SOUND_KIND_SAMPLES", 1e-5F},
  };
  for (const auto& [name, config, bound] : kinds) {
    const ops::Tensor expected = Reference(name);
    const int64_t size = expected.num_elements() / 4;
    const auto front_end = Made(Config(config));
    ASSERT_EQ(expected.dim(2), front_end->width()) << name;
    for (int sound = 0; sound < 4; ++sound) {
      SCOPED_TRACE(absl::StrCat(name, ", sound ", sound));
      const std::vector<float> found = Completed(Config(config), sounds[sound]);
      ASSERT_EQ(static_cast<int64_t>(found.size()) / front_end->width(),
                front_end->NumFrames(count));
      ASSERT_TRUE(static_cast<int64_t>(found.size()) == size ||
                  front_end->NumFrames(count) == 3000);
      const float* values = expected.data<float>() + sound * size;
      const float largest = std::fabs(*std::max_element(
          values, values + size, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
      // Constant columns are zeros over 1e-5, and there NeMo shows what its mean rounded off.
      const bool is_silent_nemo = sound == 3 && std::string(name) == "nemo";
      for (int64_t i = 0; i < size; ++i) {
        const float value = is_silent_nemo ? 0 : values[i];
        ASSERT_NEAR(found[static_cast<size_t>(i)], value, std::max(bound, 1e-6F * largest))
            << "value " << i;
      }
    }
  }
}

TEST(FrontEndTest, ShiftsAndScalesByTheFile) {
  const auto cmvn = ParseCmvn(
      "<Nnet>\n<AddShift> 3 3\n<LearnRateCoef> 0 [ 1 -2 0.5 ]\n<Rescale> 3 3\n"
      "<LearnRateCoef> 0 [ 2 3 -1 ]\n</Nnet>\n");
  ASSERT_TRUE(cmvn.ok()) << cmvn.status();
  std::vector<float> features = {1, 2, 3, 4, 5, 6};
  ApplyCmvn(*cmvn, features);
  EXPECT_THAT(features, ::testing::ElementsAre(4, 0, -3.5, 10, 9, -6.5));
  EXPECT_THAT(ParseCmvn("<AddShift> [ 1 2 ]").status().message(),
              HasSubstr("no <Rescale> with numbers"));
  EXPECT_THAT(ParseCmvn("<AddShift> [ 1 2 ] <Rescale> [ 1 ]").status().message(),
              HasSubstr("has 2 numbers and <Rescale> 1"));
  EXPECT_THAT(ParseCmvn("<AddShift> [ 1 x ] <Rescale> [ 1 ]").status().message(),
              HasSubstr("'x' is not a number"));
  EXPECT_THAT(FrontEnd::Create(v1::SoundConfig(), *cmvn).status().message(),
              HasSubstr("has 3 numbers; frames have 80 features"));
}

// By definition, in the place of the mixed radix.
TEST(FourierTest, IsTheSumOfTurns) {
  for (const int size : {1, 2, 3, 7, 30, 400, 512}) {
    const FourierTransform transform(size);
    std::vector<double> signal;
    for (const float sample : Noise(size)) {
      signal.push_back(sample);
    }
    std::vector<double> power(static_cast<size_t>(size) / 2 + 1);
    transform.Power(signal, absl::MakeSpan(power));
    for (int line = 0; line <= size / 2; ++line) {
      std::complex<double> sum = 0;
      for (int i = 0; i < size; ++i) {
        sum += signal[static_cast<size_t>(i)] *
               std::polar(1.0, -2 * std::numbers::pi * line * i / size);
      }
      EXPECT_NEAR(power[static_cast<size_t>(line)], std::norm(sum), 1e-9) << size << ", " << line;
    }
  }
}

TEST(FrontEndTest, SilenceIsTheFloor) {
  for (const float value : Features({}, std::vector<float>(1000, 0))) {
    EXPECT_NEAR(value, std::log(std::pow(2.0, -23)), 1e-5);
  }
}

// What a stream makes of samples that come in pieces of any size up to 499.
std::vector<float> FeaturesOfPieces(const std::vector<float>& samples, std::mt19937& random,
                                    FrontEndStream& stream) {
  std::vector<float> features;
  for (size_t at = 0; at < samples.size();) {
    const size_t end = std::min(samples.size(), at + random() % 500);
    stream.Add(absl::MakeConstSpan(samples).subspan(at, end - at), features);
    at = end;
  }
  stream.Finish(features);
  return features;
}

TEST(FrontEndTest, PiecesChangeNoBit) {
  std::mt19937 random(26);
  for (int i = 0; i < 300; ++i) {
    v1::SoundConfig options;
    options.set_sample_rate(i % 3 == 0 ? 8000 : 16000);
    options.set_snip_edges(i % 2 == 0);
    options.set_integer_scale(i % 5 == 0);
    const std::vector<float> samples = Noise(static_cast<int>(random() % 3000));
    const auto front_end = Made(options);
    FrontEndStream stream(front_end);
    EXPECT_EQ(FeaturesOfPieces(samples, random, stream), Features(options, samples)) << i;
    EXPECT_EQ(stream.num_frames(),
              front_end->NumStreamFrames(static_cast<int64_t>(samples.size())));
  }
}

TEST(FrontEndTest, PiecesChangeNoBitOfAnyKind) {
  std::mt19937 random(43);
  for (int kind = 0; kind < v1::SoundKind_ARRAYSIZE; ++kind) {
    for (int i = 0; i < 20; ++i) {
      v1::SoundConfig config;
      config.set_kind(static_cast<v1::SoundKind>(kind));
      config.set_pad_ms(i % 2 == 0 ? 0 : 50);
      const std::vector<float> samples = Noise(static_cast<int>(random() % 3000));
      const auto front_end = Made(config);
      FrontEndStream stream(front_end);
      std::vector<float> features = FeaturesOfPieces(samples, random, stream);
      EXPECT_EQ(features, Features(config, samples)) << kind << ", " << samples.size();
      front_end->Complete(features);
      EXPECT_EQ(static_cast<int64_t>(features.size()),
                front_end->NumFrames(static_cast<int64_t>(samples.size())) * front_end->width());
    }
  }
}

TEST(FrontEndTest, FramesAreThereAsSoonAsTheirSamplesAre) {
  FrontEndStream stream(Made({}));
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
TEST(FrontEndTest, FramesBeginWhereKaldiHasThem) {
  v1::SoundConfig options;
  options.set_sample_rate(11025);
  const auto mirrored = Made(options);
  EXPECT_EQ(mirrored->frame_length(), 275);
  EXPECT_EQ(mirrored->frame_shift(), 110);
  EXPECT_EQ(mirrored->FirstSample(0), 55 - 137);
  EXPECT_EQ(mirrored->FirstSample(3), 330 + 55 - 137);
  options.set_snip_edges(true);
  EXPECT_EQ(Made(options)->FirstSample(3), 330);
}

// By counting: a frame is one of the source's if its centre lies within it, or with snip_edges all
// of it. Samples come one at a time: a frame is there with its last one.
TEST(FrontEndTest, AFrameIsThereWithItsLastSample) {
  for (const int rate : {16000, 11025}) {
    for (const bool snip_edges : {false, true}) {
      SCOPED_TRACE(absl::StrCat(rate, " Hz, snip ", snip_edges));
      v1::SoundConfig options;
      options.set_sample_rate(rate);
      options.set_num_bins(10);
      options.set_snip_edges(snip_edges);
      const int shift = rate / 100;
      const int length = rate / 40;
      const auto last_of = [&](int frame) {  // samples until its end
        return frame * shift + length + (snip_edges ? 0 : shift / 2 - length / 2);
      };
      const auto front_end = Made(options);
      FrontEndStream stream(front_end);
      std::vector<float> features;
      int complete = 0;
      int within = 0;
      for (int count = 1; count <= 3400; ++count) {
        stream.Add({0.5F}, features);
        complete += last_of(complete) == count ? 1 : 0;
        ASSERT_EQ(stream.num_frames(), complete) << count;
        within += (snip_edges ? last_of(within) : within * shift + shift / 2) == count ? 1 : 0;
        ASSERT_EQ(front_end->NumStreamFrames(count), within) << count;
      }
      EXPECT_GT(complete, 17);
      stream.Finish(features);
      EXPECT_EQ(stream.num_frames(), within);
      EXPECT_EQ(features.size(), static_cast<size_t>(10 * within));
    }
  }
}

TEST(FrontEndTest, RefusesOptionsThatMakeNoSense) {
  const auto message = [](int rate, int bins, float low, float high) {
    v1::SoundConfig options;
    options.set_sample_rate(rate);
    options.set_num_bins(bins);
    options.set_low_frequency(low);
    options.set_high_frequency(high);
    return std::string(FrontEnd::Create(options).status().message());
  };
  EXPECT_THAT(message(999, 80, 20, -400), HasSubstr("sample_rate: 999 is outside [1000, 48000]"));
  EXPECT_THAT(message(16000, 2, 20, -400), HasSubstr("num_bins: 2 is outside [3, 256]"));
  EXPECT_THAT(message(16000, 80, 20, 9000), HasSubstr("do not lie within [0, 8000]"));
  EXPECT_THAT(message(16000, 80, 7900, -400), HasSubstr("mel bins from 7900 to 7600"));
  EXPECT_THAT(message(8000, 256, 20, -400), HasSubstr("num_bins: 256 are too many"));
}

TEST(FrontEndTest, RefusesFieldsOfOtherKinds) {
  const auto message = [](const char* config) {
    return std::string(FrontEnd::Create(Config(config)).status().message());
  };
  EXPECT_THAT(message("kind: SOUND_KIND_NEMO snip_edges: true"),
              HasSubstr("does not apply to SOUND_KIND_NEMO"));
  EXPECT_THAT(message("fft_size: 512"), HasSubstr("does not apply to SOUND_KIND_KALDI"));
  EXPECT_THAT(message("kind: SOUND_KIND_WHISPER normalize: true"), HasSubstr("does not apply"));
  EXPECT_THAT(message("kind: SOUND_KIND_SAMPLES num_bins: 80"), HasSubstr("does not apply"));
  EXPECT_THAT(message("kind: SOUND_KIND_LIBROSA fft_size: 512"),
              HasSubstr("fft_size: 512 is outside [2048, 8192]"));
  EXPECT_THAT(message("num_coefficients: 81"), HasSubstr("outside [0, 80]"));
  EXPECT_THAT(message("stack_shift: 2"), HasSubstr("stack_shift: 2 is outside [1, 1]"));
}

}  // namespace
}  // namespace beamwright::sound
