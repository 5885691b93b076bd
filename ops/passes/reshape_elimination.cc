// SplitJoinedAxes: common reshape elimination. Exports wrap layers in Reshapes.
//
//   before: Reshape(Add(MatMul(Reshape(x, [time * batch, width]), W), b), [time, batch, ..])
//   after:  Add(MatMul(x, W), b) on [time, batch, width]
//
// Joined, the axes are neither time steps nor rows; the layer works on any number of axes. The
// joined forms lose their readers.
//
// Below: AlignReshapes, which gives Reshapes constant targets, and DropPartAxes, squeeze
// elimination in bodies of loops.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/compile/short_lists.h"
#include "ops/kernels/inputs.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// Between the two Reshapes.
constexpr size_t kMostNodes = 8;

class Splitter {
 public:
  Splitter(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), split_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int index = static_cast<int>(i);
      const std::vector<int> layer = LayerBefore(index);
      if (layer.empty()) {
        split_.Keep(index);
      } else {
        split_.Replace({index, 0}, Split(index, layer));
        any = true;
      }
    }
    return any ? std::optional(DropUnneeded(std::move(split_).Finish())) : std::nullopt;
  }

 private:
  // The nodes from the Reshape that joins axes to the one before `index`, a Reshape that takes them
  // apart again; empty if it is not.
  std::vector<int> LayerBefore(int index) const {
    const Node& last = graph_.node(index);
    if (last.op != "Reshape" || info_.IsKnown(index)) {
      return {};
    }
    std::vector<int> layer;
    int node = last.inputs[0].node;
    while (layer.size() < kMostNodes) {
      layer.push_back(node);
      if (graph_.node(node).op == "Reshape") {
        std::reverse(layer.begin(), layer.end());
        return layer.size() > 1 && !Pattern(index, layer).empty() ? layer : std::vector<int>();
      }
      const int before = DataInput(node);
      if (before < 0) {
        return {};
      }
      node = graph_.node(node).inputs[static_cast<size_t>(before)].node;
    }
    return {};
  }

  // The input that a node works on axis by axis, where only the last axis matters: of a product
  // with a known matrix, or of arithmetic with a known vector. -1: it is another node.
  int DataInput(int index) const {
    const Node& node = graph_.node(index);
    const std::vector<InputInfo> inputs = info_.InputsOf(graph_, node);
    if (node.op == "MatMul") {
      const bool plain = !node.attributes.Bool("transpose_a", false).value_or(true);
      return plain && inputs[1].value != nullptr && inputs[1].shape.rank() == 2 ? 0 : -1;
    }
    if (node.op != "Add" && node.op != "Multiply" && node.op != "Subtract") {
      return node.inputs.size() == 1 &&
                     (node.op == "Tanh" || node.op == "ReLU" || node.op == "Sigmoid")
                 ? 0
                 : -1;
    }
    for (int data = 0; data < 2; ++data) {
      const InputInfo& other = inputs[static_cast<size_t>(1 - data)];
      if (other.value != nullptr && other.shape.rank() <= 1 &&
          inputs[static_cast<size_t>(data)].value == nullptr) {
        return data;
      }
    }
    return -1;
  }

  // How many axes of the last Reshape are the joined ones, apart: those behind them are what the
  // layer's last axis becomes, itself or in parts, such as heads. Nothing if that is not known.
  std::optional<size_t> CountApart(int index, const std::vector<int>& layer) const {
    const ValueExtents& apart = extents_.of({index, 0});
    const ValueExtents& joined = extents_.of({layer.front(), 0});
    const ValueExtents& end = extents_.of({layer.back(), 0});
    if (!apart.shape.has_value() || !joined.shape.has_value() || !end.shape.has_value() ||
        joined.shape->size() != 2 || end.shape->size() != 2 ||
        end.shape->front() != joined.shape->front()) {
      return std::nullopt;
    }
    const auto extents = absl::MakeSpan(*apart.shape);
    for (size_t count = 2; count < extents.size(); ++count) {
      const auto tail = extents.subspan(count);
      const bool is_plain =
          tail.size() == 1 || std::all_of(tail.begin(), tail.end(), [](const Extent& extent) {
            return extent.is_number() && extent.number > 0;
          });
      if (is_plain && Product(extents.first(count)) == joined.shape->front() &&
          Product(tail) == end.shape->back()) {
        return count;
      }
    }
    return std::nullopt;
  }

  // The constant pattern that gives the first Reshape's data the axes of the last Reshape's; empty
  // if they are not the same axes, joined and apart.
  std::vector<int64_t> Pattern(int index, const std::vector<int>& layer) const {
    const std::optional<size_t> count = CountApart(index, layer);
    if (!count.has_value()) {
      return {};
    }
    const std::vector<Extent>& shape = *extents_.of({index, 0}).shape;
    std::vector<Extent> apart(shape.begin(), shape.begin() + static_cast<int64_t>(*count));
    apart.push_back(extents_.of({layer.front(), 0}).shape->back());
    return ReshapePattern(extents_.of(graph_.node(layer.front()).inputs[0]), std::move(apart),
                          /*special_zero=*/false)
        .value_or(std::vector<int64_t>());
  }

  // Appends the layer on the axes apart; what stands for the last Reshape.
  ValueId Split(int index, const std::vector<int>& layer) {
    Graph& to = split_.to();
    ValueId before = AppendInts(to, graph_.node(index).name, Pattern(index, layer));
    for (const int node : layer) {
      Node copy = split_.Moved(node);
      if (node == layer.front()) {
        copy.inputs[1] = before;
        copy.attributes.Set("special_zero", true);
      } else {
        copy.inputs[static_cast<size_t>(DataInput(node))] = before;
      }
      copy.outputs[0].shape = PartialShape();
      copy.outputs[0].names.clear();
      before = AppendNode(to, std::move(copy));
    }
    const std::vector<Extent>& target = *extents_.of({index, 0}).shape;
    if (const size_t count = *CountApart(index, layer); count + 1 < target.size()) {
      std::vector<int64_t> parts(count, 0);
      for (size_t i = count; i < target.size(); ++i) {
        parts.push_back(target[i].number);
      }
      before = AppendWithList(to, "Reshape", graph_.node(index).name, before, parts);
      to.node(before.node).attributes.Set("special_zero", true);
    }
    to.node(before.node).outputs[0] = graph_.node(index).outputs[0];
    return before;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  GraphCopy split_;
};

}  // namespace

