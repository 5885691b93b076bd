// A layered layout, as graphs of computations are drawn: what is computed first stands on top, each
// edge leads down. Long graphs are folded like a newspaper: they go on at the top of the next
// column, so that a drawing is about as wide as it is high. An edge that would lead to another
// column, or past many layers, is not drawn; a mention of the item that it comes from stands where
// it is read, as a net's label does in a circuit diagram. So every line is short, and can be
// followed.
//
// The steps are those of Sugiyama, Tagawa and Toda (1981): layers, then orders within them by
// barycenters, then positions; the last as a least-squares problem for each layer, solved exactly
// by pooling adjacent violators. The time is linear in items and edges but for sorting.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_LAYOUT_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_LAYOUT_H_

#include <vector>

namespace beamwright::ops {

// Lengths are in pixels, y grows downwards.
struct Point {
  double x = 0;
  double y = 0;
};

struct LayoutItem {
  double width = 0;
  double height = 0;
  double mention_width = 0;  // of a label that names it elsewhere
};

// Items stand in topological order: from < to.
struct LayoutEdge {
  int from = 0;
  int to = 0;
};

struct Layout {
  struct Mention {
    int item = 0;  // that it names
    Point corner;  // upper left
    double width = 0;
  };
  // From the lower side of an item or mention to the upper side of another. Between points 2i and
  // 2i + 1 a line is vertical, between 2i + 1 and 2i + 2 it goes from one layer to the next.
  struct Line {
    int edge = 0;      // index into the edges given
    int mention = -1;  // where it starts; -1: at the edge's item
    std::vector<Point> points;
  };

  std::vector<Point> corners;  // by item: upper left
  std::vector<Mention> mentions;
  std::vector<Line> lines;
  std::vector<double> column_ends;  // x of what divides columns
  double width = 0;
  double height = 0;
};

inline constexpr double kMentionHeight = 16;

// The same input gives the same layout.
Layout LayOut(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_LAYOUT_H_
