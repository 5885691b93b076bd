// PickByRow: memory[arange(rows), t] becomes a batched gather.
//
//   before: GatherND(memory, [[0, t0], [1, t1], ..]), or Gather of rows joined with the axis
//   after:  Gather or GatherND with the rows as a batch axis
//
// Exports write numbers that count all rows; with rows of several requests these say nothing, and
// rows cannot be separated. A place outside the axis, which an export with joined axes looks up in
// a neighbour's row, is an error then.
#include <optional>
#include <utility>

#include "ops/compile/graph_copy.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

class RowPicker {
 public:
  RowPicker(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), copy_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      const Node& node = graph_.nodes[i];
      const bool replaced = (node.op == "GatherND" && ReplaceTuples(index)) ||
                            (node.op == "Gather" && ReplaceJoined(index));
      any = any || replaced;
      if (!replaced) {
        copy_.Keep(index);
      }
    }
    return any ? std::optional(DropUnneeded(std::move(copy_).Finish())) : std::nullopt;
  }

 private:
  const std::optional<std::vector<Extent>>& ShapeOf(ValueId id) const {
    return extents_.of(id).shape;
  }

  // The only element of a value known at load.
  std::optional<int64_t> Number(ValueId id) const {
    const Tensor& known =
        info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
    if (!known.has_value() || known.num_elements() != 1) {
      return std::nullopt;
    }
    const absl::StatusOr<std::vector<int64_t>> ints = ToInt64(known);
    return ints.ok() ? std::optional(ints->front()) : std::nullopt;
  }

  bool IsElement(ValueId id, const Extent& extent) const {
    const auto& elements = extents_.of(id).elements;
    return elements.has_value() && elements->size() == 1 && elements->front() == extent;
  }

  // Whether a value holds 0, 1, .. count - 1, in this order and whatever its shape.
  bool Counts(ValueId id, const Extent& count) const {
    const Node* node = &graph_.node(id.node);
    while (node->op == "Unsqueeze" || node->op == "Squeeze" || node->op == "Reshape" ||
           (node->op == "Convert" && IsInteger(node->outputs[0].dtype))) {
      node = &graph_.node(node->inputs[0].node);
    }
    return node->op == "Range" && Number(node->inputs[0]) == 0 && Number(node->inputs[2]) == 1 &&
           IsElement(node->inputs[1], count);
  }

  // Appends a node that stands for node `index`.
  void Put(int index, Node node) {
    node.name = graph_.node(index).name;
    node.outputs = graph_.node(index).outputs;
    copy_.Replace({index, 0}, AppendNode(copy_.to(), std::move(node)));
  }

  // GatherND(data [rows, ..], tuples [rows, k]) whose first numbers count the rows.
  bool ReplaceTuples(int index) {
    const Node& node = graph_.node(index);
    const Node& tuples = graph_.node(node.inputs[1].node);
    const auto& data = ShapeOf(node.inputs[0]);
    if (node.attributes.Int("batch_dims", 0).value_or(-1) != 0 || tuples.op != "Concat" ||
        tuples.inputs.size() < 2 || !data.has_value() || data->empty()) {
      return false;
    }
    const int64_t axis = tuples.attributes.Int("axis", 0).value_or(0);
    for (const ValueId part : tuples.inputs) {
      const PartialShape& shape = graph_.info(part).shape;
      if (!shape.has_rank() || shape.rank() != 2 || shape.dim(1) != 1) {
        return false;
      }
    }
    if ((axis != 1 && axis != -1) || !Counts(tuples.inputs[0], data->front())) {
      return false;
    }
    Node rest = copy_.Moved(node.inputs[1].node);
    rest.inputs.erase(rest.inputs.begin());
    rest.outputs[0].shape = PartialShape();
    const ValueId places =
        rest.inputs.size() == 1 ? rest.inputs[0] : AppendNode(copy_.to(), std::move(rest));
    Node pick;
    pick.op = "GatherND";
    pick.inputs = {copy_.Of(node.inputs[0]), places};
    pick.attributes.Set("batch_dims", int64_t{1});
    Put(index, std::move(pick));
    return true;
  }

  // The places of a sum of places [rows] and of row numbers times `stride`.
  std::optional<ValueId> PlacesOf(ValueId sum, const Extent& rows, const Extent& stride) const {
    const Node& add = graph_.node(sum.node);
    if (add.op != "Add") {
      return std::nullopt;
    }
    for (const size_t side : {0, 1}) {
      const Node& product = graph_.node(add.inputs[side].node);
      const ValueId places = add.inputs[1 - side];
      const PartialShape& shape = graph_.info(places).shape;
      if (product.op != "Multiply" || !shape.has_rank() || shape.rank() != 1) {
        continue;
      }
      for (const size_t factor : {0, 1}) {
        if (Counts(product.inputs[factor], rows) && IsElement(product.inputs[1 - factor], stride)) {
          return places;
        }
      }
    }
    return std::nullopt;
  }

  // Gather(data [rows, places, ..] as [rows * places, ..], row * places + place).
  bool ReplaceJoined(int index) {
    const Node& node = graph_.node(index);
    const Node& reshape = graph_.node(node.inputs[0].node);
    if (node.attributes.Int("batch_dims", 0).value_or(-1) != 0 || Number(node.inputs[2]) != 0 ||
        reshape.op != "Reshape") {
      return false;
    }
    const auto& data = ShapeOf(reshape.inputs[0]);
    const auto& joined = ShapeOf(node.inputs[0]);
    if (!data.has_value() || !joined.has_value() || data->size() != joined->size() + 1 ||
        joined->empty() || Product((*data)[0], (*data)[1]) != joined->front() ||
        !std::equal(joined->begin() + 1, joined->end(), data->begin() + 2)) {
      return false;
    }
    const std::optional<ValueId> places = PlacesOf(node.inputs[1], (*data)[0], (*data)[1]);
    if (!places.has_value()) {
      return false;
    }
    Node pick;
    pick.op = "Gather";
    pick.inputs = {copy_.Of(reshape.inputs[0]), copy_.Of(*places),
                   AppendConstant(copy_.to(), node.name, Tensor::Scalar<int64_t>(1))};
    pick.attributes.Set("batch_dims", int64_t{1});
    Put(index, std::move(pick));
    return true;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  GraphCopy copy_;
};

}  // namespace

absl::StatusOr<bool> PickByRow(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = RowPicker(graph, info, context.shapes->extents).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