absl::StatusOr<bool> SplitJoinedAxes(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = Splitter(graph, info, context.shapes->extents).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

// AlignReshapes: a Reshape whose computed target leaves two extents open gets constant targets.
//
//   before: Reshape([2 * rows, 1, time] -> [rows, 2, 1, time], computed)     heads of attention
//   after:  axes of 1 in front of it and behind it, and a Reshape whose pattern is constant
//
// A pattern can leave one extent open and copy others, but only from the same axis; so both shapes
// are made equally long by axes of 1. It comes last: the other passes look for the Reshape as the
// file has it.
namespace {

// Two shapes made equally long: from behind, each extent meets its equal, or a 1 of
// the other shape or one that was put in; where neither goes, the shorter rest is filled up.
struct Alignment {
  std::vector<Extent> before;
  std::vector<Extent> after;
  std::vector<int64_t> into_before;  // places of those that were put in
  std::vector<int64_t> into_after;
};

Alignment Align(absl::Span<const Extent> before, absl::Span<const Extent> after) {
  struct Column {
    std::optional<Extent> before;
    std::optional<Extent> after;
  };
  std::vector<Column> columns;  // from behind
  const auto take = [&](bool from_before, bool from_after) {
    columns.emplace_back();
    if (from_before) {
      columns.back().before = before.back();
      before.remove_suffix(1);
    }
    if (from_after) {
      columns.back().after = after.back();
      after.remove_suffix(1);
    }
  };
  while (!before.empty() && !after.empty()) {
    const bool equal = before.back() == after.back();
    if (!equal && before.back() != Extent{} && after.back() != Extent{}) {
      break;
    }
    take(equal || after.back() != Extent{}, equal || after.back() == Extent{});
  }
  while (before.size() != after.size()) {
    take(before.size() > after.size(), after.size() > before.size());
  }
  while (!before.empty()) {
    take(true, true);
  }
  std::reverse(columns.begin(), columns.end());
  Alignment aligned;
  for (const Column& column : columns) {
    const auto place = static_cast<int64_t>(aligned.before.size());
    if (!column.before.has_value()) {
      aligned.into_before.push_back(place);
    }
    if (!column.after.has_value()) {
      aligned.into_after.push_back(place);
    }
    aligned.before.push_back(column.before.value_or(Extent{}));
    aligned.after.push_back(column.after.value_or(Extent{}));
  }
  return aligned;
}

struct AlignedReshape {
  std::vector<int64_t> added;    // axes of 1 that the data get first; empty: none
  std::vector<int64_t> pattern;  // with special_zero
  std::vector<int64_t> dropped;  // axes of 1 that go afterwards; empty: none
};

// Nothing if there is no such pattern, or none is needed.
std::optional<AlignedReshape> AlignedTo(const ValueExtents& data, const ValueExtents& target,
                                        bool special_zero) {
  const std::optional<std::vector<Extent>> shape = ReshapedTo(data, target, special_zero);
  if (!shape.has_value() || !data.shape.has_value() || Product(*shape) != Product(*data.shape) ||
      std::find(shape->begin(), shape->end(), Extent{0, {}}) != shape->end()) {
    return std::nullopt;
  }
  Alignment aligned = Align(*data.shape, *shape);
  ValueExtents widened = data;
  widened.shape = std::move(aligned.before);
  std::optional<std::vector<int64_t>> pattern =
      ReshapePattern(widened, std::move(aligned.after), /*special_zero=*/true);
  if (!pattern.has_value() || (aligned.into_before.empty() && aligned.into_after.empty())) {
    return std::nullopt;
  }
  return AlignedReshape{std::move(aligned.into_before), *std::move(pattern),
                        std::move(aligned.into_after)};
}

// Appends what stands for a Reshape of `data`.
ValueId AppendAligned(const Node& reshape, const AlignedReshape& aligned, ValueId data, Graph& to) {
  if (!aligned.added.empty()) {
    data = AppendWithList(to, "Unsqueeze", reshape.name, data, aligned.added);
  }
  data = AppendWithList(to, "Reshape", reshape.name, data, aligned.pattern);
  to.node(data.node).attributes.Set("special_zero", true);
  if (!aligned.dropped.empty()) {
    data = AppendWithList(to, "Squeeze", reshape.name, data, aligned.dropped);
  }
  to.node(data.node).outputs[0] = reshape.outputs[0];
  return data;
}

}  // namespace

absl::StatusOr<bool> AlignReshapes(Graph& graph, GraphInfo& info, const PassContext& context) {
  const Extents& extents = context.shapes->extents;
  GraphCopy copy(graph);
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    const Node& node = graph.nodes[i];
    const bool is_open =
        node.op == "Reshape" && !info.IsKnown(index) && !info.IsKnown(node.inputs[1].node);
    const std::optional<AlignedReshape> aligned =
        is_open ? AlignedTo(extents.of(node.inputs[0]), extents.of(node.inputs[1]),
                            node.attributes.Bool("special_zero", true).value_or(true))
                : std::nullopt;
    if (aligned.has_value()) {
      copy.Replace({index, 0}, AppendAligned(node, *aligned, copy.Of(node.inputs[0]), copy.to()));
      any = true;
    } else {
      copy.Keep(index);
    }
  }
  return any ? TakeChanged(DropUnneeded(std::move(copy).Finish()), graph, info, context) : false;
}

