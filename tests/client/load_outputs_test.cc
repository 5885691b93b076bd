// What programs and people read of runs: the marks that make a run count or not, and the change
// since another one.

#include <zlib.h>

#include <limits>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "client/cli/load_report.h"
#include "client/load/histogram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LoadTestSweep OneRun(double rate, double p50, double p99, double errors) {
  LoadTestSweep sweep;
  LoadTestReport& run = *sweep.add_runs();
  run.set_concurrency(4);
  run.set_calls_per_second(rate);
  run.mutable_latency_ms()->set_p50(p50);
  run.mutable_latency_ms()->set_p99(p99);
  run.set_error_share(errors);
  return sweep;
}

TEST(LoadComparisonTest, TheBaseIsBeforeAndChangesHaveTheirSign) {
  const LoadTestSweep base = OneRun(200, 10, 40, 0), now = OneRun(150, 12.5, 30, 0.02);
  EXPECT_THAT(Comparison(base, now),
              HasSubstr("4 in flight: calls/s 200 -> 150 (-25.0 %), p50 ms 10 -> 12.5 (+25.0 %), "
                        "p99 ms 40 -> 30 (-25.0 %), errors 0.00 % -> 2.00 %\n"));
}

TEST(LoadComparisonTest, NothingIsDividedByZero) {
  EXPECT_THAT(Comparison(OneRun(0, 0, 0, 1), OneRun(150, 12.5, 30, 0)),
              HasSubstr("calls/s 0 -> 150, p50 ms 0 -> 12.5, p99 ms 0 -> 30, "));
}

TEST(LoadComparisonTest, ARunThatDoesNotCountIsMarkedOnEitherSide) {
  const LoadTestSweep good = OneRun(1, 1, 1, 0);
  LoadTestSweep bad = good;
  bad.mutable_runs(0)->set_invalid("why");
  EXPECT_THAT(Comparison(good, good), Not(HasSubstr("INVALID")));
  EXPECT_THAT(Comparison(good, bad), HasSubstr(", INVALID\n"));
  EXPECT_THAT(Comparison(bad, good), HasSubstr(", INVALID\n"));
}

// A client that cannot keep up: calls were due and never sent.
TEST(LoadInvalidTest, JsonAndCsvSayWhyARunDoesNotCount) {
  LoadReport report;
  report.num_calls = 1000;
  LoadTestSweep sweep;
  *sweep.add_runs() = ReportMessage(LoadOptions(), 4, report);
  EXPECT_EQ(sweep.runs(0).invalid(), "");
  EXPECT_THAT(LoadCsv(sweep), HasSubstr(",yes\n"));
  report.num_skipped = 3;
  *sweep.mutable_runs(0) = ReportMessage(LoadOptions(), 4, report);
  EXPECT_THAT(sweep.runs(0).invalid(), HasSubstr("3 calls that were due were never sent"));
  EXPECT_THAT(LoadCsv(sweep), AllOf(HasSubstr(",no\n"), Not(HasSubstr(",yes\n"))));
}

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
