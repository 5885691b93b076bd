// What EmbeddingSegmentsSum and the embedding bags share: sums of table rows, and the checks of
// what names them.
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_

#include <algorithm>
#include <type_traits>

#include "ops/base/vector_isa.h"
#include "ops/kernels/inputs.h"

namespace beamwright::ops {

// What a row is summed in: wide enough that T is rounded once, unsigned where T wraps.
template <typename T>
struct TableTotal {
  using type = std::conditional_t<std::is_integral_v<T>, uint64_t,
                                  std::conditional_t<std::is_same_v<T, double>, double, float>>;
};

template <typename T>
typename TableTotal<T>::type Widen(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return ToFloat(value);
  } else {
    return static_cast<typename TableTotal<T>::type>(value);
  }
}

template <typename T>
T Narrow(typename TableTotal<T>::type value) {
  if constexpr (std::is_same_v<T, Half>) {
    return ToHalf(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

// InvalidArgument naming the first of `indices` (i32 or i64) outside [0, table_rows).
absl::Status CheckIndices(const Tensor& indices, int64_t table_rows);
// -1 (zeros) or a row of the table, whether it is used or not.
absl::Status CheckDefaultIndex(int64_t default_index, int64_t table_rows);

// A table of rows [.., width] and the items that are summed: item i is row indices[i], times
// weights[i] where there are weights. Everything has been checked.
template <typename T>
struct EmbeddingTable {
  const T* rows = nullptr;
  int64_t width = 0;
  const Tensor* indices = nullptr;
  const T* weights = nullptr;
  int64_t default_index = -1;  // the row that an empty sum is; -1: zeros

  // out [width]: the sum of items [begin, end), or with `mean` that divided by their number
  // (integers: towards zero).
  void SumItems(int64_t begin, int64_t end, bool mean, T* out) const {
    if (begin >= end) {
      for (int64_t d = 0; d < width; ++d) {
        out[d] = default_index < 0 ? T{} : rows[default_index * width + d];
      }
      return;
    }
    for (int64_t first = 0; first < width; first += kBlock) {
      const int64_t block = std::min(kBlock, width - first);
      Total sums[kBlock] = {};
      VectorizedFor<T>([&]() BW_ALWAYS_INLINE {
        if (weights == nullptr) {
          AddRows<false>(begin, end, first, block, sums);
        } else {
          AddRows<true>(begin, end, first, block, sums);
        }
      });
      for (int64_t d = 0; d < block; ++d) {
        out[first + d] = Narrow<T>(mean ? Divide(sums[d], end - begin) : sums[d]);
      }
    }
  }

 private:
  using Total = typename TableTotal<T>::type;

  // Columns summed at a time: enough of a row to be read in one go, few enough that the sums stay
  // in the first-level cache.
  static constexpr int64_t kBlock = 256;
  // How far ahead rows are fetched: they stand anywhere in a table that fits in no cache.
  static constexpr int64_t kAheadBytes = 2048;
  static constexpr int64_t kCacheLine = 64;

  template <bool kWeighted>
  BW_ALWAYS_INLINE inline void AddRows(int64_t begin, int64_t end, int64_t first, int64_t block,
                                       Total* __restrict sums) const {
    const int64_t bytes = block * static_cast<int64_t>(sizeof(T));
    const int64_t ahead = std::max<int64_t>(kAheadBytes / bytes, 1);
    const int64_t last = indices->num_elements() - 1;
    for (int64_t i = begin; i < end; ++i) {
      const auto* next = reinterpret_cast<const char*>(
          rows + IntAt(*indices, std::min(i + ahead, last)) * width + first);
      for (int64_t byte = 0; byte < bytes; byte += kCacheLine) {
        __builtin_prefetch(next + byte);
      }
      const T* row = rows + IntAt(*indices, i) * width + first;
      [[maybe_unused]] const Total weight = kWeighted ? Widen(weights[i]) : Total{};
      for (int64_t d = 0; d < block; ++d) {
        if constexpr (kWeighted) {
          sums[d] += Widen(row[d]) * weight;
        } else {
          sums[d] += Widen(row[d]);
        }
      }
    }
  }

  static typename TableTotal<T>::type Divide(typename TableTotal<T>::type sum, int64_t count) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      return static_cast<uint64_t>(static_cast<int64_t>(sum) / count);
    } else {
      return sum / static_cast<typename TableTotal<T>::type>(count);
    }
  }
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
