#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/graph/inference.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tools/graph/check.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;

// Of a Reshape of x [rows, length, 16] to the target.
std::string Found(const std::vector<int64_t>& target, bool special_zero = true,
                  int64_t length = -1) {
  testing_support::GraphBuilder builder;
  const auto x = builder.Parameter("x", DType::kF32, {-1, length, 16});
  builder.Result("y", builder.Add("Reshape", {x, builder.Ints(target)},
                                  {{"special_zero", special_zero}}, "view"));
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  return FrozenReshape(graph);
}

TEST(FrozenReshape, NamesANumberThatAnOpenExtentMustGive) {
  EXPECT_THAT(Found({7, -1, 8}), HasSubstr("Reshape 'view' makes [7, ?, 8] of [?, ?, 16]"));
  EXPECT_THAT(Found({0, 7, 16}), HasSubstr("'view'"));
  EXPECT_THAT(Found({-1, 32}), HasSubstr("'view'"));
}

TEST(FrozenReshape, WhatIsTakenApartIsNone) {
  EXPECT_EQ(Found({0, 0, 2, 8}), "");
  EXPECT_EQ(Found({0, -1, 16}), "");
  EXPECT_EQ(Found({-1, 16}), "");
  EXPECT_EQ(Found({-1, 4, 4}), "");
  EXPECT_EQ(Found({0, -1}), "");
  EXPECT_EQ(Found({-1, 32}, true, 1), "");  // two rows of heads become one of both
}

}  // namespace
}  // namespace beamwright::ops
