#include "ops/kernels/embedding_table.h"

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

}  // namespace beamwright::ops
