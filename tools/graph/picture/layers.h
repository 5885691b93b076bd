// Which layer each item of a layout stands in, and where a long drawing goes on in another column.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_LAYERS_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_LAYERS_H_

#include <cstddef>
#include <vector>

#include "tools/graph/picture/layout.h"

namespace beamwright::ops {

// By item: the longest way to it, but for items that little leads to, which stand right above their
// first reader. Items without edges fill what room there is, from the last layer up.
std::vector<int> FindLayers(const std::vector<LayoutItem>& items,
                            const std::vector<LayoutEdge>& edges);

// First layer of each column, ascending, the first one 0; about `columns` of them, equally high.
// Cuts lie where few edges are cut.
std::vector<int> CutColumns(const std::vector<LayoutItem>& items,
                            const std::vector<LayoutEdge>& edges, const std::vector<int>& layers,
                            int columns);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_LAYERS_H_
