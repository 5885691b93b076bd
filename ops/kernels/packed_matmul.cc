#include "ops/kernels/packed_matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/check.h"
#include "ops/kernels/onednn_panels.h"
#include "ops/kernels/parallel.h"

namespace beamwright::ops {
namespace {

std::atomic<int> fixed_order_scopes{0};

void Finish(const float* product, const float* bias, bool add, int64_t count, float* out) {
  if (bias != nullptr && add) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] += product[i] + bias[i];
    }
  } else if (bias != nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = product[i] + bias[i];
    }
  } else if (add) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] += product[i];
    }
  } else {
    std::copy(product, product + count, out);
  }
}

}  // namespace

PackedMatMul::ScopedFixedOrder::ScopedFixedOrder() { ++fixed_order_scopes; }
PackedMatMul::ScopedFixedOrder::~ScopedFixedOrder() { --fixed_order_scopes; }
bool PackedMatMul::FixedOrderIsForced() { return fixed_order_scopes > 0; }

PackedMatMul::PackedMatMul(ConstMatrix<float> weight, bool transposed, Backend backend)
    : depth_(transposed ? weight.columns : weight.rows),
      columns_(transposed ? weight.rows : weight.columns),
      weight_(static_cast<size_t>(depth_ * columns_)) {
  for (int64_t k = 0; k < depth_; ++k) {
    for (int64_t n = 0; n < columns_; ++n) {
      weight_[static_cast<size_t>(k * columns_ + n)] =
          transposed ? weight.row(n)[k] : weight.row(k)[n];
    }
  }
  if (backend == Backend::kFixedOrder || FixedOrderIsForced()) {
    return;
  }
  onednn_ = OneDnnPanels::Create(weight_, depth_, columns_);
  if (onednn_ != nullptr) {
    std::vector<float>().swap(weight_);  // assigning {} would keep the memory
  }
}

PackedMatMul::~PackedMatMul() = default;

std::string PackedMatMul::implementation() const {
  if (onednn_ == nullptr) {
    return "fixed order";
  }
  return absl::StrCat("oneDNN ", onednn_->kernel(), ", tiles ",
                      absl::StrJoin(onednn_->tiles(), " "));
}

absl::Status PackedMatMul::Run(int num_threads, ConstMatrix<float> a, const Epilogue& epilogue,
                               Matrix<float> out) const {
  BW_DCHECK(a.columns == depth_ && out.columns == columns_ && out.rows == a.rows);
  BW_DCHECK(epilogue.bias.empty() || static_cast<int64_t>(epilogue.bias.size()) == columns_);
  const int64_t tile_rows = onednn_ == nullptr ? 16 : onednn_->tiles().back();
  const int64_t tiles = (a.rows + tile_rows - 1) / tile_rows;
  const int64_t panels = (columns_ + kPanelColumns - 1) / kPanelColumns;
  std::atomic<bool> failed{false};
  ParallelFor(num_threads, tiles * panels, a.rows * depth_ * columns_, [&](int64_t item) {
    const int64_t first = item / panels * tile_rows;
    const int64_t rows = std::min(tile_rows, a.rows - first);
    const ConstMatrix<float> part_a{a.row(first), rows, a.columns, a.stride};
    const Matrix<float> part_out{out.row(first), rows, out.columns, out.stride};
    if (onednn_ == nullptr) {
      RunFixedOrder(part_a, epilogue, part_out, item % panels);
    } else if (!RunTile(part_a, epilogue, part_out, item % panels).ok()) {
      failed = true;
    }
  });
  return failed ? absl::InternalError("oneDNN failed to run a matrix product") : absl::OkStatus();
}

absl::Status PackedMatMul::RunTile(ConstMatrix<float> a, const Epilogue& epilogue,
                                   Matrix<float> out, int64_t panel) const {
  static thread_local std::vector<float> input;
  static thread_local std::vector<float> product;
  const size_t tile = onednn_->TileFor(a.rows);
  const int64_t rows = onednn_->tiles()[tile];
  const int64_t first = panel * kPanelColumns;
  const int64_t width = std::min(kPanelColumns, columns_ - first);
  const float* source = a.data;
  if (a.rows != rows || a.stride != depth_) {
    input.resize(std::max(input.size(), static_cast<size_t>(rows * depth_)));
    for (int64_t row = 0; row < rows; ++row) {
      float* padded = input.data() + row * depth_;
      if (row < a.rows) {
        std::copy(a.row(row), a.row(row) + depth_, padded);
      } else {
        std::fill(padded, padded + depth_, 0.0f);
      }
    }
    source = input.data();
  }
  product.resize(std::max(product.size(), static_cast<size_t>(rows * width)));
  if (!onednn_->Run(tile, panel, source, product.data())) {
    return absl::InternalError("oneDNN failed");
  }
  const float* bias = epilogue.bias.empty() ? nullptr : epilogue.bias.data() + first;
  for (int64_t row = 0; row < a.rows; ++row) {
    Finish(product.data() + row * width, bias, epilogue.add_to_output, width, out.row(row) + first);
  }
  return absl::OkStatus();
}

void PackedMatMul::RunFixedOrder(ConstMatrix<float> a, const Epilogue& epilogue, Matrix<float> out,
                                 int64_t panel) const {
  const int64_t first = panel * kPanelColumns;
  const int64_t width = std::min(kPanelColumns, columns_ - first);
  const float* bias = epilogue.bias.empty() ? nullptr : epilogue.bias.data() + first;
  for (int64_t row = 0; row < a.rows; ++row) {
    float sums[kPanelColumns] = {};
    for (int64_t k = 0; k < depth_; ++k) {
      const float factor = a.row(row)[k];
      const float* weights = weight_.data() + k * columns_ + first;
      for (int64_t n = 0; n < width; ++n) {
        sums[n] += factor * weights[n];
      }
    }
    Finish(sums, bias, epilogue.add_to_output, width, out.row(row) + first);
  }
}

}  // namespace beamwright::ops
