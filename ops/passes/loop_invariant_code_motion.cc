// HoistInputProducts: loop-invariant code motion. Products of a loop's sliced inputs with constant
// weights (X * W^T of recurrent cells, and plain products) depend on no state.
//
//   before: Loop(slices of X) { gates = slice * W^T + state * R^T }
//   after:  Y = X * W^T; Loop(slices of Y) { gates = slice + state * R^T }
//
// One GEMM over all time steps reads W once; a product each step reads it again and again. Where
// the input is narrower than the product it is transposed to [time, rows, width] first, so that the
// part of a time step lies together and is not copied; not for a cell alone, which reads rows that
// lie apart (ops/loop/sequence_driver.h). A row of a packed product does not depend on
// the number of rows (docs/numerics.md). Loops inside bodies stay, and so do loops with a trip
// count, a condition, or items that run separately. A search chooses its slices step by step: no
// pass for it.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/extents.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/program.h"
#include "ops/graph/rewrite.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// A product of a body: its first input comes from a sliced Parameter, at most through a node that
// takes the sliced axis away.
struct SliceProduct {
  int node = -1;
  int rule = -1;   // index into Loop::inputs
  int chain = -1;  // Squeeze or Reshape between the Parameter and the product; -1: none
  std::optional<CellProduct> cell;  // nothing: the node is a MatMul
  size_t weight = 1;                // input of the node
};

class ProductFinder {
 public:
  ProductFinder(const Loop& loop, const GraphInfo& info) : loop_(loop), info_(info) {}

  std::vector<SliceProduct> Run() const {
    std::vector<SliceProduct> products;
    if (loop_.items == Loop::Items::kApart || loop_.trip_count_input >= 0 ||
        loop_.condition_input >= 0 || loop_.condition_result >= 0) {
      return products;
    }
    for (size_t i = 0; i < loop_.body.nodes.size(); ++i) {
      if (const std::optional<SliceProduct> product = ProductOf(static_cast<int>(i))) {
        products.push_back(*product);
      }
    }
    return products;
  }

 private:
  std::optional<SliceProduct> ProductOf(int index) const {
    const Node& node = loop_.body.node(index);
    SliceProduct product;
    product.node = index;
    const std::vector<InputInfo> inputs = info_.InputsOf(loop_.body, node);
    product.cell = FindCellProduct(node, inputs);
    if (product.cell.has_value()) {
      product.weight = product.cell->weight;
    } else if (!IsPlainProduct(node, inputs)) {
      return std::nullopt;
    }
    const ValueId x = node.inputs[0];
    ValueId source = x;
    if (loop_.body.node(x.node).op != "Parameter") {
      product.chain = x.node;
      source =
          loop_.body.node(x.node).inputs.empty() ? ValueId{} : loop_.body.node(x.node).inputs[0];
    }
    product.rule = source.present() ? SlicedRule(source) : -1;
    return product.rule >= 0 && KeepsElements(product) ? std::optional(product) : std::nullopt;
  }

  // A * weight, or A * weight^T, with a known weight.
  static bool IsPlainProduct(const Node& node, absl::Span<const InputInfo> inputs) {
    const Tensor* weight = inputs.size() < 2 ? nullptr : inputs[1].value;
    return node.op == "MatMul" && !node.attributes.Bool("transpose_a", false).value_or(true) &&
           weight != nullptr && weight->dtype() == DType::kF32 && weight->rank() == 2 &&
           weight->num_elements() > 0;
  }

