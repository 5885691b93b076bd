// TakeScalesByItem: dynamic quantisation takes a scale for each item of the batch, a source of an
// encoder or a row of a step. Reads context.encoder, and writes its proof.
//
//   before: DynamicQuantizeLinear(x)                   one scale over all items of the batch
//   after:  DynamicQuantizeLinear(x), item_axis = 0    a scale for each item, as of one alone
//
// The file means one item; with one scale, neighbours in a batch would change each other's numbers.
// 1. Each such node gets an unknown item axis; 2. the rules of rows say what the axis is, as soon
// as the operator keeps items apart; 3. shapes behind the scales are brought up to date: a scale
// has the rank of what it was taken of, and broadcasts; 4. the graph is replaced if its items are
// proven to stay apart then.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/compile/row_proof.h"
#include "ops/compile/scopes.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

bool TakesScale(const Node& node) { return node.op == "DynamicQuantizeLinear"; }

// Whether the graph takes scales while it runs, in bodies as well.
bool HasDynamicScales(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return TakesScale(node) || (node.loop != nullptr && HasDynamicScales(node.loop->body)) ||
           (node.branches != nullptr && (HasDynamicScales(node.branches->then_branch.body) ||
                                         HasDynamicScales(node.branches->else_branch.body)));
  });
}

// Brings shapes up to date behind nodes that take scales. False if a body or a Result reads what
// changed, or an operator refuses it.
bool InferAgain(const GraphInfo& info, const OperatorSet& operators, Graph& graph) {
  std::vector<bool> changed(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id.present() && changed[static_cast<size_t>(id.node)];
    });
    if (!reads && !TakesScale(node)) {
      continue;
    }
    const Operator* const op = operators.Find(node.op);
    if (op == nullptr || node.loop != nullptr || node.branches != nullptr) {
      return false;
    }
    std::vector<ValueInfo> outputs(node.outputs.size());
    if (!op->infer(node, info.InputsOf(graph, node), outputs).ok()) {
      return false;
    }
    for (size_t output = 0; output < outputs.size(); ++output) {
      ValueInfo& old = node.outputs[output];
      changed[i] = changed[i] || old.shape != outputs[output].shape;
      old.shape = std::move(outputs[output].shape);
    }
  }
  return true;
}

// Calls change(node) for each node that takes a scale, also inside; false as soon as shapes cannot
// be brought up to date.
template <typename Change>
bool ChangeScales(const GraphInfo& info, const OperatorSet& operators, Change change,
                  Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (TakesScale(node) && !info.IsKnown(static_cast<int>(i))) {
      change(node);
    }
    const auto& bodies = info.bodies[i];
    const auto inside = [&](size_t body, Graph& of) {
      return body >= bodies.size() || bodies[body] == nullptr ||
             ChangeScales(*bodies[body], operators, change, of);
    };
    if (node.loop != nullptr && HasDynamicScales(node.loop->body)) {
      auto loop = std::make_shared<Loop>(*node.loop);
      if (!inside(0, loop->body)) {
        return false;
      }
      node.loop = std::move(loop);
    }
    if (node.branches != nullptr) {
      auto branches = std::make_shared<If>(*node.branches);
      if (!inside(0, branches->then_branch.body) || !inside(1, branches->else_branch.body)) {
        return false;
      }
      node.branches = std::move(branches);
    }
  }
  return InferAgain(info, operators, graph);
}

// An axis that is not known yet; the number identifies the node.
void Mark(int64_t number, Node& node) { node.attributes.Set("item_axis", -1 - number); }

// `rows`: of what the scale is taken of.
void Decide(const RowInfo& rows, Node& node) {
  node.attributes = Attributes();
  if (rows.kind == RowInfo::Kind::kRows) {
    node.attributes.Set("item_axis", int64_t{rows.axis});
    node.attributes.Set("item_extent", rows.factor);
  }
}

}  // namespace

RowProof ScaleByItem(const GraphInfo& info, const OperatorSet& operators, const RowInputs& inputs,
                     Graph& graph, bool& changed) {
  changed = false;
  RowProof proof = ProveRowsApart(graph, info, operators, inputs);
  if (proof.separable || !HasDynamicScales(graph)) {
    return proof;
  }
  Graph by_item = graph;
  int64_t count = 0;
  if (!ChangeScales(
          info, operators, [&](Node& node) { Mark(count++, node); }, by_item)) {
    return proof;
  }
  std::vector<RowInfo> found(static_cast<size_t>(count));
  ProveRowsApart(by_item, info, operators, inputs, &found);
  size_t next = 0;
  if (!ChangeScales(
          info, operators, [&](Node& node) { Decide(found[next++], node); }, by_item)) {
    return proof;
  }
  RowProof with_items = ProveRowsApart(by_item, info, operators, inputs);
  if (!with_items.separable) {
    return with_items;
  }
  graph = std::move(by_item);
  changed = true;
  return with_items;
}

absl::StatusOr<bool> TakeScalesByItem(Graph& graph, GraphInfo& info, const PassContext& context) {
  bool changed = false;
  if (context.encoder != nullptr) {
    context.encoder->proof =
        ScaleByItem(info, context.operators, context.encoder->inputs, graph, changed);
  }
  return changed;
}

void TakeScalesByRow(const GraphInfo& info, const OperatorSet& operators, Loop& loop) {
  if (!HasDynamicScales(loop.body)) {
    return;
  }
  Loop by_row = loop;
  std::vector<size_t> takes_scale;
  for (size_t i = 0; i < by_row.body.nodes.size(); ++i) {
    if (TakesScale(by_row.body.nodes[i]) && !info.IsKnown(static_cast<int>(i))) {
      takes_scale.push_back(i);
      Mark(0, by_row.body.nodes[i]);
    }
  }
  if (!InferAgain(info, operators, by_row.body)) {
    return;
  }
  const auto rows_of = [&] { return FindRows(by_row, info, operators, FindScopes(by_row, info)); };
  const std::vector<RowInfo> found = rows_of();
  for (const size_t i : takes_scale) {
    Decide(found[i], by_row.body.nodes[i]);
  }
  if (!InferAgain(info, operators, by_row.body)) {
    return;
  }
  const std::vector<RowInfo> decided = rows_of();
  const bool holds = std::all_of(takes_scale.begin(), takes_scale.end(),
                                 [&](size_t i) { return decided[i] == found[i]; });
  if (holds) {
    loop = std::move(by_row);
  }
}

}  // namespace beamwright::ops
