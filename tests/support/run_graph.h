// Runs a graph's nodes one by one, without what Model folds and rewrites first.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_RUN_GRAPH_H_
#define BEAMWRIGHT_TESTS_SUPPORT_RUN_GRAPH_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/compile/program.h"
#include "ops/loop/operators.h"

namespace beamwright::testing_support {

// `info` is that of the graph as it stands. inputs: one for each of graph.parameters; one output
// for each of graph.results.
inline absl::StatusOr<std::vector<ops::Tensor>> RunAsItIs(const ops::Graph& graph,
                                                          const ops::GraphInfo& info,
                                                          const std::vector<ops::Tensor>& inputs) {
  const std::vector<bool> all(graph.nodes.size(), true);
  const absl::StatusOr<ops::Program> program =
      ops::Program::Compile(graph, info, ops::Operators(), all);
  if (!program.ok()) {
    return program.status();
  }
  ops::Slots slots = program->MakeSlots();
  for (size_t i = 0; i < inputs.size(); ++i) {
    slots[static_cast<size_t>(program->slot({graph.parameters[i], 0}))] = inputs[i];
  }
  ops::ExecutionContext context;
  context.num_threads = 2;
  const absl::Status status = program->Run(context, slots);
  if (!status.ok()) {
    return status;
  }
  std::vector<ops::Tensor> outputs;
  for (const int result : graph.results) {
    outputs.push_back(slots[static_cast<size_t>(program->slot(graph.node(result).inputs[0]))]);
  }
  return outputs;
}

inline absl::StatusOr<std::vector<ops::Tensor>> RunAsItIs(ops::Graph graph,
                                                          const std::vector<ops::Tensor>& inputs) {
  const absl::StatusOr<ops::GraphInfo> info = InferGraph(graph, ops::Operators());
  return info.ok() ? RunAsItIs(graph, *info, inputs) : info.status();
}

inline void ExpectSameBits(const std::vector<ops::Tensor>& got,
                           const std::vector<ops::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), expected[i].dtype()) << "output " << i;
    ASSERT_EQ(got[i].shape(), expected[i].shape()) << "output " << i;
    EXPECT_EQ(
        std::memcmp(got[i].bytes(), expected[i].bytes(), static_cast<size_t>(got[i].num_bytes())),
        0)
        << "output " << i;
  }
}

// Both graphs compute the same bits of one f32 input of that shape, whose elements count from 1.
inline void ExpectSame(const ops::Graph& built, const ops::Graph& changed,
                       const ops::Shape& shape) {
  std::vector<float> values(static_cast<size_t>(ops::NumElements(shape)));
  std::iota(values.begin(), values.end(), 1.0f);
  const ops::Tensor x = ops::Tensor::Of<float>(shape, values);
  const auto expected = RunAsItIs(built, {x});
  const auto actual = RunAsItIs(changed, {x});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(actual.ok()) << actual.status();
  ExpectSameBits(*actual, *expected);
}

// Nodes of one operator.
inline int64_t Count(const ops::Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const ops::Node& node) { return node.op == op; });
}

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_RUN_GRAPH_H_
