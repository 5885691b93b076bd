// GraphCopy makes a changed copy of a graph, as most passes do: the pass goes over the nodes in
// order and keeps a node (Keep), puts another value in place of its outputs (Replace), or inserts
// the nodes of a body (Inline).
//
// `values_` maps each output of the old graph to its value in the new one, and `kept_` each node to
// its copy. Moved is an old node with its inputs mapped. Finish lists the parameters and results
// that were kept, in their old order.
//
// The other functions append common nodes, list readers (ReadersByNode), and drop nodes that no
// result needs (DropUnneeded).
#include "ops/compile/graph_copy.h"

#include <algorithm>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/program.h"
#include "ops/graph/rewrite.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

ValueId AppendNode(Graph& graph, Node node) {
  graph.nodes.push_back(std::move(node));
  return {static_cast<int>(graph.nodes.size()) - 1, 0};
}

ValueId AppendConstant(Graph& graph, const std::string& name, Tensor value) {
  Node node;
  node.op = "Constant";
  node.name = name;
  node.outputs.push_back({value.dtype(), PartialShape(value.shape()), {}});
  node.constant = std::move(value);
  return AppendNode(graph, std::move(node));
}

ValueId AppendInts(Graph& graph, const std::string& name, absl::Span<const int64_t> values) {
  return AppendConstant(graph, name,
                        Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId AppendWithList(Graph& graph, const char* op, const std::string& name, ValueId value,
                       absl::Span<const int64_t> list) {
  Node node;
  node.op = op;
  node.name = name;
  node.inputs = {value, AppendInts(graph, name, list)};
  node.outputs.resize(1);
  return AppendNode(graph, std::move(node));
}

GraphCopy::GraphCopy(const Graph& from)
    : from_(from), kept_(from.nodes.size(), -1), values_(from.nodes.size()) {
  to_.name = from.name;
  to_.nodes.reserve(from.nodes.size());  // most passes keep most nodes: growing would double them
}

ValueId GraphCopy::Of(ValueId old) const {
  return old.present() ? values_[static_cast<size_t>(old.node)].at(static_cast<size_t>(old.output))
                       : old;
}

void GraphCopy::Replace(ValueId old, ValueId value) {
  std::vector<ValueId>& values = values_[static_cast<size_t>(old.node)];
  values.resize(from_.node(old.node).outputs.size());
  values[static_cast<size_t>(old.output)] = value;
}

Node GraphCopy::Moved(int index) const {
  Node node = from_.node(index);
  for (ValueId& input : node.inputs) {
    input = Of(input);
  }
  return node;
}

ValueId GraphCopy::Keep(int index, Node node) {
  const ValueId kept = AppendNode(to_, std::move(node));
  kept_[static_cast<size_t>(index)] = kept.node;
  const Node& old = from_.node(index);
  for (size_t output = 0; output < old.outputs.size(); ++output) {
    Replace({index, static_cast<int>(output)}, {kept.node, static_cast<int>(output)});
  }
  if (old.op == "Result") {
    const std::string name = PortName(from_, index);
    if (PortName(to_, kept.node) != name) {
      to_.node(kept.node).attributes.Set("port_name", name);
    }
  }
  return kept;
}

std::vector<ValueId> GraphCopy::Inline(const Graph& body, absl::Span<const ValueId> parameters) {
  GraphCopy inside(body);
  std::swap(inside.to_, to_);
  for (size_t i = 0; i < parameters.size(); ++i) {
    inside.Replace({body.parameters[i], 0}, parameters[i]);
  }
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (body.nodes[i].op != "Parameter" && body.nodes[i].op != "Result") {
      inside.Keep(static_cast<int>(i));
    }
  }
  std::vector<ValueId> results;
  for (const int result : body.results) {
    results.push_back(inside.Of(body.node(result).inputs[0]));
  }
  std::swap(inside.to_, to_);
  return results;
}

Graph GraphCopy::Finish() && {
  const auto order = [&](const std::vector<int>& old, std::vector<int>& list) {
    for (const int node : old) {
      if (kept_[static_cast<size_t>(node)] >= 0) {
        list.push_back(kept_[static_cast<size_t>(node)]);
      }
    }
  };
  order(from_.parameters, to_.parameters);
  order(from_.results, to_.results);
  // What the new graph needs no more, before it is inferred: of a deep graph it is much memory.
  std::vector<int>().swap(kept_);
  std::vector<std::vector<ValueId>>().swap(values_);
  return std::move(to_);
}

std::vector<std::vector<int>> ReadersByNode(const Graph& graph) {
  std::vector<std::vector<int>> readers(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId input : graph.nodes[i].inputs) {
      if (input.present()) {
        readers[static_cast<size_t>(input.node)].push_back(static_cast<int>(i));
      }
    }
  }
  return readers;
}

Graph DropUnneeded(const Graph& graph) {
  std::vector<ValueId> results;
  for (const int result : graph.results) {
    results.push_back({result, 0});
  }
  std::vector<bool> keep = AncestorsOf(graph, results);
  for (const int parameter : graph.parameters) {
    keep[static_cast<size_t>(parameter)] = true;
  }
  return KeepNodes(graph, keep);
}

// For passes that take the product of a recurrent cell's input with its weights out of the cell, to
// compute it elsewhere. FindCellProduct finds the weights' place among the cell's inputs;
// TakeProduct leaves a cell that reads the finished product.

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
