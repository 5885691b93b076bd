#include "server/serving/sound_windows.h"

#include <cmath>
#include <cstring>

#include "gtest/gtest.h"

namespace beamwright::serving {
namespace {

constexpr int kRate = 8000;
constexpr int kWindowMs = 1000;

// Samples of 16 bits: a tone of this amplitude for each of `parts`, as many milliseconds.
std::string Tone(const std::vector<std::pair<int, double>>& parts) {
  std::string bytes;
  int at = 0;
  for (const auto& [ms, amplitude] : parts) {
    for (int i = 0; i < ms * kRate / 1000; ++i) {
      const auto sample = static_cast<int16_t>(32767 * amplitude * std::sin(0.3 * ++at));
      bytes.append(reinterpret_cast<const char*>(&sample), sizeof(sample));
    }
  }
  return bytes;
}

std::vector<SoundWindows::Window> WindowsOf(const std::string& bytes, size_t piece,
                                            int window_ms = kWindowMs, int pause_ms = 0) {
  SoundWindows windows({false, kRate}, {window_ms, pause_ms});
  std::vector<SoundWindows::Window> found;
  const auto take = [&] {
    while (auto window = windows.Next()) {
      found.push_back(*std::move(window));
    }
  };
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    EXPECT_TRUE(windows.Add(bytes.substr(begin, piece)).ok());
    take();
  }
  windows.Finish();
  take();
  return found;
}

TEST(SoundWindowsTest, AreCutInPauses) {
  // Pauses around 800 ms and, counted from there, 750 ms.
  const std::string bytes =
      Tone({{700, 0.5}, {200, 0.001}, {550, 0.5}, {200, 0.002}, {400, 0.5}, {300, 0.3}});
  for (const size_t piece : {size_t{320}, size_t{4000}, bytes.size()}) {
    const std::vector<SoundWindows::Window> windows = WindowsOf(bytes, piece);
    ASSERT_EQ(windows.size(), 3U);
    EXPECT_NEAR(windows[0].end_ms, 800, 20);
    EXPECT_NEAR(windows[1].end_ms, 1550, 20);
    EXPECT_EQ(windows[2].end_ms, 2350);
    std::string all;
    double end_ms = 0;
    for (const SoundWindows::Window& window : windows) {
      EXPECT_EQ(window.begin_ms, end_ms);
      end_ms = window.end_ms;
      EXPECT_LE(window.end_ms - window.begin_ms, kWindowMs);
      EXPECT_FALSE(window.is_silent);
      all += window.bytes;
    }
    EXPECT_EQ(all, bytes);
  }
}

// A pause of 500 ms ends a window in its middle, one of 300 ms and one that is loud do not; the
// windows are the sound.
TEST(SoundWindowsTest, EndInPauses) {
  const std::string bytes = Tone({{600, 0},
                                  {700, 0.5},
                                  {300, 0.001},
                                  {400, 0.4},
                                  {600, 0.002},
                                  {500, 0.3},
                                  {600, 0.2},
                                  {700, 0.5},
                                  {1100, 0},
                                  {900, 0.1}});
  for (const size_t piece : {size_t{322}, bytes.size()}) {
    const std::vector<SoundWindows::Window> windows = WindowsOf(bytes, piece, 5000, 500);
    ASSERT_EQ(windows.size(), 3U);
    EXPECT_NEAR(windows[0].end_ms, 2250, 25);
    EXPECT_NEAR(windows[1].end_ms, 4650, 25);
    std::string all;
    for (const SoundWindows::Window& window : windows) {
      all += window.bytes;
      EXPECT_FALSE(window.is_silent);
    }
    EXPECT_EQ(all, bytes);
  }
}

TEST(SoundWindowsTest, ShortRestsAreFilledUp) {
  const std::vector<SoundWindows::Window> windows =
      WindowsOf(Tone({{700, 0.5}, {600, 0}, {50, 0.5}}), 1600, 5000, 500);
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_NEAR(windows[1].begin_ms, 950, 25);
  EXPECT_EQ(windows[1].end_ms, 1350);
  EXPECT_EQ(windows[1].bytes.size(), size_t{kRate});  // half a second
  // But a short source is as it is.
  EXPECT_EQ(WindowsOf(Tone({{100, 0.5}}), 1600, 5000, 500).at(0).bytes, Tone({{100, 0.5}}));
}

TEST(SoundWindowsTest, ASecondThatFitsIsOneWindow) {
  EXPECT_EQ(WindowsOf(Tone({{1000, 0.5}}), 1000).size(), 1U);
  EXPECT_EQ(WindowsOf("", 1000).size(), 0U);
}

TEST(SoundWindowsTest, SilenceIsMarked) {
  const std::vector<SoundWindows::Window> windows =
      WindowsOf(Tone({{2000, 0}, {100, 0.01}, {500, 0}}), 2000);
  ASSERT_GE(windows.size(), 3U);
  EXPECT_TRUE(windows[0].is_silent);
  EXPECT_FALSE(windows.back().is_silent && windows[windows.size() - 2].is_silent);
}

TEST(SoundWindowsTest, HalfASampleIsRefused) {
  SoundWindows windows({false, kRate}, {kWindowMs, 0});
  EXPECT_FALSE(windows.Add("abc").ok());
  EXPECT_FALSE(windows.has_sound());
}

}  // namespace
}  // namespace beamwright::serving
