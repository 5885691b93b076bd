#include "tools/graph/frozen_reshape.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace beamwright::ops {
namespace {

// The constant target of a Reshape; empty if it is not constant.
std::vector<int64_t> ConstantTarget(const Graph& graph, const Node& node) {
  if (node.op != "Reshape" || node.inputs.size() != 2) {
    return {};
  }
  const Node& target = graph.node(node.inputs[1].node);
  if (target.op != "Constant") {
    return {};
  }
  const absl::StatusOr<Tensor> numbers = Convert(target.constant, DType::kI64);
  return numbers.ok() ? std::vector<int64_t>(numbers->data<int64_t>(),
                                             numbers->data<int64_t>() + numbers->num_elements())
                      : std::vector<int64_t>();
}

// Whether the numbers of the target hold a factor that no known extent of the data has.
bool IsFrozen(const PartialShape& data, const std::vector<int64_t>& target, bool special_zero) {
  int64_t known = 1;
  int64_t wanted = 1;
  int num_open = 0;
  bool has_open = false;
  for (int axis = 0; axis < data.rank(); ++axis) {
    const auto place = static_cast<size_t>(axis);
    const bool is_copied = special_zero && place < target.size() && target[place] == 0;
    if (data.dim(axis) == PartialShape::kDynamic) {
      ++num_open;
      has_open = has_open || !is_copied;
    } else if (!is_copied) {
      known *= data.dim(axis);
    }
  }
  for (const int64_t number : target) {
    wanted *= number > 0 ? number : 1;
  }
  // Heads that become one axis again: [1, rows * heads, width] -> [rows, heads * width].
  const int64_t width = data.rank() > 0 ? data.dim(data.rank() - 1) : 0;
  if (num_open == 1 && width > 0 && target.back() > 0 && target.back() % width == 0) {
    wanted = wanted / target.back() * width;
  }
  return has_open && known > 0 && known % wanted != 0;
}

}  // namespace

std::string FrozenReshape(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.loop != nullptr) {
      if (std::string inside = FrozenReshape(node.loop->body); !inside.empty()) {
        return inside;
      }
    }
    const std::vector<int64_t> target = ConstantTarget(graph, node);
    if (target.empty()) {
      continue;
    }
    const PartialShape& data = graph.info(node.inputs[0]).shape;
    if (data.has_rank() &&
        IsFrozen(data, target, node.attributes.Bool("special_zero", false).value_or(false))) {
      return absl::StrCat(Describe(node), " makes ", ToString(target), " of ", data.ToString(),
                          ", where a number looks like an extent of the export's example; "
                          "PyTorch's exporter with dynamo=True keeps such extents open");
    }
  }
  return "";
}

}  // namespace beamwright::ops
