// A histogram with buckets of growing width, and its exchange format.
//
// 1. Bucket: values below 2,048 have a bucket each; then each doubling has 1,024 buckets, twice as
//    wide as those of the doubling before. So the relative error is below 0.1 % at every size. By
//    example: 3,000 us has 12 bits, so shift is 1, and its bucket is 1 * 1,024 + (3,000 >> 1) =
//    2,524, which holds 3,000 and 3,001.
// 2. Record adds to one atomic counter; percentiles, mean and the curve are computed from the
//    counts (Percentile, Curve). Mean and maximum are exact.
// 3. EncodeHdr and DecodeHdr: the format of HdrHistogram's logs, version 2: counts as zigzag
//    varints, runs of empty buckets as one negative number, behind a header of 40 bytes; deflated,
//    and in base64. Other tools read the load generator's results, and results of several machines
//    are added up (Add).
#include "client/load/histogram.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/escaping.h"
#include "ops/base/status.h"

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

// The upper end of the bucket in which the wanted value lies, so that a percentile is never
// reported below its true value; the largest value is exact. Of 5 values the 50 % one is the third.
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

// Points are denser towards the slow end: five for each halving of what is left, so that 50,
// 75, 87.5 % and so on have as many between them. Buckets without values give no point.
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
      // The values within a bucket are not known: its middle is taken for each.
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

namespace {

constexpr uint32_t kCookie = 0x1c849303 | 0x10;  // counts of variable length
constexpr uint32_t kCompressedCookie = 0x1c849304 | 0x10;
constexpr int kDigits = 3;
constexpr uint64_t kLowest = 1;
constexpr uint64_t kHighest = uint64_t{3600} * 1'000'000;
constexpr size_t kHeaderBytes = 40;
constexpr size_t kMaxPlainBytes = 1 << 20;  // 23,000 counts of nine bytes at most
constexpr size_t kMaxBuckets = 1 << 16;

template <typename T>
void Put(T value, std::string& bytes) {
  for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift));
  }
}

// Big-endian; the caller has looked at the size.
template <typename T>
T Get(absl::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | static_cast<uint8_t>(bytes[at + i]));
  }
  return value;
}

// Zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3, so that small negative numbers are short. Seven bits a
// byte, the low ones first, the highest bit set if others follow; the ninth byte holds eight bits.
void PutVarint(int64_t value, std::string& bytes) {
  uint64_t zigzag = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  for (int i = 0; i < 8 && zigzag > 0x7f; ++i, zigzag >>= 7) {
    bytes.push_back(static_cast<char>(zigzag | 0x80));
  }
  bytes.push_back(static_cast<char>(zigzag));  // the ninth byte has eight bits
}

bool TakeVarint(absl::string_view& bytes, int64_t& value) {
  uint64_t zigzag = 0;
  for (int i = 0; i < 9; ++i) {
    if (bytes.empty()) {
      return false;
    }
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    const bool last = i == 8 || byte < 0x80;
    zigzag |= uint64_t{last ? byte : byte & 0x7fu} << (7 * i);
    if (last) {
      break;
    }
  }
  value = static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
  return true;
}

absl::StatusOr<std::string> Inflate(absl::string_view deflated) {
  std::string plain(kMaxPlainBytes, '\0');
  uLongf size = plain.size();
  if (uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                 reinterpret_cast<const Bytef*>(deflated.data()),
                 static_cast<uLong>(deflated.size())) != Z_OK) {
    return Invalid("cannot be inflated");
  }
  plain.resize(size);
  return plain;
}

absl::Status CheckHeader(absl::string_view plain) {
  if (plain.size() < kHeaderBytes || Get<uint32_t>(plain, 0) != kCookie) {
    return Invalid("is not of version 2");
  }
  if (Get<uint32_t>(plain, 4) != plain.size() - kHeaderBytes || Get<uint32_t>(plain, 8) != 0) {
    return Invalid("is cut off");
  }
  if (Get<uint32_t>(plain, 12) != kDigits || Get<uint64_t>(plain, 16) != kLowest) {
    return Invalid("has other buckets: three digits from 1 on are read");
  }
  return absl::OkStatus();
}

}  // namespace

// The counts {5, 0, 0, 0, 7} are the numbers 5, -3, 7.
std::string EncodeHdr(const std::vector<int64_t>& counts) {
  std::string payload;
  int64_t empty = 0;
  for (const int64_t count : counts) {
    if (count == 0) {
      ++empty;
      continue;
    }
    if (empty > 0) {
      PutVarint(-empty, payload);
      empty = 0;
    }
    PutVarint(count, payload);
  }
  std::string plain;
  Put(kCookie, plain);
  Put(static_cast<uint32_t>(payload.size()), plain);
  Put(uint32_t{0}, plain);  // normalizing index offset
  Put(static_cast<uint32_t>(kDigits), plain);
  Put(kLowest, plain);
  Put(kHighest, plain);
  Put(std::bit_cast<uint64_t>(1.0), plain);  // ratio of integers to doubles
  plain += payload;
  uLongf size = compressBound(static_cast<uLong>(plain.size()));
  std::string deflated(size, '\0');
  compress(reinterpret_cast<Bytef*>(deflated.data()), &size,
           reinterpret_cast<const Bytef*>(plain.data()), static_cast<uLong>(plain.size()));
  deflated.resize(size);
  std::string bytes;
  Put(kCompressedCookie, bytes);
  Put(static_cast<uint32_t>(deflated.size()), bytes);
  return absl::Base64Escape(bytes + deflated);
}

absl::StatusOr<std::vector<int64_t>> DecodeHdr(absl::string_view base64) {
  std::string bytes;
  if (!absl::Base64Unescape(base64, &bytes) || bytes.size() < 8 ||
      Get<uint32_t>(bytes, 0) != kCompressedCookie) {
    return Invalid("the histogram is not in HdrHistogram's compressed form, version 2");
  }
  auto plain = Inflate(absl::string_view(bytes).substr(8));
  BW_RETURN_IF_ERROR(Annotate(plain.status(), "the histogram"));
  BW_RETURN_IF_ERROR(Annotate(CheckHeader(*plain), "the histogram"));
  std::vector<int64_t> counts;
  absl::string_view payload = absl::string_view(*plain).substr(kHeaderBytes);
  while (!payload.empty()) {
    int64_t value = 0;
    if (!TakeVarint(payload, value) || value < -static_cast<int64_t>(kMaxBuckets) ||
        counts.size() > kMaxBuckets) {
      return Invalid("the histogram: its counts are cut off or have too many buckets");
    }
    if (value < 0) {
      counts.resize(counts.size() + static_cast<size_t>(-value));
    } else {
      counts.push_back(value);
    }
  }
  return counts;
}

}  // namespace beamwright::client
