// What graphs compute about their own shapes, folded: the graph before and after give the same on
// shapes of all kinds, and what was to become constant did.

#include <algorithm>
#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/decoder/target_loop.h"
#include "ops/import/recurrent_sequence.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

constexpr int64_t kWidth = 4;

Tensor RandomFloats(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  std::generate(values.begin(), values.end(), [&] { return value(random); });
  return Tensor::Of<float>(shape, values);
}

// Extents of `value`: [rank] i64.
Value ShapeOf(GraphBuilder& graph, Value value) { return graph.Add("ShapeOf", {value}); }
// One extent as a scalar, or as a list of one.
Value Extent(GraphBuilder& graph, Value value, int64_t axis, bool as_list) {
  const Value index = as_list ? graph.Ints({axis}) : graph.Int(axis);
  return graph.Add("Gather", {ShapeOf(graph, value), index, graph.Int(0)});
}
Value Concat(GraphBuilder& graph, std::vector<Value> values) {
  return graph.Add("Concat", std::move(values), {{"axis", int64_t{0}}});
}
Value Reshape(GraphBuilder& graph, Value data, Value pattern, bool special_zero = false) {
  return graph.Add("Reshape", {data, pattern}, {{"special_zero", special_zero}}, "reshaped");
}

struct Folded {
  Graph graph;
  GraphInfo info;
};

Folded Fold(const Graph& graph, const std::vector<int>& row_axes = {}) {
  Folded folded{graph, {}};
  absl::StatusOr<GraphInfo> info = InferGraph(folded.graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  folded.info = *std::move(info);
  const absl::Status status =
      FoldShapes(folded.graph, folded.info, {Operators(), row_axes}).status();
  EXPECT_TRUE(status.ok()) << status;
  return folded;
}

const Node& Named(const Graph& graph, const std::string& name) {
  const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.name == name && node.op != "Constant";
  });
  EXPECT_NE(at, graph.nodes.end()) << name;
  return *at;
}

// The constant pattern of the Reshape; empty if it is computed.
std::vector<int64_t> Pattern(const Folded& folded) {
  const Node& node = Named(folded.graph, "reshaped");
  const Tensor& pattern = folded.info.constants[static_cast<size_t>(node.inputs[1].node)][0];
  return pattern.has_value() ? *ToInt64(pattern) : std::vector<int64_t>();
}

void ExpectSame(const Graph& a, const Graph& b, const std::vector<Tensor>& inputs) {
  const auto from_a = RunAsItIs(a, inputs);
  const auto from_b = RunAsItIs(b, inputs);
  ASSERT_TRUE(from_a.ok()) << from_a.status();
  ASSERT_TRUE(from_b.ok()) << from_b.status();
  testing_support::ExpectSameBits(*from_b, *from_a);
}

TEST(FoldShapes, ATargetOfExtentsKeepsThemByZero) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value y = graph.Add("Tanh", {x});
  graph.Result("r", Reshape(graph, y,
                            Concat(graph, {Extent(graph, x, 0, true), Extent(graph, y, 1, true),
                                           graph.Ints({2, 2})})));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_THAT(Pattern(folded), ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(folded.graph.nodes.size(), 5u);  // the arithmetic is gone
  for (const Shape& shape : {Shape{3, 5, kWidth}, Shape{1, 1, kWidth}, Shape{0, 2, kWidth}}) {
    ExpectSame(built, folded.graph, {RandomFloats(shape, 1)});
  }
}

TEST(FoldShapes, OneExtentThatIsNotTheDatasFollowsFromTheRest) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, kWidth});
  const Value other = graph.Parameter("other", DType::kF32, {-1});
  graph.Result(
      "r", Reshape(graph, x, Concat(graph, {Extent(graph, other, 0, true), graph.Ints({2, 2})})));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_THAT(Pattern(folded), ElementsAre(0, 2, 2));
  ExpectSame(built, folded.graph, {RandomFloats({3, kWidth}, 1), RandomFloats({3}, 2)});
}

