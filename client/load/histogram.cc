#include "client/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace beamwright::client {
namespace {

constexpr int kHalfBits = 10;
constexpr int64_t kHalf = int64_t{1} << kHalfBits;  // buckets for each doubling
constexpr int64_t kMaxUs = int64_t{3600} * 1'000'000;

}  // namespace

// Bucket b < 2 * kHalf holds the value b. After that each doubling has kHalf buckets, the first of
// them 2 wide, the next 4, and so on: `shift` is the logarithm of the width.
size_t Histogram::Bucket(int64_t us) {
  const int shift =
      std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(us))) - (kHalfBits + 1));
  return static_cast<size_t>(shift * kHalf + (us >> shift));
}

int64_t Histogram::UpperEnd(size_t bucket) {
  const auto b = static_cast<int64_t>(bucket);
  const int64_t shift = std::max<int64_t>(0, b / kHalf - 1);
  return ((b - shift * kHalf + 1) << shift) - 1;
}

Histogram::Histogram() : counts_(Bucket(kMaxUs) + 1) {}

void Histogram::Record(absl::Duration duration) {
  const int64_t us =
      std::clamp<int64_t>(absl::ToInt64Microseconds(duration + absl::Nanoseconds(500)), 0, kMaxUs);
  counts_[Bucket(us)].fetch_add(1, std::memory_order_relaxed);
  sum_us_.fetch_add(us, std::memory_order_relaxed);
  int64_t max_us = max_us_.load(std::memory_order_relaxed);
  while (us > max_us && !max_us_.compare_exchange_weak(max_us, us, std::memory_order_relaxed)) {
  }
}

int64_t Histogram::count() const {
  int64_t count = 0;
  for (const auto& bucket : counts_) {
    count += bucket.load(std::memory_order_relaxed);
  }
  return count;
}

absl::Duration Histogram::max() const {
  return absl::Microseconds(max_us_.load(std::memory_order_relaxed));
}

absl::Duration Histogram::Percentile(double fraction) const {
  const auto wanted =
      std::max<int64_t>(1, std::llround(std::ceil(fraction * static_cast<double>(count()))));
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    seen += counts_[bucket].load(std::memory_order_relaxed);
    if (seen >= wanted) {
      return std::min(absl::Microseconds(UpperEnd(bucket)), max());
    }
  }
  return max();
}

absl::Duration Histogram::Mean() const {
  const int64_t recorded = count();
  return recorded == 0 ? absl::ZeroDuration()
                       : absl::Microseconds(sum_us_.load(std::memory_order_relaxed)) / recorded;
}

absl::Duration Histogram::StandardDeviation() const {
  const int64_t recorded = count();
  if (recorded == 0) {
    return absl::ZeroDuration();
  }
  const double mean = absl::ToDoubleMicroseconds(Mean());
  double squares = 0;
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    const auto in_bucket = static_cast<double>(counts_[bucket].load(std::memory_order_relaxed));
    const int64_t lower = bucket == 0 ? 0 : UpperEnd(bucket - 1) + 1;
    const double away = static_cast<double>(lower + UpperEnd(bucket)) / 2 - mean;
    squares += in_bucket * away * away;
  }
  return absl::Microseconds(std::sqrt(squares / static_cast<double>(recorded)));
}

std::vector<PercentilePoint> Histogram::Curve() const {
  constexpr double kPointsAHalving = 5;
  std::vector<PercentilePoint> points;
  const int64_t recorded = count();
  int64_t seen = 0;
  double fraction = 0;
  for (size_t bucket = 0; bucket < counts_.size() && seen < recorded; ++bucket) {
    const int64_t in_bucket = counts_[bucket].load(std::memory_order_relaxed);
    seen += in_bucket;
    const double reached = static_cast<double>(seen) / static_cast<double>(recorded);
    if (in_bucket == 0 || reached < fraction) {
      continue;
    }
    points.push_back({reached, std::min(absl::Microseconds(UpperEnd(bucket)), max()), seen});
    const double halvings = std::floor(std::log2(1 / std::max(1e-12, 1 - reached))) + 1;
    fraction = reached + 1 / (kPointsAHalving * std::exp2(halvings));
  }
  if (!points.empty() && points.back().count < recorded) {
    points.push_back({1, max(), recorded});
  }
  return points;
}

std::vector<int64_t> Histogram::Counts() const {
  std::vector<int64_t> counts(counts_.begin(), counts_.end());
  while (!counts.empty() && counts.back() == 0) {
    counts.pop_back();
  }
  return counts;
}

bool Histogram::Add(const std::vector<int64_t>& counts, absl::Duration max) {
  const auto negative = [](int64_t count) { return count < 0; };
  if (counts.size() > counts_.size() || std::any_of(counts.begin(), counts.end(), negative)) {
    return false;
  }
  for (size_t bucket = 0; bucket < counts.size(); ++bucket) {
    if (counts[bucket] > 0) {
      counts_[bucket] += counts[bucket];
      // What lies within a bucket is not known: its middle stands for it.
      const int64_t lower = bucket == 0 ? 0 : UpperEnd(bucket - 1) + 1;
      sum_us_ += counts[bucket] * ((lower + UpperEnd(bucket)) / 2);
      const absl::Duration end = std::min(max, absl::Microseconds(UpperEnd(bucket)));
      max_us_ = std::max(max_us_.load(), absl::ToInt64Microseconds(end));
    }
  }
  return true;
}

void Histogram::Reset() {
  for (auto& bucket : counts_) {
    bucket.store(0, std::memory_order_relaxed);
  }
  max_us_.store(0, std::memory_order_relaxed);
  sum_us_.store(0, std::memory_order_relaxed);
}

}  // namespace beamwright::client
