#include "tests/ops/import/ir_fixture.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"

namespace beamwright::ops::fixture {

std::string Port(int id, const std::string& dims, const std::string& attributes) {
  std::string text = absl::StrCat("<port id=\"", id, "\" ", attributes, ">");
  for (const absl::string_view dim : absl::StrSplit(dims, ',', absl::SkipEmpty())) {
    absl::StrAppend(&text, "<dim>", dim, "</dim>");
  }
  return absl::StrCat(text, "</port>");
}

std::string Text(const Layer& layer) {
  std::string text = absl::StrCat("<layer id=\"", layer.id, "\" name=\"", layer.name, "\" type=\"",
                                  layer.type, "\" ", layer.attributes, ">");
  if (!layer.data.empty()) {
    absl::StrAppend(&text, "<data ", layer.data, "/>");
  }
  absl::StrAppend(&text, layer.children);
  if (!layer.inputs.empty()) {
    absl::StrAppend(&text, "<input>", absl::StrJoin(layer.inputs, ""), "</input>");
  }
  if (!layer.outputs.empty()) {
    absl::StrAppend(&text, "<output>", absl::StrJoin(layer.outputs, ""), "</output>");
  }
  return absl::StrCat(text, "</layer>\n");
}

Layer Parameter(int id, const std::string& name, const std::string& shape) {
  return {id,          name,
          "Parameter", absl::StrCat("element_type=\"f32\" shape=\"", shape, "\""),
          {},          {Port(0, "", "precision=\"FP32\"")}};
}

Layer Result(int id, const std::string& name) { return {id, name, "Result", "", {Port(0, "")}}; }

Layer Unary(int id, const std::string& name, const std::string& type) {
  return {id, name, type, "", {Port(0, "")}, {Port(1, "", "precision=\"FP32\"")}};
}

std::string Edges(const std::string& text) {
  std::string result;
  for (const absl::string_view edge : absl::StrSplit(text, ", ", absl::SkipEmpty())) {
    const std::vector<std::string> ends = absl::StrSplit(edge, absl::ByAnyChar(".-"));
    absl::StrAppend(&result, "<edge from-layer=\"", ends[0], "\" from-port=\"", ends[1],
                    "\" to-layer=\"", ends[2], "\" to-port=\"", ends[3], "\"/>\n");
  }
  return result;
}

std::string Content(const std::vector<Layer>& layers, const std::string& edges) {
  std::string text = "<layers>\n";
  for (const Layer& layer : layers) {
    absl::StrAppend(&text, Text(layer));
  }
  return absl::StrCat(text, "</layers>\n<edges>\n", Edges(edges), "</edges>\n");
}

std::string Net(const std::vector<Layer>& layers, const std::string& edges,
                const std::string& attributes) {
  return absl::StrCat("<?xml version=\"1.0\"?>\n<net name=\"m\" ", attributes, ">\n",
                      Content(layers, edges), "</net>\n");
}

Layer Loop(int id, const std::string& type, const std::string& rules, const std::string& back_edges,
           const std::string& body) {
  Layer layer{id, "loop", type};
  layer.children = absl::StrCat("<port_map>", rules, "</port_map><back_edges>", back_edges,
                                "</back_edges>\n<body>", body, "</body>");
  return layer;
}

absl::StatusOr<Graph> Parse(const std::string& xml) {
  return ParseOpenVinoIr(xml, absl::NotFoundError("no such file"));
}

absl::StatusOr<Graph> Parse(const std::string& xml, absl::string_view weights) {
  return ParseOpenVinoIr(xml, weights);
}

const Node& Find(const Graph& graph, const std::string& name) {
  static const Node* const none = new Node;
  const Node* found = nullptr;
  for (const Node& node : graph.nodes) {
    if (node.name == name) {
      EXPECT_EQ(found, nullptr) << "two nodes named " << name;
      found = &node;
    }
  }
  EXPECT_NE(found, nullptr) << "no node named " << name;
  return found == nullptr ? *none : *found;
}

std::string ReadTestFile(const std::string& path_in_tree) {
  std::ifstream file(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/", path_in_tree), std::ios::binary);
  EXPECT_TRUE(file.good()) << path_in_tree;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace beamwright::ops::fixture
