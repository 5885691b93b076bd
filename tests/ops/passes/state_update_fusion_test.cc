// Layers with a matrix as their state, as files spell them out: one node, which gives what they
// give to rounding, and whose rows stay apart; steps that write states in place give the same bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using testing_support::Sliced;
using Value = GraphBuilder::Value;

constexpr int64_t kHeads = 2;
constexpr int64_t kM = 6;
constexpr int64_t kN = 20;

enum class Form {
  kMamba2,        // mamba_ssm: Einsum with dt and decay by head
  kTransformers,  // dt and decay by element, a Reshape and a MatMul
  kRwkv7,         // state @ a b^T
  kGla,           // sums over products, keys first
  kDelta,         // transformers' recurrent gated delta rule
  kLoopBody,      // as LinearAttention is imported
  kMamba1,        // no heads, a decay for each element
  kRetNet,        // constants of fewer axes
};
constexpr Form kForms[] = {Form::kMamba2, Form::kTransformers, Form::kRwkv7,  Form::kGla,
                           Form::kDelta,  Form::kLoopBody,     Form::kMamba1, Form::kRetNet};

int64_t RowsOfMatrix(Form form) { return form == Form::kRwkv7 ? kN : kM; }
Shape StateShape(Form form, int64_t rows) {
  return form == Form::kMamba1 ? Shape{rows, kM, kN} : Shape{rows, kHeads, RowsOfMatrix(form), kN};
}

class Writer {
 public:
  explicit Writer(Form form) : form_(form) {}

  Graph Write() {
    x_ = g_.Parameter("x", DType::kF32, {-1, kWidth});
    state_ = g_.Parameter("state", DType::kF32, StateShape(form_, -1));
    Value next;
    Value read;
    switch (form_) {
      case Form::kMamba2: {
        const Value dt = Part({kHeads});
        const Value b = Part({kN});
        const Value u = Part({kHeads, kM});
        const Value decay = Op("Exp", {Op("Multiply", {dt, g_.Constant(Tensor::Scalar(-1.0f))})});
        const Value term = Einsum("bh,bn,bhp->bhpn", {dt, b, u});
        next = Op("Add", {Op("Multiply", {state_, Unsqueeze(decay, {2, 3})}), term});
        read = Einsum("bhpn,bn->bhp", {next, Part({kN})});
        break;
      }
      case Form::kTransformers: {
        const Value dt = Part({kHeads, kM, 1});
        Tensor a(DType::kF32, {kHeads, kM, kN});
        for (int64_t i = 0; i < a.num_elements(); ++i) {
          a.mutable_data<float>()[i] = -0.1f * static_cast<float>(1 + i / (kM * kN));
        }
        const Value factors = Op("Exp", {Op("Multiply", {dt, g_.Constant(a)})});
        const Value db = Op("Multiply", {dt, Part({1, 1, kN})});
        const Value term = Op("Multiply", {db, Part({kHeads, kM, 1})});
        next = Op("Add", {Op("Multiply", {state_, factors}), term});
        const Value query = Reshape(Part({kHeads, kN, 1}), {-1, kN, 1});
        read = Reshape(MatMul(Reshape(next, {-1, kM, kN}), query), {-1, kHeads, kM});
        break;
      }
      case Form::kRwkv7: {
        const Value ab = MatMul(Op("Negative", {Part({kHeads, kN, 1})}), Part({kHeads, 1, kN}));
        const Value vk = MatMul(Part({kHeads, kN, 1}), Part({kHeads, 1, kN}));
        const Value kept = Op("Multiply", {state_, Part({kHeads, 1, kN})});
        next = Op("Add", {Op("Add", {kept, MatMul(state_, ab)}), vk});
        read = MatMul(next, Part({kHeads, kN, 1}));
        break;
      }
      case Form::kGla: {
        const Value kept = Op("Multiply", {state_, Op("Exp", {Part({kHeads, kM, 1})})});
        const Value kv = Op("Multiply", {Part({kHeads, kM, 1}), Part({kHeads, 1, kN})});
        next = Op("Add", {kept, kv});
        read = Sum(Op("Multiply", {Part({kHeads, kM, 1}), next}), -2);
        break;
      }
      case Form::kDelta: {
        const Value kept = Op("Multiply", {state_, Op("Exp", {Part({kHeads, 1, 1})})});
        const Value k = Part({kHeads, kM});
        const Value known = Sum(Op("Multiply", {kept, Unsqueeze(k, {3})}), -2);
        const Value delta = Op("Multiply", {Op("Subtract", {Part({kHeads, kN}), known}),
                                            Op("Sigmoid", {Part({kHeads, 1})})});
        next = Op("Add", {kept, Op("Multiply", {Unsqueeze(k, {3}), Unsqueeze(delta, {2})})});
        read = Sum(Op("Multiply", {next, Part({kHeads, kM, 1})}), -2);
        break;
      }
      case Form::kLoopBody: {
        const Value kept = Op("Multiply", {state_, Op("Exp", {Part({kHeads, kM, 1})})});
        const Value k = Part({kHeads, kM, 1});
        const Value known = MatMul(k, kept, true);
        const Value added = Op("Multiply", {Op("Subtract", {Part({kHeads, 1, kN}), known}),
                                            Op("Sigmoid", {Part({1, 1, 1})})});
        next = Op("Add", {kept, Op("Multiply", {k, added})});
        read = MatMul(Part({kHeads, 1, kM}), next);
        break;
      }
      case Form::kRetNet: {
        const Value kept = Op("Multiply", {g_.Constant(Tensor::Scalar(0.9f)), state_});
        Tensor row(DType::kF32, {kN});
        std::fill_n(row.mutable_data<float>(), kN, 0.5f);
        const Value value = g_.Constant(row);
        next = Op("Add", {kept, Op("Multiply", {Part({kHeads, kM, 1}), value})});
        read = MatMul(Part({kHeads, 1, kM}), next);
        break;
      }
      case Form::kMamba1: {
        const Value dt = Op("Sigmoid", {Part({kM, 1})});
        const Value factors = Op("Exp", {Op("Multiply", {dt, Part({1, kN})})});
        const Value term = Op("Multiply", {Op("Multiply", {dt, Part({1, kN})}), Part({kM, 1})});
        next = Op("Add", {term, Op("Multiply", {factors, state_})});
        read = MatMul(next, Part({kN, 1}));
        break;
      }
    }
    g_.Result("read", read);
    g_.Result("next", next);
    return g_.Build();
  }

