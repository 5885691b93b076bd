// FoldConstants: constant folding of what extents prove (ops/compile/extents.h), node by node, in
// bodies of loops too. Reads context.shapes.
//
//   before                                              after
//   integers, or masks, that are numbers in every run   a Constant; nothing where it adds zero
//   Reshape or Broadcast to a computed target           a constant target: 0 or 1 keeps an
//                                                       extent, and -1 is the open one
//   Slice, ScatterUpdate of the whole of their data     nothing; a Slice of fewer axes
//   If on a known condition                             the nodes of its taken branch
//   ReverseSequence over the whole axis                 Reverse
//   Loop whose lengths are all the whole axis           Loop without lengths
//   Reshape written for one row, in a search            Reshape that keeps any number of rows
//
// 1. A node that hands on one of its inputs is replaced by it. 2. A branch that is taken is
// inlined. 3. Any other node is copied and folded by its kind. 4. Nodes that only computed targets
// go: dead code elimination.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/filled_values.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

class Folder {
 public:
  Folder(Graph& graph, const GraphInfo& info, const ShapeFacts& shapes)
      : graph_(graph),
        info_(info),
        extents_(shapes.extents),
        rows_(shapes.rows),
        for_one_row_(shapes.for_one_row) {}

  // Whether anything changed.
  bool Run() {
    GraphCopy folded(graph_);
    freed_.assign(graph_.nodes.size(), false);
    const std::vector<std::vector<int>> readers = ReadersByNode(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (const int kept = KeptTerm(index, readers[i]); kept >= 0) {
        folded.Replace({index, 0}, folded.Of(graph_.nodes[i].inputs[static_cast<size_t>(kept)]));
        changed_ = true;
      } else if (TakesWhole(graph_.node(index), extents_) ||
                 OverwritesAll(graph_.node(index), extents_)) {
        const size_t taken = graph_.nodes[i].op == "Slice" ? 0 : 2;
        folded.Replace({index, 0}, folded.Of(graph_.nodes[i].inputs[taken]));
        changed_ = true;
      } else if (graph_.nodes[i].op != "If" || !InlineTaken(index, folded)) {
        Node node = folded.Moved(index);
        Fold(index, readers[i], node, folded.to());
        folded.Keep(index, std::move(node));
      }
    }
    if (changed_) {
      // What only computed targets goes.
      graph_ = DropUnneeded(std::move(folded).Finish());
    }
    return changed_;
  }

  // Whether a Reshape was opened for many rows: what shapes were found for one row is wrong then.
  bool opened() const { return opened_; }

