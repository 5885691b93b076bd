#include "tests/ops/passes/joined_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/base/vector_isa.h"
#include "ops/compile/program.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

std::vector<Tensor> RunNodes(const Graph& graph, const GraphInfo& info,
                             const std::vector<Tensor>& inputs, int num_threads) {
  std::vector<Tensor> outputs;
  const auto program =
      Program::Compile(graph, info, Operators(), std::vector<bool>(graph.nodes.size(), true));
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) {
    return outputs;
  }
  Slots slots = program->MakeSlots();
  for (size_t i = 0; i < inputs.size(); ++i) {
    slots[static_cast<size_t>(program->slot({graph.parameters[i], 0}))] = inputs[i];
  }
  ExecutionContext context;
  context.num_threads = num_threads;
  const absl::Status status = program->Run(context, slots);
  EXPECT_TRUE(status.ok()) << status;
  for (const int result : graph.results) {
    outputs.push_back(slots[static_cast<size_t>(program->slot(graph.node(result).inputs[0]))]);
  }
  return outputs;
}

}  // namespace

int64_t CountOf(const Graph& graph, absl::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [op](const Node& node) { return node.op == op; });
}

Graph JoinedWithSameBits(Graph graph, const std::vector<Tensor>& inputs, Pass pass) {
  auto info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  if (!info.ok()) {
    return graph;
  }
  Graph joined = graph;
  GraphInfo joined_info = *info;
  const absl::StatusOr<bool> changed = pass(joined, joined_info, {Operators()});
  EXPECT_TRUE(changed.ok()) << changed.status();
  const std::vector<Tensor> expected = RunNodes(graph, *info, inputs, 1);
  for (const VectorIsa isa :
       {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512, VectorIsa::kAmx}) {
    const ScopedVectorIsa scope(isa);
    const std::vector<Tensor> found =
        RunNodes(joined, joined_info, inputs, isa == VectorIsa::kPlain ? 2 : 1);
    EXPECT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      const bool same = found[i].shape() == expected[i].shape() &&
                        std::memcmp(found[i].bytes(), expected[i].bytes(),
                                    static_cast<size_t>(expected[i].num_bytes())) == 0;
      EXPECT_TRUE(same) << "result " << i << ", instruction set " << static_cast<int>(isa);
    }
  }
  return joined;
}

}  // namespace beamwright::ops
