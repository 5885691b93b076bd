#include "ops/compile/shape_folding.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/aligned_reshapes.h"
#include "ops/compile/extents.h"
#include "ops/compile/filled_values.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/integer_vectors.h"
#include "ops/compile/joined_axes.h"
#include "ops/compile/joined_transposes.h"
#include "ops/compile/needless_repeats.h"
#include "ops/compile/picked_by_row.h"
#include "ops/compile/plain_states.h"
#include "ops/compile/relative_shifts.h"
#include "ops/compile/shape_targets.h"
#include "ops/compile/whole_axes.h"

namespace beamwright::ops {
namespace {

class Folder {
 public:
  // rows: the symbol of a search's rows; null: there is no search. for_one_row: what the graph says
  // of its shapes, it says of one row.
  Folder(Graph& graph, const GraphInfo& info, const Extents& extents, const Extent* rows,
         bool for_one_row)
      : graph_(graph), info_(info), extents_(extents), rows_(rows), for_one_row_(for_one_row) {}

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
    Folder folder(loop->body, *info_.bodies[static_cast<size_t>(index)][0], *inside, rows_,
                  for_one_row_);
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

// Declared shapes say what is inferred anyway, or the extent that the batch had when the graph was
// exported.
void ForgetShapes(Graph& graph) {
  for (Node& node : graph.nodes) {
    const bool keeps = node.op == "Constant" || node.op == "Parameter";
    for (size_t i = 0; i < node.outputs.size() && !keeps; ++i) {
      node.outputs[i].shape = PartialShape();
    }
    if (node.loop != nullptr) {
      auto loop = std::make_shared<Loop>(*node.loop);
      ForgetShapes(loop->body);
      for (const int parameter : loop->body.parameters) {
        PartialShape& shape = loop->body.node(parameter).outputs[0].shape;
        if (shape.has_rank()) {
          shape = PartialShape(Shape(static_cast<size_t>(shape.rank()), PartialShape::kDynamic));
        }
      }
      node.loop = std::move(loop);
    }
  }
}

// A graph that was exported for one row alone takes any number of them, unless that contradicts
// something in it. Whether it was one.
bool OpenRows(Graph& graph, GraphInfo& info, const OperatorSet& operators,
              const std::vector<int>& row_axes) {
  Graph open = graph;
  bool changed = false;
  for (size_t i = 0; i < row_axes.size(); ++i) {
    PartialShape& shape = open.node(open.parameters[i]).outputs[0].shape;
    if (row_axes[i] >= 0 && shape.has_rank() && row_axes[i] < shape.rank() &&
        shape.dim(row_axes[i]) == 1) {
      Shape dims = shape.dims();
      dims[static_cast<size_t>(row_axes[i])] = PartialShape::kDynamic;
      shape = PartialShape(std::move(dims));
      changed = true;
    }
  }
  if (changed) {
    ForgetShapes(open);
    absl::StatusOr<GraphInfo> inferred = InferGraph(open, operators);
    if (inferred.ok()) {
      graph = std::move(open);
      info = *std::move(inferred);
      return true;
    }
  }
  return false;
}

// Whether there is anything that extents could decide: symbols come from ShapeOf, and are used by
// the others. Extents of every value, and a graph made anew, are much memory for a long graph.
bool HasShapesToFold(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op == "ShapeOf" || node.op == "Reshape" || node.op == "Broadcast" ||
           node.loop != nullptr || node.branches != nullptr;
  });
}

// MaxPool's second output, where each maximum stands, counts from the first row: files declare it
// whether it is read or not, and only where it is read do rows belong together.
void DropUnreadIndices(Graph& graph, GraphInfo& info) {
  std::vector<bool> is_read(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId& input : node.inputs) {
      if (input.present() && input.output == 1) {
        is_read[static_cast<size_t>(input.node)] = true;
      }
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op == "MaxPool" && node.outputs.size() == 2 && !is_read[i]) {
      node.outputs.resize(1);
      if (!info.constants[i].empty()) {
        info.constants[i].resize(1);
      }
    }
  }
}