 private:
  const ValueExtents& Input(int index, size_t port) const {
    return extents_.of_input(graph_.node(index), port);
  }
  bool IsKnown(ValueId id) const {
    return info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]
        .has_value();
  }

  // The input that an addition of nothing hands on; -1: it adds something.
  int KeptTerm(int index, const std::vector<int>& readers) const {
    if (graph_.node(index).op != "Add") {
      return -1;
    }
    std::vector<const Node*> nodes;
    for (const int reader : readers) {
      nodes.push_back(&graph_.node(reader));
    }
    return AddsNothing(graph_.node(index), extents_.of({index, 0}), extents_, nodes);
  }

  // Leaves a Slice the axes that it cuts: "x[:source.size(0), :source.size(1)]", of which the first
  // is the number of rows, looks as if it hung on that.
  void FoldSlice(int index, Node& node, Graph& folded) {
    const std::optional<std::vector<int64_t>> cutting =
        CuttingEntries(graph_.node(index), extents_);
    if (!cutting.has_value() || cutting->size() == Input(index, 1).elements->size()) {
      return;
    }
    if (node.inputs.size() == 4) {
      node.inputs.push_back(AppendInts(folded, node.name, *cutting));  // they stood for themselves
    }
    for (size_t list = 1; list < graph_.node(index).inputs.size(); ++list) {
      Node left;
      left.op = "Gather";
      left.name = node.name;
      left.inputs = {node.inputs[list], AppendInts(folded, node.name, *cutting),
                     AppendInts(folded, node.name, {0})};
      left.outputs.resize(1);
      left.outputs[0].dtype = graph_.info(graph_.node(index).inputs[list]).dtype;
      node.inputs[list] = AppendNode(folded, std::move(left));
    }
    changed_ = true;
  }

  // Puts the nodes of an If's taken branch in its place, if it is known which that is.
  bool InlineTaken(int index, GraphCopy& folded) {
    const Node& node = graph_.node(index);
    const auto& bodies = info_.bodies[static_cast<size_t>(index)];
    if (bodies.size() != 2 || (bodies[0] != nullptr) == (bodies[1] != nullptr)) {
      return false;
    }
    const Branch& branch =
        bodies[0] != nullptr ? node.branches->then_branch : node.branches->else_branch;
    std::vector<ValueId> parameters;
    for (const int input : branch.inputs) {
      parameters.push_back(folded.Of(node.inputs[static_cast<size_t>(input)]));
    }
    const std::vector<ValueId> results = folded.Inline(branch.body, parameters);
    for (size_t output = 0; output < branch.results.size(); ++output) {
      folded.Replace({index, static_cast<int>(output)},
                     results[static_cast<size_t>(branch.results[output])]);
    }
    changed_ = true;
    return true;
  }

  // `node` is node `index` of the graph, its inputs those of the new graph, to which constants may
  // be appended.
  void Fold(int index, const std::vector<int>& readers, Node& node, Graph& folded) {
    const bool structural = node.op == "Parameter" || node.op == "Constant" || node.op == "Result";
    if (structural || info_.IsKnown(index)) {
      return;
    }
    if (node.op == "Loop") {
      FoldLoop(index, node);
    } else if (node.op == "Reshape" || node.op == "Broadcast") {
      FoldTarget(index, node, folded);
    } else if (node.op == "Slice") {
      FoldSlice(index, node, folded);
    } else if (node.op == "ReverseSequence") {
      FoldReversal(index, node, folded);
    }
    if (node.outputs.size() == 1 && node.loop == nullptr && node.branches == nullptr) {
      changed_ |= FoldFills({graph_, info_, extents_, index, readers, freed_}, node, folded);
      FoldNumbers(index, node);
    }
  }

  void FoldNumbers(int index, Node& node) {
    const ValueExtents& value = extents_.of({index, 0});
    if (!IsInteger(node.outputs[0].dtype) || !value.elements.has_value() ||
        !std::all_of(value.elements->begin(), value.elements->end(),
                     [](const Extent& element) { return element.is_number(); })) {
      return;
    }
    std::vector<int64_t> numbers;
    for (const Extent& element : *value.elements) {
      numbers.push_back(element.number);
    }
    const auto count = static_cast<int64_t>(numbers.size());
    absl::StatusOr<Tensor> tensor =
        Convert(Tensor::Of<int64_t>(value.shape->empty() ? Shape{} : Shape{count}, numbers),
                node.outputs[0].dtype);
    if (tensor.ok()) {
      node.op = "Constant";
      node.inputs.clear();
      node.attributes = Attributes();
      node.constant = *std::move(tensor);
      changed_ = true;
    }
  }

  void FoldTarget(int index, Node& node, Graph& folded) {
    const ValueExtents& target = Input(index, 1);
    if (node.inputs.size() != 2 || !target.elements.has_value()) {
      return;
    }
    if (node.op == "Reshape" && rows_ != nullptr && for_one_row_ &&
        OpenRowsOf(index, node, folded)) {
      return;
    }
    std::optional<std::vector<int64_t>> constant;
    if (IsKnown(graph_.node(index).inputs[1])) {
      if (node.op == "Reshape" && rows_ != nullptr) {
        constant = OpenPattern(Input(index, 0), *rows_, *target.elements);
        opened_ = opened_ || constant.has_value();
      }
      if (node.op == "Reshape" && !constant.has_value()) {
        constant = CopyingPattern(Input(index, 0), *target.elements, node);
      }
    } else if (node.op == "Reshape") {
      constant = ReshapePattern(Input(index, 0), *target.elements,
                                node.attributes.Bool("special_zero", true).value_or(true));
      node.attributes.Set("special_zero", true);
    } else if (node.attributes.String("mode", "numpy").value_or("") != "explicit") {
      constant = BroadcastTarget(Input(index, 0), *target.elements);
      if (constant.has_value()) {
        node.attributes.Set("mode", std::string("bidirectional"));
      }
    }
    if (!constant.has_value()) {
      node.attributes = graph_.node(index).attributes;
      return;
    }
    node.inputs[1] = AppendInts(folded, node.name, *constant);
    changed_ = true;
  }

  // A Reshape for one row as one for each of them (OpenedReshape).
  bool OpenRowsOf(int index, Node& node, Graph& folded) {
    const std::optional<OpenedReshape> opened =
        OpenReshape(Input(index, 0), *rows_, *Input(index, 1).elements,
                    node.attributes.Bool("special_zero", true).value_or(true));
    if (!opened.has_value()) {
      return false;
    }
    // The place of each axis of `rank` before one of them moves.
    const auto moved = [](size_t rank, size_t from, size_t to) {
      std::vector<int64_t> order(rank);
      std::iota(order.begin(), order.end(), 0);
      order.erase(order.begin() + static_cast<int64_t>(from));
      order.insert(order.begin() + static_cast<int64_t>(to), static_cast<int64_t>(from));
      return order;
    };
    // A node that stands for a part of this one, or for it.
    const auto make = [&](const char* op, ValueId data, const std::vector<int64_t>& list) {
      Node made;
      made.op = op;
      made.name = node.name;
      made.inputs = {data, AppendInts(folded, node.name, list)};
      made.outputs.resize(1);
      made.outputs[0].dtype = node.outputs[0].dtype;
      return made;
    };
    ValueId data = node.inputs[0];
    if (opened->from != 0) {
      const size_t rank = Input(index, 0).shape->size();
      data = AppendNode(folded, make("Transpose", data, moved(rank, opened->from, 0)));
    }
    Node last = make("Reshape", data, opened->pattern);
    last.attributes.Set("special_zero", true);
    if (opened->to != 0) {
      const ValueId reshaped = AppendNode(folded, std::move(last));
      last = make("Transpose", reshaped, moved(opened->pattern.size(), 0, opened->to));
    }
    last.outputs[0].names = node.outputs[0].names;
    node = std::move(last);
    opened_ = true;
    changed_ = true;
    return true;
  }

  // tf2onnx writes the reversal of a whole axis, as bidirectional layers of Keras have it, with a
  // length for each row. One length for each row is a part of it: another number is an error.
  void FoldReversal(int index, Node& node, Graph& folded) {
    const std::optional<std::vector<Extent>>& shape = Input(index, 0).shape;
    const ValueExtents& lengths = Input(index, 1);
    if (!shape.has_value() || !lengths.shape.has_value() || lengths.shape->size() != 1) {
      return;
    }
    const auto axis_of = [&](const char* name, int64_t fallback) {
      const int64_t given = node.attributes.Int(name, fallback).value_or(fallback);
      return given < 0 ? given + static_cast<int64_t>(shape->size()) : given;
    };
    const int64_t time = axis_of("seq_axis", 1);
    const int64_t batch = axis_of("batch_axis", 0);
    const auto rank = static_cast<int64_t>(shape->size());
    if (time < 0 || time >= rank || batch < 0 || batch >= rank ||
        !AreAll(lengths, (*shape)[static_cast<size_t>(time)]) ||
        !IsExtentAt(shape, static_cast<size_t>(batch), lengths.shape->front())) {
      return;
    }
    node.op = "Reverse";
    node.attributes = Attributes();
    node.attributes.Set("mode", std::string("index"));
    node.inputs[1] = AppendInts(folded, node.name, {time});
    changed_ = true;
  }

  void FoldLoop(int index, Node& node) {
    const Extents* inside = extents_.body(index);
    if (inside == nullptr) {
      return;
    }
    auto loop = std::make_shared<Loop>(*node.loop);
    Folder folder(loop->body, *info_.bodies[static_cast<size_t>(index)][0],
                  {*inside, rows_, for_one_row_});
    bool changed = folder.Run();
    opened_ = opened_ || folder.opened();
    if (LengthsAreWhole(graph_.node(index), extents_)) {
      node.inputs.erase(node.inputs.begin() + loop->lengths_input);
      for (LoopInput& rule : loop->inputs) {
        rule.input -= rule.input > loop->lengths_input ? 1 : 0;
      }
      loop->lengths_input = -1;
      loop->items = Loop::Items::kTogether;
      changed = true;
    }
    if (changed) {
      node.loop = std::move(loop);
      changed_ = true;
    }
  }

  Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  const Extent* rows_;
  const bool for_one_row_;
  std::vector<bool> freed_;  // FoldedNode::freed
  bool changed_ = false;
  bool opened_ = false;
};

}  // namespace

absl::StatusOr<bool> FoldConstants(Graph& graph, GraphInfo& info, const PassContext& context) {
  Folder folder(graph, info, *context.shapes);
  if (!folder.Run()) {
    return false;
  }
  if (folder.opened()) {
    ForgetShapes(graph);
  }
  BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  return true;
}

}  // namespace beamwright::ops
