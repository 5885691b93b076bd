// Sums rows of a table by bags of indices; EmbeddingBag and EmbeddingSegmentsSum are checks around
// it (SumBags).
//
// 1. Bags are shared out among threads in groups, so that the choice of the instruction set is made
//    once per group (VectorizedFor).
// 2. SumItems takes kBlock columns at a time, whose sums stay in registers while all rows of the
//    bag are added (SumColumns, AddRows).
// 3. Rows are anywhere in a table that is larger than the caches: the rows of later items are
//    prefetched.
//
// Elements are widened to a type in which the sum is rounded once (f32 for 16-bit floats); integers
// are summed as unsigned 64-bit numbers, in which overflow is defined.
#include "ops/kernels/embedding_sum.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "ops/base/status.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"

namespace beamwright::ops {
namespace {

// Whether all values are in [0, limit). Compared as unsigned numbers, in which negative ones are
// the largest.
template <typename Index>
bool AllInside(absl::Span<const Index> values, int64_t limit) {
  using Unsigned = std::make_unsigned_t<Index>;
  const Index* const data = values.data();
  const size_t count = values.size();
  Unsigned largest = 0;
  Vectorized([=, &largest]() BW_ALWAYS_INLINE {
    Unsigned most = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<Unsigned>(data[i]);
      most = value > most ? value : most;
    }
    largest = most;
  });
  return count == 0 || uint64_t{largest} < static_cast<uint64_t>(limit);
}

// The type of a sum: wide enough that T is rounded once, unsigned if T wraps.
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

// EmbeddingItems of a type, in a table of rows [.., width].
template <typename T>
struct EmbeddingTable {
  const T* rows = nullptr;
  int64_t width = 0;
  const Tensor* indices = nullptr;
  const T* weights = nullptr;
  int64_t default_index = -1;

  // out [bags, width]
  void SumBags(int num_threads, int64_t bags, bool mean, ItemsOfBag items_of, T* out) const {
    if (indices->dtype() == DType::kI32) {
      SumBagsBy<int32_t>(num_threads, bags, mean, items_of, out);
    } else {
      SumBagsBy<int64_t>(num_threads, bags, mean, items_of, out);
    }
  }

 private:
  using Total = typename TableTotal<T>::type;

  // Columns summed at a time, which is what registers hold.
  static constexpr int64_t kBlock = 64;
  // Bags for which instructions are chosen once.
  static constexpr int64_t kMostBags = 32;
  // How far ahead rows are fetched: they stand anywhere in a table that fits in no cache.
  static constexpr int64_t kAheadBytes = 4096;
  static constexpr int64_t kCacheLine = 64;
  // Of an element that is added or written, as ops/kernels/parallel.h counts it: it comes from
  // memory.
  static constexpr int64_t kWorkOfAnElement = 10;

