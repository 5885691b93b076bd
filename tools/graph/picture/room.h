// A graph as it is drawn: boxes with lines, rooms for bodies inside them, and where each stands.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_ROOM_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_ROOM_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/graph/graph.h"
#include "tools/graph/picture/layout.h"

namespace beamwright::ops {

// A node in a box.
struct BoxLine {
  int node = 0;
  std::string label;               // its operator, or a port's name
  std::vector<std::string> chips;  // what is folded into it
  std::string shape;               // of its output, where it is news
  bool heavy = false;              // it reads a constant of two or more axes, or holds a body
  bool quiet = false;              // it computes nothing, but hands elements on in another form
};

struct Room;

struct Box {
  // Each line but the first reads the one above and nothing else that is not folded.
  std::vector<BoxLine> lines;
  bool port = false;  // a Parameter or a Result
  std::vector<std::unique_ptr<Room>> rooms;
  std::vector<Point> room_corners;  // relative to the box
  double width = 0;
  double height = 0;
};

struct Room {
  const Graph* graph = nullptr;
  int number = 0;  // unique in a picture
  std::string title;
  std::vector<Box> boxes;
  std::vector<int> box_of;  // by node; -1: folded into its readers, or not shown
  std::vector<LayoutEdge> edges;
  std::vector<ValueId> edge_values;  // by edge: what flows
  Layout layout;
};

inline constexpr double kLineHeight = 20;
inline constexpr double kHeaderHeight = 22;
inline constexpr double kRoomPadding = 12;
inline constexpr double kRoomTitleHeight = 16;
inline constexpr double kRoomGap = 14;

// `loop`: whose body the graph is, or null. `shown`: by node; empty: all. `numbers` counts rooms.
Room MakeRoom(const Graph& graph, const Loop* loop, const std::vector<bool>& shown, int& numbers);

enum class Folding {
  kDrawn,
  kConstant,  // computed of constants alone
  kExtents,   // of extents, and perhaps of constants
};
// By node: whether it is folded into what reads it.
std::vector<Folding> FoldNodes(const Graph& graph);

// What a mention of a box says: its last line's label.
std::string MentionText(const Box& box);

// `text` made printable and cut to at most `most` characters.
std::string Shortened(const std::string& text, size_t most);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_ROOM_H_
