// For passes that take the product of a recurrent cell's input with its weights out of the cell, to
// compute it elsewhere. FindCellProduct finds the weights' place among the cell's inputs;
// TakeProduct leaves a cell that reads the finished product.
#include "ops/compile/cell_product.h"

#include <algorithm>

#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

bool IsCell(const Node& node) {
  return node.op == "LSTMCell" || node.op == "GRUCell" || node.op == "RNNCell";
}

std::optional<CellProduct> FindCellProduct(const Node& node, absl::Span<const InputInfo> inputs) {
  const auto flag = [&](const char* name) {
    return node.attributes.Bool(name, false).value_or(true);
  };
  if (!IsCell(node) || flag("input_is_product") || flag("input_is_gates")) {
    return std::nullopt;
  }
  CellProduct product;
  product.weight = node.op == "LSTMCell" ? 3 : 2;
  product.joined = node.op == "LSTMCell" && flag("weights_joined");
  const Tensor* weight = product.weight < inputs.size() ? inputs[product.weight].value : nullptr;
  const bool known = weight != nullptr && weight->dtype() == DType::kF32 && weight->rank() == 2 &&
                     weight->num_elements() > 0;
  return known ? std::optional(product) : std::nullopt;
}

Tensor Columns(const Tensor& matrix, int64_t first, int64_t count) {
  // Copying cannot fail.
  return *MakeConstant(DType::kF32, {matrix.dim(0), count}, [=](std::byte* out) {
    const float* const from = matrix.data<float>() + first;
    auto* const to = reinterpret_cast<float*>(out);
    for (int64_t row = 0; row < matrix.dim(0); ++row) {
      std::copy_n(from + row * matrix.dim(1), count, to + row * count);
    }
    return absl::OkStatus();
  });
}

void TakeProduct(const CellProduct& found, ValueId product, ValueId recurrent, Node& cell) {
  cell.attributes.Set("input_is_product", true);
  cell.inputs[0] = product;
  if (found.joined) {
    cell.attributes.Set("weights_joined", false);
    cell.inputs.insert(cell.inputs.begin() + static_cast<int64_t>(found.weight) + 1, recurrent);
  }
  cell.inputs[found.weight] = ValueId();
}

}  // namespace beamwright::ops
