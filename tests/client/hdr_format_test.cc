#include <zlib.h>

#include <limits>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "client/load/histogram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::HasSubstr;

// Of 0, 1, 1, 5, 2047, 2048, 2049, 4100, 123456, 999999 and 3600000000, written by PyPI's
// hdrhistogram 0.10.3: HdrHistogram(1, 3600000000, 3).
constexpr char kWrittenByOthers[] =
    "HISTFAAAADZ4nJNpmSzMwMAgygABzFCaEURcm7yEwf4DRICJhZXpozwTy39+pl4/"
    "prUGTIv3MDIBAOhVCe0=";

TEST(HdrFormatTest, ReadsWhatOthersWrote) {
  const auto counts = DecodeHdr(kWrittenByOthers);
  ASSERT_TRUE(counts.ok()) << counts.status();
  // A histogram of ours that recorded the same has the same buckets.
  Histogram ours;
  for (const int64_t us :
       {0LL, 1LL, 1LL, 5LL, 2047LL, 2048LL, 2049LL, 4100LL, 123456LL, 999999LL, 3600000000LL}) {
    ours.Record(absl::Microseconds(us));
  }
  EXPECT_EQ(*counts, ours.Counts());
  EXPECT_EQ((*counts)[1], 2);
  EXPECT_EQ((*counts)[2048], 2) << "2048 and 2049 share a bucket";
}

TEST(HdrFormatTest, ReadsWhatItWrote) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> counts(1 + random() % 23'000);
    for (int64_t& count : counts) {
      count = random() % 3 == 0 ? static_cast<int64_t>(random()) << (random() % 31) : 0;
    }
    counts.back() = 1;
    const auto read = DecodeHdr(EncodeHdr(counts));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, counts);
  }
  EXPECT_EQ(DecodeHdr(EncodeHdr({}))->size(), 0u);
}

// HdrHistogram's ZigZag LEB128-64b9B: seven bits a byte, and all eight in the ninth.
TEST(HdrFormatTest, ACountTakesNineBytesAtMost) {
  const std::pair<int64_t, std::string> cases[] = {
      {1, "\x02"},
      {64, std::string("\x80\x01", 2)},
      {int64_t{1} << 55, std::string(8, '\x80') + '\x01'},  // twice that is 2^56
      {int64_t{1} << 62, std::string(9, '\x80')},           // 2^63
      {std::numeric_limits<int64_t>::max(), '\xfe' + std::string(8, '\xff')}};
  for (const auto& [count, bytes] : cases) {
    const std::string text = EncodeHdr({count});
    std::string packed;
    ASSERT_TRUE(absl::Base64Unescape(text, &packed));
    std::string plain(1000, '\0');
    uLongf size = plain.size();
    ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                         reinterpret_cast<const Bytef*>(packed.data() + 8), packed.size() - 8),
              Z_OK);
    EXPECT_EQ(plain.substr(40, size - 40), bytes) << count;
    const auto read = DecodeHdr(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, std::vector<int64_t>{count});
  }
}

TEST(HdrFormatTest, SaysWhyItCannotRead) {
  const std::map<std::string, std::string> cases = {
      {"", "not in HdrHistogram's"},
      {"nonsense!", "not in HdrHistogram's"},
      {"HISTEwAAAAAAAA==", "not in HdrHistogram's"},
      {"HISTFAAAADZ4nJNpmSzMwMAgygABzFCaEURcm7yEwf4DRICJ", "cannot be inflated"},
  };
  for (const auto& [text, message] : cases) {
    const auto read = DecodeHdr(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(message)) << text;
  }
}

TEST(HistogramTest, AddsUpWithoutLoss) {
  Histogram one, two, both;
  std::mt19937 random(2);
  for (int i = 0; i < 10'000; ++i) {
    const auto us = absl::Microseconds(random() % 1'000'000);
    (i % 3 == 0 ? one : two).Record(us);
    both.Record(us);
  }
  Histogram sum;
  EXPECT_TRUE(sum.Add(one.Counts()));
  EXPECT_TRUE(sum.Add(two.Counts()));
  EXPECT_EQ(sum.Counts(), both.Counts());
  EXPECT_EQ(sum.count(), 10'000);
  for (const double fraction : {0.5, 0.99, 0.999}) {
    EXPECT_EQ(sum.Percentile(fraction), both.Percentile(fraction));
  }
  EXPECT_FALSE(sum.Add({1, -1}));
  EXPECT_FALSE(sum.Add(std::vector<int64_t>(100'000, 1)));
  EXPECT_EQ(sum.Counts(), both.Counts()) << "nothing of them is added";
}

}  // namespace
}  // namespace beamwright::client
