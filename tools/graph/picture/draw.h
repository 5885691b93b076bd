// A room as SVG elements, and a graph's nodes as data for the page.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_DRAW_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_DRAW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "ops/base/json_writer.h"
#include "tools/graph/picture/picture.h"
#include "tools/graph/picture/room.h"

namespace beamwright::ops {

// Text between tags and in double-quoted attributes of XML and HTML.
std::string Escaped(absl::string_view text);

// The whole picture: <svg> with its size as viewBox. Elements of class "node" have data-node
// "<room>.<node>", lines data-from and data-to. `style`: content of its <style>, or "" for none.
std::string DrawView(const PictureView& view, const std::vector<Room>& rooms,
                     absl::string_view style);

// Rooms of the view's parts, numbered from `numbers` on.
std::vector<Room> MakeRooms(const PictureView& view, int& numbers);

// An array of rooms: title, and of each node, folded ones too, what a person may ask.
void WriteRooms(const PictureView& view, const std::vector<Room>& rooms, JsonWriter& json);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_DRAW_H_