// view(memory.size(0), 1, 2, -1) of a query: a -1 is there already, so the first extent must be the
// data's, and it is only where both are rows of one search.
TEST(FoldShapes, ASearchsRowsAreOne) {
  GraphBuilder graph;
  const Value h = graph.Parameter("h", DType::kF32, {-1, kWidth});
  const Value memory = graph.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  graph.Result(
      "r",
      Reshape(graph, h, Concat(graph, {Extent(graph, memory, 0, true), graph.Ints({1, 2, -1})})));
  const Graph built = graph.Build();
  EXPECT_THAT(Pattern(Fold(built)), ElementsAre());
  EXPECT_THAT(Pattern(Fold(built, {0, 0})), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(Pattern(Fold(built, {0, 1})), ElementsAre());
}

// Whatever the memory's batch is, the number of elements shows that it is the data's.
TEST(FoldShapes, WhatIsOpenMayTurnOutToBeTheDatas) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value memory = graph.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  graph.Result("r", Reshape(graph, x,
                            Concat(graph, {Extent(graph, memory, 0, true),
                                           Extent(graph, x, 1, true), graph.Ints({2, 2})})));
  EXPECT_THAT(Pattern(Fold(graph.Build())), ElementsAre(0, 0, 2, 2));
}

// PyTorch's multi-head attention, time first: view(length, batch * heads, width / heads).
TEST(FoldShapes, ProductsOfExtents) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});  // [time, batch, width]
  const Value heads = graph.Add("Multiply", {Extent(graph, x, 1, false), graph.Int(2)});
  const Value split =
      Reshape(graph, x,
              Concat(graph, {Extent(graph, x, 0, true),
                             graph.Add("Unsqueeze", {heads, graph.Ints({0})}), graph.Ints({-1})}));
  graph.Result("r", split);
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_THAT(Pattern(folded), ElementsAre(0, -1, 2));
  ExpectSame(built, folded.graph, {RandomFloats({5, 3, kWidth}, 1)});
}

// The projection behind it: view(time * batch, width), a product, view(time, batch, width).
TEST(FoldShapes, LayersOnJoinedAxesWorkOnTheAxesApart) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value joined =
      graph.Add("Multiply", {Extent(graph, x, 0, true), Extent(graph, x, 1, true)});
  const Value flat = Reshape(graph, x, Concat(graph, {joined, graph.Ints({kWidth})}));
  const Value product =
      graph.Add("MatMul", {flat, graph.Constant(RandomFloats({kWidth, 6}, 1))}, {}, "product");
  const Value sum = graph.Add("Add", {graph.Constant(RandomFloats({6}, 2)), product});
  const Value target =
      Concat(graph, {Extent(graph, x, 0, true), Extent(graph, x, 1, true), graph.Ints({6})});
  graph.Result("r", graph.Add("Reshape", {sum, target}, {{"special_zero", false}}, "apart"));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_THAT(Pattern(folded), ElementsAre(0, 0, kWidth));
  EXPECT_EQ(Named(folded.graph, "product").outputs[0].shape.rank(), 3);
  for (const Shape& shape : {Shape{3, 5, kWidth}, Shape{1, 1, kWidth}, Shape{2, 1, kWidth}}) {
    ExpectSame(built, folded.graph, {RandomFloats(shape, 3)});
  }
}

// A layer of width 6 on the joined first two axes, whose result is reshaped into these axes and
// `rest`: the layer's result has them apart.
void ExpectLayerComesApart(const std::vector<int64_t>& rest) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value flat = Reshape(graph, x, graph.Ints({-1, kWidth}));
  const Value product =
      graph.Add("MatMul", {flat, graph.Constant(RandomFloats({kWidth, 6}, 1))}, {}, "product");
  const Value target =
      Concat(graph, {Extent(graph, x, 0, true), Extent(graph, x, 1, true), graph.Ints(rest)});
  graph.Result("r", graph.Add("Reshape", {product, target}, {{"special_zero", false}}, "apart"));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_EQ(Named(folded.graph, "product").outputs[0].shape.rank(), 3);
  for (const Shape& shape : {Shape{3, 5, kWidth}, Shape{1, 1, kWidth}, Shape{2, 1, kWidth}}) {
    ExpectSame(built, folded.graph, {RandomFloats(shape, 3)});
  }
}

// The layer's width comes apart too, into heads: [time * batch, heads * depth] becomes
// [time, batch, heads, depth, 1], as tf2onnx writes an Einsum.
TEST(FoldShapes, TheWidthOfALayerOnJoinedAxesMayComeApart) { ExpectLayerComesApart({2, 3, 1}); }

