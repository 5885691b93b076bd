#include "tools/graph/picture/room.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/printable.h"
#include "ops/base/utf8.h"
#include "tools/graph/picture/port_label.h"

namespace beamwright::ops {
namespace {

constexpr size_t kMostLabel = 30;
constexpr size_t kMostPortLabel = 24;
constexpr size_t kMostChips = 3;
constexpr size_t kMostChip = 18;
constexpr int64_t kMostNumbers = 4;
// About, in the font of picture.css.
constexpr double kLabelCharacter = 7.0;
constexpr double kChipCharacter = 5.8;
constexpr double kLinePadding = 9;
constexpr double kLeastWidth = 44;

size_t Characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

bool IsPort(const Node& node) { return node.op == "Parameter" || node.op == "Result"; }

bool IsQuiet(const std::string& op) {
  constexpr absl::string_view kQuiet[] = {"Convert", "ConvertLike", "Identity", "Reshape",
                                          "Squeeze", "Transpose",   "Unsqueeze"};
  return std::find(std::begin(kQuiet), std::end(kQuiet), op) != std::end(kQuiet);
}

// "512×2048"; a type that is not f32 before it.
std::string Extents(const ValueInfo& info) {
  const std::string type = info.dtype == DType::kF32 || info.dtype == DType::kUndefined
                               ? ""
                               : absl::StrCat(Name(info.dtype), " ");
  if (!info.shape.has_rank()) {
    return absl::StrCat(type, "…");
  }
  return absl::StrCat(
      type, info.shape.rank() == 0
                ? "scalar"
                : absl::StrJoin(info.shape.dims(), "×", [](std::string* out, int64_t dim) {
                    absl::StrAppend(out, dim < 0 ? "?" : absl::StrCat(dim));
                  }));
}

std::string IntegerText(int64_t value) {
  // Slices without an end.
  return value == std::numeric_limits<int64_t>::max()   ? "∞"
         : value == std::numeric_limits<int64_t>::min() ? "−∞"
                                                        : absl::StrCat(value);
}

// The number or the few integers that a constant is; empty: it is more than that.
std::string NumberText(const Tensor& tensor) {
  if (!tensor.has_value() || tensor.rank() > 1 || tensor.num_elements() > kMostNumbers) {
    return "";
  }
  const absl::StatusOr<std::vector<int64_t>> integers = ToInt64(tensor);
  if (integers.ok()) {
    const std::string text = absl::StrJoin(*integers, ",", [](std::string* out, int64_t value) {
      absl::StrAppend(out, IntegerText(value));
    });
    return integers->size() == 1 ? text : absl::StrCat("[", text, "]");
  }
  const absl::StatusOr<std::vector<float>> floats = ToFloat32(tensor);
  return floats.ok() && floats->size() == 1 ? absl::StrCat((*floats)[0]) : "";
}

// The end of a long name, which tells more than its beginning: frameworks write the way to a
// variable.
std::string Ending(const std::string& name, size_t most) {
  const std::string printable = Printable(name);
  const size_t count = Characters(printable);
  size_t begin = 0;
  for (size_t i = most - 1; count > most && i < count; ++i) {
    begin +=
        static_cast<size_t>(std::max(Utf8Length(absl::string_view(printable).substr(begin)), 1));
  }
  return begin == 0 ? printable : absl::StrCat("…", printable.substr(begin));
}

class RoomMaker {
 public:
  RoomMaker(const Graph& graph, const Loop* loop, const std::vector<bool>& shown, int& numbers)
      : graph_(graph), loop_(loop), shown_(shown), numbers_(numbers), foldings_(FoldNodes(graph)) {}

  Room Run() {
    room_.graph = &graph_;
    room_.number = numbers_++;
    room_.box_of.assign(graph_.nodes.size(), -1);
    CountReaders();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (IsShown(static_cast<int>(i))) {
        AddNode(static_cast<int>(i));
      }
    }
    for (Box& box : room_.boxes) {
      Measure(box);
    }
    std::vector<LayoutItem> items;
    for (const Box& box : room_.boxes) {
      items.push_back({box.width, box.height,
                       2 * kLinePadding + kChipCharacter * Characters(MentionText(box)) + 12});
    }
    CollectEdges();
    room_.layout = LayOut(items, room_.edges);
    return std::move(room_);
  }

