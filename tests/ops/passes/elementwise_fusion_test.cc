// Chains of functions give, bit for bit, what their nodes give one by one.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "ops/passes/passes.h"
#include "tests/ops/passes/joined_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

std::mt19937& Engine() {
  static std::mt19937 engine(1);
  return engine;
}
int64_t Draw(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(Engine());
}
Tensor Noise(Shape shape) {
  Tensor result(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<float>()[i] = std::normal_distribution<float>(0, 3)(Engine());
  }
  return result;
}

// The gates of an LSTM as a file spells them out.
TEST(ElementwiseChainsTest, GatesAreOneChain) {
  for (const auto& [rows, cells] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {5, 513}, {2, 1030}}) {
    GraphBuilder graph;
    const auto sums = graph.Parameter("sums", DType::kF32, {1, -1, 4 * cells});
    const auto cell = graph.Parameter("cell", DType::kF32, {1, -1, cells});
    const auto parts = graph.Add(
        "VariadicSplit", {sums, graph.Int(2), graph.Ints({cells, cells, cells, cells})}, {}, "", 4);
    const auto part = [&](int i) { return ValueId{parts.node, i}; };
    const auto kept = graph.Add("Multiply", {graph.Add("Sigmoid", {part(1)}), cell});
    const auto taken =
        graph.Add("Multiply", {graph.Add("Sigmoid", {part(0)}), graph.Add("Tanh", {part(2)})});
    const auto next = graph.Add("Add", {kept, taken});
    const auto hidden =
        graph.Add("Multiply", {graph.Add("Sigmoid", {part(3)}), graph.Add("Tanh", {next})});
    graph.Result("hidden", hidden);
    graph.Result("next", next);
    const Graph joined = JoinedWithSameBits(
        graph.Build(), {Noise({1, rows, 4 * cells}), Noise({1, rows, cells})}, &JoinElementwise);
    EXPECT_EQ(CountOf(joined, "ElementwiseChain"), 1);
    EXPECT_EQ(CountOf(joined, "VariadicSplit"), 0);
    EXPECT_EQ(CountOf(joined, "Sigmoid"), 0);
    EXPECT_EQ(CountOf(joined, "Tanh"), 0);
  }
}

// Something else may read what lies between, before the last function or behind it.
TEST(ElementwiseChainsTest, WhatOthersReadIsThere) {
  for (const bool early : {false, true}) {
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1, 6});
    const auto one = graph.Constant(Tensor::Scalar(1.0f));
    const auto first = graph.Add("Sigmoid", {graph.Add("Subtract", {x, one})});
    // Read by the chain itself, so that it cannot begin before `first` has been given away.
    const auto sums = graph.Add("ReduceSum", {first, graph.Ints({1})}, {{"keep_dims", true}});
    const auto spread = graph.Add("Broadcast", {sums, graph.Ints({4, 6})});
    const auto last = graph.Add("Multiply", {first, early ? spread : x});
    graph.Result("y", graph.Add("Divide", {last, first}));
    graph.Result("sums", spread);
    const Graph joined = JoinedWithSameBits(graph.Build(), {Noise({4, 6})}, &JoinElementwise);
    EXPECT_GE(CountOf(joined, "ElementwiseChain"), 1);
  }
}

// Extents that a graph leaves open may be 1 when it runs.
TEST(ElementwiseChainsTest, OpenExtentsBroadcast) {
  for (const int64_t other_rows : {int64_t{1}, int64_t{5}}) {
    for (const int64_t other_width : {int64_t{1}, int64_t{600}}) {
      GraphBuilder graph;
      const auto x = graph.Parameter("x", DType::kF32, {-1, -1});
      const auto y = graph.Parameter("y", DType::kF32, {-1, -1});
      const auto squashed = graph.Add("Tanh", {y});
      graph.Result("squashed", squashed);
      graph.Result("z", graph.Add("Add", {graph.Add("ReLU", {x}), squashed}));
      const Graph joined = JoinedWithSameBits(
          graph.Build(), {Noise({5, 600}), Noise({other_rows, other_width})}, &JoinElementwise);
      EXPECT_EQ(CountOf(joined, "ElementwiseChain"), 1);
    }
  }
}