// The last extent of crnn.pytorch's view(time, batch, -1) is the layer's width.
TEST(FoldShapes, TheWidthOfALayerOnJoinedAxesMayBeLeftOpen) { ExpectLayerComesApart({-1}); }

// PyTorch's dynamo exporter counts the columns that convolutions and pooling leave of a picture as
// width // 4 + 1; the data has as many.
TEST(FoldShapes, ColumnsThatAreCountedFromAPicturesWidthAreItsOwn) {
  GraphBuilder graph;
  const Value picture = graph.Parameter("picture", DType::kF32, {-1, 1, 4, -1});
  const auto window = [](int64_t stride, int64_t pad) {
    return std::vector<std::pair<std::string, AttributeValue>>{
        {"strides", std::vector<int64_t>{2, stride}},
        {"pads_begin", std::vector<int64_t>{0, pad}},
        {"pads_end", std::vector<int64_t>{0, pad}},
        {"kernel", std::vector<int64_t>{2, 2}},
        {"rounding_type", std::string("floor")}};
  };
  const auto pool = [&](Value value, int64_t pad) {
    return graph.Add("MaxPool", {value}, window(2, pad), "", 2);
  };
  const Value half =
      graph.Add("Convolution", {picture, graph.Constant(RandomFloats({kWidth, 1, 3, 3}, 5))},
                {{"strides", std::vector<int64_t>{1, 1}},
                 {"pads_begin", std::vector<int64_t>{1, 1}},
                 {"pads_end", std::vector<int64_t>{1, 1}},
                 {"dilations", std::vector<int64_t>{1, 1}}});
  const Value quarter = pool(pool(half, 0), 0);
  const Value wider =
      graph.Add("Convolution", {quarter, graph.Constant(RandomFloats({kWidth, kWidth, 1, 2}, 6))},
                {{"strides", std::vector<int64_t>{1, 1}},
                 {"pads_begin", std::vector<int64_t>{0, 1}},
                 {"pads_end", std::vector<int64_t>{0, 1}},
                 {"dilations", std::vector<int64_t>{1, 1}}});
  const Value columns = graph.Add(
      "Transpose", {graph.Add("Squeeze", {wider, graph.Ints({2})}), graph.Ints({2, 0, 1})});
  const Value count = graph.Add(
      "Add", {graph.Int(1), graph.Add("Divide", {Extent(graph, picture, 3, false), graph.Int(4)})});
  const Value flat = Reshape(graph, columns, graph.Ints({-1, kWidth}));
  const Value product =
      graph.Add("MatMul", {flat, graph.Constant(RandomFloats({kWidth, 6}, 1))}, {}, "product");
  const Value target = Concat(graph, {graph.Add("Reshape", {count, graph.Ints({-1})}),
                                      Extent(graph, picture, 0, true), graph.Ints({-1})});
  graph.Result("r", graph.Add("Reshape", {product, target}, {{"special_zero", false}}, "apart"));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_EQ(Named(folded.graph, "product").outputs[0].shape.rank(), 3);
  for (const int64_t width : {4, 9, 14, 19}) {
    ExpectSame(built, folded.graph, {RandomFloats({3, 1, 4, width}, 3)});
  }
}

// Joined otherwise than they come apart: nothing is moved.
TEST(FoldShapes, AxesThatComeApartOtherwiseStayJoined) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value flat = Reshape(graph, x, graph.Ints({-1, kWidth}));
  const Value sum = graph.Add("Add", {flat, graph.Constant(RandomFloats({kWidth}, 2))}, {}, "sum");
  const Value turned =
      Concat(graph, {Extent(graph, x, 1, true), Extent(graph, x, 0, true), graph.Ints({kWidth})});
  graph.Result("r", graph.Add("Reshape", {sum, turned}, {{"special_zero", false}}));
  const Graph built = graph.Build();
  ExpectSame(built, Fold(built).graph, {RandomFloats({3, 5, kWidth}, 3)});
}

TEST(FoldShapes, NumbersAreConstants) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, kWidth});
  const Value width = graph.Add("Convert", {Extent(graph, x, 1, false)},
                                {{"destination_type", std::string("f32")}});
  graph.Result("r", graph.Add("Divide", {x, graph.Add("Sqrt", {width})}, {}, "divided"));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  const Node& divide = Named(folded.graph, "divided");
  const Tensor& root = folded.info.constants[static_cast<size_t>(divide.inputs[1].node)][0];
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(*root.data<float>(), 2);
  ExpectSame(built, folded.graph, {RandomFloats({3, kWidth}, 1)});
}

