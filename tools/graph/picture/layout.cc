#include "tools/graph/picture/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "tools/graph/picture/column.h"
#include "tools/graph/picture/layers.h"

namespace beamwright::ops {
namespace {

constexpr int kLongest = 9;  // layers that an edge may lead down
constexpr double kColumnGap = 32;
constexpr double kAspect = 1.25;  // of a window: width by height
constexpr double kShortestColumn = 250;
constexpr double kWorthACut = 0.97;  // one more column must make the drawing smaller than so much
constexpr int kMostColumns = 16;
constexpr size_t kMostItemsToTry = 4000;  // a larger drawing is never seen as a whole
constexpr double kBendWidth = 4;
constexpr double kMostSpread = 12;   // between lines that end at one item
constexpr double kSpreadMargin = 8;  // of an item's side

// A drawing in the making: columns, and what their cells stand for.
class Builder {
 public:
  Builder(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges,
          const std::vector<int>& layers)
      : items_(items), edges_(edges), layers_(layers) {}

  Layout Run(int columns) {
    PlaceItems(CutColumns(items_, edges_, layers_, columns));
    PlaceEdges();
    layout_.corners.resize(items_.size());
    double x = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      Arrange(columns_[i]);
      if (i > 0) {
        layout_.column_ends.push_back(x + kColumnGap / 2);
        x += kColumnGap;
      }
      Shift(columns_[i], x);
      x += columns_[i].width;
      layout_.height = std::max(layout_.height, columns_[i].height);
    }
    layout_.width = x;
    CollectCorners();
    CollectLines();
    return std::move(layout_);
  }

 private:
  // A cell of a column.
  struct Place {
    int column = 0;
    int cell = 0;
  };
  struct Way {
    int edge = 0;
    int mention = -1;
    Place from;  // in one column with the cells behind it
    std::vector<int> cells;
  };

  static void Shift(Column& column, double x) {
    for (ColumnCell& cell : column.cells) {
      cell.x += x;
    }
  }

  int AddCell(int column, ColumnCell cell) {
    Column& to = columns_[static_cast<size_t>(column)];
    to.cells.push_back(std::move(cell));
    return static_cast<int>(to.cells.size()) - 1;
  }

  const ColumnCell& cell(const Place& place) const {
    return columns_[static_cast<size_t>(place.column)].cell(place.cell);
  }

  // A layer more on top of each column has room for mentions.
  void PlaceItems(const std::vector<int>& starts) {
    columns_.resize(starts.size());
    for (size_t i = 0; i < items_.size(); ++i) {
      const auto after = std::upper_bound(starts.begin(), starts.end(), layers_[i]);
      const int column = static_cast<int>(after - starts.begin()) - 1;
      ColumnCell placed;
      placed.width = items_[i].width;
      placed.height = items_[i].height;
      placed.layer = layers_[i] - starts[static_cast<size_t>(column)] + 1;
      places_.push_back({column, AddCell(column, std::move(placed))});
    }
  }

  void PlaceEdges() {
    std::vector<int> order(edges_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
      return layers_[static_cast<size_t>(edge(a).to)] < layers_[static_cast<size_t>(edge(b).to)];
    });
    for (const int index : order) {
      const Place from = places_[static_cast<size_t>(edge(index).from)];
      const Place to = places_[static_cast<size_t>(edge(index).to)];
      const bool is_short = cell(to).layer - cell(from).layer <= kLongest;
      if (from.column == to.column && is_short) {
        AddWay(index, -1, from, to.cell);
      } else {
        const int mention = MentionFor(edge(index).from, to);
        AddWay(index, mention, mentions_[static_cast<size_t>(mention)].second, to.cell);
      }
    }
  }

  const LayoutEdge& edge(int index) const { return edges_[static_cast<size_t>(index)]; }

  // One right above the reader, or the last one of the item where that is near.
  int MentionFor(int item, const Place& reader) {
    const auto last = last_mention_.find({item, reader.column});
    const int layer = cell(reader).layer;
    if (last != last_mention_.end()) {
      const int known = cell(mentions_[static_cast<size_t>(last->second)].second).layer;
      if (layer - known <= 2) {
        return last->second;
      }
    }
    ColumnCell placed;
    placed.width = items_[static_cast<size_t>(item)].mention_width;
    placed.height = kMentionHeight;
    placed.layer = layer - 1;
    const int index = static_cast<int>(mentions_.size());
    const int column = reader.column;
    mentions_.push_back({item, Place{column, AddCell(column, std::move(placed))}});
    last_mention_[{item, column}] = index;
    return index;
  }

