// One column of a layered layout: cells in layers, edges between adjacent layers alone.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_COLUMN_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_COLUMN_H_

#include <cstddef>
#include <vector>

namespace beamwright::ops {

// An item, a mention, or a bend: where a line passes a layer.
struct ColumnCell {
  double width = 0;
  double height = 0;
  int layer = 0;
  bool bend = false;
  std::vector<int> above;  // cells of the layer before that have an edge to this one
  std::vector<int> below;
  int place = 0;   // within its layer
  double x = 0;    // of its middle
  double top = 0;  // y of its upper side
};

struct Column {
  std::vector<ColumnCell> cells;
  std::vector<std::vector<int>> layers;  // cells of each, from left to right
  std::vector<double> layer_tops;
  std::vector<double> layer_ends;
  double middle = 0;  // mean x of the cells
  double width = 0;
  double height = 0;

  ColumnCell& cell(int index) { return cells[static_cast<size_t>(index)]; }
  const ColumnCell& cell(int index) const { return cells[static_cast<size_t>(index)]; }
};

// Adds an edge between cells of adjacent layers.
void Connect(Column& column, int from, int to);

// Fills everything but the cells' sizes, layers and edges.
void Arrange(Column& column);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_COLUMN_H_