 private:
  bool IsFolded(int node) const { return foldings_[static_cast<size_t>(node)] != Folding::kDrawn; }

  bool IsShown(int node) const {
    return !IsFolded(node) && (shown_.empty() || shown_[static_cast<size_t>(node)]);
  }

  void CountReaders() {
    readers_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (IsShown(static_cast<int>(i))) {
        for (const ValueId id : Flowing(static_cast<int>(i))) {
          ++readers_[static_cast<size_t>(id.node)];
        }
      }
    }
  }

  // Inputs that are drawn as lines, without repetitions.
  std::vector<ValueId> Flowing(int node) const {
    std::vector<ValueId> values;
    for (const ValueId id : graph_.node(node).inputs) {
      if (id.present() && IsShown(id.node) &&
          std::find(values.begin(), values.end(), id) == values.end()) {
        values.push_back(id);
      }
    }
    return values;
  }

  void AddNode(int index) {
    const Node& node = graph_.node(index);
    const std::vector<ValueId> flowing = Flowing(index);
    if (node.op == "Result" && flowing.size() == 1 && PassesOn(flowing[0])) {
      const int box = room_.box_of[static_cast<size_t>(flowing[0].node)];
      room_.box_of[static_cast<size_t>(index)] = box;
      room_.boxes[static_cast<size_t>(box)].lines.push_back(LineOf(index));
      return;
    }
    const bool alone = IsPort(node) || node.loop != nullptr || node.branches != nullptr;
    if (!alone && flowing.size() == 1) {
      const int box = room_.box_of[static_cast<size_t>(flowing[0].node)];
      Box& above = room_.boxes[static_cast<size_t>(box)];
      if (above.rooms.empty() && !above.port && above.lines.back().node == flowing[0].node &&
          readers_[static_cast<size_t>(flowing[0].node)] == 1) {
        room_.box_of[static_cast<size_t>(index)] = box;
        above.lines.push_back(LineOf(index));
        return;
      }
    }
    room_.box_of[static_cast<size_t>(index)] = static_cast<int>(room_.boxes.size());
    Box& box = room_.boxes.emplace_back();
    box.port = IsPort(node);
    box.lines.push_back(LineOf(index));
    VisitBodies(node, [&](const Graph& body, absl::string_view what) {
      auto room = std::make_unique<Room>(MakeRoom(body, node.loop.get(), {}, numbers_));
      room->title = std::string(what);
      box.rooms.push_back(std::move(room));
    });
  }

  // A Parameter that one Result alone reads: a loop's body hands it on as it is.
  bool PassesOn(ValueId id) const {
    return graph_.node(id.node).op == "Parameter" && readers_[static_cast<size_t>(id.node)] == 1;
  }

  BoxLine LineOf(int index) const {
    const Node& node = graph_.node(index);
    BoxLine line;
    line.node = index;
    line.label = IsPort(node) ? Ending(PortLabel(graph_, loop_, index), kMostPortLabel)
                              : Shortened(node.op, kMostLabel);
    for (const ValueId id : node.inputs) {
      if (id.present() && IsFolded(id.node)) {
        AddChip(id, line);
      }
    }
    if (node.loop != nullptr) {
      line.chips = {Shortened(node.name, kMostLabel)};
    }
    line.quiet = IsQuiet(node.op);
    line.heavy = line.heavy || node.loop != nullptr || node.branches != nullptr;
    line.shape = ShapeNews(node);
    return line;
  }

  void AddChip(ValueId id, BoxLine& line) const {
    const ValueInfo& info = graph_.info(id);
    const bool constant = foldings_[static_cast<size_t>(id.node)] == Folding::kConstant;
    const std::string number = NumberText(graph_.node(id.node).constant);
    line.heavy = line.heavy || (constant && info.shape.has_rank() && info.shape.rank() > 1);
    if (line.chips.size() >= kMostChips) {
      line.chips.back() = "…";
      return;
    }
    line.chips.push_back(Shortened(!constant        ? "extents"
                                   : number.empty() ? Extents(info)
                                                    : number,
                                   kMostChip));
  }