// The larger of two extents, which exporters write where they are to agree: known where they do.
TEST(FoldShapes, TheLargerOfEqualExtents) {
  for (const int64_t other : {0, 1}) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
    const Value larger = graph.Add(
        "Maximum", {Extent(graph, graph.Add("Tanh", {x}), 0, true), Extent(graph, x, other, true)});
    graph.Result("r", Reshape(graph, x, Concat(graph, {larger, graph.Ints({-1})})));
    const Graph built = graph.Build();
    const Folded folded = Fold(built);
    EXPECT_EQ(Pattern(folded).empty(), other != 0);
    ExpectSame(built, folded.graph, {RandomFloats({5, 3, kWidth}, 1)});
  }
}

// A list of all steps in order is what is written; one of other places is not.
TEST(FoldShapes, WhatIsWrittenOverGoes) {
  const std::vector<std::vector<int64_t>> lists = {{0, 1, 2}, {0, 2, 1}, {0, 1, 1}, {0, 1}};
  for (const std::vector<int64_t>& places : lists) {
    const auto count = static_cast<int64_t>(places.size());
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {-1, 3});
    const Value updates = graph.Parameter("updates", DType::kF32, {-1, count});
    const Value widened =
        graph.Add("Broadcast", {x, ShapeOf(graph, x)}, {{"mode", std::string("numpy")}});
    graph.Result("r",
                 graph.Add("ScatterUpdate", {widened, graph.Ints(places), updates, graph.Int(-1)}));
    const Graph built = graph.Build();
    const Folded folded = Fold(built);
    const auto left = std::count_if(folded.graph.nodes.begin(), folded.graph.nodes.end(),
                                    [](const Node& node) { return node.op == "ScatterUpdate"; });
    EXPECT_EQ(left, places == lists[0] ? 0 : 1);
    ExpectSame(built, folded.graph, {RandomFloats({5, 3}, 1), RandomFloats({5, count}, 2)});
  }
}

TEST(FoldShapes, BroadcastsToExtentsOfTheData) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 1, kWidth});
  const Value target =
      Concat(graph, {Extent(graph, x, 0, true), graph.Ints({3}), Extent(graph, x, 2, true)});
  graph.Result("r", graph.Add("Broadcast", {x, target}, {{"mode", std::string("numpy")}}));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_EQ(folded.graph.nodes.size(), 4u);
  ExpectSame(built, folded.graph, {RandomFloats({2, 1, kWidth}, 1)});
}

// torch.expand's own idiom: where(shape == -1, 1, shape).
TEST(FoldShapes, ExtentsArePickedByWhetherTheyAreMinusOne) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 1, kWidth});
  const Value target = Concat(graph, {Extent(graph, x, 0, true), graph.Ints({3, -1})});
  const Value open = graph.Add("Equal", {target, graph.Int(-1)});
  const Value picked = graph.Add("Select", {open, graph.Ints({1, 1, 1}), target});
  graph.Result("r", graph.Add("Broadcast", {x, picked}, {{"mode", std::string("bidirectional")}}));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_EQ(folded.graph.nodes.size(), 4u);
  for (const int64_t rows : {2, 1}) {
    ExpectSame(built, folded.graph, {RandomFloats({rows, 1, kWidth}, 1)});
  }
}

// What tf2onnx makes of Keras' bidirectional layers. A length of another axis, or of a part, stays.
TEST(FoldShapes, ReversalsOfTheWholeAxisNeedNoLengths) {
  for (const bool time_first : {true, false}) {
    const int64_t time = time_first ? 0 : 1;
    for (const int64_t length_of : {0, 1}) {
      for (const int64_t less : {0, 1}) {
        GraphBuilder graph;
        const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
        const Value extent = Extent(graph, x, length_of, true);
        const Value length =
            less > 0 ? graph.Add("Subtract", {extent, graph.Ints({less})}) : extent;
        const Value lengths = graph.Add("Broadcast", {length, Extent(graph, x, 1 - time, true)},
                                        {{"mode", std::string("bidirectional")}});
        graph.Result("r", graph.Add("ReverseSequence", {x, lengths},
                                    {{"batch_axis", 1 - time}, {"seq_axis", time}}));
        const Graph built = graph.Build();
        const Folded folded = Fold(built);
        const bool whole = length_of == time && less == 0;
        EXPECT_EQ(std::any_of(folded.graph.nodes.begin(), folded.graph.nodes.end(),
                              [](const Node& node) { return node.op == "ReverseSequence"; }),
                  !whole);
        ExpectSame(built, folded.graph, {RandomFloats({3, 3, kWidth}, 1)});
        if (whole) {
          ExpectSame(built, folded.graph, {RandomFloats({2, 5, kWidth}, 1)});
        }
      }
    }
  }
}

