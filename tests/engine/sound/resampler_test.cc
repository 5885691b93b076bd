// What the resampler does to tones, against the definition of gain: a least-squares fit of the tone
// in what comes out, and the energy of the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <random>
#include <vector>

#include "engine/sound/sound_stream.h"

namespace beamwright::sound {
namespace {

std::vector<float> Resampled(int from, int to, const std::vector<float>& samples) {
  Resampler resampler(from, to);
  std::vector<float> resampled;
  resampler.Add(samples, resampled);
  resampler.Finish(resampled);
  return resampled;
}

double Angle(double frequency, int rate, size_t i) {
  return 2 * std::numbers::pi * frequency * static_cast<double>(i) / rate;
}

std::vector<float> ToneOf(int rate, double frequency) {
  std::vector<float> samples;
  for (size_t i = 0; i < static_cast<size_t>(rate) / 5; ++i) {
    samples.push_back(static_cast<float>(std::sin(Angle(frequency, rate, i))));
  }
  return samples;
}

double Decibels(double gain) { return 20 * std::log10(std::max(gain, 1e-9)); }

struct Gains {
  double tone;  // of the tone itself
  double rest;  // of all else
};

// Of a tone that lasts 200 ms, away from its ends.
Gains GainsOf(int from, int to, double frequency) {
  const std::vector<float> out = Resampled(from, to, ToneOf(from, frequency));
  const size_t edge = out.size() / 5;
  double ss = 0;
  double sc = 0;
  double cc = 0;
  double xs = 0;
  double xc = 0;
  double xx = 0;
  for (size_t i = edge; i + edge < out.size(); ++i) {
    const double s = std::sin(Angle(frequency, to, i));
    const double c = std::cos(Angle(frequency, to, i));
    ss += s * s, sc += s * c, cc += c * c;
    xs += out[i] * s, xc += out[i] * c, xx += static_cast<double>(out[i]) * out[i];
  }
  const double determinant = ss * cc - sc * sc;
  const double a = (xs * cc - xc * sc) / determinant;
  const double b = (xc * ss - xs * sc) / determinant;
  const double count = static_cast<double>(out.size() - 2 * edge);
  const double rest = std::max(xx - a * xs - b * xc, 0.0);
  return {std::hypot(a, b), std::sqrt(2 * rest / count)};
}

struct Rates {
  int from;
  int to;
};

constexpr Rates kRates[] = {{8000, 16000},  {44100, 16000}, {48000, 16000}, {22050, 16000},
                            {11025, 16000}, {24000, 16000}, {16000, 8000},  {6000, 16000},
                            {96000, 16000}, {192000, 8000}, {11127, 16000}, {48000, 44100}};

TEST(ResamplerSweepTest, TonesPassEvenlyAndNothingElseComesOut) {
  for (const auto [from, to] : kRates) {
    const double band = std::min(from, to) / 2.0;
    for (const double part : {0.03, 0.2, 0.41, 0.6, 0.77, 0.85, 0.9}) {
      const Gains gains = GainsOf(from, to, part * band);
      EXPECT_NEAR(Decibels(gains.tone), 0, 0.05) << from << " to " << to << ", " << part;
      EXPECT_LT(Decibels(gains.rest), -85) << from << " to " << to << ", " << part;
    }
  }
}

TEST(ResamplerSweepTest, TonesAboveTheBandVanish) {
  for (const auto [from, to] : kRates) {
    for (const double part : {1.0, 1.01, 1.125, 1.3, 1.62, 1.9}) {
      const double frequency = part * to / 2.0;
      if (from > to && frequency < from / 2.0) {
        const std::vector<float> out = Resampled(from, to, ToneOf(from, frequency));
        double energy = 0;
        const size_t edge = out.size() / 5;
        for (size_t i = edge; i + edge < out.size(); ++i) {
          energy += static_cast<double>(out[i]) * out[i];
        }
        const double gain = std::sqrt(2 * energy / static_cast<double>(out.size() - 2 * edge));
        EXPECT_LT(Decibels(gain), -85) << from << " to " << to << ", " << part;
      }
    }
  }
}

TEST(ResamplerSweepTest, PiecesOfAnySizeChangeNoBit) {
  std::mt19937 random(43);
  for (const auto [from, to] : kRates) {
    std::vector<float> samples(2500);
    for (float& sample : samples) {
      sample = static_cast<float>(random() % 20001) / 10000.F - 1;
    }
    const std::vector<float> whole = Resampled(from, to, samples);
    EXPECT_EQ(whole.size(),
              (samples.size() * static_cast<size_t>(to) + static_cast<size_t>(from) - 1) /
                  static_cast<size_t>(from));
    for (const size_t most : {1, 3, 160, 1000}) {
      Resampler resampler(from, to);
      std::vector<float> resampled;
      for (size_t at = 0; at < samples.size();) {
        const size_t size = std::min<size_t>(samples.size() - at, 1 + random() % most);
        resampler.Add(absl::MakeConstSpan(samples).subspan(at, size), resampled);
        at += size;
      }
      resampler.Finish(resampled);
      ASSERT_EQ(resampled, whole) << from << " to " << to << ", " << most;
    }
  }
}

// Rates are a client's choice: with more pairs than have tables the bits are the same.
TEST(ResamplerSweepTest, WithoutATableTheBitsAreTheSame) {
  const std::vector<float> tone = ToneOf(44100, 997);
  const std::vector<float> with_table = Resampled(44100, 16000, tone);
  std::vector<std::unique_ptr<Resampler>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(std::make_unique<Resampler>(8000 + 1600 * i, 48000));
  }
  EXPECT_EQ(Resampled(44100, 16000, tone), with_table);
}

}  // namespace
}  // namespace beamwright::sound
