#include "tools/graph/picture/column.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace beamwright::ops {
namespace {

constexpr int kOrderSweeps = 24;
constexpr int kPlaceSweeps = 12;
constexpr double kMiddlePull = 0.35;
constexpr double kGap = 12;       // between neighbours
constexpr double kBendGap = 8;    // where one is a bend
constexpr double kLayerGap = 13;  // at least
constexpr double kLayerGapForEdge = 0.9;
constexpr double kMostLayerGap = 40;

void SetPlaces(Column& column, const std::vector<int>& layer) {
  for (size_t i = 0; i < layer.size(); ++i) {
    column.cell(layer[i]).place = static_cast<int>(i);
  }
}

// Pairs of edges that cross: inversions of the lower ends, counted with a Fenwick tree.
int64_t CountCrossings(const Column& column) {
  int64_t crossings = 0;
  for (size_t layer = 0; layer + 1 < column.layers.size(); ++layer) {
    const size_t size = column.layers[layer + 1].size();
    std::vector<int64_t> tree(size + 1);
    int64_t seen = 0;
    for (const int cell : column.layers[layer]) {
      const std::vector<int>& below = column.cell(cell).below;
      for (const int to : below) {
        int64_t left = 0;
        for (size_t i = static_cast<size_t>(column.cell(to).place) + 1; i > 0; i &= i - 1) {
          left += tree[i];
        }
        crossings += seen - left;
      }
      for (const int to : below) {
        for (size_t i = static_cast<size_t>(column.cell(to).place) + 1; i <= size;
             i += i & (~i + 1)) {
          ++tree[i];
        }
        ++seen;
      }
    }
  }
  return crossings;
}

// Sorts a layer by the mean place of its cells' neighbours; cells without any keep their place.
void SortByBarycenter(Column& column, std::vector<int>& layer, bool by_above) {
  std::vector<std::pair<double, int>> keyed;
  for (const int index : layer) {
    const ColumnCell& cell = column.cell(index);
    const std::vector<int>& neighbours = by_above ? cell.above : cell.below;
    double sum = 0;
    for (const int neighbour : neighbours) {
      sum += column.cell(neighbour).place;
    }
    keyed.emplace_back(
        neighbours.empty() ? cell.place : sum / static_cast<double>(neighbours.size()), index);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(keyed.begin(), keyed.end(), layer.begin(),
                 [](const auto& pair) { return pair.second; });
  SetPlaces(column, layer);
}

void OrderLayers(Column& column) {
  for (const std::vector<int>& layer : column.layers) {
    SetPlaces(column, layer);
  }
  std::vector<std::vector<int>> best = column.layers;
  int64_t fewest = CountCrossings(column);
  const size_t num_layers = column.layers.size();
  for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
    const bool down = sweep % 2 == 0;
    for (size_t i = 1; i < num_layers; ++i) {
      SortByBarycenter(column, column.layers[down ? i : num_layers - 1 - i], down);
    }
    const int64_t crossings = CountCrossings(column);
    if (crossings < fewest) {
      fewest = crossings;
      best = column.layers;
    }
  }
  column.layers = std::move(best);
  for (const std::vector<int>& layer : column.layers) {
    SetPlaces(column, layer);
  }
}

double Distance(const ColumnCell& left, const ColumnCell& right) {
  return (left.width + right.width) / 2 + (left.bend || right.bend ? kBendGap : kGap);
}

// Where a cell would stand best for its neighbours' sake; lines that pass layers are kept straight.
struct Wish {
  double x = 0;
  double weight = 0;
};

Wish WishOf(const Column& column, const ColumnCell& cell, bool above, bool below) {
  double sum = 0;
  double weights = 0;
  const auto add = [&](const std::vector<int>& neighbours) {
    for (const int index : neighbours) {
      const ColumnCell& neighbour = column.cell(index);
      const double weight = cell.bend && neighbour.bend ? 8 : cell.bend || neighbour.bend ? 2 : 1;
      sum += weight * neighbour.x;
      weights += weight;
    }
  };
  if (above) {
    add(cell.above);
  }
  if (below) {
    add(cell.below);
  }
  // A little towards the middle of the column, which keeps it narrow.
  sum += kMiddlePull * column.middle;
  weights += kMiddlePull;
  return Wish{sum / weights, weights};
}

// The positions nearest to the wishes, by weighted squares, that keep order and distances: with the
// distances taken off this is a monotone regression.
void PlaceLayer(Column& column, const std::vector<int>& layer, bool above, bool below) {
  struct Block {
    double sum = 0;
    double weight = 0;
    size_t cells = 0;
    double mean() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  std::vector<double> offsets;
  double offset = 0;
  for (size_t i = 0; i < layer.size(); ++i) {
    if (i > 0) {
      offset += Distance(column.cell(layer[i - 1]), column.cell(layer[i]));
    }
    offsets.push_back(offset);
    const Wish wish = WishOf(column, column.cell(layer[i]), above, below);
    blocks.push_back({wish.weight * (wish.x - offset), wish.weight, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().weight += last.weight;
      blocks.back().cells += last.cells;
    }
  }
  size_t i = 0;
  for (const Block& block : blocks) {
    for (size_t in_block = 0; in_block < block.cells; ++in_block, ++i) {
      column.cell(layer[i]).x = block.mean() + offsets[i];
    }
  }
}

void PlaceAcross(Column& column) {
  for (const std::vector<int>& layer : column.layers) {
    for (size_t i = 1; i < layer.size(); ++i) {
      column.cell(layer[i]).x =
          column.cell(layer[i - 1]).x + Distance(column.cell(layer[i - 1]), column.cell(layer[i]));
    }
  }
  const size_t num_layers = column.layers.size();
  for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
    const bool down = sweep % 2 == 0;
    const bool both = sweep >= kPlaceSweeps / 2;
    double sum = 0;
    for (const ColumnCell& cell : column.cells) {
      sum += cell.x;
    }
    column.middle = sum / static_cast<double>(std::max<size_t>(column.cells.size(), 1));
    for (size_t i = 0; i < num_layers; ++i) {
      PlaceLayer(column, column.layers[down ? i : num_layers - 1 - i], down || both, !down || both);
    }
  }
  double left = std::numeric_limits<double>::max();
  double right = std::numeric_limits<double>::lowest();
  for (const ColumnCell& cell : column.cells) {
    left = std::min(left, cell.x - cell.width / 2);
    right = std::max(right, cell.x + cell.width / 2);
  }
  for (ColumnCell& cell : column.cells) {
    cell.x -= left;
  }
  column.width = column.cells.empty() ? 0 : right - left;
}

void PlaceDown(Column& column) {
  double y = 0;
  for (const std::vector<int>& layer : column.layers) {
    double height = 0;
    size_t edges = 0;
    for (const int index : layer) {
      height = std::max(height, column.cell(index).height);
      edges += column.cell(index).below.size();
    }
    column.layer_tops.push_back(y);
    for (const int index : layer) {
      ColumnCell& cell = column.cell(index);
      cell.top = y + (height - cell.height) / 2;
    }
    y += height;
    column.layer_ends.push_back(y);
    if (height > 0) {
      y += std::min(kMostLayerGap, kLayerGap + kLayerGapForEdge * static_cast<double>(edges));
    }
  }
  column.height = column.layer_ends.empty() ? 0 : column.layer_ends.back();
}

}  // namespace

void Connect(Column& column, int from, int to) {
  column.cell(from).below.push_back(to);
  column.cell(to).above.push_back(from);
}

void Arrange(Column& column) {
  for (size_t i = 0; i < column.cells.size(); ++i) {
    const size_t layer = static_cast<size_t>(column.cells[i].layer);
    if (column.layers.size() <= layer) {
      column.layers.resize(layer + 1);
    }
    column.layers[layer].push_back(static_cast<int>(i));
  }
  OrderLayers(column);
  PlaceAcross(column);
  PlaceDown(column);
}

}  // namespace beamwright::ops
