#include "tests/fuzz/random_graph.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "ops/graph/inference.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

constexpr size_t kMaxNodes = 24;
constexpr int kMaxDepth = 3;
constexpr std::array kTypes = {DType::kF32, DType::kI64, DType::kF32, DType::kI32, DType::kBool,
                               DType::kF16, DType::kU8,  DType::kF64, DType::kI8,  DType::kBF16};
// Words that some attribute of some operator knows.
constexpr std::array<const char*, 24> kWords = {
    "numpy", "none",    "explicit", "bidirectional", "i64",        "i32",   "f32",  "boolean",
    "max",   "min",     "value",    "index",         "same_upper", "valid", "edge", "reflect",
    "tanh",  "sigmoid", "relu",     "constant",      "sum",        "floor", "mean", "ab,bc->ac"};

int64_t SmallInt(ByteSource& source) {
  constexpr std::array<int64_t, 12> kInts = {0, 1, 2, 3, -1, -2, 4, 5, 7, -9, 1 << 20, INT64_MAX};
  return kInts[source.Below(kInts.size())];
}

double SmallFloat(ByteSource& source) {
  constexpr std::array<double, 10> kFloats = {0, 1, -1, 0.5, 2, -3.5, 1e30, -1e30, 1e-30, 100};
  return kFloats[source.Below(kFloats.size())];
}

Shape SmallShape(ByteSource& source) {
  Shape shape;
  for (size_t rank = source.Below(5); rank > 0; --rank) {
    shape.push_back(static_cast<int64_t>(source.Below(5)));
  }
  return shape;
}

Tensor SmallTensor(ByteSource& source, DType dtype, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (float& value : values) {
    value = IsFloat(dtype) ? static_cast<float>(SmallFloat(source))
                           : static_cast<float>(source.Below(9)) - 2;
  }
  return *Convert(Tensor::Of<float>(shape, values), dtype);
}

AttributeValue SmallAttribute(ByteSource& source) {
  switch (source.Below(7)) {
    case 0:
      return SmallInt(source);
    case 1:
      return SmallFloat(source);
    case 2:
      return source.Below(2) == 1;
    case 3: {
      std::vector<int64_t> values(source.Below(5));
      for (int64_t& value : values) {
        value = SmallInt(source);
      }
      return values;
    }
    case 4: {
      std::vector<double> values(source.Below(4));
      for (double& value : values) {
        value = SmallFloat(source);
      }
      return values;
    }
    case 5:
      return std::vector<std::string>(source.Below(4), kWords[source.Below(kWords.size())]);
    default:
      return std::string(kWords[source.Below(kWords.size())]);
  }
}

// Grows a graph node by node; a node that inference refuses is taken back.
class Grower {
 public:
  Grower(ByteSource& source, int depth) : source_(source), depth_(depth) {}

  void AddParameter(const ValueInfo& info) {
    Node node;
    node.op = "Parameter";
    node.name = "p" + std::to_string(graph_.nodes.size());
    node.outputs = {info};
    graph_.parameters.push_back(static_cast<int>(graph_.nodes.size()));
    graph_.nodes.push_back(std::move(node));
  }

  void Grow(size_t attempts) {
    for (; attempts > 0 && !source_.empty() && graph_.nodes.size() < kMaxNodes; --attempts) {
      const size_t before = graph_.nodes.size();
      if (source_.Below(4) == 0) {
        AddConstant();
        continue;
      }
      AddOperator();
      Graph copy = graph_;
      if (!InferGraph(copy, Operators()).ok()) {
        graph_.nodes.resize(before);
      } else {
        graph_ = std::move(copy);
      }
    }
  }

  // At most `count` values become Results.
  void AddResults(size_t count) {
    for (; count > 0 && !graph_.nodes.empty(); --count) {
      Node node;
      node.op = "Result";
      node.name = "r" + std::to_string(graph_.nodes.size());
      node.inputs = {AnyValue()};
      graph_.results.push_back(static_cast<int>(graph_.nodes.size()));
      graph_.nodes.push_back(std::move(node));
    }
  }

  Graph Take() { return std::move(graph_); }
  const Graph& graph() const { return graph_; }

 private:
  ValueId AnyValue() {
    for (int tries = 0; tries < 8 && !graph_.nodes.empty(); ++tries) {
      const auto node = static_cast<int>(source_.Below(graph_.nodes.size()));
      const size_t outputs = graph_.node(node).outputs.size();
      if (outputs > 0) {
        return {node, static_cast<int>(source_.Below(outputs))};
      }
    }
    return graph_.nodes.empty() ? ValueId{} : ValueId{0, 0};
  }

  void AddConstant() {
    Node node;
    node.op = "Constant";
    node.name = "c" + std::to_string(graph_.nodes.size());
    node.constant = SmallTensor(source_, kTypes[source_.Below(kTypes.size())], SmallShape(source_));
    node.outputs.resize(1);
    node.outputs[0].dtype = node.constant.dtype();
    node.outputs[0].shape = PartialShape(node.constant.shape());
    graph_.nodes.push_back(std::move(node));
  }

  void AddOperator() {
    const std::vector<Operator>& all = Operators().all();
    const Operator& chosen = all[(source_.Byte() * size_t{256} + source_.Byte()) % all.size()];
    Node node;
    node.op = std::string(chosen.name);
    node.name = "n" + std::to_string(graph_.nodes.size());
    for (size_t inputs = source_.Below(7); inputs > 0; --inputs) {
      node.inputs.push_back(source_.Below(16) == 15 ? ValueId{} : AnyValue());
    }
    for (const absl::string_view name : chosen.attributes) {
      if (source_.Below(2) == 1) {
        node.attributes.Set(std::string(name), SmallAttribute(source_));
      }
    }
    node.outputs.resize(1 + source_.Below(3));
    if (node.op == "Loop") {
      AddLoop(node);
    } else if (node.op == "If") {
      AddBranches(node);
    }
    graph_.nodes.push_back(std::move(node));
  }

