// ONNX's If, Loop and Scan, and the operators on sequences once LowerOnnxSequences has run.
//
// 1. The subgraphs are translated as separate graphs (BodyOf). What they read of the
//    graphs around them, their captures, become inputs of the node (AppendCaptures), so that a body
//    reads nothing but its Parameters.
// 2. If: both branches are translated, or only the one that is taken if the condition is known at
//    load.
// 3. Loop: inputs are trip count, condition and states; outputs are the last states and what is
//    stacked from iteration to iteration. States may change their shapes, so the body is translated
//    again with unknown extents until one translation holds for all iterations (LoopBody).
// 4. Scan: states, and inputs that are cut along an axis, forwards or backwards; outputs are
//    stacked along an axis. Scan of opset 8 runs each item of a batch alone over its own length
//    (Scan8).
// 5. Sequences of tensors have become one tensor, or a list of inputs, and these operators take an
//    element, a part or the whole of it.

#include <algorithm>
#include <memory>
#include <numeric>

#include "ops/import/onnx_graph.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {

// If, Loop and Scan become the internal forms (ops/graph/graph.h): what a body reads of the graphs
// around it becomes an input of the node.

namespace {

// Appends what the body captures to the node's inputs; calls `rule(parameter, input)` for each.
template <typename Rule>
void AppendCaptures(const OnnxBody& body, std::vector<ValueId>& inputs, Rule rule) {
  for (const OnnxScope::Capture& capture : body.captures) {
    rule(capture.parameter, static_cast<int>(inputs.size()));
    inputs.push_back(capture.outside);
  }
}

void OutAll(OnnxNode& n, ValueId first) {
  for (int i = 0; first.present() && i < n.num_outputs(); ++i) {
    n.Out(i, {first.node, i});
  }
}

absl::StatusOr<OnnxBody> BodyOf(OnnxNode& n, const char* attribute,
                                absl::Span<const ValueInfo> inputs) {
  const onnx::GraphProto* graph = n.Subgraph(attribute);
  if (graph == nullptr) {
    return Invalid("attribute '", attribute, "' is missing");
  }
  absl::StatusOr<OnnxBody> body = TranslateOnnxBody(*graph, n.place(), inputs);
  if (!body.ok()) {
    return Annotate(body.status(), absl::StrCat("'", attribute, "'"));
  }
  return body;
}

absl::Status ReadBranch(OnnxNode& n, const char* attribute, std::vector<ValueId>& inputs,
                        Branch& branch) {
  BW_ASSIGN_OR_RETURN(OnnxBody body, BodyOf(n, attribute, {}));
  const auto count = static_cast<int>(body.graph.results.size());
  if (count != n.num_outputs()) {
    return Invalid("'", attribute, "' has ", count, " outputs; the node has ", n.num_outputs());
  }
  AppendCaptures(body, inputs, [&](int, int input) { branch.inputs.push_back(input); });
  for (int i = 0; i < count; ++i) {
    branch.results.push_back(i);
  }
  branch.body = std::move(body.graph);
  return absl::OkStatus();
}

void IfOperator(OnnxNode& n) {
  auto branches = std::make_shared<If>();
  Node node;
  node.op = "If";
  node.inputs = {n.In(0)};
  // Of a condition that is known only one branch is looked at; it stands for the other one too.
  const Tensor* condition = n.Known(n.In(0));
  const bool known =
      condition != nullptr && condition->dtype() == DType::kBool && condition->num_elements() == 1;
  const bool takes_then = known && *condition->data<bool>();
  absl::Status status;
  if (!known || takes_then) {
    status = ReadBranch(n, "then_branch", node.inputs, branches->then_branch);
  }
  if (status.ok() && !takes_then) {
    status = ReadBranch(n, "else_branch", node.inputs, branches->else_branch);
  }
  if (known) {
    n.Ignore("then_branch");
    n.Ignore("else_branch");
    (takes_then ? branches->else_branch : branches->then_branch) =
        takes_then ? branches->then_branch : branches->else_branch;
  }
  if (!status.ok()) {
    n.builder().Fail(status);
    return;
  }
  node.outputs.resize(static_cast<size_t>(n.num_outputs()));
  node.branches = std::move(branches);
  OutAll(n, n.builder().Add(std::move(node)));
}

LoopInput Rule(LoopInput::Kind kind, int input, int parameter) {
  LoopInput rule;
  rule.kind = kind;
  rule.input = input;
  rule.body_parameter = parameter;
  rule.external_id = input;
  return rule;
}

LoopInput CarriedRule(int input, int parameter, int result) {
  LoopInput rule = Rule(LoopInput::Kind::kCarried, input, parameter);
  rule.back_edge = result;
  return rule;
}

LoopOutput LastRule(int output, int result) {
  LoopOutput rule;
  rule.output = output;
  rule.body_result = result;
  return rule;
}

LoopOutput StackedRule(int output, int result, int64_t axis = 0) {
  LoopOutput rule = LastRule(output, result);
  rule.kind = LoopOutput::Kind::kStacked;
  rule.axis = axis;
  return rule;
}

// The node of a Loop: its rules, its body, and the captures as inputs that are the same in each
// iteration.
void AddLoop(OnnxNode& n, Loop loop, OnnxBody body, std::vector<ValueId> inputs) {
  AppendCaptures(body, inputs, [&](int parameter, int input) {
    loop.inputs.push_back(Rule(LoopInput::Kind::kInvariant, input, parameter));
  });
  loop.body = std::move(body.graph);
  Node node;
  node.op = "Loop";
  node.inputs = std::move(inputs);
  node.outputs.resize(loop.outputs.size());
  node.loop = std::make_shared<const Loop>(std::move(loop));
  OutAll(n, n.builder().Add(std::move(node)));
}

// Widens what is known of a state before an iteration to what is known after it as well; false if
// it held that already.
bool Widen(const PartialShape& after, PartialShape& before) {
  if (!before.has_rank()) {
    return false;
  }
  if (!after.has_rank() || after.rank() != before.rank()) {
    before = PartialShape();
    return true;
  }
  Shape dims = before.dims();
  bool changed = false;
  for (int axis = 0; axis < after.rank(); ++axis) {
    int64_t& dim = dims[static_cast<size_t>(axis)];
    if (dim != PartialShape::kDynamic && dim != after.dim(axis)) {
      dim = PartialShape::kDynamic;
      changed = true;
    }
  }
  before = PartialShape(dims);
  return changed;
}

// The body of a Loop whose states may change their shapes: it is translated anew with what differs
// unknown until that holds for every iteration. states: of the body's Parameters from the third on.
absl::StatusOr<OnnxBody> LoopBody(OnnxNode& n, std::vector<ValueInfo>& inputs) {
  for (;;) {
    BW_ASSIGN_OR_RETURN(OnnxBody body, BodyOf(n, "body", inputs));
    if (body.graph.results.size() + 1 < inputs.size()) {
      return Invalid("the body has ", body.graph.results.size(),
                     " outputs; there must be at least ", inputs.size() - 1,
                     ": the condition and each state");
    }
    bool changed = false;
    for (size_t i = 2; i < inputs.size(); ++i) {
      const Node& result = body.graph.node(body.graph.results[i - 1]);
      const PartialShape declared = body.graph.node(body.graph.parameters[i]).outputs[0].shape;
      changed |=
          declared.has_rank() && Widen(body.graph.info(result.inputs[0]).shape, inputs[i].shape);
    }
    if (!changed) {
      return body;
    }
  }
}

// Inputs: trip count, condition (both may be absent), states. The body: iteration, condition,
// states -> condition, states, parts of the stacked outputs.
void LoopOperator(OnnxNode& n) {
  if (n.num_inputs() < 2) {
    n.Fail("has ", n.num_inputs(), " inputs; the first two are the trip count and the condition");
    return;
  }
  const int num_states = n.num_inputs() - 2;
  std::vector<ValueInfo> infos(static_cast<size_t>(num_states) + 2);
  infos[0].dtype = DType::kI64;
  infos[0].shape = PartialShape(Shape{});
  infos[1].dtype = DType::kBool;
  for (int i = 0; i < num_states; ++i) {
    infos[static_cast<size_t>(i) + 2].dtype = n.info(n.In(i + 2)).dtype;
    infos[static_cast<size_t>(i) + 2].shape = n.info(n.In(i + 2)).shape;
  }
  absl::StatusOr<OnnxBody> body = LoopBody(n, infos);
  if (!body.ok()) {
    n.builder().Fail(body.status());
    return;
  }
  const auto num_results = static_cast<int>(body->graph.results.size());
  if (n.num_outputs() != num_results - 1) {
    n.Fail("has ", n.num_outputs(), " outputs; the body has ", num_results, " with its condition");
    return;
  }
  Loop loop;
  loop.states_may_change_shape = true;
  std::vector<ValueId> inputs = n.inputs();
  LoopInput iteration = Rule(LoopInput::Kind::kIteration, -1, 0);
  loop.inputs.push_back(iteration);
  loop.trip_count_input = n.Has(0) ? 0 : -1;
  if (n.Has(1)) {
    loop.condition_input = 1;
    loop.condition_result = 0;
  } else {
    // What the body says does not count then.
    inputs[1] = n.Constant(Tensor::Scalar(true));
  }
  loop.inputs.push_back(CarriedRule(1, 1, 0));
  for (int i = 0; i < num_states; ++i) {
    loop.inputs.push_back(CarriedRule(i + 2, i + 2, i + 1));
  }
  for (int i = 0; i < n.num_outputs(); ++i) {
    loop.outputs.push_back(i < num_states ? LastRule(i, i + 1) : StackedRule(i, i + 1));
  }
  AddLoop(n, std::move(loop), *std::move(body), std::move(inputs));
}

// A list attribute of a Scan: as many entries as given, all 0 if it is absent.
std::vector<int64_t> ScanList(OnnxNode& n, const char* name, int count, bool is_direction) {
  std::vector<int64_t> list = n.Ints(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
  if (n.ok() && list.size() != static_cast<size_t>(count)) {
    n.Fail("attribute '", name, "' has ", list.size(), " entries; there must be ", count);
  }
  for (const int64_t entry : list) {
    if (is_direction && entry != 0 && entry != 1) {
      n.Fail("attribute '", name, "' has ", entry, "; it must be 0 (forward) or 1 (backward)");
    }
  }
  return list;
}

// What is left of a shape without one axis.
ValueInfo Without(OnnxNode& n, ValueInfo info, int64_t axis) {
  info.names.clear();
  if (info.shape.has_rank()) {
    Shape dims = info.shape.dims();
    const int place = n.Axis(axis, static_cast<int>(dims.size()));
    if (n.ok()) {
      dims.erase(dims.begin() + place);
      info.shape = PartialShape(dims);
    }
  }
  return info;
}

LoopInput SlicedRule(int input, int parameter, int64_t axis, bool backward) {
  LoopInput rule = Rule(LoopInput::Kind::kSliced, input, parameter);
  rule.axis = axis;
  rule.drop_axis = true;
  rule.may_be_empty = true;
  if (backward) {
    rule.start = -1;
    rule.end = 0;
    rule.stride = -1;
  }
  return rule;
}

// Splits inputs from `first` on into states and scanned inputs; false after an error.
bool CountScan(OnnxNode& n, int first, int& num_states, int& num_scanned) {
  const int64_t given = n.Int("num_scan_inputs", -1);
  const int available = n.num_inputs() - first;
  if (given < 1 || given > available) {
    n.Fail("attribute 'num_scan_inputs' is ", given, "; it must be in [1, ", available, "]");
    return false;
  }
  num_scanned = static_cast<int>(given);
  num_states = available - num_scanned;
  return n.ok();
}

bool CheckScanBody(OnnxNode& n, const absl::StatusOr<OnnxBody>& body, int num_states) {
  if (!body.ok()) {
    n.builder().Fail(body.status());
    return false;
  }
  const auto num_results = static_cast<int>(body->graph.results.size());
  if (num_results != n.num_outputs() || num_results < num_states) {
    n.Fail("has ", n.num_outputs(), " outputs and ", num_states, " states; the body has ",
           num_results, " outputs");
  }
  return n.ok();
}

// Opset 8: everything has the batch on axis 0, which the body does not see, and each item runs
// alone over its own length; sequences have time on axis 1.
void Scan8(OnnxNode& n) {
  int num_states = 0;
  int num_scanned = 0;
  if (!CountScan(n, 1, num_states, num_scanned)) {
    return;
  }
  const std::vector<int64_t> directions = ScanList(n, "directions", num_scanned, true);
  std::vector<ValueInfo> infos;
  for (int i = 0; i < num_states + num_scanned; ++i) {
    ValueInfo item = Without(n, n.info(n.In(i + 1)), 0);
    infos.push_back(i < num_states ? item : Without(n, item, 0));
  }
  if (!n.ok()) {
    return;
  }
  absl::StatusOr<OnnxBody> body = BodyOf(n, "body", infos);
  if (!CheckScanBody(n, body, num_states)) {
    return;
  }
  Loop loop;
  loop.items = Loop::Items::kApart;
  loop.lengths_input = n.Has(0) ? 0 : -1;
  for (int i = 0; i < num_states; ++i) {
    loop.inputs.push_back(CarriedRule(i + 1, i, i));
  }
  for (int i = 0; i < num_scanned; ++i) {
    const int parameter = num_states + i;
    loop.inputs.push_back(
        SlicedRule(parameter + 1, parameter, 0, directions[static_cast<size_t>(i)] == 1));
  }
  for (int i = 0; i < n.num_outputs(); ++i) {
    loop.outputs.push_back(i < num_states ? LastRule(i, i) : StackedRule(i, i));
  }
  AddLoop(n, std::move(loop), *std::move(body), n.inputs());
}

void Scan(OnnxNode& n) {
  if (n.version() < 9) {
    Scan8(n);
    return;
  }
  int num_states = 0;
  int num_scanned = 0;
  if (!CountScan(n, 0, num_states, num_scanned)) {
    return;
  }
  const int num_stacked = n.num_outputs() - num_states;
  if (num_stacked < 0) {
    n.Fail("has ", n.num_outputs(), " outputs; there are ", num_states, " states");
    return;
  }
  const auto axes = ScanList(n, "scan_input_axes", num_scanned, false);
  const auto directions = ScanList(n, "scan_input_directions", num_scanned, true);
  const auto output_axes = ScanList(n, "scan_output_axes", num_stacked, false);
  const auto output_directions = ScanList(n, "scan_output_directions", num_stacked, true);
  std::vector<ValueInfo> infos;
  Loop loop;
  for (int i = 0; n.ok() && i < n.num_inputs(); ++i) {
    ValueInfo info = n.info(n.In(i));
    info.names.clear();
    if (i < num_states) {
      infos.push_back(std::move(info));
      loop.inputs.push_back(CarriedRule(i, i, i));
    } else {
      const auto place = static_cast<size_t>(i - num_states);
      infos.push_back(Without(n, std::move(info), axes[place]));
      loop.inputs.push_back(SlicedRule(i, i, axes[place], directions[place] == 1));
    }
  }
  if (!n.ok()) {
    return;
  }
  absl::StatusOr<OnnxBody> body = BodyOf(n, "body", infos);
  if (!CheckScanBody(n, body, num_states)) {
    return;
  }
  for (int i = 0; i < n.num_outputs(); ++i) {
    if (i < num_states) {
      loop.outputs.push_back(LastRule(i, i));
    } else {
      const auto place = static_cast<size_t>(i - num_states);
      loop.outputs.push_back(StackedRule(i, i, output_axes[place]));
      loop.outputs.back().reversed = output_directions[place] == 1;
    }
  }
  AddLoop(n, std::move(loop), *std::move(body), n.inputs());
}

}  // namespace

std::vector<OnnxOperator> OnnxControlFlow() {
  return {
      {"If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, 1, 1, kAnyNumber, "If", IfOperator},
      {"Loop",
       {1, 11, 13, 16, 19, 21, 23, 24, 25},
       0,
       kAnyNumber,
       kAnyNumber,
       "Loop",
       LoopOperator},
      {"Scan", {8, 9, 11, 16, 19, 21, 23, 24, 25}, 0, kAnyNumber, kAnyNumber, "Loop", Scan},
  };
}

// The operators that stand for sequences of tensors once LowerOnnxSequences has been there.

namespace {

// Inputs: the elements. new_axis 1: along an axis that they do not have yet.
void JoinList(OnnxNode& n) {
  const int64_t axis = n.Int("axis", 0);
  std::vector<ValueId> parts = n.inputs();
  if (n.Flag("new_axis", false)) {
    for (ValueId& part : parts) {
      part = n.Add("Unsqueeze", {part, n.List({axis})});
    }
  }
  n.Out(0, n.Add("Concat", std::move(parts), {{"axis", axis}}));
}

// Input: the elements, stacked on axis 0.
void JoinStacked(OnnxNode& n) {
  const ValueId stacked = n.In(0);
  const bool new_axis = n.Flag("new_axis", false);
  const int rank = n.Rank(stacked);
  const int axis = n.Axis(n.Int("axis", 0), std::max(new_axis ? rank : rank - 1, 1));
  if (!n.ok()) {
    return;
  }
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 1, order.begin() + axis + 1);
  const ValueId moved = axis == 0 ? stacked : n.Add("Transpose", {stacked, n.List(order)});
  if (new_axis) {
    n.Out(0, moved);
    return;
  }
  if (rank < 2) {
    n.Fail("scalars cannot be concatenated");
    return;
  }
  // The stack's axis and the one that it now stands before become one.
  std::vector<ValueId> extents;
  for (int i = 0; i < rank - 1; ++i) {
    extents.push_back(i == axis ? n.List({-1}) : Reshaped(n, ExtentOf(n, stacked, i + 1), {1}));
  }
  const ValueId shape = n.Add("Concat", std::move(extents), {{"axis", int64_t{0}}});
  n.Out(0, n.Add("Reshape", {moved, shape}, {{"special_zero", false}}));
}

// Inputs: what was taken apart along `axis`, and an index.
void ElementOf(OnnxNode& n) {
  const ValueId axis = n.Scalar(n.Int("axis", 0));
  const ValueId index = n.Flag("keepdims", true) ? Reshaped(n, n.In(1), {1}) : AsScalar(n, n.In(1));
  n.Out(0, n.Add("Gather", {n.In(0), index, axis}));
}

// Input: what is taken apart along `axis` into parts of `length`; its part with that index.
void ChunkOf(OnnxNode& n) {
  const int64_t length = n.Int("length", 1);
  const int64_t index = n.Int("index", 0);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (index > kMost || length > kMost) {
    n.Fail("part ", index, " of ", length, " each is out of every tensor");
    return;
  }
  n.Out(0, n.Add("Slice", {n.In(0), n.List({index * length}), n.List({(index + 1) * length}),
                           n.List({1}), n.List({n.Int("axis", 0)})}));
}

// Inputs: what is taken apart along `axis`, and the lengths of the parts.
void PartsOf(OnnxNode& n) {
  const ValueId first =
      n.Add("VariadicSplit", {n.In(0), n.Scalar(n.Int("axis", 0)), n.In(1)}, {}, n.num_outputs());
  for (int i = 0; i < n.num_outputs(); ++i) {
    n.Out(i, {first.node, i});
  }
}

void LengthOf(OnnxNode& n) { n.Out(0, ExtentOf(n, n.In(0), n.Int("axis", 0))); }

}  // namespace

std::vector<OnnxOperator> OnnxSequenceOperators() {
  return {
      {"ChunkOf", {1}, 1, 1, 1, "Slice", ChunkOf},
      {"ElementOf", {1}, 2, 2, 1, "Gather", ElementOf},
      {"JoinList", {1}, 1, kAnyNumber, 1, "Concat", JoinList},
      {"JoinStacked", {1}, 1, 1, 1, "Transpose, Reshape", JoinStacked},
      {"LengthOf", {1}, 1, 1, 1, "ShapeOf", LengthOf},
      {"PartsOf", {1}, 2, 2, kAnyNumber, "VariadicSplit", PartsOf},
  };
}

}  // namespace beamwright::ops