  void AddWay(int index, int mention, const Place& from, int to) {
    Way way{index, mention, from, {}};
    Column& column = columns_[static_cast<size_t>(from.column)];
    int above = from.cell;
    for (int layer = column.cell(from.cell).layer + 1; layer < column.cell(to).layer; ++layer) {
      ColumnCell bend;
      bend.width = kBendWidth;
      bend.layer = layer;
      bend.bend = true;
      const int next = AddCell(from.column, std::move(bend));
      Connect(column, above, next);
      way.cells.push_back(next);
      above = next;
    }
    Connect(column, above, to);
    way.cells.push_back(to);
    ways_.push_back(std::move(way));
  }

  static Point Corner(const ColumnCell& cell) { return {cell.x - cell.width / 2, cell.top}; }

  void CollectCorners() {
    for (size_t i = 0; i < items_.size(); ++i) {
      layout_.corners[i] = Corner(cell(places_[i]));
    }
    for (const auto& [item, place] : mentions_) {
      layout_.mentions.push_back({item, Corner(cell(place)), cell(place).width});
    }
  }

  // x where the nth of `count` lines meets an item.
  static double Spread(const ColumnCell& cell, size_t nth, size_t count) {
    const double usable = std::max(0.0, cell.width - 2 * kSpreadMargin);
    const double step =
        count < 2 ? 0 : std::min(kMostSpread, usable / static_cast<double>(count - 1));
    return cell.x + step * (static_cast<double>(nth) - static_cast<double>(count - 1) / 2);
  }

  // By way: x where it ends. The lines that end at an item come in the order of where they come
  // from.
  std::vector<double> LineEnds() const {
    std::map<std::pair<int, int>, std::vector<size_t>> arriving;
    for (size_t i = 0; i < ways_.size(); ++i) {
      arriving[{ways_[i].from.column, ways_[i].cells.back()}].push_back(i);
    }
    std::vector<double> ends(ways_.size());
    for (auto& [to, ways] : arriving) {
      const Column& column = columns_[static_cast<size_t>(to.first)];
      std::stable_sort(ways.begin(), ways.end(), [&](size_t a, size_t b) {
        return LastButOne(column, ways_[a]).x < LastButOne(column, ways_[b]).x;
      });
      for (size_t i = 0; i < ways.size(); ++i) {
        ends[ways[i]] = Spread(column.cell(to.second), i, ways.size());
      }
    }
    return ends;
  }

  static const ColumnCell& LastButOne(const Column& column, const Way& way) {
    return column.cell(way.cells.size() > 1 ? way.cells[way.cells.size() - 2] : way.from.cell);
  }

  void CollectLines() {
    const std::vector<double> ends = LineEnds();
    for (size_t i = 0; i < ways_.size(); ++i) {
      const Way& way = ways_[i];
      const Column& column = columns_[static_cast<size_t>(way.from.column)];
      const auto layer_top = [&](const ColumnCell& of) {
        return column.layer_tops[static_cast<size_t>(of.layer)];
      };
      const auto layer_end = [&](const ColumnCell& of) {
        return column.layer_ends[static_cast<size_t>(of.layer)];
      };
      Layout::Line line{way.edge, way.mention, {}};
      const ColumnCell& from = column.cell(way.from.cell);
      line.points.push_back({from.x, from.top + from.height});
      line.points.push_back({from.x, layer_end(from)});
      for (size_t bend = 0; bend + 1 < way.cells.size(); ++bend) {
        const ColumnCell& passed = column.cell(way.cells[bend]);
        line.points.push_back({passed.x, layer_top(passed)});
        line.points.push_back({passed.x, layer_end(passed)});
      }
      const ColumnCell& to = column.cell(way.cells.back());
      line.points.push_back({ends[i], layer_top(to)});
      line.points.push_back({ends[i], to.top});
      layout_.lines.push_back(std::move(line));
    }
  }

  const std::vector<LayoutItem>& items_;
  const std::vector<LayoutEdge>& edges_;
  const std::vector<int>& layers_;
  std::vector<Column> columns_;
  std::vector<Place> places_;                        // by item
  std::vector<std::pair<int, Place>> mentions_;      // item, its cell
  std::map<std::pair<int, int>, int> last_mention_;  // item and column -> index into mentions_
  std::vector<Way> ways_;
  Layout layout_;
};

// How large a window of the usual form must be for it.
double SizeOf(const Layout& layout) { return std::max(layout.width / kAspect, layout.height); }

}  // namespace

Layout LayOut(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges) {
  const std::vector<int> layers = FindLayers(items, edges);
  Layout best = Builder(items, edges, layers).Run(1);
  const int most = items.size() > kMostItemsToTry
                       ? kMostColumns
                       : std::min(kMostColumns, static_cast<int>(best.height / kShortestColumn));
  const int least = items.size() > kMostItemsToTry ? kMostColumns : 2;
  for (int columns = least; columns <= most; ++columns) {
    Layout layout = Builder(items, edges, layers).Run(columns);
    if (SizeOf(layout) < kWorthACut * SizeOf(best)) {
      best = std::move(layout);
    }
  }
  return best;
}

}  // namespace beamwright::ops