  static constexpr int64_t kWidth = 8;

 private:
  Value Op(const std::string& op, std::vector<Value> inputs) { return g_.Add(op, inputs); }
  Value MatMul(Value a, Value b, bool transposed = false) {
    return g_.Add("MatMul", {a, b}, {{"transpose_a", transposed}, {"transpose_b", false}});
  }
  Value Unsqueeze(Value x, std::vector<int64_t> axes) {
    return g_.Add("Unsqueeze", {x, g_.Ints(std::move(axes))});
  }
  Value Reshape(Value x, std::vector<int64_t> pattern) {
    return g_.Add("Reshape", {x, g_.Ints(std::move(pattern))}, {{"special_zero", true}});
  }
  Value Sum(Value x, int64_t axis) {
    return g_.Add("ReduceSum", {x, g_.Ints({axis})}, {{"keep_dims", false}});
  }
  Value Einsum(const char* equation, std::vector<Value> inputs) {
    return g_.Add("Einsum", std::move(inputs), {{"equation", std::string(equation)}});
  }
  // Something that follows from x, [rows, ..].
  Value Part(Shape shape) {
    Tensor weights(DType::kF32, {kWidth, NumElements(shape)});
    for (int64_t i = 0; i < weights.num_elements(); ++i) {
      weights.mutable_data<float>()[i] = std::uniform_real_distribution<float>(-1, 1)(random_);
    }
    shape.insert(shape.begin(), -1);
    return Reshape(MatMul(x_, g_.Constant(weights)), {shape.begin(), shape.end()});
  }

  const Form form_;
  GraphBuilder g_;
  std::mt19937 random_{1};
  Value x_;
  Value state_;
};