// DropPartAxes: squeeze elimination in bodies of loops.
//
//   before: Loop(slices [1, rows, width]) { Unsqueeze(f(Squeeze(slice))) }, parts joined by Concat
//   after:  Loop(slices [rows, width]) { f(slice) }, parts stacked along a new axis
//
// A TensorIterator's slices and parts keep the axis along which they are cut; removing and
// restoring it costs more in an iteration than a small body's arithmetic. Loops inside bodies stay.
namespace {

// Rewrites one loop.
class AxisDropper {
 public:
  AxisDropper(const Loop& loop, const GraphInfo& info)
      : info_(info), loop_(loop), readers_(ReadersByNode(loop.body)) {}

  // Nothing: there is nothing to drop.
  std::optional<Loop> Run() {
    // Each item of a batch runs alone: rules count axes without the batch.
    if (loop_.items == Loop::Items::kApart) {
      return std::nullopt;
    }
    bool any = false;
    for (LoopInput& rule : loop_.inputs) {
      any = DropOfSlice(rule) || any;
    }
    for (LoopOutput& rule : loop_.outputs) {
      any = DropOfPart(rule) || any;
    }
    if (!any) {
      return std::nullopt;
    }
    loop_.body = DropUnneeded(loop_.body);
    return std::move(loop_);
  }

