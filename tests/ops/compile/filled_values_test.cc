// Masks that exporters compute in each step of a decoder and that hide nothing: they go, and what
// is computed stays the same bit for bit; masks that hide something stay.
#include "ops/compile/filled_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

constexpr float kHidden = std::numeric_limits<float>::lowest();

Tensor Numbers(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 7) - 3.0f;
  }
  return Tensor::Of<float>(shape, values);
}

Value Extent(GraphBuilder& graph, Value value, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Int(axis), graph.Int(0)});
}

Value Concat(GraphBuilder& graph, std::vector<Value> values, int64_t axis) {
  return graph.Add("Concat", std::move(values), {{"axis", axis}});
}

// Scores of new keys [rows, added, 2] and those of a cache [rows, past, 2] behind a mask [rows,
// added, past + added] as transformers computes it: place j is hidden from query i where j > past +
// i.
Graph Step(int64_t added) {
  GraphBuilder graph;
  const Value cache = graph.Parameter("cache", DType::kF32, {-1, -1, 2});
  const Value keys = graph.Parameter("keys", DType::kF32, {-1, added, 2});
  const Value joined = Concat(graph, {cache, keys}, 1);
  const Value past = Extent(graph, cache, 1);
  const Value count = graph.Add("Add", {past, Extent(graph, keys, 1)});
  const std::pair<std::string, AttributeValue> type = {"output_type", std::string("i64")};
  const Value places = graph.Add("Range", {graph.Int(0), count, graph.Int(1)}, {type});
  const Value queries = graph.Add(
      "Reshape", {graph.Add("Range", {past, count, graph.Int(1)}, {type}), graph.Ints({-1, 1})},
      {{"special_zero", false}});
  const Value list = graph.Add("Unsqueeze", {count, graph.Ints({0})});
  const Value hidden = graph.Add("Broadcast", {graph.Constant(Tensor::Scalar(kHidden)),
                                               Concat(graph, {graph.Ints({added}), list}, 0)});
  const Value later = graph.Add("Convert", {graph.Add("Greater", {places, queries})},
                                {{"destination_type", std::string("f32")}});
  const Value rows = graph.Add("Unsqueeze", {Extent(graph, cache, 0), graph.Ints({0})});
  const Value mask = graph.Add("Broadcast", {graph.Add("Multiply", {hidden, later}),
                                             Concat(graph, {rows, graph.Ints({added}), list}, 0)});
  const Value scores = graph.Add("MatMul", {keys, joined}, {{"transpose_b", true}});
  const Value masked = graph.Add("Add", {scores, mask}, {}, "masked");
  graph.Result("y", graph.Add("SoftMax", {masked}, {{"axis", int64_t{2}}}));
  return graph.Build();
}

Graph Folded(Graph graph, const std::vector<int>& row_axes) {
  return FoldGraph(std::move(graph), row_axes).graph;
}

bool Has(const Graph& graph, const std::string& op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return node.op == op; });
}

void ExpectSame(const Graph& before, const Graph& after, const std::vector<Tensor>& inputs) {
  const auto expected = RunAsItIs(before, inputs);
  const auto got = RunAsItIs(after, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(got.ok()) << got.status();
  testing_support::ExpectSameBits(*got, *expected);
}

TEST(FilledValues, AMaskThatHidesNothingOfOneQueryGoes) {
  const Graph graph = Step(1);
  const Graph folded = Folded(graph, {0, 0});
  for (const char* op : {"Range", "Greater", "Add", "Broadcast", "ShapeOf"}) {
    EXPECT_FALSE(Has(folded, op)) << op;
  }
  for (const int64_t past : {0, 1, 5}) {
    ExpectSame(graph, folded, {Numbers({3, past, 2}), Numbers({3, 1, 2})});
  }
}

TEST(FilledValues, AMaskOverSeveralQueriesStays) {
  const Graph graph = Step(2);
  const Graph folded = Folded(graph, {0, 0});
  EXPECT_TRUE(Has(folded, "Greater"));
  ExpectSame(graph, folded, {Numbers({3, 4, 2}), Numbers({3, 2, 2})});
}

// Zeros in the shape of x, as exporters write them.
Value ZerosLike(GraphBuilder& graph, Value x, Value of) {
  return graph.Add("Broadcast",
                   {graph.Constant(Tensor::Scalar(0.0f)),
                    Concat(graph,
                           {graph.Add("Unsqueeze", {Extent(graph, x, 0), graph.Ints({0})}),
                            graph.Add("Unsqueeze", {Extent(graph, of, 1), graph.Ints({0})})},
                           0)});
}

// -0 + 0 is 0: only who takes both for the same may lose the sum.
TEST(FilledValues, AZeroIsAddedWhereItIsSeen) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1});
  graph.Result("y", graph.Add("Add", {x, ZerosLike(graph, x, x)}));
  const Graph built = graph.Build();
  const Graph folded = Folded(built, {0});
  EXPECT_TRUE(Has(folded, "Add"));
  EXPECT_FALSE(Has(folded, "Broadcast"));
  ExpectSame(built, folded, {Tensor::Of<float>({1, 2}, std::vector<float>{-0.0f, 1})});
}

