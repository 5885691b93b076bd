// Packed weights by content: SharePacked returns the packed weight that some kernel already holds,
// or packs it.
//
// 1. Digests: a keyed hash of extents and elements (AES-GMAC). Hashing takes as long as reading the
//    weight, so digests are remembered by address while the elements live (`lifetime`).
// 2. Cache: from digest, form and precision to a weak pointer. The deleter of the last shared
//    pointer removes the entry. Packing runs without the lock; if two threads pack the same weight,
//    the first one stored is used by both.
// 3. ByteTable: an embedding table of 8-bit integers. Where the same matrix is also a packed int8
//    product, the table drops its copy and reads rows out of the product (ReadFrom, Unpack), after
//    comparing all of them.
//
// The key is drawn at the start of the process: clients who can load models cannot construct two
// weights with one digest, so that no model can serve another model's weights.
#include "ops/kernels/shared_weights.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ops/base/check.h"
#include "ops/tensor/dtype.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kSmallestTable = (int64_t{1} << 20) / sizeof(float);
constexpr int64_t kSmallestRow = 32;

}  // namespace

bool EmbeddingTable::Fits(const Tensor& table) {
  return table.dtype() == DType::kF32 && table.rank() == 2 && table.dim(1) >= kSmallestRow &&
         table.num_elements() >= kSmallestTable;
}

EmbeddingTable::EmbeddingTable(ConstMatrix<float> table)
    : table_(DType::kBF16, {table.rows, table.columns}) {
  auto* out = table_.mutable_data<BFloat16>();
  for (int64_t row = 0; row < table.rows; ++row) {
    for (const float value : table.row_span(row)) {
      *out++ = ToBFloat16(value);
    }
  }
}

void EmbeddingTable::Read(int64_t index, absl::Span<float> out) const {
  const BFloat16* const row = table_.data<BFloat16>() + index * width();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = ToFloat(row[i]);
  }
}

namespace {

// How a weight is packed.
struct Form {
  bool transposed = false;
  Precision precision = Precision::kF32;
  bool operator==(const Form&) const = default;
};

std::unique_ptr<const PackedMatMul> Make(ConstMatrix<float> weight, const Form& form,
                                         const PackedMatMul*) {
  return std::make_unique<PackedMatMul>(weight, form.transposed, form.precision);
}

std::unique_ptr<const EmbeddingTable> Make(ConstMatrix<float> weight, const Form&,
                                           const EmbeddingTable*) {
  return std::make_unique<EmbeddingTable>(weight);
}

std::unique_ptr<const ByteTable> Make(ConstMatrix<int8_t> weight, const Form&, const ByteTable*) {
  return std::make_unique<ByteTable>(weight);
}

// The key of the hash: random, and never shown outside of the process.
struct Key {
  Key() { BW_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1); }
  std::array<unsigned char, 16> bytes{};
};

// AES-GMAC of the extents and elements: without the key it is impossible to make two weights with
// one digest (a chance of 2^-90), and it takes a fifth of SHA-256's time, which was most of what
// loading computed.
template <typename Element>
std::string Digest(ConstMatrix<Element> weight) {
  static const Key key;
  // One nonce for all: digests are never shown, so that a repeated nonce reveals nothing.
  constexpr std::array<unsigned char, 12> kNonce{};
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // OpenSSL counts in int
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(
      EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  BW_CHECK(context != nullptr && EVP_EncryptInit_ex(context.get(), EVP_aes_128_gcm(), nullptr,
                                                    key.bytes.data(), kNonce.data()) == 1);
  int written = 0;
  const auto add = [&](const void* data, size_t count) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    while (count > 0) {
      const size_t part = std::min(count, kMostAtOnce);
      BW_CHECK(EVP_EncryptUpdate(context.get(), nullptr, &written, bytes, static_cast<int>(part)) ==
               1);
      bytes += part;
      count -= part;
    }
  };
  const std::array<int64_t, 2> header = {weight.rows, weight.columns};
  add(header.data(), sizeof(header));
  for (int64_t row = 0; row < weight.rows; ++row) {
    add(weight.row(row), static_cast<size_t>(weight.columns) * sizeof(Element));
  }
  std::array<unsigned char, 16> tag{};
  BW_CHECK(EVP_EncryptFinal_ex(context.get(), tag.data(), &written) == 1);
  BW_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()),
                               tag.data()) == 1);
  return {tag.begin(), tag.end()};
}