  // The rule that slices x [.., time, .., width], of rank 3, for the body's Parameter.
  int SlicedRule(ValueId parameter) const {
    const auto at =
        std::find(loop_.body.parameters.begin(), loop_.body.parameters.end(), parameter.node);
    for (size_t i = 0; i < loop_.inputs.size(); ++i) {
      const LoopInput& rule = loop_.inputs[i];
      const PartialShape& shape = loop_.body.info(parameter).shape;
      if (at != loop_.body.parameters.end() &&
          rule.body_parameter == at - loop_.body.parameters.begin() && TakesEveryElement(rule) &&
          shape.has_rank() && shape.rank() + (rule.drop_axis ? 1 : 0) == 3 &&
          (rule.axis == 0 || rule.axis == 1) && shape.dims().back() > 0) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  // Whether what stands between only takes the sliced axis away, which the product of all time
  // steps still has.
  bool KeepsElements(const SliceProduct& product) const {
    const LoopInput& rule = loop_.inputs[static_cast<size_t>(product.rule)];
    if (product.chain < 0) {
      return rule.drop_axis || !product.cell.has_value();
    }
    const Node& chain = loop_.body.node(product.chain);
    const PartialShape& before = loop_.body.info(chain.inputs[0]).shape;
    const PartialShape& after = chain.outputs[0].shape;
    if (rule.drop_axis || chain.inputs.size() != 2 || !after.has_rank() || after.rank() != 2 ||
        after.dim(1) != before.dims().back()) {
      return false;
    }
    const Tensor* list = info_.InputsOf(loop_.body, chain)[1].value;
    const absl::StatusOr<std::vector<int64_t>> values =
        list == nullptr ? std::vector<int64_t>() : ToInt64(*list);
    if (!values.ok() || values->empty()) {
      return false;
    }
    // A Reshape to two axes of which the last one stays joins all before it.
    return chain.op == "Reshape"
               ? values->size() == 2
               : chain.op == "Squeeze" && *values == std::vector<int64_t>{rule.axis};
  }

  const Loop& loop_;
  const GraphInfo& info_;
};

// Rewrites one loop. Products are appended to `outside`, in which `inputs` (of the loop) stand.
class Hoister {
 public:
  // time_major: what has been transposed outside, by its source.
  Hoister(const Loop& loop, const GraphInfo& info, std::vector<ValueId>& inputs, Graph& outside,
          std::map<std::pair<int, int>, ValueId>& time_major)
      : loop_(loop), info_(info), inputs_(inputs), outside_(outside), time_major_(time_major) {}

  Loop Run(const std::vector<SliceProduct>& products) {
    result_ = loop_;
    result_.body = Graph();
    result_.body.name = loop_.body.name;
    std::map<int, ValueId> replaced;  // product -> the Parameter that brings its slice
    for (const SliceProduct& product : products) {
      replaced[product.node] = AddSlice(product);
    }
    std::vector<int> moved;
    for (size_t i = 0; i < loop_.body.nodes.size(); ++i) {
      Node node = loop_.body.nodes[i];
      const bool parameter = node.op == "Parameter";
      for (ValueId& input : node.inputs) {
        input.node = input.present() ? moved[static_cast<size_t>(input.node)] : -1;
      }
      const auto product =
          std::find_if(products.begin(), products.end(),
                       [&](const SliceProduct& p) { return p.node == static_cast<int>(i); });
      if (product != products.end()) {
        const ValueId x = replaced.at(product->node);
        if (!product->cell.has_value()) {
          moved.push_back(x.node);  // the product itself
          continue;
        }
        UseProduct(*product, x, node);
      }
      moved.push_back(AppendNode(result_.body, std::move(node)).node);
      if (parameter) {
        result_.body.parameters.push_back(moved.back());
      }
    }
    for (const int node : loop_.body.results) {
      result_.body.results.push_back(moved[static_cast<size_t>(node)]);
    }
    // The old Parameters come first in the list, as rules count them.
    std::rotate(result_.body.parameters.begin(),
                result_.body.parameters.begin() + static_cast<int64_t>(products.size()),
                result_.body.parameters.end());
    DropUnreadSlices();
    return std::move(result_);
  }

 private:
  const Tensor& Weight(const SliceProduct& product) const {
    return *info_.InputsOf(loop_.body, loop_.body.node(product.node))[product.weight].value;
  }
  static bool IsJoined(const SliceProduct& product) {
    return product.cell.has_value() && product.cell->joined;
  }
  const Node& ParameterOf(const SliceProduct& product) const {
    const LoopInput& rule = loop_.inputs[static_cast<size_t>(product.rule)];
    return loop_.body.node(loop_.body.parameters[static_cast<size_t>(rule.body_parameter)]);
  }

  // The product outside, and a Parameter that gets its slices.
  ValueId AddSlice(const SliceProduct& product) {
    const Node& node = loop_.body.node(product.node);
    const int64_t width = ParameterOf(product).outputs[0].shape.dims().back();
    const Tensor& weight = Weight(product);
    const bool transposed =
        product.cell.has_value() || node.attributes.Bool("transpose_b", false).value_or(false);
    const int64_t columns = weight.dim(transposed ? 0 : 1);
    LoopInput rule = loop_.inputs[static_cast<size_t>(product.rule)];
    const bool drops_axis = rule.drop_axis || product.chain >= 0;
    ValueId x = inputs_[static_cast<size_t>(rule.input)];
    const int axis = rule.axis;
    if (drops_axis && axis == 1 && width <= columns && !IsAlone(product)) {
      // A step's part of the product stands together then, and need not be copied out of it.
      x = TimeMajor(x, absl::StrCat(node.name, "/time_major"));
      rule.axis = 0;
    }

    Node outside;
    outside.op = "MatMul";
    outside.name = absl::StrCat(node.name, "/all_steps");
    outside.attributes.Set("transpose_b", transposed);
    outside.inputs = {x, AppendConstant(outside_, outside.name,
                                        IsJoined(product) ? Columns(weight, 0, width) : weight)};
    outside.outputs.resize(1);
    rule.input = static_cast<int>(inputs_.size());
    inputs_.push_back(AppendNode(outside_, std::move(outside)));

    Node parameter = ParameterOf(product);
    parameter.name = absl::StrCat(node.name, "/input_product");
    parameter.outputs[0].names.clear();
    Shape shape = parameter.outputs[0].shape.dims();
    shape.back() = columns;
    if (product.chain >= 0) {
      shape.erase(shape.begin() + axis);
      rule.drop_axis = true;
    }
    parameter.outputs[0].shape = PartialShape(std::move(shape));
    rule.body_parameter = static_cast<int>(loop_.body.parameters.size() + num_added_++);
    result_.inputs.push_back(rule);
    const ValueId value = AppendNode(result_.body, std::move(parameter));
    result_.body.parameters.push_back(value.node);
    return value;
  }

  // Whether the body computes nothing but this cell, for whole sequences.
  bool IsAlone(const SliceProduct& product) const {
    return product.cell.has_value() && loop_.lengths_input < 0 &&
           std::all_of(loop_.body.nodes.begin(), loop_.body.nodes.end(), [&](const Node& node) {
             return &node == &loop_.body.node(product.node) || node.op == "Parameter" ||
                    node.op == "Constant" || node.op == "Result" || node.op == "Squeeze" ||
                    node.op == "Unsqueeze" || node.op == "Reshape";
           });
  }

  // x [rows, time, width] as [time, rows, width].
  ValueId TimeMajor(ValueId x, const std::string& name) {
    const auto [at, is_new] = time_major_.try_emplace({x.node, x.output});
    if (is_new) {
      Node transpose;
      transpose.op = "Transpose";
      transpose.name = name;
      transpose.inputs = {x, AppendInts(outside_, name, {1, 0, 2})};
      transpose.outputs.resize(1);
      at->second = AppendNode(outside_, std::move(transpose));
    }
    return at->second;
  }

  // Makes a cell take the product in the place of X and W.
  void UseProduct(const SliceProduct& product, ValueId x, Node& cell) {
    ValueId recurrent;
    if (IsJoined(product)) {
      const Tensor& weight = Weight(product);
      const int64_t width = ParameterOf(product).outputs[0].shape.dims().back();
      recurrent = AppendConstant(result_.body, absl::StrCat(cell.name, "/R"),
                                 Columns(weight, width, weight.dim(1) - width));
    }
    TakeProduct(*product.cell, x, recurrent, cell);
  }

  // Slices that only products read are not made any more.
  void DropUnreadSlices() {
    Graph& body = result_.body;
    std::vector<ValueId> results;
    for (const int node : body.results) {
      results.push_back({node, 0});
    }
    std::vector<bool> keep = AncestorsOf(body, results);
    std::vector<LoopInput> rules;
    std::vector<int> new_parameter(body.parameters.size(), -1);
    int next = 0;
    for (size_t i = 0; i < body.parameters.size(); ++i) {
      const auto rule = std::find_if(
          result_.inputs.begin(), result_.inputs.end(),
          [&](const LoopInput& input) { return input.body_parameter == static_cast<int>(i); });
      const auto node = static_cast<size_t>(body.parameters[i]);
      keep[node] = keep[node] || rule->kind != LoopInput::Kind::kSliced;
      new_parameter[i] = keep[node] ? next++ : -1;
    }
    for (LoopInput rule : result_.inputs) {
      rule.body_parameter = new_parameter[static_cast<size_t>(rule.body_parameter)];
      if (rule.body_parameter >= 0) {
        rules.push_back(rule);
      }
    }
    body = KeepNodes(body, keep);
    result_.inputs = std::move(rules);
  }

  const Loop& loop_;
  const GraphInfo& info_;
  std::vector<ValueId>& inputs_;
  Graph& outside_;
  std::map<std::pair<int, int>, ValueId>& time_major_;
  Loop result_;
  size_t num_added_ = 0;
};

}  // namespace

std::vector<int> HoistedProducts(const Loop& loop, const GraphInfo& body_info) {
  std::vector<int> nodes;
  for (const SliceProduct& product : ProductFinder(loop, body_info).Run()) {
    nodes.push_back(product.node);
  }
  return nodes;
}

absl::StatusOr<bool> HoistInputProducts(Graph& graph, GraphInfo& info, const PassContext& context) {
  GraphCopy hoisted(graph);
  std::map<std::pair<int, int>, ValueId> time_major;
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    Node node = hoisted.Moved(index);
    if (node.loop != nullptr) {
      const GraphInfo& body = *info.bodies[i][0];
      const std::vector<SliceProduct> products = ProductFinder(*node.loop, body).Run();
      if (!products.empty()) {
        node.loop = std::make_shared<const Loop>(
            Hoister(*node.loop, body, node.inputs, hoisted.to(), time_major).Run(products));
        changed = true;
      }
    }
    hoisted.Keep(index, std::move(node));
  }
  if (!changed) {
    return false;
  }
  return TakeChanged(std::move(hoisted).Finish(), graph, info, context);
}

}  // namespace beamwright::ops
