// What is proven of whole graphs, and what is said where nothing is. That proofs hold is shown with
// engines and many sources (tests/engine/encoder_batching_test.cc).
#include "ops/compile/row_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ops/loop/model.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::GraphBuilder;

Tensor CountingUp(Shape shape) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + tensor.num_elements(),
            1.0f);
  return tensor;
}

RowProof Prove(Graph graph, const RowInputs& inputs = {0, -1}) {
  RowProof proof;
  const auto model = Model::Compile(std::move(graph), Precision::kF32, inputs, proof);
  EXPECT_TRUE(model.ok()) << model.status();
  return proof;
}

TEST(RowProof, TellsWhereResultsCountRows) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  graph.Result("same", graph.Add("Tanh", {x}));
  graph.Result("time_first", graph.Add("Transpose", {x, graph.Ints({1, 0, 2})}));
  graph.Result("time",
               graph.Add("Gather", {graph.Add("ShapeOf", {x}), graph.Int(1), graph.Int(0)}));
  const RowProof proof = Prove(graph.Build());
  EXPECT_TRUE(proof.separable) << proof.reason;
  EXPECT_THAT(proof.result_axes, ElementsAre(0, 1, -1));
}

TEST(RowProof, NamesTheFirstNodeThatMixesRows) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, 4});
  const auto most = graph.Add("ReduceMax", {x, graph.Ints({0})}, {{"keep_dims", true}}, "loudest");
  const auto y = graph.Add("Subtract", {x, most}, {}, "difference");
  graph.Result("y", graph.Add("Tanh", {y}, {}, "tanh"));
  const RowProof proof = Prove(graph.Build());
  EXPECT_FALSE(proof.separable);
  EXPECT_EQ(proof.reason, "rows of ReduceMax 'loudest' cannot be separated");
}

TEST(RowProof, NamesWhatIsInsideALoop) {
  GraphBuilder body;
  const auto slice = body.Parameter("slice", DType::kF32, {-1, 1});
  body.Result("part", body.Add("SoftMax", {slice}, {{"axis", int64_t{0}}}, "over rows"));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1)};
  loop.outputs = {testing_support::Joined(0, 0, 1)};
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1});
  graph.Result("y", graph.Loop({x}, std::move(loop), 1));
  EXPECT_EQ(Prove(graph.Build()).reason,
            "in the body of Loop 'loop': rows of SoftMax 'over rows' cannot be separated");
}

TEST(RowProof, ABatchThatTheFileFixesIsNoProof) {
  GraphBuilder graph;
  graph.Result("y", graph.Add("Tanh", {graph.Parameter("x", DType::kF32, {2, -1})}));
  EXPECT_THAT(Prove(graph.Build()).reason, HasSubstr("input 'x' is declared"));
}

// A layer [1, time, 4] whose first state is a constant of one row, as exports for a batch of 1 have
// it, and a Reshape that says 1.
Graph ForOneRow() {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {-1, 4});
  const auto h = body.Parameter("h", DType::kF32, {-1, 4});
  const auto next = body.Add("Tanh", {body.Add("Add", {x, h})});
  body.Result("next", next);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 0)};
  loop.inputs[0].drop_axis = true;
  loop.outputs = {testing_support::Last(0, 0)};
  loop.outputs[0].kind = LoopOutput::Kind::kStacked;
  loop.outputs[0].axis = 1;
  GraphBuilder graph;
  const auto source = graph.Parameter("source", DType::kF32, {1, -1, 4});
  const auto start = graph.Constant(Tensor::Of<float>({1, 4}, std::vector<float>{1, 2, 3, 4}));
  const auto y = graph.Loop({source, start}, std::move(loop), 1);
  graph.Result("y", graph.Add("Reshape", {y, graph.Ints({1, -1, 2, 2})}, {{"special_zero", true}}));
  return graph.Build();
}

TEST(RowProof, ABatchOfOneIsOpened) {
  RowProof proof;
  const auto opened = Model::Compile(ForOneRow(), Precision::kF32, {0, -1}, proof);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(proof.separable) << proof.reason;
  const auto as_it_is = Model::Compile(ForOneRow());
  ASSERT_TRUE(as_it_is.ok()) << as_it_is.status();
  std::vector<float> values(2 * 3 * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1f * static_cast<float>(i) - 1;
  }
  const std::vector<Tensor> both = {Tensor::Of<float>({2, 3, 4}, values)};
  std::vector<Tensor> together;
  ASSERT_TRUE((*opened)->Run(ExecutionContext(), both, together).ok());
  ASSERT_EQ(together[0].shape(), Shape({2, 3, 2, 2}));
  for (int64_t row = 0; row < 2; ++row) {
    std::vector<Tensor> alone;
    ASSERT_TRUE((*as_it_is)->Run(ExecutionContext(), {{both[0].Rows(row, row + 1)}}, alone).ok());
    EXPECT_THAT(together[0].Rows(row, row + 1).span<float>(),
                ::testing::ElementsAreArray(alone[0].span<float>()));
  }
}

TEST(RowProof, ABatchOfOneThatHidesWhatMixesRowsStays) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {1, -1});
  const auto most = graph.Add("ReduceMax", {x, graph.Ints({0})}, {{"keep_dims", true}}, "loudest");
  graph.Result("y", graph.Add("Subtract", {x, most}));
  EXPECT_EQ(
      Prove(graph.Build()).reason,
      "input 'x' is declared [1, ?], for 1 row alone, and it can't be opened to more: rows of "
      "ReduceMax 'loudest' cannot be separated");
}

