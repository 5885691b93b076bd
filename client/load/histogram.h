// A histogram of durations in fixed memory: exact up to 2,048 us, then 1,024 buckets for each
// doubling (a relative error below 0.1 %), up to an hour. So percentiles of any number of calls
// cost 180 KiB, and recording is one addition.
#ifndef BEAMWRIGHT_CLIENT_LOAD_HISTOGRAM_H_
#define BEAMWRIGHT_CLIENT_LOAD_HISTOGRAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace beamwright::client {

// `count` of the recorded durations, which is at least `fraction` of them, do not exceed
// `duration`.
struct PercentilePoint {
  double fraction = 0;
  absl::Duration duration;
  int64_t count = 0;
};

// Record may be called by any number of threads at the same time; the other functions are meant for
// afterwards (while calls are being recorded they see some of them).
class Histogram {
 public:
  Histogram();

  // Rounded to whole microseconds; below zero counts as zero, more than an hour as an hour.
  void Record(absl::Duration duration);

  int64_t count() const;
  // Exact. Zero if nothing was recorded.
  absl::Duration max() const;
  // The smallest duration that at least `fraction` (0 to 1) of the recorded ones do not exceed, as
  // the upper end of its bucket (never above max()). Zero if nothing was recorded.
  absl::Duration Percentile(double fraction) const;
  // Of the recorded durations, the deviation as if each were in the middle of its bucket. Zero if
  // nothing was recorded.
  absl::Duration Mean() const;
  absl::Duration StandardDeviation() const;
  // From the smallest to the greatest, ever closer to 1: five points for each halving of what is
  // left, as HdrHistogram's percentile text has them. Empty if nothing was recorded.
  std::vector<PercentilePoint> Curve() const;

  // Counts by bucket, up to the last that is not empty. The buckets are those of an HdrHistogram of
  // three digits from 1 us to an hour.
  std::vector<int64_t> Counts() const;
  // Adds what another histogram counted, whose greatest duration was `max` (as far as it is known:
  // it stands for what lies within the last bucket). Not while others record. False, and nothing is
  // added: more buckets than there are, or a count below zero.
  bool Add(const std::vector<int64_t>& counts, absl::Duration max = absl::InfiniteDuration());

  // Forgets everything. Not while others record.
  void Reset();

 private:
  static size_t Bucket(int64_t us);
  static int64_t UpperEnd(size_t bucket);

  std::vector<std::atomic<int64_t>> counts_;
  std::atomic<int64_t> max_us_{0};
  std::atomic<int64_t> sum_us_{0};
};

// Histograms in HdrHistogram's compressed form, version 2, in base64: what its logs hold, and what
// its tools and libraries read. Ours have the buckets of one of three digits from 1 us to an hour,
// so nothing is lost. Written after the format's description (HdrHistogram's
// AbstractHistogram.encodeIntoCompressedByteBuffer): a header of 40 bytes, then counts as ZigZag
// LEB128, a negative one for that number of empty buckets, all of it deflated.

// Counts by bucket, as Histogram::Counts has them.
std::string EncodeHdr(const std::vector<int64_t>& counts);

// InvalidArgument: the text is not such a histogram, or one of other buckets.
absl::StatusOr<std::vector<int64_t>> DecodeHdr(absl::string_view base64);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_HISTOGRAM_H_
