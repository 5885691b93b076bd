#include "ops/kernels/embedding_sum.h"

#include "ops/base/status.h"

namespace beamwright::ops {

absl::Status CheckIndices(const Tensor& indices, int64_t table_rows) {
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
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