  // The output's extents, unless they are those of the first input.
  std::string ShapeNews(const Node& node) const {
    if (node.outputs.size() != 1 || node.op == "Result") {
      return "";
    }
    const std::string shape = Extents(node.outputs[0]);
    for (const ValueId id : node.inputs) {
      if (id.present() && !IsFolded(id.node)) {
        return Extents(graph_.info(id)) == shape ? "" : Shortened(shape, kMostLabel);
      }
    }
    return Shortened(shape, kMostLabel);
  }

  static void Measure(Box& box) {
    box.width = kLeastWidth;
    for (const BoxLine& line : box.lines) {
      double width =
          2 * kLinePadding + kLabelCharacter * static_cast<double>(Characters(line.label));
      for (const std::string& chip : line.chips) {
        width += kChipCharacter * static_cast<double>(Characters(chip)) + 6;
      }
      if (!line.shape.empty()) {
        width += kChipCharacter * static_cast<double>(Characters(line.shape)) + 12;
      }
      box.width = std::max(box.width, width);
    }
    box.height = kLineHeight * static_cast<double>(box.lines.size());
    if (box.rooms.empty()) {
      return;
    }
    double x = kRoomPadding;
    double height = 0;
    const double top = kHeaderHeight + (box.rooms.size() > 1 ? kRoomTitleHeight : 0) + kRoomPadding;
    for (const std::unique_ptr<Room>& room : box.rooms) {
      box.room_corners.push_back({x, top});
      x += std::max(room->layout.width, kLeastWidth) + kRoomGap;
      height = std::max(height, room->layout.height);
    }
    box.width = std::max(box.width, x - kRoomGap + kRoomPadding);
    box.height = top + height + kRoomPadding;
  }

  void CollectEdges() {
    std::set<std::pair<int, std::pair<int, int>>> seen;  // reader, value
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int to = room_.box_of[i];
      if (to < 0) {
        continue;
      }
      for (const ValueId id : Flowing(static_cast<int>(i))) {
        const int from = room_.box_of[static_cast<size_t>(id.node)];
        if (from != to && seen.insert({to, {id.node, id.output}}).second) {
          room_.edges.push_back({from, to});
          room_.edge_values.push_back(id);
        }
      }
    }
  }

  const Graph& graph_;
  const Loop* const loop_;
  const std::vector<bool>& shown_;
  int& numbers_;
  const std::vector<Folding> foldings_;
  std::vector<int> readers_;  // by node
  Room room_;
};

}  // namespace

std::vector<Folding> FoldNodes(const Graph& graph) {
  std::vector<Folding> foldings(graph.nodes.size(), Folding::kDrawn);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == "Constant" || node.op == "ShapeOf") {
      foldings[i] = node.op == "Constant" ? Folding::kConstant : Folding::kExtents;
      continue;
    }
    if (IsPort(node) || node.loop != nullptr || node.branches != nullptr || node.inputs.empty()) {
      continue;
    }
    Folding folding = Folding::kConstant;
    for (const ValueId id : node.inputs) {
      const Folding of = id.present() ? foldings[static_cast<size_t>(id.node)] : Folding::kConstant;
      if (of == Folding::kDrawn || folding == Folding::kDrawn) {
        folding = Folding::kDrawn;
      } else if (of == Folding::kExtents) {
        folding = Folding::kExtents;
      }
    }
    foldings[i] = folding;
  }
  return foldings;
}

std::string MentionText(const Box& box) { return Shortened(box.lines.back().label, 16); }

std::string Shortened(const std::string& text, size_t most) {
  const std::string printable = Printable(text);
  if (Characters(printable) <= most) {
    return printable;
  }
  size_t end = 0;
  for (size_t i = 0; i + 1 < most; ++i) {
    end += static_cast<size_t>(std::max(Utf8Length(absl::string_view(printable).substr(end)), 1));
  }
  return absl::StrCat(printable.substr(0, end), "…");
}

Room MakeRoom(const Graph& graph, const Loop* loop, const std::vector<bool>& shown, int& numbers) {
  return RoomMaker(graph, loop, shown, numbers).Run();
}

}  // namespace beamwright::ops