// Never destroyed: kernels in static objects may outlive it otherwise.
template <typename T>
T& TheOnly() {
  static auto* const only = new T();
  return *only;
}

// Digests of weights whose elements are still there.
template <typename Element>
class Digests {
 public:
  using Weight = ConstMatrix<Element>;

  std::string Get(Weight weight, const std::weak_ptr<const void>& lifetime) {
    if (lifetime.expired()) {
      return Digest(weight);
    }
    const std::shared_ptr<Seen> seen = Find(weight, lifetime);
    const absl::MutexLock lock(&seen->mutex);  // waits for a thread that hashes the same weight
    if (seen->digest.empty()) {
      seen->digest = Digest(weight);
    }
    return seen->digest;
  }

 private:
  struct Seen {
    Seen(Weight of, const std::weak_ptr<const void>& as_long_as)
        : weight(of), lifetime(as_long_as) {}

    const Weight weight;
    const std::weak_ptr<const void> lifetime;
    absl::Mutex mutex;
    std::string digest ABSL_GUARDED_BY(mutex);  // empty: not known yet
  };

  std::shared_ptr<Seen> Find(Weight weight, const std::weak_ptr<const void>& lifetime) {
    const absl::MutexLock lock(&mutex_);
    if (seen_.size() >= sweep_at_) {
      absl::erase_if(seen_, [](const auto& entry) { return entry.second->lifetime.expired(); });
      sweep_at_ = 2 * seen_.size() + 64;
    }
    std::shared_ptr<Seen>& seen = seen_[weight.data];
    const bool same = seen != nullptr && seen->weight.rows == weight.rows &&
                      seen->weight.columns == weight.columns &&
                      seen->weight.stride == weight.stride && !seen->lifetime.expired();
    if (!same) {
      seen = std::make_shared<Seen>(weight, lifetime);
    }
    return seen;
  }

  absl::Mutex mutex_;
  absl::flat_hash_map<const Element*, std::shared_ptr<Seen>> seen_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
};

// Packed: PackedMatMul, EmbeddingTable or ByteTable, made of elements of this type.
template <typename Packed, typename Element>
class Cache {
 public:
  using Weight = ConstMatrix<Element>;

  std::shared_ptr<const Packed> Get(Weight weight, const Form& form,
                                    const std::weak_ptr<const void>& lifetime) {
    const std::string key =
        absl::StrCat(TheOnly<Digests<Element>>().Get(weight, lifetime), form.transposed ? "t" : "",
                     static_cast<int>(form.precision));
    if (auto found = Find(key)) {
      return found;
    }
    // Without the lock: packing takes long. Two threads may pack the same weight.
    std::shared_ptr<const Packed> packed(
        Make(weight, form, static_cast<const Packed*>(nullptr)).release(),
        [this, key](const Packed* unused) {
          delete unused;
          Forget(key);
        });
    const absl::MutexLock lock(&mutex_);
    std::weak_ptr<const Packed>& entry = weights_[key];
    if (auto other = entry.lock()) {
      return other;
    }
    entry = packed;
    return packed;
  }

  size_t size() const {
    const absl::MutexLock lock(&mutex_);
    return weights_.size();
  }

  std::vector<std::shared_ptr<const Packed>> All() const {
    std::vector<std::shared_ptr<const Packed>> all;
    const absl::MutexLock lock(&mutex_);
    for (const auto& [key, entry] : weights_) {
      all.push_back(entry.lock());
    }
    return all;
  }

 private:
  std::shared_ptr<const Packed> Find(const std::string& key) const {
    const absl::MutexLock lock(&mutex_);
    const auto found = weights_.find(key);
    return found == weights_.end() ? nullptr : found->second.lock();
  }

