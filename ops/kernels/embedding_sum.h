// What EmbeddingSegmentsSum and the embedding bags share: sums of table rows, and the checks of
// what names them.
#ifndef BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
#define BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_

#include <algorithm>
#include <type_traits>
#include <utility>

#include "ops/base/vector_isa.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"

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
  const Tensor* indices = nullptr;  // i32 or i64
  const T* weights = nullptr;
  int64_t default_index = -1;  // the row that an empty sum is; -1: zeros

  // out [bags, width]: of each bag the sum of its items, or with `mean` that divided by their
  // number (integers: towards zero). range(bag) is a pair: the first item and one past the last.
  template <typename Range>
  void SumBags(int num_threads, int64_t bags, bool mean, Range range, T* out) const {
    if (indices->dtype() == DType::kI32) {
      SumBagsBy<int32_t>(num_threads, bags, mean, range, out);
    } else {
      SumBagsBy<int64_t>(num_threads, bags, mean, range, out);
    }
  }

 private:
  using Total = typename TableTotal<T>::type;

  // Columns summed at a time, which is what registers hold.
  static constexpr int64_t kBlock = 64;
  // Bags for which instructions are chosen once.
  static constexpr int64_t kMostBags = 32;
  // How far ahead rows are fetched: they stand anywhere in a table that fits in no cache.
  static constexpr int64_t kAheadBytes = 2048;
  static constexpr int64_t kCacheLine = 64;

  template <typename Index, typename Range>
  void SumBagsBy(int num_threads, int64_t bags, bool mean, Range range, T* out) const {
    const int64_t group = std::clamp(bags / (4 * std::max(num_threads, 1)), int64_t{1}, kMostBags);
    const int64_t work = 2 * width * (indices->num_elements() + bags);
    ParallelFor(num_threads, (bags + group - 1) / group, work, [&](int64_t index) {
      const int64_t end = std::min((index + 1) * group, bags);
      VectorizedFor<T>([&]() BW_ALWAYS_INLINE {
        for (int64_t bag = index * group; bag < end; ++bag) {
          const std::pair<int64_t, int64_t> items = range(bag);
          SumItems<Index>(items.first, items.second, mean, out + bag * width);
        }
      });
    });
  }

  template <typename Index>
  BW_ALWAYS_INLINE inline void SumItems(int64_t begin, int64_t end, bool mean, T* out) const {
    if (begin >= end) {
      for (int64_t d = 0; d < width; ++d) {
        out[d] = default_index < 0 ? T{} : rows[default_index * width + d];
      }
      return;
    }
    const int64_t divisor = mean ? end - begin : 0;
    int64_t first = 0;
    for (; first + kBlock <= width; first += kBlock) {
      SumColumns<Index>(begin, end, first, std::integral_constant<int64_t, kBlock>(), divisor, out);
    }
    if (first < width) {
      SumColumns<Index>(begin, end, first, width - first, divisor, out);
    }
  }

  // Block: the number of columns, known to the compiler where it is kBlock.
  template <typename Index, typename Block>
  BW_ALWAYS_INLINE inline void SumColumns(int64_t begin, int64_t end, int64_t first, Block block,
                                          int64_t divisor, T* out) const {
    Total sums[kBlock] = {};
    if (weights == nullptr) {
      AddRows<Index, false>(begin, end, first, block, sums);
    } else {
      AddRows<Index, true>(begin, end, first, block, sums);
    }
    for (int64_t d = 0; d < block; ++d) {
      out[first + d] = Narrow<T>(divisor > 0 ? Divide(sums[d], divisor) : sums[d]);
    }
  }

  template <typename Index, bool kWeighted, typename Block>
  BW_ALWAYS_INLINE inline void AddRows(int64_t begin, int64_t end, int64_t first, Block block,
                                       Total* __restrict sums) const {
    const Index* const row_of = indices->data<Index>();
    const int64_t bytes = block * static_cast<int64_t>(sizeof(T));
    const int64_t ahead = kAheadBytes / (kBlock * static_cast<int64_t>(sizeof(T)));
    const int64_t last = indices->num_elements() - 1;
    for (int64_t i = begin; i < end; ++i) {
      const auto* next = reinterpret_cast<const char*>(
          rows + int64_t{row_of[std::min(i + ahead, last)]} * width + first);
      for (int64_t byte = 0; byte < bytes; byte += kCacheLine) {
        __builtin_prefetch(next + byte);
      }
      const T* __restrict const row = rows + int64_t{row_of[i]} * width + first;
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

  static Total Divide(Total sum, int64_t count) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      return static_cast<uint64_t>(static_cast<int64_t>(sum) / count);
    } else {
      return sum / static_cast<Total>(count);
    }
  }
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EMBEDDING_SUM_H_