// SwooshL as exporters spell it: log(exp(x - 4) + 1) that does not overflow, less 0.08 x and 0.035.
TEST(ElementwiseChainsTest, ActivationsOfLogarithmsAreOneChain) {
  GraphBuilder graph;
  const auto number = [&](float value) { return graph.Constant(Tensor::Scalar(value)); };
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 40});
  const auto less = graph.Add("Subtract", {x, number(4)});
  const auto size = graph.Add("Abs", {graph.Add("Subtract", {number(0), less})});
  const auto log = graph.Add(
      "Log", {graph.Add("Add", {number(1), graph.Add("Exp", {graph.Add("Negative", {size})})})});
  const auto soft = graph.Add("Add", {graph.Add("Maximum", {number(0), less}), log});
  const auto y = graph.Add("Subtract", {soft, graph.Add("Multiply", {x, number(0.08F)})});
  graph.Result("y", graph.Add("Subtract", {y, number(0.035F)}));
  const Graph joined = JoinedWithSameBits(graph.Build(), {Noise({3, 5, 40})}, &JoinElementwise);
  EXPECT_EQ(CountOf(joined, "ElementwiseChain"), 1);
  EXPECT_EQ(CountOf(joined, "Exp") + CountOf(joined, "Log") + CountOf(joined, "Abs"), 0);
}

// ln(1 + e^x) as two versions of icefall's exporter spell it is one function, with x from far below
// to where e^x is infinite; then the whole activation is one chain.
TEST(ElementwiseChainsTest, SoftPlusOfExportsIsOneFunction) {
  for (const bool guarded : {false, true}) {
    GraphBuilder graph;
    const auto number = [&](float value) { return graph.Constant(Tensor::Scalar(value)); };
    const auto x = graph.Parameter("x", DType::kF32, {-1, 40});
    const auto less = graph.Add("Subtract", {x, number(1)});
    ValueId soft;
    if (guarded) {
      const auto log = graph.Add("Log", {graph.Add("Add", {graph.Add("Exp", {less}), number(1)})});
      const auto is_infinite =
          graph.Add("Equal", {log, number(std::numeric_limits<float>::infinity())});
      soft = graph.Add("Select", {is_infinite, less, log});
    } else {
      const auto size = graph.Add("Abs", {graph.Add("Subtract", {number(0), less})});
      const auto log = graph.Add(
          "Log",
          {graph.Add("Add", {number(1), graph.Add("Exp", {graph.Add("Negative", {size})})})});
      soft = graph.Add("Add", {graph.Add("Maximum", {number(0), less}), log});
    }
    graph.Result("y", graph.Add("Subtract", {soft, graph.Add("Multiply", {x, number(0.08F)})}));
    Tensor values(DType::kF32, {5, 40});
    for (int64_t i = 0; i < 200; ++i) {
      values.mutable_data<float>()[i] = static_cast<float>(i - 100) * 1.17F;
    }
    std::fill_n(values.mutable_data<float>(), 2, std::numeric_limits<float>::infinity());
    values.mutable_data<float>()[1] *= -1;
    values.mutable_data<float>()[2] = std::nanf("");
    values.mutable_data<float>()[3] = 1;
    const Graph joined = JoinedWithSameBits(graph.Build(), {values}, &JoinSoftPlus);
    EXPECT_EQ(CountOf(joined, guarded ? "GuardedSoftPlus" : "StableSoftPlus"), 1);
    EXPECT_EQ(CountOf(joined, "Exp") + CountOf(joined, "Log") + CountOf(joined, "Select"), 0);
    EXPECT_EQ(CountOf(JoinedWithSameBits(joined, {values}, &JoinElementwise), "ElementwiseChain"),
              1);
  }
}

// Numbers and operands of others stay as they are.
TEST(ElementwiseChainsTest, WhatIsNearlySoftPlusStays) {
  for (const float one : {1.0f, 2.0f}) {
    GraphBuilder graph;
    const auto number = [&](float value) { return graph.Constant(Tensor::Scalar(value)); };
    const auto x = graph.Parameter("x", DType::kF32, {-1, 40});
    const auto log = graph.Add("Log", {graph.Add("Add", {graph.Add("Exp", {x}), number(one)})});
    const auto is_infinite =
        graph.Add("Equal", {log, number(std::numeric_limits<float>::infinity())});
    const auto other = one == 1 ? graph.Add("Negative", {x}) : x;
    graph.Result("y", graph.Add("Select", {is_infinite, other, log}));
    EXPECT_EQ(CountOf(JoinedWithSameBits(graph.Build(), {Noise({3, 40})}, &JoinSoftPlus),
                      "GuardedSoftPlus"),
              0);
  }
}

