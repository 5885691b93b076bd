// SplitJoinedTransposes: reshape elimination around the Transposes of attention's heads.
//
//   before: Reshape(Transpose(Reshape([rows, heads, time, width] -> [rows * heads, time, width])))
//   after:  Transpose over separate axes, or nothing
//
// Joined, rows cannot be separated from heads; a transpose over separate axes gives the same
// numbers.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

using Axes = std::vector<Extent>;

// For each of the first axes the ones that it comes apart into, which make up `apart` in their
// order; nothing if they are not known to do that.
std::optional<std::vector<Axes>> Pieces(const Axes& joined, const Axes& apart) {
  std::vector<Axes> pieces;
  size_t next = 0;
  for (const Extent& whole : joined) {
    Axes own;
    Extent product;
    do {
      if (next == apart.size()) {
        return std::nullopt;
      }
      const std::optional<Extent> longer = Product(product, apart[next]);
      if (!longer.has_value()) {
        return std::nullopt;
      }
      product = *longer;
      own.push_back(apart[next++]);
    } while (product != whole);
    pieces.push_back(std::move(own));
  }
  return next == apart.size() ? std::optional(std::move(pieces)) : std::nullopt;
}

class TransposeSplitter {
 public:
  TransposeSplitter(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), split_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int index = static_cast<int>(i);
      if (const std::optional<Apart> apart = ApartOf(index)) {
        split_.Replace({index, 0}, Append(index, *apart));
        any = true;
      } else {
        split_.Keep(index);
      }
    }
    return any ? std::optional(DropUnneeded(std::move(split_).Finish())) : std::nullopt;
  }

 private:
  // What stands for the nodes: the data under a pattern, transposed.
  struct Apart {
    ValueId data;
    std::vector<int64_t> pattern;
    std::vector<int64_t> order;
  };

  // The node that a node's data comes from, if it is of this operator.
  int Before(int index, const char* op) const {
    const ValueId id = graph_.node(index).inputs[0];
    return graph_.node(id.node).op == op ? id.node : -1;
  }

  const std::optional<Axes>& ShapeOf(ValueId id) const { return extents_.of(id).shape; }

  std::optional<std::vector<int64_t>> OrderOf(int transpose, size_t rank) const {
    const std::vector<InputInfo> inputs = info_.InputsOf(graph_, graph_.node(transpose));
    const absl::StatusOr<std::vector<int64_t>> order =
        inputs.size() == 2 && inputs[1].value != nullptr ? ToInt64(*inputs[1].value)
                                                         : std::vector<int64_t>();
    if (!order.ok() || order->size() != rank ||
        std::any_of(order->begin(), order->end(),
                    [&](int64_t axis) { return axis < 0 || axis >= static_cast<int64_t>(rank); })) {
      return std::nullopt;
    }
    return *order;
  }

  static std::vector<int64_t> InOrder(size_t rank) {
    std::vector<int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  std::optional<Apart> ApartOf(int index) const {
    if (graph_.node(index).op != "Reshape" || info_.IsKnown(index)) {
      return std::nullopt;
    }
    const int transpose = Before(index, "Transpose");
    const int join = Before(transpose < 0 ? index : transpose, "Reshape");
    if (join < 0) {
      return std::nullopt;
    }
    const ValueId data = graph_.node(join).inputs[0];
    const std::optional<Axes>& joined = ShapeOf({join, 0});
    const std::optional<Axes>& apart = ShapeOf({index, 0});
    if (!ShapeOf(data).has_value() || !joined.has_value() || !apart.has_value() ||
        apart->size() <= joined->size()) {
      return std::nullopt;
    }
    const std::optional<std::vector<int64_t>> order =
        transpose < 0 ? InOrder(joined->size()) : OrderOf(transpose, joined->size());
    if (!order.has_value()) {
      return std::nullopt;
    }
    Axes transposed;
    for (const int64_t axis : *order) {
      transposed.push_back((*joined)[static_cast<size_t>(axis)]);
    }
    const std::optional<std::vector<Axes>> pieces = Pieces(transposed, *apart);
    return pieces.has_value() ? Arrange(data, *order, *pieces) : std::nullopt;
  }

  // order: the axis of the joined form that axis i of the transposed one was. pieces: of the
  // transposed one.
  std::optional<Apart> Arrange(ValueId data, const std::vector<int64_t>& order,
                               const std::vector<Axes>& pieces) const {
    std::vector<size_t> place(order.size());  // of each joined axis, in the transposed form
    for (size_t i = 0; i < order.size(); ++i) {
      place[static_cast<size_t>(order[i])] = i;
    }
    Axes axes;
    std::vector<int64_t> first(order.size());  // by joined axis: where its pieces begin
    for (size_t axis = 0; axis < place.size(); ++axis) {
      first[axis] = static_cast<int64_t>(axes.size());
      axes.insert(axes.end(), pieces[place[axis]].begin(), pieces[place[axis]].end());
    }
    Apart apart{data, {}, {}};
    for (size_t i = 0; i < order.size(); ++i) {
      for (size_t piece = 0; piece < pieces[i].size(); ++piece) {
        apart.order.push_back(first[static_cast<size_t>(order[i])] + static_cast<int64_t>(piece));
      }
    }
    std::optional<std::vector<int64_t>> pattern =
        ReshapePattern(extents_.of(data), std::move(axes), /*special_zero=*/true);
    if (!pattern.has_value()) {
      return std::nullopt;
    }
    apart.pattern = *std::move(pattern);
    return apart;
  }

  ValueId Append(int index, const Apart& apart) {
    Graph& to = split_.to();
    const std::string& name = graph_.node(index).name;
    ValueId value = AppendWithList(to, "Reshape", name, split_.Of(apart.data), apart.pattern);
    to.node(value.node).attributes.Set("special_zero", true);
    if (apart.order != InOrder(apart.order.size())) {
      value = AppendWithList(to, "Transpose", name, value, apart.order);
    }
    to.node(value.node).outputs = graph_.node(index).outputs;
    return value;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  GraphCopy split_;
};

}  // namespace

absl::StatusOr<bool> SplitJoinedTransposes(Graph& graph, GraphInfo& info,
                                           const PassContext& context) {
  std::optional<Graph> changed = TransposeSplitter(graph, info, context.shapes->extents).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
