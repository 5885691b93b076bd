#include "tools/graph/picture/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace beamwright::ops {
namespace {

constexpr double kLayerSpace = 16;  // between layers, about
constexpr double kItemSpace = 12;   // between neighbours
constexpr double kLeastWidest = 500;
constexpr double kReach = 0.12;      // how far from its place a cut may lie, in shares
constexpr double kCostOfShare = 20;  // edges that a cut at its very place may cut more, a share

struct LayerSizes {
  std::vector<double> heights;
  std::vector<int64_t> cut;  // edges that a cut before the layer would cut
  double height = 0;
};

LayerSizes Measure(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges,
                   const std::vector<int>& layers) {
  LayerSizes sizes;
  const int last = layers.empty() ? -1 : *std::max_element(layers.begin(), layers.end());
  sizes.heights.resize(static_cast<size_t>(last + 1));
  sizes.cut.resize(static_cast<size_t>(last + 2));
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t layer = static_cast<size_t>(layers[i]);
    sizes.heights[layer] = std::max(sizes.heights[layer], items[i].height);
  }
  for (const LayoutEdge& edge : edges) {
    ++sizes.cut[static_cast<size_t>(layers[static_cast<size_t>(edge.from)]) + 1];
    --sizes.cut[static_cast<size_t>(layers[static_cast<size_t>(edge.to)]) + 1];
  }
  for (size_t i = 1; i < sizes.cut.size(); ++i) {
    sizes.cut[i] += sizes.cut[i - 1];
  }
  for (double& height : sizes.heights) {
    height += kLayerSpace;
    sizes.height += height;
  }
  return sizes;
}

// Items without edges go where layers have room, then into new layers below.
void PlaceAlone(const std::vector<LayoutItem>& items, const std::vector<bool>& alone,
                std::vector<int>& layers) {
  std::vector<double> widths;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!alone[i]) {
      widths.resize(std::max(widths.size(), static_cast<size_t>(layers[i]) + 1));
      widths[static_cast<size_t>(layers[i])] += items[i].width + kItemSpace;
    }
  }
  const double most =
      std::max(kLeastWidest, widths.empty() ? 0 : *std::max_element(widths.begin(), widths.end()));
  size_t layer = widths.empty() ? 0 : widths.size() - 1;
  bool upwards = true;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!alone[i]) {
      continue;
    }
    while (layer < widths.size() && widths[layer] > 0 && widths[layer] + items[i].width > most) {
      upwards = upwards && layer > 0;
      layer = upwards ? layer - 1 : std::max(layer, widths.size() - 1) + 1;
    }
    widths.resize(std::max(widths.size(), layer + 1));
    widths[layer] += items[i].width + kItemSpace;
    layers[i] = static_cast<int>(layer);
  }
}

}  // namespace

std::vector<int> FindLayers(const std::vector<LayoutItem>& items,
                            const std::vector<LayoutEdge>& edges) {
  const size_t num_items = items.size();
  std::vector<std::vector<int>> readers(num_items);
  std::vector<int> reads(num_items);
  for (const LayoutEdge& edge : edges) {
    readers[static_cast<size_t>(edge.from)].push_back(edge.to);
    ++reads[static_cast<size_t>(edge.to)];
  }
  std::vector<int> layers(num_items);
  for (size_t i = 0; i < num_items; ++i) {
    for (const int to : readers[i]) {
      layers[static_cast<size_t>(to)] = std::max(layers[static_cast<size_t>(to)], layers[i] + 1);
    }
  }
  for (size_t i = num_items; i-- > 0;) {
    if (readers[i].empty() || reads[i] > static_cast<int>(readers[i].size())) {
      continue;
    }
    int first = std::numeric_limits<int>::max();
    for (const int to : readers[i]) {
      first = std::min(first, layers[static_cast<size_t>(to)]);
    }
    layers[i] = first - 1;
  }
  const int top = layers.empty() ? 0 : *std::min_element(layers.begin(), layers.end());
  for (int& layer : layers) {
    layer -= top;
  }
  std::vector<bool> alone(num_items);
  for (size_t i = 0; i < num_items; ++i) {
    alone[i] = reads[i] == 0 && readers[i].empty();
  }
  PlaceAlone(items, alone, layers);
  return layers;
}

std::vector<int> CutColumns(const std::vector<LayoutItem>& items,
                            const std::vector<LayoutEdge>& edges, const std::vector<int>& layers,
                            int columns) {
  const LayerSizes sizes = Measure(items, edges, layers);
  const double share = sizes.height / columns;
  std::vector<int> starts = {0};
  size_t layer = 0;
  double above = 0;  // height of the layers before `layer`
  for (int column = 1; column < columns; ++column) {
    const double target = column * share;
    int best = -1;
    double least = 0;
    for (; layer < sizes.heights.size() && above <= target + kReach * share; ++layer) {
      const double cost =
          static_cast<double>(sizes.cut[layer]) + kCostOfShare * std::abs(above - target) / share;
      const bool near = above >= target - kReach * share;
      if (near && static_cast<int>(layer) > starts.back() && (best < 0 || cost < least)) {
        best = static_cast<int>(layer);
        least = cost;
      }
      above += sizes.heights[layer];
    }
    if (best >= 0) {
      starts.push_back(best);
    }
  }
  return starts;
}

}  // namespace beamwright::ops