// An integer that a request gives may be -1, or may not.
TEST(FoldShapes, WhatIsGivenMayBeMinusOne) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {1});
  const Value given = graph.Parameter("given", DType::kI64, {1});
  const Value open = graph.Add("Equal", {given, graph.Int(-1)});
  const Value picked = graph.Add("Select", {open, graph.Ints({2}), graph.Ints({3})});
  graph.Result("r", graph.Add("Broadcast", {x, picked}, {{"mode", std::string("bidirectional")}}));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  for (const int64_t value : {-1, 3}) {
    ExpectSame(built, folded.graph,
               {RandomFloats({1}, 1), Tensor::Of<int64_t>({1}, std::vector<int64_t>{value})});
  }
}

TEST(FoldShapes, ASliceOfAllGoes) {
  for (const int64_t start : {0, 1}) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {-1, -1, kWidth});
    const Value stops = Concat(graph, {Extent(graph, x, 1, true), Extent(graph, x, 0, true)});
    const Value y = graph.Add("Tanh", {x});
    const Value slice = graph.Add(
        "Slice", {y, graph.Ints({start, 0}), stops, graph.Ints({1, 1}), graph.Ints({1, -3})}, {},
        "slice");
    graph.Result("r", slice);
    const Graph built = graph.Build();
    const Folded folded = Fold(built);
    EXPECT_EQ(folded.graph.nodes.size() == 3, start == 0);
    for (const Shape& shape : {Shape{3, 5, kWidth}, Shape{5, 3, kWidth}, Shape{1, 1, kWidth}}) {
      ExpectSame(built, folded.graph, {RandomFloats(shape, 1)});
    }
  }
}

// Of lists that are computed from extents, the lengths are compared when the Slice runs.
TEST(FoldShapes, ASliceWithListsOfDifferentLengthsStays) {
  for (int longer = 0; longer < 3; ++longer) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {-1, -1});
    const auto list = [&](int place) {
      const Value extent = Extent(graph, x, 0, true);
      return place == longer ? Concat(graph, {extent, extent}) : extent;
    };
    graph.Result("r", graph.Add("Slice", {x, list(0), list(1), list(2), graph.Ints({0})}, {}));
    const Graph built = graph.Build();
    const Folded folded = Fold(built);
    const auto ran = RunAsItIs(folded.graph, {RandomFloats({1, 3}, 1)});
    EXPECT_THAT(ran.status().message(), HasSubstr("2 elements, expected 1"));
  }
}

// A pattern that a request gives stays as it is: it may hold -1 and 0.
TEST(FoldShapes, PatternsOfTheInputStay) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, kWidth});
  const Value pattern = graph.Parameter("pattern", DType::kI64, {2});
  const Value y = Reshape(graph, x, pattern, true);
  // What y's extents are follows from the run alone.
  graph.Result(
      "r", graph.Add("Convert", {ShapeOf(graph, y)}, {{"destination_type", std::string("f32")}}));
  const Graph built = graph.Build();
  const Folded folded = Fold(built);
  EXPECT_THAT(Pattern(folded), ElementsAre());
  for (const auto& wanted : {std::vector<int64_t>{-1, 2}, {0, 4}, {2, 4}}) {
    ExpectSame(built, folded.graph,
               {RandomFloats({2, kWidth}, 1), Tensor::Of<int64_t>({2}, wanted)});
  }
}

