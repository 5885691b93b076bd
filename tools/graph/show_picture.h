// What `show --svg` and `show --html` draw of a graph file: the file, and, if it is a decoder, the
// step that a search makes of it, with what runs over all rows, once per request, and one at a
// time.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_SHOW_PICTURE_H_
#define BEAMWRIGHT_TOOLS_GRAPH_SHOW_PICTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/graph/inference.h"
#include "tools/graph/inspected_step.h"
#include "tools/graph/picture/picture.h"

namespace beamwright::ops {

// Owns what its views name.
struct DrawnFile {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const GraphInfo> info;  // null: only what the file declares is known
  InspectedStep step;
  std::vector<PictureView> views;  // the step first
};

// `file`: as the importer leaves it, unknown layers kept. `remarks`: what is to be said of the file
// whatever more is found.
DrawnFile DrawFile(Graph file, std::vector<std::string> remarks);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_SHOW_PICTURE_H_
