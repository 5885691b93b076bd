// Pictures of graphs: `beamwright-graph show --svg` and `show --html`. What a person looks for
// stands in boxes, from top to bottom: constants and arithmetic on extents are folded into what
// reads them, what reads the box above and nothing else is a line of the same box, loops and
// branches are boxes around their bodies. The colour is the scope (ops/compile/scopes.h), and what
// a search runs for each request or row apart is marked, with the reason.
//
// Everything is laid out here, so that the SVG needs no script; the page adds details, search,
// keyboard and zoom. Names come from files and may be hostile: they are escaped for the place where
// they stand, and the page's policy allows no script but its own, known by its hash.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PICTURE_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PICTURE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/compile/scopes.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// What is known of a node beside what the graph says.
struct NodeMark {
  std::optional<Scope> scope;
  // It runs for each request or row apart, or it is why others do. `note` says why.
  bool apart = false;
  std::string note;
  std::string cost;
};

// A graph from one point of view: as the file has it, or as a search steps it.
struct PictureView {
  struct Part {
    std::string title;  // empty: none
    const Graph* graph = nullptr;
    const Loop* loop = nullptr;  // whose body `graph` is: says what its ports are for
    std::vector<bool> shown;     // by node; empty: all
  };
  std::string title;
  std::vector<std::string> remarks;
  std::vector<Part> parts;  // one below the other
  std::function<NodeMark(const Graph& graph, int node)> mark;
};

// Graphs that views name must outlive the call.
std::string PictureSvg(const PictureView& view);
// One page, which asks nothing of the network. `name`: of what it shows.
std::string PictureHtml(const std::string& name, const std::vector<PictureView>& views);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PICTURE_H_