// Exported for one row: what is written for it holds for each of many, if a search asks.
TEST(FoldShapes, ABatchOfOneIsOpenedForASearch) {
  GraphBuilder graph;
  const Value h = graph.Parameter("h", DType::kF32, {1, kWidth});
  const Value split = Reshape(graph, graph.Add("Tanh", {h}), graph.Ints({1, 1, 2, -1}));
  const Value turned = graph.Add("Transpose", {split, graph.Ints({0, 2, 1, 3})});
  graph.Result("r", graph.Add("Reshape", {turned, graph.Ints({1, kWidth})},
                              {{"special_zero", false}}, "joined"));
  const Graph built = graph.Build();
  EXPECT_THAT(Pattern(Fold(built)), ElementsAre(1, 1, 2, -1));
  const Folded folded = Fold(built, {0});
  EXPECT_THAT(Pattern(folded), ElementsAre(0, 1, 2, 2));
  const Tensor rows = RandomFloats({3, kWidth}, 1);
  const auto together = RunAsItIs(folded.graph, {rows});
  ASSERT_TRUE(together.ok()) << together.status();
  for (int64_t row = 0; row < 3; ++row) {
    const auto alone = RunAsItIs(built, {rows.Rows(row, row + 1)});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(std::memcmp((*alone)[0].bytes(), (*together)[0].Rows(row, row + 1).bytes(),
                          kWidth * sizeof(float)),
              0);
  }
}

// What contradicts other rows stays as it is: an input that is joined to a table of one row.
TEST(FoldShapes, ABatchOfOneThatIsNeededStays) {
  GraphBuilder graph;
  const Value h = graph.Parameter("h", DType::kF32, {1, kWidth});
  const Value loop_state =
      graph.Add("Concat", {h, graph.Constant(RandomFloats({1, 2}, 3))}, {{"axis", int64_t{1}}});
  graph.Result("r", Reshape(graph, loop_state, graph.Ints({kWidth + 2})));
  const Folded folded = Fold(graph.Build(), {0});
  EXPECT_THAT(Pattern(folded), ElementsAre(kWidth + 2));
}

// --- lengths of sequences

enum class Lengths {
  kBroadcast,     // broadcast(time, batch), as OpenVINO's readers write it
  kOfTokens,      // the same of the tokens that were embedded
  kTiled,         // tile([time], batch)
  kShorter,       // of another input's time
  kOfWidth,       // the elements' width
  kOfOtherBatch,  // as many as another input's batch
};

Value MakeLengths(GraphBuilder& graph, Lengths kind, Value tokens, Value x, Value other) {
  const auto all = [&](Value time_of, int64_t axis, Value batch_of) {
    return graph.Add("Broadcast",
                     {Extent(graph, time_of, axis, false), Extent(graph, batch_of, 0, true)});
  };
  switch (kind) {
    case Lengths::kBroadcast:
      return all(x, 1, x);
    case Lengths::kOfTokens:
      return all(tokens, 1, tokens);
    case Lengths::kTiled:
      return graph.Add("Tile", {Extent(graph, x, 1, true), Extent(graph, x, 0, true)});
    case Lengths::kShorter:
      return all(other, 1, x);
    case Lengths::kOfWidth:
      return all(x, 2, x);
    case Lengths::kOfOtherBatch:
      break;
  }
  return all(x, 1, other);
}

// tokens [batch, time] -> embedding -> two layers of LSTM -> projection; h0 and c0 are zeros.
Graph SequenceDecoder(Lengths kind, RecurrentSequence::Direction direction,
                      RecurrentSequence::Cell cell) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value other = graph.Parameter("other", DType::kF32, {-1, -1});
  const Value table = graph.Constant(RandomFloats({7, kWidth}, 3));
  Value x = graph.Add("Gather", {table, tokens, graph.Int(0)});
  const int64_t gates = cell == RecurrentSequence::Cell::kLstm ? 4 : 3;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    RecurrentSequence sequence;
    sequence.cell = cell;
    sequence.direction = direction;
    sequence.hidden_size = kWidth;
    sequence.x = x;
    sequence.lengths = MakeLengths(graph, kind, tokens, x, other);
    sequence.w = graph.Constant(RandomFloats({1, gates * kWidth, kWidth}, 10 + layer));
    sequence.r = graph.Constant(RandomFloats({1, gates * kWidth, kWidth}, 20 + layer));
    Graph built = graph.Build();
    const auto outputs = AppendRecurrentSequence(sequence, "layer", built);
    EXPECT_TRUE(outputs.ok());
    graph = GraphBuilder(std::move(built));
    x = graph.Add("Squeeze", {outputs->y, graph.Ints({1})});
  }
  graph.Result("logits", graph.Add("MatMul", {x, graph.Constant(RandomFloats({kWidth, 7}, 4))}));
  return graph.Build();
}