// Two sums that zeros widen from [1, n] to [rows, n], and their sum, which nothing else makes so
// wide.
TEST(FilledValues, OfTwoThatWidenEachOtherOneStaysWide) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1});
  const Value a = graph.Parameter("a", DType::kF32, {1, 3});
  const Value b = graph.Parameter("b", DType::kF32, {1, 3});
  const Value wide_a = graph.Add("Add", {a, ZerosLike(graph, x, a)});
  const Value wide_b = graph.Add("Add", {b, ZerosLike(graph, x, b)});
  graph.Result("y", graph.Add("Multiply", {wide_a, wide_b}));
  const Graph built = graph.Build();
  ExpectSame(built, Folded(built, {0, -1, -1}),
             {Numbers({4, 2}), Numbers({1, 3}), Numbers({1, 3})});
}

// An attention over a source whose mask the server makes as long as the source.
TEST(FilledValues, AMaskIsAsLongAsItsSource) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, 2});
  const Value mask = graph.Parameter("mask", DType::kF32, {-1, -1});
  const Value scores = graph.Add("MatMul", {x, x}, {{"transpose_b", true}});
  const Value masked = graph.Add("Add", {scores, graph.Add("Unsqueeze", {mask, graph.Ints({1})})});
  const auto list = [&](int64_t axis) {
    return graph.Add("Unsqueeze", {Extent(graph, x, axis), graph.Ints({0})});
  };
  const Value flat = Concat(graph, {list(0), graph.Ints({-1})}, 0);
  const Value shape = Concat(graph, {list(0), list(1), graph.Ints({-1})}, 0);
  const Value flattened = graph.Add("Reshape", {masked, flat}, {{"special_zero", false}});
  graph.Result("y", graph.Add("Reshape", {flattened, shape}, {{"special_zero", false}}));
  const Graph built = graph.Build();
  RowProof proof;
  RowInputs inputs{0};
  inputs.mask = 1;
  inputs.length_axis = 1;
  ASSERT_TRUE(Model::Compile(built, Precision::kF32, inputs, proof).ok());
  EXPECT_TRUE(proof.separable) << proof.reason;
}

ops::Extent Number(int64_t number) { return {number, {}}; }

TEST(Symbols, SumsThatAreEqualAreOneSymbol) {
  Symbols symbols;
  const ops::Extent a = symbols.New();
  const ops::Extent b = symbols.New();
  const ops::Extent longer = *symbols.Sum(a, Number(1));
  EXPECT_EQ(*symbols.Sum(Number(1), a), longer);
  EXPECT_EQ(*symbols.Difference(longer, Number(1)), a);
  EXPECT_EQ(*symbols.Difference(longer, longer), Number(0));
  EXPECT_EQ(*symbols.Sum(*symbols.Sum(a, a), Number(2)), *Product(longer, Number(2)));
  EXPECT_EQ(*symbols.Sum(*symbols.Sum(longer, b), Number(-1)), *symbols.Sum(b, a));
  EXPECT_TRUE(longer.is_extent());
  EXPECT_FALSE(symbols.Difference(a, Number(1))->is_extent());
}

// Random chains of sums and divisions of one extent: chains that are one symbol are one number
// whatever the extent is, and a chain's division is by the definition's numbers.
TEST(Symbols, QuotientsThatAreEqualAreOneSymbol) {
  Symbols symbols;
  const ops::Extent width = symbols.New();
  const ops::Extent half = *symbols.Floor(width, 2);
  EXPECT_EQ(symbols.Floor(half, 2), symbols.Floor(width, 4));
  EXPECT_EQ(symbols.Floor(*symbols.Sum(half, ops::Extent{2, {}}), 2),
            symbols.Sum(*symbols.Floor(width, 4), ops::Extent{1, {}}));
  EXPECT_EQ(symbols.Floor(ops::Extent{6, width.symbols}, 3), (ops::Extent{2, width.symbols}));
  EXPECT_NE(symbols.Floor(*symbols.Sum(width, ops::Extent{1, {}}), 2), half);
  std::mt19937 random(3);
  std::map<std::vector<int64_t>, ops::Extent> by_numbers;
  for (int round = 0; round < 2000; ++round) {
    ops::Extent chain = width;
    std::vector<int64_t> numbers(200);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      const auto added = static_cast<int64_t>(random() % 7) - 3;
      const auto divisor = static_cast<int64_t>(1 + random() % 4);
      chain = *symbols.Floor(*symbols.Sum(chain, ops::Extent{added, {}}), divisor);
      for (int64_t& number : numbers) {
        number = static_cast<int64_t>(
            std::floor(static_cast<double>(number + added) / static_cast<double>(divisor)));
      }
    }
    const auto [same, is_new] = by_numbers.try_emplace(numbers, chain);
    EXPECT_EQ(same->second, chain);
  }
  std::set<std::pair<int64_t, std::vector<int>>> chains;
  for (const auto& [numbers, chain] : by_numbers) {
    EXPECT_TRUE(chains.insert({chain.number, chain.symbols}).second);
  }
}

TEST(Symbols, WhatIsAtMostWhatIsKnownOfExtentsAlone) {
  Symbols symbols;
  const ops::Extent a = symbols.New();
  const ops::Extent b = symbols.New();
  const ops::Extent integer = symbols.NewInteger();
  EXPECT_TRUE(symbols.AtMost(a, *symbols.Sum(a, b)));
  EXPECT_TRUE(symbols.AtMost(*symbols.Difference(a, Number(1)), a));
  EXPECT_FALSE(symbols.AtMost(*symbols.Sum(a, Number(1)), a));
  EXPECT_FALSE(symbols.AtMost(a, b));
  EXPECT_FALSE(symbols.AtMost(a, *symbols.Sum(a, integer)));
}

}  // namespace
}  // namespace beamwright::ops
