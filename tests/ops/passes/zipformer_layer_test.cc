// A layer as icefall's exporter writes a streaming zipformer: chunks of many streams are proven
// apart, and run together each gives the bits that it gives alone.
#include <random>

#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

constexpr int64_t kChunk = 4;
constexpr int64_t kPast = 3;
constexpr int64_t kKeys = kPast + kChunk;
constexpr int64_t kPlaces = kKeys + kChunk - 1;
constexpr int64_t kWidth = 6;
constexpr int64_t kHeads = 2;
constexpr int64_t kDepth = 3;  // of a head

Tensor Noise(Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0, 1);
  Tensor noise(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < noise.num_elements(); ++i) {
    noise.mutable_data<float>()[i] = value(random);
  }
  return noise;
}

// What the exporter writes of shapes, on a graph that grows.
class Exported {
 public:
  Value Extent(Value value, int64_t axis) {
    return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Int(axis), graph.Int(0)});
  }
  Value List(const std::vector<Value>& scalars) {
    std::vector<Value> parts;
    for (const Value scalar : scalars) {
      parts.push_back(graph.Add("Unsqueeze", {scalar, graph.Ints({0})}));
    }
    return graph.Add("Concat", std::move(parts), {{"axis", int64_t{0}}});
  }
  Value Reshape(Value data, const std::vector<Value>& scalars) {
    return graph.Add("Reshape", {data, List(scalars)}, {{"special_zero", false}});
  }
  Value Transpose(Value data, const std::vector<int64_t>& order) {
    return graph.Add("Transpose", {data, graph.Ints(order)});
  }
  Value MatMul(Value a, Value b) { return graph.Add("MatMul", {a, b}); }
  Value Range(Value start, Value stop, Value step) {
    return graph.Add("Range", {start, stop, step}, {{"output_type", std::string("i64")}});
  }

  // Scores [heads, rows, chunk, places] of the keys.
  Value Shifted(Value scores, Value keys) {
    const Value heads = Extent(scores, 0);
    const Value rows = Extent(scores, 1);
    const Value time = Extent(scores, 2);
    const Value down =
        Range(graph.Add("Subtract", {time, graph.Int(1)}), graph.Int(-1), graph.Int(-1));
    const Value tiled = graph.Add("Tile", {down, List({graph.Add("Multiply", {rows, heads})})});
    const Value indices = graph.Add("Add", {graph.Add("Unsqueeze", {tiled, graph.Ints({-1})}),
                                            Range(graph.Int(0), keys, graph.Int(1))});
    const Value picked =
        graph.Add("GatherElements", {Reshape(scores, {graph.Int(-1), Extent(scores, 3)}), indices},
                  {{"axis", int64_t{1}}});
    return Reshape(picked, {heads, rows, time, keys});
  }

  GraphBuilder graph;
};

// x [rows, chunk, width] and a past of keys [rows, past, width], as a served encoder has its
// states: rows first.
Graph Layer() {
  Exported add;
  GraphBuilder& graph = add.graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, kChunk, kWidth});
  const Value past = graph.Parameter("past", DType::kF32, {-1, kPast, kWidth});
  const Value chunk = add.Transpose(x, {1, 0, 2});
  const Value keys =
      graph.Add("Concat", {add.Transpose(past, {1, 0, 2}), chunk}, {{"axis", int64_t{0}}});
  const Value time = add.Extent(chunk, 0);
  const Value rows = add.Extent(chunk, 1);
  const Value num_keys = add.Extent(keys, 0);
  const auto heads = [&](Value value, Value extent) {
    return add.Reshape(value, {extent, rows, graph.Int(kHeads), graph.Int(kDepth)});
  };
  const Value queries = add.Transpose(heads(chunk, time), {2, 1, 0, 3});
  const Value content = add.MatMul(queries, add.Transpose(heads(keys, num_keys), {2, 1, 3, 0}));
  const Value places = add.MatMul(queries, graph.Constant(Noise({kHeads, 1, kDepth, kPlaces}, 1)));
  const Value scores = graph.Add("Add", {content, add.Shifted(places, num_keys)});
  const Value weights = graph.Add("SoftMax", {scores}, {{"axis", int64_t{-1}}});
  const Value values = add.Transpose(heads(keys, num_keys), {2, 1, 0, 3});
  const Value read = add.Transpose(add.MatMul(weights, values), {2, 1, 0, 3});
  const Value joined = add.Reshape(read, {time, rows, graph.Int(kWidth)});
  // Wider by zeros, then every two steps become one.
  const Value zeros = graph.Add(
      "Broadcast",
      {graph.Constant(Tensor::Scalar(0.0f)),
       add.List({time, rows, graph.Add("Subtract", {graph.Int(8), add.Extent(joined, 2)})})});
  const Value wide = graph.Add("Concat", {joined, zeros}, {{"axis", int64_t{-1}}});
  const Value half = graph.Add("Divide", {add.Extent(wide, 0), graph.Int(2)});
  const Value pairs =
      add.Reshape(wide, {half, graph.Int(2), add.Extent(wide, 1), add.Extent(wide, 2)});
  const Value less = graph.Add("ReduceSum", {pairs, graph.Ints({1})}, {{"keep_dims", false}});
  graph.Result("y", add.Transpose(less, {1, 0, 2}));
  graph.Result("new_past",
               add.Transpose(graph.Add("Slice", {keys, graph.Ints({-kPast}), graph.Ints({1 << 30}),
                                                 graph.Ints({1}), graph.Ints({0})}),
                             {1, 0, 2}));
  return graph.Build();
}

TEST(ZipformerLayer, ChunksOfManyStreamsGiveTheBitsThatEachGivesAlone) {
  constexpr int64_t kRows = 5;
  RowProof proof;
  const auto model = Model::Compile(Layer(), Precision::kF32, {0, -1}, proof);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(proof.separable) << proof.reason;
  EXPECT_EQ(proof.result_axes, std::vector<int>({0, 0}));
  const std::vector<Tensor> inputs = {Noise({kRows, kChunk, kWidth}, 2),
                                      Noise({kRows, kPast, kWidth}, 3)};
  std::vector<Tensor> together;
  ASSERT_TRUE((*model)->Run(ExecutionContext(), inputs, together).ok());
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<Tensor> alone;
    ASSERT_TRUE(
        (*model)
            ->Run(ExecutionContext(),
                  std::vector<Tensor>{inputs[0].Rows(row, row + 1), inputs[1].Rows(row, row + 1)},
                  alone)
            .ok());
    testing_support::ExpectSameBits(
        {together[0].Rows(row, row + 1), together[1].Rows(row, row + 1)}, alone);
  }
}

}  // namespace
}  // namespace beamwright::ops
