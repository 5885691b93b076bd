// Messages call a node what its file calls it, whatever it becomes here.
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/graph/graph.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

using ::testing::UnorderedElementsAre;

void Collect(const Graph& graph, std::set<std::string>& described) {
  for (const Node& node : graph.nodes) {
    if (node.op != "Parameter" && node.op != "Result" && node.op != "Constant") {
      described.insert(Describe(node));
    }
    if (node.loop != nullptr) {
      Collect(node.loop->body, described);
    }
  }
}

TEST(FileOperatorTest, NodesAreDescribedByTheFilesNames) {
  const auto graph = fixture::Parse(fixture::Model(fixture::GraphOf(R"pb(
    node { op_type: "Max" name: "most" input: "x" input: "x" output: "a" }
    node { op_type: "Add" name: "same" input: "a" input: "x" output: "b" }
    node {
      op_type: "RNN"
      name: "layer"
      input: "b"
      input: "w"
      input: "r"
      output: "y"
      attribute { name: "hidden_size" i: 1 type: INT }
    }
    initializer { name: "w" data_type: 1 dims: 1 dims: 1 dims: 2 float_data: 1 float_data: 1 }
    initializer { name: "r" data_type: 1 dims: 1 dims: 1 dims: 1 float_data: 1 }
    input {
      name: "x"
      type {
        tensor_type {
          elem_type: 1
          shape {
            dim { dim_value: 3 }
            dim { dim_value: 1 }
            dim { dim_value: 2 }
          }
        }
      }
    }
    output {
      name: "y"
      type { tensor_type { elem_type: 1 } }
    }
  )pb")));
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::set<std::string> described;
  Collect(*graph, described);
  EXPECT_THAT(described, UnorderedElementsAre("Max 'most'", "Add 'same'", "RNN 'layer'"));
}

}  // namespace
}  // namespace beamwright::ops