int LoopsWithLengths(const Graph& graph) {
  return static_cast<int>(std::count_if(
      graph.nodes.begin(), graph.nodes.end(),
      [](const Node& node) { return node.loop != nullptr && node.loop->lengths_input >= 0; }));
}

std::vector<Tensor> SequenceInputs() {
  return {Tensor::Of<int64_t>({2, 5}, std::vector<int64_t>{1, 2, 3, 4, 5, 6, 0, 1, 2, 3}),
          RandomFloats({2, 3}, 9)};
}

TEST(FoldShapes, LengthsOfTheWholeSequenceGo) {
  for (const Lengths kind : {Lengths::kBroadcast, Lengths::kOfTokens, Lengths::kTiled}) {
    for (const auto cell : {RecurrentSequence::Cell::kLstm, RecurrentSequence::Cell::kGru}) {
      for (const auto direction :
           {RecurrentSequence::Direction::kForward, RecurrentSequence::Direction::kReverse}) {
        const Graph graph = SequenceDecoder(kind, direction, cell);
        const Folded folded = Fold(graph);
        EXPECT_EQ(LoopsWithLengths(graph), 2);
        EXPECT_EQ(LoopsWithLengths(folded.graph), 0) << static_cast<int>(kind);
        ExpectSame(graph, folded.graph, SequenceInputs());
      }
    }
  }
}

TEST(FoldShapes, LengthsThatMayBeShorterStay) {
  for (const Lengths kind : {Lengths::kShorter, Lengths::kOfWidth, Lengths::kOfOtherBatch}) {
    const Graph graph = SequenceDecoder(kind, RecurrentSequence::Direction::kForward,
                                        RecurrentSequence::Cell::kLstm);
    const Folded folded = Fold(graph);
    EXPECT_EQ(LoopsWithLengths(folded.graph), 2) << static_cast<int>(kind);
    ExpectSame(graph, folded.graph, SequenceInputs());
  }
}

TEST(FoldShapes, ConstantLengthsOfAStaticExtent) {
  for (const int64_t length : {5, 4}) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {2, 5, kWidth});
    RecurrentSequence sequence;
    sequence.cell = RecurrentSequence::Cell::kGru;
    sequence.hidden_size = kWidth;
    sequence.x = x;
    sequence.lengths =
        graph.Constant(Tensor::Of<int32_t>({2}, std::vector<int32_t>{5, static_cast<int>(length)}));
    sequence.w = graph.Constant(RandomFloats({1, 3 * kWidth, kWidth}, 1));
    sequence.r = graph.Constant(RandomFloats({1, 3 * kWidth, kWidth}, 2));
    Graph built = graph.Build();
    const auto outputs = AppendRecurrentSequence(sequence, "layer", built);
    graph = GraphBuilder(std::move(built));
    graph.Result("y", outputs->y);
    graph.Result("h", outputs->h);
    built = graph.Build();
    const Folded folded = Fold(built);
    EXPECT_EQ(LoopsWithLengths(folded.graph), length == 5 ? 0 : 1);
    ExpectSame(built, folded.graph, {RandomFloats({2, 5, kWidth}, 3)});
  }
}

// What the lengths are for: the decoder becomes one loop, and its steps are those of its layers.
TEST(FoldShapes, SequencesOfWholeLengthJoin) {
  const Graph graph = SequenceDecoder(Lengths::kOfTokens, RecurrentSequence::Direction::kForward,
                                      RecurrentSequence::Cell::kLstm);
  const Folded folded = Fold(graph);
  const auto join = [](const Graph& from, const GraphInfo& info) {
    return JoinTargetLoop(from, info, Operators(), from.parameters[0], 1, {from.results[0]});
  };
  const absl::StatusOr<Graph> joined = join(folded.graph, folded.info);
  ASSERT_TRUE(joined.ok()) << joined.status();
  ExpectSame(graph, *joined, SequenceInputs());
  Graph unfolded = graph;
  const auto info = InferGraph(unfolded, Operators());
  EXPECT_THAT(std::string(join(unfolded, *info).status().message()),
              HasSubstr("it has sequence lengths"));
}

}  // namespace
}  // namespace beamwright::ops