  template <typename Index>
  void SumBagsBy(int num_threads, int64_t bags, bool mean, ItemsOfBag items_of, T* out) const {
    const int64_t group = std::clamp(bags / (4 * std::max(num_threads, 1)), int64_t{1}, kMostBags);
    const int64_t work = kWorkOfAnElement * width * (indices->num_elements() + bags);
    ParallelFor(num_threads, (bags + group - 1) / group, work, [&](int64_t index) {
      const int64_t begin = index * group;
      const int64_t count = std::min(begin + group, bags) - begin;
      std::array<std::pair<int64_t, int64_t>, kMostBags> items;
      for (int64_t i = 0; i < count; ++i) {
        items[static_cast<size_t>(i)] = items_of(begin + i);
      }
      VectorizedFor<T>([&]() BW_ALWAYS_INLINE {
        for (int64_t i = 0; i < count; ++i) {
          const auto& [first, last] = items[static_cast<size_t>(i)];
          SumItems<Index>(first, last, mean, out + (begin + i) * width);
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

}  // namespace

absl::Status CheckIndices(const Tensor& indices, int64_t table_rows) {
  const bool inside = indices.dtype() == DType::kI32
                          ? AllInside(indices.span<int32_t>(), table_rows)
                          : AllInside(indices.span<int64_t>(), table_rows);
  for (int64_t i = 0; !inside && i < indices.num_elements(); ++i) {
    const int64_t index = IntAt(indices, i);
    if (index < 0 || index >= table_rows) {
      return Invalid("indices[", i, "]: ", index, " is outside [0, ", table_rows, ")");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDefaultIndex(int64_t default_index, int64_t table_rows) {
  return default_index < -1 || default_index >= table_rows
             ? Invalid("default_index: ", default_index, " is outside [-1, ", table_rows, ")")
             : absl::OkStatus();
}

void SumBags(int num_threads, const EmbeddingItems& items, bool mean, ItemsOfBag items_of,
             Tensor& output) {
  if (output.num_elements() == 0) {
    return;
  }
  const int64_t bags = output.dim(0);
  VisitDType(output.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_same_v<T, bool>) {
      const T* const weights = items.weights == nullptr ? nullptr : items.weights->data<T>();
      const EmbeddingTable<T> table{items.table->data<T>(), output.num_elements() / bags,
                                    items.indices, weights, items.default_index};
      table.SumBags(num_threads, bags, mean, items_of, output.mutable_data<T>());
    }
  });
}

// EmbeddingSegmentsSum: sums rows of a table by segments. segment_ids[i] is the segment of item i,
// in ascending order, so that a segment is a range of items (FindFirstItems); SumBags
// (embedding_sum.h) computes the sums. A segment without items is the row default_index, or zeros.
//
// FindFirstItems only says that something is wrong; CheckSegments then finds the first wrong id for
// the message, which keeps the frequent case fast.

namespace {

enum Input : size_t { kTable, kIndices, kSegmentIds, kNumSegments, kDefaultIndex, kWeights };
constexpr absl::string_view kNames[] = {"emb_table",    "indices",       "segment_ids",
                                        "num_segments", "default_index", "per_sample_weights"};

struct EmbeddingSegmentsSumOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }

  static absl::Status CheckTypes(absl::Span<const InputInfo> inputs) {
    if (!IsFloat(inputs[kTable].dtype) && !IsInteger(inputs[kTable].dtype)) {
      return Invalid("emb_table: element type ", Name(inputs[kTable].dtype),
                     " is not supported, only integers and floats");
    }
    BW_RETURN_IF_ERROR(ExpectType(inputs[kIndices], "indices", {DType::kI64, DType::kI32}));
    for (size_t i = kSegmentIds; i < inputs.size(); ++i) {
      const size_t like = i == kWeights ? kTable : kIndices;
      if (Present(inputs, i) && inputs[i].dtype != inputs[like].dtype) {
        return Invalid(kNames[i], ": element type ", Name(inputs[i].dtype), " is not that of ",
                       kNames[like], ", ", Name(inputs[like].dtype));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 4, 6, outputs));
    BW_RETURN_IF_ERROR(CheckTypes(inputs));
    static constexpr int kRanks[] = {0, 1, 1, 0, 0, 1};
    for (size_t i = kIndices; i < inputs.size(); ++i) {
      if (Present(inputs, i)) {
        BW_RETURN_IF_ERROR(ExpectRank(inputs[i], kNames[i], kRanks[i]));
      }
    }
    for (const size_t i : {kSegmentIds, kWeights}) {
      if (Present(inputs, i) &&
          !MergeExtents(ListLength(inputs[i]), ListLength(inputs[kIndices])).ok()) {
        return Invalid(kNames[i], ": has ", ListLength(inputs[i]), " elements, expected ",
                       ListLength(inputs[kIndices]), ", as indices has");
      }
    }
    outputs[0].dtype = inputs[kTable].dtype;
    outputs[0].shape = PartialShape();
    if (!inputs[kTable].shape.has_rank()) {
      return absl::OkStatus();
    }
    if (inputs[kTable].shape.rank() == 0) {
      return Invalid("emb_table: must have rank 1 or more");
    }
    Shape dims = inputs[kTable].shape.dims();
    Ints segments;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[kNumSegments], "num_segments", segments));
    if (known && segments[0] < 0) {
      return Invalid("num_segments: ", segments[0], " is negative");
    }
    dims[0] = known ? segments[0] : PartialShape::kDynamic;
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  // InvalidArgument naming the first segment id that is out of range or out of order.
  static absl::Status CheckSegments(const Tensor& segment_ids, int64_t segments) {
    for (int64_t i = 0; i < segment_ids.num_elements(); ++i) {
      const int64_t segment = IntAt(segment_ids, i);
      if (segment < 0 || segment >= segments) {
        return Invalid("segment_ids[", i, "]: ", segment, " is outside [0, ", segments, ")");
      }
      if (i > 0 && segment < IntAt(segment_ids, i - 1)) {
        return Invalid("segment_ids[", i, "]: ", segment, " is below segment_ids[", i - 1, "], ",
                       IntAt(segment_ids, i - 1), "; they must ascend");
      }
    }
    return absl::OkStatus();
  }

  // The first item of each segment, and one past the last of all. False: the ids do not ascend
  // from 0 on, or reach `segments`.
  using FirstItems = absl::InlinedVector<int64_t, 256>;
  template <typename Id>
  static bool FindFirstItems(absl::Span<const Id> ids, int64_t segments, FirstItems& first) {
    first.resize(static_cast<size_t>(segments) + 1);
    int64_t next = 0;  // the first segment that has not begun
    int64_t before = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids[i];
      if (id < before || id >= segments) {
        return false;
      }
      for (; next <= id; ++next) {
        first[static_cast<size_t>(next)] = static_cast<int64_t>(i);
      }
      before = id;
    }
    std::fill(first.begin() + next, first.end(), static_cast<int64_t>(ids.size()));
    return true;
  }

  static absl::Status Compute(const Options&, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor* const given_default = InputOrNull(inputs, kDefaultIndex);
    Tensor& output = outputs[0];
    const int64_t segments = output.dim(0);
    const int64_t default_index = given_default == nullptr ? -1 : IntAt(*given_default, 0);
    BW_RETURN_IF_ERROR(CheckIndices(*inputs[kIndices], inputs[kTable]->dim(0)));
    const Tensor& ids = *inputs[kSegmentIds];
    const int64_t width = segments == 0 ? 0 : output.num_elements() / segments;
    FirstItems first;
    const auto find_first = [&] {
      return ids.dtype() == DType::kI32 ? FindFirstItems(ids.span<int32_t>(), segments, first)
                                        : FindFirstItems(ids.span<int64_t>(), segments, first);
    };
    // Segments of nothing may be any number.
    if (width == 0 || !find_first()) {
      BW_RETURN_IF_ERROR(CheckSegments(ids, segments));
    }
    BW_RETURN_IF_ERROR(CheckDefaultIndex(default_index, inputs[kTable]->dim(0)));
    if (width == 0) {
      return absl::OkStatus();
    }
    const auto items_of = [&first](int64_t segment) {
      const auto at = static_cast<size_t>(segment);
      return std::pair(first[at], first[at + 1]);
    };
    SumBags(context.num_threads,
            {inputs[kTable], inputs[kIndices], InputOrNull(inputs, kWeights), default_index},
            /*mean=*/false, items_of, output);
    return absl::OkStatus();
  }

  // The items of a row are m indices (and weights); their segments, and the number of segments,
  // follow from the number of rows. That no segment is in two rows is confirmed by the comparison
  // of one row with three when the model is loaded.
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const bool weights_fit = !Present(inputs, kWeights) || rows[kWeights] == rows[kIndices];
    const bool default_fits = !Present(inputs, kDefaultIndex) || IsFixed(rows[kDefaultIndex]);
    return IsFixed(rows[kTable]) && IsRows(rows[kIndices]) && IsExtent(rows[kSegmentIds]) &&
                   IsExtent(rows[kNumSegments]) && weights_fit && default_fits
               ? RowsAt(0, 1)
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kEmbeddingSegmentsSum =
    CodeOf<EmbeddingSegmentsSumOp>(&EmbeddingSegmentsSumOp::Rows);

}  // namespace beamwright::ops
