// What the page knows of each node.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/printable.h"
#include "ops/graph/file_operator.h"
#include "tools/graph/picture/draw.h"
#include "tools/graph/picture/port_label.h"

namespace beamwright::ops {
namespace {

constexpr size_t kMostElements = 8;  // of a list or a constant that are shown

std::string ValueText(int64_t value) { return absl::StrCat(value); }
std::string ValueText(double value) { return absl::StrCat(value); }
std::string ValueText(bool value) { return value ? "true" : "false"; }
std::string ValueText(const std::string& value) { return Shortened(value, 200); }
template <typename T>
std::string ValueText(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == kMostElements) {
      absl::StrAppend(&text, ", … ", values.size(), " in all");
      break;
    }
    absl::StrAppend(&text, i > 0 ? ", " : "", ValueText(T(values[i])));
  }
  return absl::StrCat(text, "]");
}

std::string TypeText(const ValueInfo& info) {
  return absl::StrCat(info.dtype == DType::kUndefined ? "?" : Name(info.dtype),
                      info.shape.ToString());
}

std::string ConstantText(const Tensor& tensor) {
  if (!tensor.has_value() || tensor.num_elements() > static_cast<int64_t>(kMostElements)) {
    return "";
  }
  const absl::StatusOr<std::vector<int64_t>> integers = ToInt64(tensor);
  if (integers.ok()) {
    return ValueText(*integers);
  }
  const absl::StatusOr<std::vector<float>> floats = ToFloat32(tensor);
  return floats.ok() ? ValueText(std::vector<double>(floats->begin(), floats->end())) : "";
}

std::string LoopText(const Loop& loop) {
  std::vector<std::string> words;
  for (const LoopInput& rule : loop.inputs) {
    const int parameter = loop.body.parameters[static_cast<size_t>(rule.body_parameter)];
    const std::string name = Shortened(PortName(loop.body, parameter), 60);
    switch (rule.kind) {
      case LoopInput::Kind::kSliced:
        words.push_back(absl::StrCat("'", name, "' slices axis ", rule.axis, " of input ",
                                     rule.input, rule.stride < 0 ? ", backwards" : ""));
        break;
      case LoopInput::Kind::kCarried:
        words.push_back(
            absl::StrCat("'", name, "' is a state that begins with input ", rule.input));
        break;
      case LoopInput::Kind::kInvariant:
        words.push_back(absl::StrCat("'", name, "' stays input ", rule.input));
        break;
      case LoopInput::Kind::kIteration:
        words.push_back(absl::StrCat("'", name, "' is the iteration's number"));
        break;
    }
  }
  return absl::StrJoin(words, "; ");
}

class DataWriter {
 public:
  DataWriter(const PictureView& view, JsonWriter& json) : view_(view), json_(json) {}

  void Write(const Room& room, const std::string& inside) {
    const std::string title = room.title.empty() ? inside : room.title;
    json_.BeginObject();
    json_.Key("room").Int(room.number);
    json_.Key("title").String(Printable(title));
    json_.Key("nodes").BeginArray();
    for (size_t i = 0; i < room.graph->nodes.size(); ++i) {
      WriteNode(room, static_cast<int>(i));
    }
    json_.EndArray();
    json_.EndObject();
    for (const Box& box : room.boxes) {
      for (const std::unique_ptr<Room>& inner : box.rooms) {
        Write(*inner,
              absl::StrCat(inner->title, " of ", Describe(room.graph->node(box.lines[0].node))));
      }
    }
  }

 private:
  void WriteText(absl::string_view key, const std::string& text) {
    if (!text.empty()) {
      json_.Key(key).String(Printable(text));
    }
  }

  void WriteNode(const Room& room, int index) {
    const Graph& graph = *room.graph;
    const Node& node = graph.node(index);
    json_.BeginObject();
    json_.Key("op").String(Printable(node.op));
    json_.Key("name").String(Shortened(node.name, 400));
    json_.Key("drawn").Bool(room.box_of[static_cast<size_t>(index)] >= 0);
    json_.Key("in").BeginArray();
    for (const ValueId id : node.inputs) {
      json_.BeginArray().Int(id.node).Int(id.output).EndArray();
    }
    json_.EndArray();
    json_.Key("out").BeginArray();
    for (const ValueInfo& info : node.outputs) {
      json_.String(TypeText(info));
    }
    json_.EndArray();
    json_.Key("attributes").BeginArray();
    for (const auto& [name, value] : node.attributes.values()) {
      if (name == kFileOperator) {
        continue;
      }
      json_.BeginArray().String(Printable(name));
      std::visit([this](const auto& v) { json_.String(ValueText(v)); }, value);
      json_.EndArray();
    }
    json_.EndArray();
    const NodeMark mark = view_.mark(graph, index);
    WriteText("scope", mark.scope.has_value() ? std::string(Name(*mark.scope)) : "");
    WriteText("note", mark.note);
    WriteText("cost", mark.cost);
    WriteText("value", ConstantText(node.constant));
    WriteText("loop", node.loop != nullptr ? LoopText(*node.loop) : "");
    if (mark.apart) {
      json_.Key("apart").Bool(true);
    }
    json_.EndObject();
  }

  const PictureView& view_;
  JsonWriter& json_;
};

}  // namespace

void WriteRooms(const PictureView& view, const std::vector<Room>& rooms, JsonWriter& json) {
  json.BeginArray();
  for (const Room& room : rooms) {
    DataWriter(view, json).Write(room, "");
  }
  json.EndArray();
}

}  // namespace beamwright::ops
