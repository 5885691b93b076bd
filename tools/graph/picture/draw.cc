#include "tools/graph/picture/draw.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "ops/base/printable.h"

namespace beamwright::ops {
namespace {

constexpr double kMargin = 16;
constexpr double kPartTitle = 22;
constexpr double kPartGap = 28;
constexpr double kLegend = 26;
constexpr double kTextDrop = 14;  // from a line's upper side to the foot of its text
constexpr double kTextIndent = 8;
constexpr double kShapeIndent = 8;
constexpr size_t kMostTitle = 60;
constexpr size_t kMostTip = 200;

// A tenth of a pixel is enough.
std::string Px(double value) { return absl::StrCat(std::round(value * 10) / 10); }

class Drawing {
 public:
  explicit Drawing(const PictureView& view) : view_(view) {}

  std::string Run(const std::vector<Room>& rooms, absl::string_view style) {
    double width = 420;
    double y = kMargin + kLegend;
    std::vector<double> tops;
    for (size_t i = 0; i < rooms.size(); ++i) {
      y += view_.parts[i].title.empty() ? 0 : kPartTitle;
      tops.push_back(y);
      width = std::max(width, rooms[i].layout.width);
      y += rooms[i].layout.height + kPartGap;
    }
    width += 2 * kMargin;
    const double height = y - kPartGap + kMargin;
    absl::StrAppend(
        &text_, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"graph\" viewBox=\"0 0 ",
        Px(width), " ", Px(height), "\" width=\"", Px(width), "\" height=\"", Px(height), "\">\n");
    if (!style.empty()) {
      absl::StrAppend(&text_, "<style>", style, "</style>\n");
    }
    absl::StrAppend(&text_, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
    DrawLegend();
    for (size_t i = 0; i < rooms.size(); ++i) {
      if (!view_.parts[i].title.empty()) {
        Text("part", kMargin, tops[i] - kPartTitle + kTextDrop,
             Shortened(view_.parts[i].title, kMostTitle));
      }
      DrawRoom(rooms[i], {kMargin, tops[i]});
    }
    absl::StrAppend(&text_, "</svg>\n");
    return std::move(text_);
  }

 private:
  void Text(absl::string_view style, double x, double y, absl::string_view text,
            absl::string_view more = "") {
    absl::StrAppend(&text_, "<text class=\"", style, "\" x=\"", Px(x), "\" y=\"", Px(y), "\"", more,
                    ">", Escaped(text), "</text>\n");
  }

  void Rectangle(absl::string_view style, Point corner, double width, double height,
                 double radius) {
    absl::StrAppend(&text_, "<rect class=\"", style, "\" x=\"", Px(corner.x), "\" y=\"",
                    Px(corner.y), "\" width=\"", Px(width), "\" height=\"", Px(height), "\" rx=\"",
                    Px(radius), "\"/>\n");
  }

  void DrawLegend() {
    struct Entry {
      const char* style;
      const char* text;
    };
    double x = kMargin;
    for (const Entry& entry : {Entry{"token", "token"}, Entry{"request", "request"},
                               Entry{"row", "row"}, Entry{"apart", "one at a time"}}) {
      Rectangle(absl::StrCat("fill ", entry.style), {x, kMargin}, 12, 12, 2);
      Text("legend", x + 17, kMargin + 10, entry.text);
      x += 34 + 6 * static_cast<double>(std::string(entry.text).size());
    }
    Text("legend heavy", x, kMargin + 10, "reads weights");
  }

  void DrawRoom(const Room& room, Point origin) {
    for (const double x : room.layout.column_ends) {
      absl::StrAppend(&text_, "<path class=\"fold\" d=\"M", Px(origin.x + x), " ", Px(origin.y),
                      "V", Px(origin.y + room.layout.height), "\"/>\n");
    }
    for (const Layout::Line& line : room.layout.lines) {
      DrawLine(room, line, origin);
    }
    for (const Layout::Mention& mention : room.layout.mentions) {
      DrawMention(room, mention, origin);
    }
    for (size_t i = 0; i < room.boxes.size(); ++i) {
      const Point corner = room.layout.corners[i];
      DrawBox(room, room.boxes[i], {origin.x + corner.x, origin.y + corner.y});
    }
  }

  void DrawLine(const Room& room, const Layout::Line& line, Point origin) {
    const ValueId value = room.edge_values[static_cast<size_t>(line.edge)];
    const Box& to = room.boxes[static_cast<size_t>(room.edges[static_cast<size_t>(line.edge)].to)];
    absl::StrAppend(&text_, "<path class=\"line\" data-from=\"", room.number, ".", value.node,
                    "\" data-to=\"", room.number, ".", to.lines[0].node, "\" d=\"");
    const auto at = [&](size_t i) {
      return absl::StrCat(Px(origin.x + line.points[i].x), " ", Px(origin.y + line.points[i].y));
    };
    absl::StrAppend(&text_, "M", at(0));
    for (size_t i = 1; i < line.points.size(); ++i) {
      const bool straight = i % 2 == 1 || line.points[i].x == line.points[i - 1].x;
      if (straight) {
        absl::StrAppend(&text_, "L", at(i));
        continue;
      }
      const double middle = origin.y + (line.points[i - 1].y + line.points[i].y) / 2;
      absl::StrAppend(&text_, "C", Px(origin.x + line.points[i - 1].x), " ", Px(middle), " ",
                      Px(origin.x + line.points[i].x), " ", Px(middle), " ", at(i));
    }
    absl::StrAppend(&text_, "\"/>\n");
  }

  void DrawMention(const Room& room, const Layout::Mention& mention, Point origin) {
    const Box& box = room.boxes[static_cast<size_t>(mention.item)];
    const Point corner{origin.x + mention.corner.x, origin.y + mention.corner.y};
    const std::string text = MentionText(box);
    const double width = mention.width;
    absl::StrAppend(&text_, "<g class=\"mention\" data-of=\"", room.number, ".",
                    box.lines.back().node, "\">\n");
    Rectangle("mention", corner, width, kMentionHeight, kMentionHeight / 2);
    Text("mention", corner.x + width / 2, corner.y + 11.5, text);
    absl::StrAppend(&text_, "</g>\n");
  }

  void DrawBox(const Room& room, const Box& box, Point corner) {
    if (!box.rooms.empty()) {
      Rectangle("frame", corner, box.width, box.height, 6);
    }
    double y = corner.y;
    for (const BoxLine& line : box.lines) {
      DrawNode(room, box, line, {corner.x, y});
      y += kLineHeight;
    }
    if (box.rooms.empty()) {
      Rectangle(box.port ? "edge port" : "edge", corner, box.width, box.height,
                box.port ? kLineHeight / 2 : 4);
    }
    for (size_t i = 0; i < box.rooms.size(); ++i) {
      const Point inside{corner.x + box.room_corners[i].x, corner.y + box.room_corners[i].y};
      if (box.rooms.size() > 1) {
        Text("room", inside.x, inside.y - kRoomPadding + 2, box.rooms[i]->title);
      }
      DrawRoom(*box.rooms[i], inside);
    }
  }

  void DrawNode(const Room& room, const Box& box, const BoxLine& line, Point corner) {
    const Node& node = room.graph->node(line.node);
    const NodeMark mark = view_.mark(*room.graph, line.node);
    const std::string label =
        absl::StrCat(Shortened(node.op, kMostTitle), " ", Shortened(node.name, kMostTip));
    absl::StrAppend(&text_, "<g class=\"node\" data-node=\"", room.number, ".", line.node, "\">");
    absl::StrAppend(
        &text_, "<title>", Escaped(label),
        mark.note.empty() ? "" : absl::StrCat(": ", Escaped(Shortened(mark.note, kMostTip))),
        "</title>\n");
    const std::string style =
        absl::StrCat("fill", mark.scope.has_value() ? " " : "",
                     mark.scope.has_value() ? Name(*mark.scope) : "", mark.apart ? " apart" : "");
    const double height = box.rooms.empty() ? kLineHeight : kHeaderHeight;
    Rectangle(style, corner, box.width, height,
              box.port                ? kLineHeight / 2
              : box.lines.size() == 1 ? 4
                                      : 0);
    absl::StrAppend(&text_, "<text class=\"",
                    line.heavy   ? "label heavy"
                    : line.quiet ? "label quiet"
                                 : "label",
                    "\" x=\"", Px(corner.x + kTextIndent), "\" y=\"", Px(corner.y + kTextDrop),
                    "\">", Escaped(line.label));
    for (const std::string& chip : line.chips) {
      absl::StrAppend(&text_, "<tspan class=\"chip\" dx=\"6\">", Escaped(chip), "</tspan>");
    }
    absl::StrAppend(&text_, "</text>\n");
    if (!line.shape.empty()) {
      Text("shape", corner.x + box.width - kShapeIndent, corner.y + kTextDrop, line.shape);
    }
    absl::StrAppend(&text_, "</g>\n");
  }

  const PictureView& view_;
  std::string text_;
};

}  // namespace

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string DrawView(const PictureView& view, const std::vector<Room>& rooms,
                     absl::string_view style) {
  return Drawing(view).Run(rooms, style);
}

std::vector<Room> MakeRooms(const PictureView& view, int& numbers) {
  std::vector<Room> rooms;
  for (const PictureView::Part& part : view.parts) {
    rooms.push_back(MakeRoom(*part.graph, part.loop, part.shown, numbers));
    rooms.back().title = part.title;
  }
  return rooms;
}

}  // namespace beamwright::ops