  void Forget(const std::string& key) {
    const absl::MutexLock lock(&mutex_);
    const auto found = weights_.find(key);
    if (found != weights_.end() && found->second.expired()) {
      weights_.erase(found);
    }
  }

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<const Packed>> weights_ ABSL_GUARDED_BY(mutex_);
};

template <typename Packed, typename Element = float>
Cache<Packed, Element>& TheCache() {
  return TheOnly<Cache<Packed, Element>>();
}

}  // namespace

std::shared_ptr<const PackedMatMul> SharePacked(ConstMatrix<float> weight, bool transposed,
                                                Precision precision,
                                                const std::weak_ptr<const void>& lifetime) {
  auto packed = TheCache<PackedMatMul>().Get(weight, {transposed, precision}, lifetime);
  for (const std::shared_ptr<const ByteTable>& table : TheCache<ByteTable, int8_t>().All()) {
    if (table != nullptr) {
      table->ReadFrom(packed);
    }
  }
  return packed;
}

std::shared_ptr<const EmbeddingTable> ShareTable(ConstMatrix<float> table,
                                                 const std::weak_ptr<const void>& lifetime) {
  return TheCache<EmbeddingTable>().Get(table, {}, lifetime);
}

std::shared_ptr<const ByteTable> ShareBytes(ConstMatrix<int8_t> table,
                                            const std::weak_ptr<const void>& lifetime) {
  auto bytes = TheCache<ByteTable, int8_t>().Get(table, {}, lifetime);
  for (const std::shared_ptr<const PackedMatMul>& packed : TheCache<PackedMatMul>().All()) {
    if (packed != nullptr) {
      bytes->ReadFrom(packed);
    }
  }
  return bytes;
}

ByteTable::ByteTable(ConstMatrix<int8_t> table)
    : rows_(table.rows), width_(table.columns), table_(DType::kI8, Shape{rows_, width_}) {
  for (int64_t row = 0; row < rows_; ++row) {
    const int8_t* const values = table.row(row);
    std::copy_n(values, width_, table_.mutable_data<int8_t>() + row * width_);
    int largest = 0;
    for (int64_t k = 0; k < width_; ++k) {
      largest = std::max(largest, std::abs(int{values[k]}));
    }
    largest_.push_back(static_cast<uint8_t>(largest));
  }
}

namespace {

// A packed column is its row times 127 / largest, rounded. `largest` is at most 127, so different
// integers of the row are different integers there, and the inverse finds each of them.
void Unpack(const PackedMatMul& packed, int64_t row, uint8_t largest, absl::Span<int8_t> out) {
  packed.ReadColumn(row, out);
  for (int8_t& value : out) {
    const int product = value * largest;
    value = static_cast<int8_t>((product + (product < 0 ? -63 : 63)) / 127);
  }
}

}  // namespace

void ByteTable::Read(int64_t row, int8_t* out) const {
  const absl::ReaderMutexLock lock(&mutex_);
  if (packed_ == nullptr) {
    std::copy_n(table_.data<int8_t>() + row * width_, width_, out);
  } else {
    Unpack(*packed_, row, largest_[static_cast<size_t>(row)], {out, static_cast<size_t>(width_)});
  }
}

bool ByteTable::Is(const PackedMatMul& packed) const {
  std::vector<int8_t> found(static_cast<size_t>(width_));
  for (int64_t row = 0; row < rows_; ++row) {
    Unpack(packed, row, largest_[static_cast<size_t>(row)], absl::MakeSpan(found));
    if (!std::equal(found.begin(), found.end(), table_.data<int8_t>() + row * width_)) {
      return false;
    }
  }
  return true;
}

void ByteTable::ReadFrom(const std::shared_ptr<const PackedMatMul>& packed) const {
  if (packed->precision() != Precision::kInt8 || packed->columns() != rows_ ||
      packed->depth() != width_) {
    return;
  }
  {
    const absl::ReaderMutexLock lock(&mutex_);
    if (packed_ != nullptr || !Is(*packed)) {
      return;
    }
  }
  const absl::MutexLock lock(&mutex_);
  packed_ = packed;
  table_ = Tensor();
}

size_t NumSharedWeights() { return TheCache<PackedMatMul>().size(); }

}  // namespace beamwright::ops
