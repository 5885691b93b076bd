// Writes IR text for tests, a piece at a time. Knows nothing of how IR is read.
#ifndef BEAMWRIGHT_TESTS_OPS_IMPORT_IR_FIXTURE_H_
#define BEAMWRIGHT_TESTS_OPS_IMPORT_IR_FIXTURE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"

namespace beamwright::ops::fixture {

// <port id=".." attributes><dim>..</dim></port>; dims: "2,-1", "" for none.
std::string Port(int id, const std::string& dims, const std::string& attributes = "");

struct Layer {
  int id = 0;
  std::string name;
  std::string type;
  std::string data = {};                  // attributes of <data>, none if empty
  std::vector<std::string> inputs = {};   // Port(...)
  std::vector<std::string> outputs = {};  // Port(...)
  std::string children = {};              // further XML inside the layer
  std::string attributes = {};            // further attributes of <layer>
};
std::string Text(const Layer& layer);

// Layers with one f32 port of id 0.
Layer Parameter(int id, const std::string& name, const std::string& shape);
Layer Result(int id, const std::string& name);
// One input port 0 and one output port 1.
Layer Unary(int id, const std::string& name, const std::string& type);

// "0.0-1.0, 1.1-2.0": from layer.port to layer.port.
std::string Edges(const std::string& text);

// <layers> and <edges>.
std::string Content(const std::vector<Layer>& layers, const std::string& edges);
std::string Net(const std::vector<Layer>& layers, const std::string& edges,
                const std::string& attributes = "version=\"11\"");

// A loop layer: `rules` is the content of port_map, `back_edges` that of back_edges.
Layer Loop(int id, const std::string& type, const std::string& rules, const std::string& back_edges,
           const std::string& body);

// ParseOpenVinoIr with weights that hold the bytes given, or with none.
absl::StatusOr<Graph> Parse(const std::string& xml);
absl::StatusOr<Graph> Parse(const std::string& xml, absl::string_view weights);

// The only node of that name; fails the test if it is missing or not the only one.
const Node& Find(const Graph& graph, const std::string& name);

std::string ReadTestFile(const std::string& path_in_tree);

}  // namespace beamwright::ops::fixture

#endif  // BEAMWRIGHT_TESTS_OPS_IMPORT_IR_FIXTURE_H_