TEST(RowProof, ANumberOfRowsThatTheFileDeclaresOnTheWayIsNoProof) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, 4});
  const auto y = graph.Add("Tanh", {x}, {}, "tanh");
  Graph built = graph.Build();
  built.node(y.node).outputs[0].shape = PartialShape({1, 4});
  GraphBuilder more(std::move(built));
  more.Result("y", more.Add("Exp", {y}));
  EXPECT_EQ(Prove(more.Build()).reason, "the file declares a number of rows for Tanh 'tanh'");
}

TEST(RowProof, AResultPerSeveralRowsIsNone) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, 6});
  graph.Result("y", graph.Add("Reshape", {x, graph.Ints({-1, 3})}, {{"special_zero", false}}));
  EXPECT_EQ(Prove(graph.Build()).reason, "output 'y' has no axis that counts rows");
}

// The longest of lengths that all are the time axis is no matter of rows; that of others is.
TEST(RowProof, LengthsMayBeTheTimeAxis) {
  const auto encoder = [](bool has_lists = false) {
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1, -1});
    const auto lengths =
        graph.Parameter("lengths", DType::kI64, has_lists ? Shape{-1, -1} : Shape{-1});
    const auto longest =
        graph.Add("ReduceMax", {lengths, has_lists ? graph.Ints({0, 1}) : graph.Ints({0})},
                  {{"keep_dims", false}}, "longest");
    const auto places = graph.Add("Range", {graph.Int(0), longest, graph.Int(1)},
                                  {{"output_type", std::string("f32")}});
    graph.Result("y", graph.Add("Add", {x, places}));
    return graph.Build();
  };
  const RowProof proof = Prove(encoder(), {0, 1});
  EXPECT_TRUE(proof.separable) << proof.reason;
  EXPECT_THAT(Prove(encoder()).reason, HasSubstr("longest"));
  // Of several numbers for each row nothing is known.
  EXPECT_THAT(Prove(encoder(/*has_lists=*/true), {0, 1}).reason, HasSubstr("longest"));
}

// What each row is computed to with others, and by itself.
void ExpectAloneAsTogether(const Graph& graph, const Tensor& source) {
  RowProof proof;
  const auto model = Model::Compile(graph, Precision::kF32, {0, -1}, proof);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(proof.separable) << proof.reason;
  std::vector<Tensor> together;
  const absl::Status status = (*model)->Run(ExecutionContext(), {{source}}, together);
  ASSERT_TRUE(status.ok()) << status;
  for (int64_t row = 0; row < source.dim(0); ++row) {
    std::vector<Tensor> alone;
    ASSERT_TRUE((*model)->Run(ExecutionContext(), {{source.Rows(row, row + 1)}}, alone).ok());
    testing_support::ExpectSameBits({together[0].Rows(row, row + 1)}, alone);
  }
}

// A graph that computes patterns of its own extents.
class Traced : public GraphBuilder {
 public:
  Value ExtentOf(Value value, int64_t axis) {
    return Add("Gather", {Add("ShapeOf", {value}), Ints({axis}), Int(0)});
  }
  Value Reshape(Value value, std::vector<Value> extents) {
    const Value pattern = Add("Concat", std::move(extents), {{"axis", int64_t{0}}});
    return Add("Reshape", {value, pattern}, {{"special_zero", false}}, "reshaped");
  }
};

// Transformer-XL's shift, as NeMo and ESPnet are traced: a place more in front of each step's, the
// axes the other way round, and the first of them dropped.
TEST(RowProof, ShiftedPlacesOfARowStayItsOwn) {
  Traced graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  const auto rows = graph.ExtentOf(x, 0);
  const auto time = graph.ExtentOf(x, 1);
  const auto scores = graph.Add("MatMul", {x, x}, {{"transpose_b", true}});
  const auto padded = graph.Add("Pad", {scores, graph.Ints({0, 0, 1}), graph.Ints({0, 0, 0})},
                                {{"pad_mode", std::string("constant")}});
  const auto turned = graph.Reshape(padded, {rows, graph.Ints({-1}), time});
  const auto shifted = graph.Add(
      "Slice", {turned, graph.Ints({1}), graph.Ints({1 << 30}), graph.Ints({1}), graph.Ints({1})});
  graph.Result("y", graph.Reshape(shifted, {rows, time, time}));
  ExpectAloneAsTogether(graph.Build(), CountingUp({3, 5, 4}));
}

TEST(RowProof, ReshapesThatMixRowsAreNone) {
  const auto turned = [](bool has_time_first) {
    Traced graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
    const auto rows = graph.ExtentOf(x, 0);
    const auto time = graph.ExtentOf(x, 1);
    const auto t = graph.Add("Transpose", {x, graph.Ints({1, 0, 2})});
    graph.Result("y", has_time_first
                          ? graph.Reshape(t, {time, rows, graph.Ints({2}), graph.Ints({-1})})
                          : graph.Reshape(t, {rows, graph.Ints({2}), time, graph.Ints({-1})}));
    return Prove(graph.Build());
  };
  EXPECT_THAT(turned(false).reason, HasSubstr("'reshaped'"));
  EXPECT_TRUE(turned(true).separable) << turned(true).reason;
}

}  // namespace
}  // namespace beamwright::ops