// Hard swish as exporters of pictures' encoders spell it, behind a bias for each channel; and
// bounds of which one is open.
TEST(ElementwiseChainsTest, ClampsArePartOfAChain) {
  GraphBuilder graph;
  const auto number = [&](float value) { return graph.Constant(Tensor::Scalar(value)); };
  const auto x = graph.Parameter("x", DType::kF32, {-1, 5, -1});
  const auto sum = graph.Add("Add", {x, graph.Constant(Noise({1, 5, 1}))});
  const auto gate =
      graph.Add("Clamp", {graph.Add("Add", {sum, number(3)})}, {{"min", 0.0}, {"max", 6.0}});
  const auto swish = graph.Add("Divide", {graph.Add("Multiply", {sum, gate}), number(6)});
  graph.Result("y", graph.Add("Clamp", {swish}, {{"max", 1.0}}));
  graph.Result("z", graph.Add("Clamp", {swish}, {{"min", 0.25}}));
  const Graph joined = JoinedWithSameBits(graph.Build(), {Noise({2, 5, 300})}, &JoinElementwise);
  EXPECT_EQ(CountOf(joined, "ElementwiseChain"), 1);
  EXPECT_EQ(CountOf(joined, "Clamp"), 1);  // behind the first result
}

// A value for each channel, with planes from no element to more than a block, and two kinds of
// channels in one chain.
TEST(ElementwiseChainsTest, ChannelsBroadcastWithinAChain) {
  for (const auto& [items, height, width] : {std::array<int64_t, 3>{1, 1, 1},
                                             {2, 3, 1},
                                             {3, 7, 5},
                                             {2, 1, 600},
                                             {1, 40, 41},
                                             {2, 0, 5},
                                             {0, 3, 5}}) {
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1, 6, -1, width});
    const auto sum = graph.Add("Add", {x, graph.Constant(Noise({1, 6, 1, 1}))});
    const auto scaled = graph.Add("Multiply", {graph.Constant(Noise({6, 1, 1})), sum});
    graph.Result("y", graph.Add("ReLU", {scaled}));
    graph.Result("sum", sum);
    const Graph joined =
        JoinedWithSameBits(graph.Build(), {Noise({items, 6, height, width})}, &JoinElementwise);
    EXPECT_EQ(CountOf(joined, "ElementwiseChain"), 1);
    EXPECT_EQ(CountOf(joined, "Add") + CountOf(joined, "Multiply"), 0);
  }
}

// A value for each channel, with parts of a Split as operands.
TEST(ElementwiseChainsTest, ChannelsAndWindowsStayApart) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, 3, 8});
  const auto halves = graph.Add("Split", {x, graph.Int(-1)}, {{"num_splits", int64_t{2}}}, "", 2);
  const auto gate = graph.Add("Sigmoid", {ValueId{halves.node, 0}});
  const auto gated = graph.Add("Multiply", {gate, ValueId{halves.node, 1}});
  graph.Result("y", graph.Add("ReLU", {graph.Add("Add", {gated, graph.Constant(Noise({3, 1}))})}));
  JoinedWithSameBits(graph.Build(), {Noise({5, 3, 8})}, &JoinElementwise);
}

// Random graphs of functions, some of whose values are results.
TEST(ElementwiseChainsTest, RandomGraphs) {
  const std::vector<std::string> pairs = {"Add", "Subtract", "Multiply", "Divide", "Maximum"};
  const std::vector<std::string> single = {"ReLU", "Sigmoid", "Tanh", "Floor",
                                           "Exp",  "Abs",     "Clamp"};
  int64_t chains = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t rows = Draw(0, 4), width = Draw(1, 40);
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1, 2 * width});
    const auto y = graph.Parameter("y", DType::kF32, {-1, width});
    const auto halves = graph.Add("Split", {x, graph.Int(-1)}, {{"num_splits", int64_t{2}}}, "", 2);
    std::vector<ValueId> values = {{halves.node, 0},
                                   {halves.node, 1},
                                   y,
                                   graph.Constant(Tensor::Scalar(0.5f)),
                                   graph.Constant(Noise({width}))};
    const auto any = [&] { return values[static_cast<size_t>(Draw(0, std::ssize(values) - 1))]; };
    for (int i = 0; i < 20; ++i) {
      const bool is_single = Draw(0, 1) == 0;
      const std::vector<std::string>& names = is_single ? single : pairs;
      const std::string& op = names[static_cast<size_t>(Draw(0, std::ssize(names) - 1))];
      if (op == "Clamp") {
        values.push_back(graph.Add(op, {any()}, {{"min", -0.75}, {"max", 1.5}}));
      } else {
        values.push_back(is_single ? graph.Add(op, {any()}) : graph.Add(op, {any(), any()}));
      }
      if (Draw(0, 4) == 0) {
        graph.Result("r" + std::to_string(i), values.back());
      }
    }
    graph.Result("last", values.back());
    const Graph joined = JoinedWithSameBits(
        graph.Build(), {Noise({rows, 2 * width}), Noise({rows, width})}, &JoinElementwise);
    chains += CountOf(joined, "ElementwiseChain");
  }
  EXPECT_GT(chains, 60);
}

}  // namespace
}  // namespace beamwright::ops