Tensor RandomOf(Shape shape, std::mt19937& random) {
  Tensor tensor(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  return tensor;
}

// The joined graph, inferred.
Graph Joined(Graph graph, GraphInfo& info) {
  absl::StatusOr<GraphInfo> inferred = InferGraph(graph, Operators());
  EXPECT_TRUE(inferred.ok()) << inferred.status();
  info = *std::move(inferred);
  PassContext context{Operators()};
  context.states = {{graph.parameters[1], graph.results[1]}};
  const absl::Status status = JoinStateUpdates(graph, info, context).status();
  EXPECT_TRUE(status.ok()) << status;
  return graph;
}

class StateUpdates : public ::testing::TestWithParam<Form> {};

TEST_P(StateUpdates, GiveWhatTheFileSpellsOut) {
  const Graph built = Writer(GetParam()).Write();
  GraphInfo info;
  const Graph joined = Joined(built, info);
  EXPECT_EQ(std::count_if(joined.nodes.begin(), joined.nodes.end(),
                          [](const Node& node) { return node.op == "StateUpdate"; }),
            1);
  for (const Node& node : joined.nodes) {
    // A decay that is the same along an axis is not computed for each element.
    EXPECT_FALSE(GetParam() == Form::kTransformers && node.op == "Exp" &&
                 node.outputs[0].shape.dims().back() == kN);
  }
  std::mt19937 random(5);
  for (const int64_t rows : {1, 3}) {
    const std::vector<Tensor> inputs = {RandomOf({rows, Writer::kWidth}, random),
                                        RandomOf(StateShape(GetParam(), rows), random)};
    const auto expected = RunAsItIs(built, inputs);
    const auto actual = RunAsItIs(joined, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(actual.ok()) << actual.status();
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ((*actual)[i].shape(), (*expected)[i].shape());
      for (int64_t j = 0; j < (*actual)[i].num_elements(); ++j) {
        const double wanted = (*expected)[i].data<float>()[j];
        ASSERT_NEAR((*actual)[i].data<float>()[j], wanted, 1e-4 * (1 + std::abs(wanted))) << i;
      }
    }
  }
}

// A search's steps: rows that end, join, and are continued several times over.
TEST_P(StateUpdates, InPlaceGiveTheSameBits) {
  GraphInfo info;
  auto loop = std::make_shared<Loop>();
  loop->body = Joined(Writer(GetParam()).Write(), info);
  LoopInput slice = Sliced(0, 0, 1);
  slice.drop_axis = true;
  loop->inputs = {slice, Carried(1, 1, 1)};
  const auto body = LoopBody::Compile(loop, info, Operators());
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE((*body)->plan().separable) << (*body)->plan().reason;
  ASSERT_TRUE((*body)->writes_in_place());
  LoopBody::RequestValues shared;
  ASSERT_TRUE((*body)->Bind(ExecutionContext(), {}, shared).ok());
  LoopBody::RequestValues* const request = &shared;
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  LoopBody::RowScratch copying;
  LoopBody::RowScratch in_place;
  std::vector<Tensor> copied(1);
  std::vector<Tensor> none(1);
  int old_rows = 0;
  for (int step = 0; step < 40; ++step) {
    std::vector<std::vector<Tensor>> first(static_cast<size_t>(pick(old_rows == 0 ? 1 : 0, 2)));
    std::vector<const std::vector<Tensor>*> starts;
    for (std::vector<Tensor>& states : first) {
      states = {RandomOf(StateShape(GetParam(), 1), random)};
      starts.push_back(&states);
    }
    std::vector<int32_t> parents(static_cast<size_t>(pick(1, 9)));
    for (int32_t& parent : parents) {
      parent = pick(0, old_rows + static_cast<int>(starts.size()) - 1);
    }
    const auto rows = static_cast<int>(parents.size());
    const Tensor x = RandomOf({rows, Writer::kWidth}, random);
    LoopBody::RowStep row_step{{&request, 1}, {&rows, 1}, parents, {&x, 1}, starts};
    ExecutionContext context;
    context.num_threads = 2;
    std::vector<Tensor> expected;
    std::vector<Tensor> results;
    absl::Status status = (*body)->StepRows(context, row_step, copying, copied, expected);
    ASSERT_TRUE(status.ok()) << status;
    row_step.in_place = true;
    status = (*body)->StepRows(context, row_step, in_place, none, results);
    ASSERT_TRUE(status.ok()) << status;
    testing_support::ExpectSameBits({results[0]}, {expected[0]});
    for (int row = 0; row < rows; ++row) {
      testing_support::ExpectSameBits((*body)->StatesOfRow(in_place, none, row),
                                      {copied[0].Rows(row, row + 1)});
    }
    old_rows = rows;
    if (step % 10 == 9) {
      in_place.ForgetPages();
      copied[0] = Tensor();
      old_rows = 0;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StateUpdates, ::testing::ValuesIn(kForms));

}  // namespace
}  // namespace beamwright::ops