  void AddBranches(Node& node) {
    if (depth_ >= kMaxDepth || node.inputs.empty()) {
      return;
    }
    auto branches = std::make_shared<If>();
    branches->condition_input = static_cast<int>(source_.Below(node.inputs.size()));
    for (Branch* branch : {&branches->then_branch, &branches->else_branch}) {
      Grower body(source_, depth_ + 1);
      for (size_t count = source_.Below(node.inputs.size() + 1); count > 0; --count) {
        branch->inputs.push_back(static_cast<int>(source_.Below(node.inputs.size())));
        body.AddParameter(InfoOf(node.inputs[static_cast<size_t>(branch->inputs.back())]));
      }
      body.Grow(source_.Below(8));
      body.AddResults(1 + source_.Below(3));
      branch->body = body.Take();
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        branch->results.push_back(static_cast<int>(source_.Below(branch->body.results.size())));
      }
    }
    node.branches = std::move(branches);
  }

  // Type and, as often as not, shape of a value.
  ValueInfo InfoOf(ValueId value) {
    ValueInfo info;
    if (value.present()) {
      info.dtype = graph_.info(value).dtype;
      if (source_.Below(2) == 1) {
        info.shape = graph_.info(value).shape;
      }
    }
    return info;
  }

  void AddLoop(Node& node) {
    if (depth_ >= kMaxDepth) {
      return;
    }
    auto loop = std::make_shared<Loop>();
    Grower body(source_, depth_ + 1);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      LoopInput rule;
      rule.kind = static_cast<LoopInput::Kind>(source_.Below(4));
      rule.input = rule.kind == LoopInput::Kind::kIteration ? -1 : static_cast<int>(i);
      rule.body_parameter = static_cast<int>(i);
      rule.back_edge =
          rule.kind == LoopInput::Kind::kCarried ? static_cast<int>(source_.Below(3)) : -1;
      rule.axis = static_cast<int64_t>(source_.Below(3));
      rule.start = source_.Below(2) == 1 ? -1 : 0;
      rule.end = rule.start == 0 ? -1 : 0;
      rule.stride = rule.start == 0 ? 1 : -1;
      rule.drop_axis = source_.Below(4) == 3;
      rule.may_be_empty = rule.drop_axis;
      rule.part_size = source_.Below(8) == 7 ? 2 : 1;
      ValueInfo info = InfoOf(node.inputs[i]);
      if (rule.kind == LoopInput::Kind::kSliced || rule.kind == LoopInput::Kind::kIteration) {
        info.shape = PartialShape();
      }
      if (rule.kind == LoopInput::Kind::kIteration) {
        info.dtype = source_.Below(2) == 1 ? DType::kI32 : DType::kI64;
      }
      body.AddParameter(info);
      loop->inputs.push_back(rule);
    }
    body.Grow(source_.Below(8));
    body.AddResults(1 + source_.Below(3));
    loop->body = body.Take();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      LoopOutput rule;
      rule.kind = static_cast<LoopOutput::Kind>(source_.Below(3));
      rule.output = static_cast<int>(i);
      rule.body_result = static_cast<int>(source_.Below(loop->body.results.size()));
      rule.axis = static_cast<int64_t>(source_.Below(3));
      rule.reversed = source_.Below(4) == 3;
      loop->outputs.push_back(rule);
    }
    AddBounds(node, *loop);
    node.loop = std::move(loop);
  }

  void AddBounds(const Node& node, Loop& loop) {
    const auto some_input = [&] { return static_cast<int>(source_.Below(node.inputs.size())); };
    const uint8_t choice = source_.Byte();
    if ((choice & 1) != 0) {
      loop.trip_count_input = some_input();
    }
    if ((choice & 2) != 0) {
      loop.condition_input = some_input();
    }
    if ((choice & 4) != 0) {
      loop.condition_result = static_cast<int>(source_.Below(loop.body.results.size()));
    }
    loop.states_may_change_shape = (choice & 8) != 0;
    if ((choice & 16) != 0) {
      loop.items = static_cast<Loop::Items>(source_.Below(3));
      loop.lengths_input = (choice & 32) != 0 ? some_input() : -1;
    }
  }

  ByteSource& source_;
  int depth_;
  Graph graph_;
};

}  // namespace

RandomGraph MakeRandomGraph(ByteSource& source) {
  RandomGraph made;
  Grower grower(source, 0);
  for (size_t count = 1 + source.Below(4); count > 0; --count) {
    const DType dtype = kTypes[source.Below(kTypes.size())];
    const Shape shape = SmallShape(source);
    ValueInfo info;
    info.dtype = dtype;
    // Declared in full, without extents, or without a rank.
    const size_t known = source.Below(3);
    if (known == 0) {
      info.shape = PartialShape(shape);
    } else if (known == 1) {
      info.shape = PartialShape(Shape(shape.size(), PartialShape::kDynamic));
    }
    grower.AddParameter(info);
    made.inputs.push_back(SmallTensor(source, dtype, shape));
    const Shape other = known == 0 ? shape : SmallShape(source);
    made.other_inputs.push_back(SmallTensor(source, dtype, other));
  }
  grower.Grow(64);
  grower.AddResults(1 + source.Below(4));
  made.graph = grower.Take();
  return made;
}

}  // namespace beamwright::ops