 private:
  // Axis `axis` of `shape` from the front, if `node` is of type `op` and takes away or adds that
  // one alone.
  std::optional<int> AxisOf(const Node& node, const char* op, int64_t axis,
                            const PartialShape& shape) const {
    if (node.op != op || node.inputs.size() != 2 || !shape.has_rank()) {
      return std::nullopt;
    }
    const absl::StatusOr<int> own = NormalizeAxis(axis, shape.rank());
    const absl::StatusOr<std::optional<Ints>> named =
        ReadAxes(info_.InputsOf(loop_.body, node)[1], "axes", shape.rank());
    return own.ok() && named.ok() && *named == Ints{*own} ? std::optional(*own) : std::nullopt;
  }

  bool DropOfSlice(LoopInput& rule) {
    if (rule.kind != LoopInput::Kind::kSliced || rule.drop_axis || rule.part_size != 1) {
      return false;
    }
    Graph& body = loop_.body;
    const int parameter = body.parameters[static_cast<size_t>(rule.body_parameter)];
    PartialShape& shape = body.nodes[static_cast<size_t>(parameter)].outputs[0].shape;
    const std::vector<int>& readers = readers_[static_cast<size_t>(parameter)];
    std::optional<int> axis;
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), [&](int reader) {
          axis = AxisOf(body.node(reader), "Squeeze", rule.axis, shape);
          return axis.has_value();
        })) {
      return false;
    }
    rule.axis = *axis;
    rule.drop_axis = true;
    Shape dims = shape.dims();
    dims.erase(dims.begin() + rule.axis);
    shape = PartialShape(std::move(dims));
    for (const int squeeze : readers) {
      for (const int reader : readers_[static_cast<size_t>(squeeze)]) {
        for (ValueId& input : body.nodes[static_cast<size_t>(reader)].inputs) {
          if (input.node == squeeze) {
            input = {parameter, 0};
          }
        }
      }
    }
    return true;
  }

  // How many rules read a result of the body.
  int64_t NumReaders(int result) const {
    return std::count_if(loop_.outputs.begin(), loop_.outputs.end(),
                         [&](const LoopOutput& rule) { return rule.body_result == result; }) +
           std::count_if(loop_.inputs.begin(), loop_.inputs.end(),
                         [&](const LoopInput& rule) {
                           return rule.kind == LoopInput::Kind::kCarried &&
                                  rule.back_edge == result;
                         }) +
           (loop_.condition_result == result ? 1 : 0);
  }

  bool DropOfPart(LoopOutput& rule) {
    if (rule.kind != LoopOutput::Kind::kConcatenated || rule.part_size != 1 ||
        NumReaders(rule.body_result) != 1) {
      return false;
    }
    Graph& body = loop_.body;
    Node& result =
        body.nodes[static_cast<size_t>(body.results[static_cast<size_t>(rule.body_result)])];
    const Node& unsqueeze = body.node(result.inputs[0].node);
    const std::optional<int> axis =
        AxisOf(unsqueeze, "Unsqueeze", rule.axis, body.info(result.inputs[0]).shape);
    if (!axis.has_value()) {
      return false;
    }
    rule.axis = *axis;
    rule.kind = LoopOutput::Kind::kStacked;
    result.inputs[0] = unsqueeze.inputs[0];
    for (ValueInfo& output : result.outputs) {
      output.shape = PartialShape();
    }
    return true;
  }

  const GraphInfo& info_;
  Loop loop_;
  const std::vector<std::vector<int>> readers_;  // of the body as it was
};

}  // namespace

absl::StatusOr<bool> DropPartAxes(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.loop == nullptr) {
      continue;
    }
    if (std::optional<Loop> loop = AxisDropper(*node.loop, *info.bodies[i][0]).Run()) {
      if (!changed.has_value()) {
        changed = graph;
      }
      changed->nodes[i].loop = std::make_shared<const Loop>(*std::move(loop));
    }
  }
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
