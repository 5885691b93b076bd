#include "ops/kernels/embedding_sum.h"

#include "ops/base/status.h"

namespace beamwright::ops {

namespace {

// Whether all are in [0, limit): as unsigned numbers, negative ones are the largest.
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

}  // namespace beamwright::ops