// Numbers that extents know and inference does not, as declared shapes: what comes behind, rules of
// rows among it, reads these. Whether there were any.
bool DeclareExtents(const Extents& extents, Graph& graph) {
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const bool is_given = node.op == "Constant" || node.op == "Parameter";
    for (size_t output = 0; output < node.outputs.size() && !is_given; ++output) {
      PartialShape& declared = node.outputs[output].shape;
      const auto& known = extents.of({static_cast<int>(i), static_cast<int>(output)}).shape;
      if (!known.has_value() ||
          (declared.has_rank() && declared.rank() != static_cast<int>(known->size()))) {
        continue;
      }
      Shape dims =
          declared.has_rank() ? declared.dims() : Shape(known->size(), PartialShape::kDynamic);
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        dims[axis] = (*known)[axis].is_number() ? (*known)[axis].number : dims[axis];
      }
      any = any || !declared.has_rank() || dims != declared.dims();
      declared = PartialShape(std::move(dims));
    }
  }
  return any;
}

// row_axes: as of FoldShapes. opens: whether what is written for one row is opened to any number.
absl::Status Fold(const std::vector<int>& row_axes, bool opens, const OperatorSet& operators,
                  Graph& graph, GraphInfo& info) {
  DropUnreadIndices(graph, info);
  const bool simpler = SimplifyStates(graph, info);
  if (ScaleBeforeDropping(graph) || simpler) {
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, operators));
  }
  const bool for_one_row = opens && OpenRows(graph, info, operators, row_axes);
  if (!HasShapesToFold(graph)) {
    return absl::OkStatus();
  }
  // What became a constant lets inference compute more, which may fold more. A pass mends all
  // layers of a deep graph at once where extents pass through what is not folded yet; where they do
  // not, a pass mends one layer, and there are no more layers than nodes.
  const size_t most_passes = graph.nodes.size();
  for (size_t pass = 0; pass < most_passes; ++pass) {
    Symbols symbols;
    const Extent rows = symbols.New();
    const std::vector<ValueExtents> parameters =
        row_axes.empty() ? std::vector<ValueExtents>()
                         : ParametersWithRows(graph, row_axes, rows, symbols);
    const Extents extents = Extents::Find(graph, info, operators, symbols, parameters);
    const bool is_search = opens && !row_axes.empty();
    Folder folder(graph, info, extents, is_search ? &rows : nullptr, for_one_row);
    // Layers on joined axes show once their Reshapes have constant patterns.
    if (!folder.Run() && !(is_search && DropNeedlessRepeat(graph, info, extents)) &&
        !SplitJoinedAxes(graph, info, extents) && !SplitJoinedTransposes(graph, info, extents) &&
        !PickByRow(graph, info, extents) && !FindRelativeShifts(graph, info, extents) &&
        !AlignReshapes(graph, info, extents) && (opens || !DeclareExtents(extents, graph))) {
      return absl::OkStatus();
    }
    if (folder.opened()) {
      ForgetShapes(graph);
    }
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, operators));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FoldShapes(Graph& graph, GraphInfo& info, const OperatorSet& operators,
                        const std::vector<int>& row_axes) {
  return Fold(row_axes, /*opens=*/true, operators, graph, info);
}

absl::Status FoldShapesOfSources(Graph& graph, GraphInfo& info, const OperatorSet& operators) {
  return Fold(std::vector<int>(graph.parameters.size(), 0), /*opens=*/false, operators, graph,
              info);
}

std::vector<int> DecoderRowAxes(const Graph& graph, int token_parameter, int token_axis) {
  std::vector<int> axes(graph.parameters.size(), 0);
  if (token_parameter >= 0) {
    axes[static_cast<size_t>(token_parameter)] = token_axis;
  }
  return axes;
}

}  // namespace beamwright::ops
