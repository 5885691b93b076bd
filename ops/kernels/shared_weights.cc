#include "ops/kernels/shared_weights.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "ops/base/check.h"

namespace beamwright::ops {
namespace {

// What is made of a weight's elements.
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

std::unique_ptr<const Tensor> Make(ConstMatrix<int8_t> weight, const Form&, const Tensor*) {
  auto table = std::make_unique<Tensor>(DType::kI8, Shape{weight.rows, weight.columns});
  for (int64_t row = 0; row < weight.rows; ++row) {
    std::copy_n(weight.row(row), weight.columns,
                table->mutable_data<int8_t>() + row * weight.columns);
  }
  return table;
}

template <typename Element>
std::string KeyOf(ConstMatrix<Element> weight, const Form& form) {
  const std::array<int64_t, 4> header = {weight.rows, weight.columns, form.transposed ? 1 : 0,
                                         static_cast<int64_t>(form.precision)};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  BW_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  const auto add = [&](const void* bytes, size_t count) {
    BW_CHECK(EVP_DigestUpdate(context.get(), bytes, count) == 1);
  };
  add(header.data(), sizeof(header));
  for (int64_t row = 0; row < weight.rows; ++row) {
    add(weight.row(row), static_cast<size_t>(weight.columns) * sizeof(Element));
  }
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  BW_CHECK(EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                              &size) == 1);
  digest.resize(size);
  return digest;
}

// Packed: PackedMatMul, EmbeddingTable or Tensor, made of elements of this type.
template <typename Packed, typename Element>
class Cache {
 public:
  using Weight = ConstMatrix<Element>;

  std::shared_ptr<const Packed> Get(Weight weight, const Form& form,
                                    const std::weak_ptr<const void>& lifetime) {
    if (auto seen = FindSeen(weight, form)) {
      return seen;
    }
    auto packed = FindOrPack(weight, form);
    if (!lifetime.expired()) {
      Remember(weight, form, lifetime, packed);
    }
    return packed;
  }

  size_t size() const {
    const absl::MutexLock lock(&mutex_);
    return weights_.size();
  }

 private:
  // What was made of elements that are still there.
  struct Seen {
    Weight weight;
    Form form;
    std::weak_ptr<const void> lifetime;
    std::weak_ptr<const Packed> packed;
  };

  std::shared_ptr<const Packed> FindSeen(Weight weight, const Form& form) const {
    const absl::MutexLock lock(&mutex_);
    const auto found = seen_.find(weight.data);
    if (found == seen_.end()) {
      return nullptr;
    }
    const Seen& seen = found->second;
    const bool same = seen.weight.rows == weight.rows && seen.weight.columns == weight.columns &&
                      seen.weight.stride == weight.stride && seen.form == form;
    return same && !seen.lifetime.expired() ? seen.packed.lock() : nullptr;
  }

  void Remember(Weight weight, const Form& form, const std::weak_ptr<const void>& lifetime,
                const std::weak_ptr<const Packed>& packed) {
    const absl::MutexLock lock(&mutex_);
    if (seen_.size() >= sweep_at_) {
      absl::erase_if(seen_, [](const auto& entry) { return entry.second.lifetime.expired(); });
      sweep_at_ = 2 * seen_.size() + 64;
    }
    seen_[weight.data] = {weight, form, lifetime, packed};
  }

  std::shared_ptr<const Packed> FindOrPack(Weight weight, const Form& form) {
    const std::string key = KeyOf(weight, form);
    if (auto found = Find(key)) {
      return found;
    }
    // Packing takes its time; a thread that packs the same meanwhile is not waited for.
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
  absl::flat_hash_map<const Element*, Seen> seen_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
};

// Never destroyed: kernels in static objects may outlive it otherwise.
template <typename Packed, typename Element = float>
Cache<Packed, Element>& TheCache() {
  static auto* const cache = new Cache<Packed, Element>();
  return *cache;
}

}  // namespace

std::shared_ptr<const PackedMatMul> SharePacked(ConstMatrix<float> weight, bool transposed,
                                                Precision precision,
                                                const std::weak_ptr<const void>& lifetime) {
  return TheCache<PackedMatMul>().Get(weight, {transposed, precision}, lifetime);
}

std::shared_ptr<const EmbeddingTable> ShareTable(ConstMatrix<float> table,
                                                 const std::weak_ptr<const void>& lifetime) {
  return TheCache<EmbeddingTable>().Get(table, {}, lifetime);
}

std::shared_ptr<const Tensor> ShareBytes(ConstMatrix<int8_t> table,
                                         const std::weak_ptr<const void>& lifetime) {
  return TheCache<Tensor, int8_t>().Get(table, {}, lifetime);
}

size_t NumSharedWeights() { return TheCache<PackedMatMul>().size(); }

}  // namespace beamwright::ops
