// Graphs: attributes of nodes, the size of weights, and families of rows.

#include "ops/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ops/graph/operator.h"
#include "ops/graph/trace.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

// Copies share what they hold until one of them changes.
TEST(AttributesTest, ACopyIsItsOwn) {
  Attributes first;
  EXPECT_FALSE(first.Has("axis"));
  EXPECT_TRUE(first.values().empty());
  first.Set("axis", int64_t{1});
  Attributes second = first;
  second.Set("axis", int64_t{2});
  first.Set("mode", std::string("numpy"));
  EXPECT_EQ(first.Int("axis", 0).value(), 1);
  EXPECT_EQ(second.Int("axis", 0).value(), 2);
  EXPECT_FALSE(second.Has("mode"));
  const Attributes third = first;
  first = Attributes();
  EXPECT_FALSE(first.Has("axis"));
  EXPECT_EQ(third.Int("axis", 0).value(), 1);
}

using testing_support::GraphBuilder;

Tensor Zeros(const Shape& shape) { return Tensor::Zeros(DType::kF32, shape); }

TEST(CountWeights, LeavesOutVectorsAndTablesOfWhichRowsAreRead) {
  GraphBuilder graph;
  const ValueId ids = graph.Parameter("ids", DType::kI64, {3});
  const ValueId axis = graph.Int(0);
  const ValueId table = graph.Constant(Zeros({10, 4}));
  const ValueId rows = graph.Add("Gather", {table, ids, axis});
  const ValueId product = graph.Add("MatMul", {rows, graph.Constant(Zeros({4, 5}))});
  graph.Result("y", graph.Add("Add", {product, graph.Constant(Zeros({5}))}));
  EXPECT_EQ(CountWeights(graph.Build()), 4 * 5);
}

// A table that is multiplied, too, as by tied weights.
TEST(CountWeights, CountsTablesThatAreMultiplied) {
  GraphBuilder graph;
  const ValueId ids = graph.Parameter("ids", DType::kI64, {3});
  const ValueId axis = graph.Int(0);
  const ValueId table = graph.Constant(Zeros({10, 4}));
  const ValueId rows = graph.Add("Gather", {table, ids, axis});
  graph.Result("y", graph.Add("MatMul", {rows, table}, {{"transpose_b", true}}));
  EXPECT_EQ(CountWeights(graph.Build()), 10 * 4);
}

using ::testing::ElementsAre;

TEST(RowFamilies, AreNumberedAsRowsBringThemUp) {
  RowFamilies families;
  families.Assign({7, 2, 7, 0, 2});
  EXPECT_THAT(families.parents(), ElementsAre(7, 2, 0));
  EXPECT_THAT(families.rows(), ElementsAre(0, 2, 1, 4, 3));
  EXPECT_EQ(families.num_rows(), 5);
  EXPECT_EQ(families.first(0), 0);
  EXPECT_EQ(families.first(1), 2);
  EXPECT_EQ(families.first(2), 4);
  EXPECT_EQ(families.first(3), 5);
  EXPECT_FALSE(families.in_order());
}

TEST(RowFamilies, OfNoRowsAreNone) {
  RowFamilies families;
  families.Assign({});
  EXPECT_EQ(families.num_families(), 0);
  EXPECT_EQ(families.num_rows(), 0);
  EXPECT_EQ(families.first(0), 0);
  EXPECT_TRUE(families.in_order());
}

// Every row is in one family, that of its parent; one object from step to step.
TEST(RowFamilies, HoldEveryRowOnce) {
  RowFamilies families;
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> parents(random() % 40);
    const uint32_t sources = 1 + random() % 30;
    for (int32_t& parent : parents) {
      parent = static_cast<int32_t>(random() % sources);
    }
    if (round % 3 == 0) {
      std::sort(parents.begin(), parents.end());
    }
    families.Assign(parents);
    ASSERT_EQ(families.num_rows(), static_cast<int>(parents.size()));
    ASSERT_EQ(families.first(families.num_families()), families.num_rows());
    std::vector<int> seen(parents.size(), 0);
    for (int family = 0; family < families.num_families(); ++family) {
      ASSERT_LT(families.first(family), families.first(family + 1));
      for (int i = families.first(family); i < families.first(family + 1); ++i) {
        const auto row = static_cast<size_t>(families.rows()[static_cast<size_t>(i)]);
        ++seen[row];
        EXPECT_EQ(parents[row], families.parents()[static_cast<size_t>(family)]);
      }
    }
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), families.num_rows());
    EXPECT_EQ(families.in_order(), std::is_sorted(families.rows().begin(), families.rows().end()));
  }
}

}  // namespace

}  // namespace beamwright::ops
