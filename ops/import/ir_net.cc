// Reads the layers and edges of a network of OpenVINO's IR from XML, as they are in the file:
//
// 1. ReadNet reads every <layer> of <layers> (ReadLayer: id, name, type, version, and the ports of
//    its inputs and outputs with their types and shapes, ReadPorts), then every <edge>. Nothing is
//    connected and no attribute is read: ir_graph.cc connects, and the importer reads each layer's
//    attributes by its type.
// 2. The functions Parse.. read the texts of attributes: numbers, lists, extents ("?", "-1",
//    "1..8"), shapes, types, and names with escaped commas.
//
// Files may come from anywhere: numbers of layers and ports and the lengths of names are bounded,
// ids must be unique, every number is checked, and a fault names its layer (Describe).
//
// An example, and what becomes of it:
//
//   <layer id="3" name="sum" type="Add" version="opset1">
//     <input><port id="0"><dim>-1</dim><dim>8</dim></port><port id="1"><dim>8</dim></port></input>
//     <output><port id="2" precision="FP32"
//     names="sum,total"><dim>-1</dim><dim>8</dim></port></output>
//   </layer>
//
//   IrLayer{id 3, inputs {0: [?, 8], 1: [8]}, outputs {2: f32 [?, 8], names sum and total}}
#include "ops/import/ir_net.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"

namespace beamwright::ops {

// Parses the texts of IR files: numbers, lists, extents ("?", "-1", "1..8"), shapes, types and
// names with escaped commas. Every number is checked, and messages quote at most 60 characters of
// the file, which may be hostile.

namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 48;

// Messages quote input; a hostile file must not make them long.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMost = 60;
  return text.size() <= kMost ? absl::StrCat("'", text, "'")
                              : absl::StrCat("'", text.substr(0, kMost), "...'");
}

std::vector<absl::string_view> SplitList(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) {
    return {};
  }
  std::vector<absl::string_view> items = absl::StrSplit(text, ',');
  for (absl::string_view& item : items) {
    item = absl::StripAsciiWhitespace(item);
  }
  return items;
}

template <typename T, typename Parse>
absl::StatusOr<AttributeValue> ParseList(absl::string_view text, Parse parse) {
  std::vector<T> values;
  for (const absl::string_view item : SplitList(text)) {
    BW_ASSIGN_OR_RETURN(T value, parse(item));
    values.push_back(std::move(value));
  }
  return AttributeValue(std::move(values));
}

absl::StatusOr<int64_t> ParseExtent(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > kMaxExtent) {
    return Invalid("extent ", Quoted(text),
                   " is not a number from 0 to 2^48, '?', '-1' or a range such as '1..8'");
  }
  return value;
}

}  // namespace

absl::StatusOr<int64_t> ParseInt(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return Invalid(Quoted(text), " is not an integer of 64 bits");
  }
  return value;
}

absl::StatusOr<double> ParseFloat(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || std::isnan(value)) {
    return Invalid(Quoted(text), " is not a number");
  }
  return value;
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  const absl::string_view word = absl::StripAsciiWhitespace(text);
  if (absl::EqualsIgnoreCase(word, "true") || word == "1") {
    return true;
  }
  if (absl::EqualsIgnoreCase(word, "false") || word == "0") {
    return false;
  }
  return Invalid(Quoted(text), " is neither true nor false");
}

absl::StatusOr<AttributeValue> ParseAttribute(AttributeKind kind, absl::string_view text) {
  const auto lower = [](absl::string_view item) -> absl::StatusOr<std::string> {
    return absl::AsciiStrToLower(absl::StripAsciiWhitespace(item));
  };
  switch (kind) {
    case AttributeKind::kInt:
      return ParseInt(text);
    case AttributeKind::kFloat:
      return ParseFloat(text);
    case AttributeKind::kBool:
      return ParseBool(text);
    case AttributeKind::kInts:
      return ParseList<int64_t>(text, ParseInt);
    case AttributeKind::kFloats:
      return ParseList<double>(text, ParseFloat);
    case AttributeKind::kEnums:
      return ParseList<std::string>(text, lower);
    case AttributeKind::kText:
      return std::string(text);
    case AttributeKind::kEnum:
    case AttributeKind::kDropped:
      break;
  }
  return lower(text);
}

// An extent of a port: a number, or open. A range "1..8" is open too, for graphs have no bounds of
// extents; one of a single number is that number.
absl::StatusOr<int64_t> ParseDim(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text == "?" || text == "-1") {
    return PartialShape::kDynamic;
  }
  const size_t dots = text.find("..");
  if (dots == absl::string_view::npos) {
    return ParseExtent(text);
  }
  const absl::string_view first = text.substr(0, dots);
  const absl::string_view last = text.substr(dots + 2);
  int64_t low = 0;
  int64_t high = kMaxExtent;
  if (!first.empty()) {
    BW_ASSIGN_OR_RETURN(low, ParseExtent(first));
  }
  if (!last.empty()) {
    BW_ASSIGN_OR_RETURN(high, ParseExtent(last));
  }
  if (low > high || (first.empty() && last.empty())) {
    return Invalid("extent ", Quoted(text), " is not a range");
  }
  return low == high ? low : PartialShape::kDynamic;
}

// The product of the known extents must be a number of elements that a tensor may have, whatever
// the open ones are.
absl::StatusOr<PartialShape> MakeShape(Shape dims) {
  if (dims.size() > static_cast<size_t>(kMaxIrRank)) {
    return Invalid("a shape of rank ", dims.size(), "; at most ", kMaxIrRank, " is allowed");
  }
  Shape known;
  for (const int64_t dim : dims) {
    if (dim != PartialShape::kDynamic) {
      known.push_back(dim);
    }
  }
  BW_RETURN_IF_ERROR(CheckedNumElements(known).status());
  return PartialShape(std::move(dims));
}

absl::StatusOr<PartialShape> ParseShape(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text) == "...") {
    return PartialShape();
  }
  Shape dims;
  for (const absl::string_view item : SplitList(text)) {
    BW_ASSIGN_OR_RETURN(const int64_t dim, ParseDim(item));
    dims.push_back(dim);
  }
  return MakeShape(std::move(dims));
}

absl::StatusOr<DType> ParsePortType(absl::string_view text) {
  for (const absl::string_view unknown : {"", "dynamic", "undefined", "unspecified"}) {
    if (absl::EqualsIgnoreCase(text, unknown)) {
      return DType::kUndefined;
    }
  }
  return ParseDType(text);
}

// Tensor names are separated by commas; a comma that belongs to a name comes behind a backslash.
std::vector<std::string> ParseNames(absl::string_view text) {
  std::vector<std::string> names;
  std::string name;
  const auto finish = [&] {
    const absl::string_view stripped = absl::StripAsciiWhitespace(name);
    if (!stripped.empty()) {
      names.emplace_back(stripped);
    }
    name.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',') {
      name.push_back(text[++i]);
    } else if (text[i] == ',') {
      finish();
    } else {
      name.push_back(text[i]);
    }
  }
  finish();
  return names;
}

namespace {

constexpr size_t kMaxLayers = 100'000;
constexpr size_t kMaxLayerPorts = 4'096;  // inputs or outputs of one layer
constexpr size_t kMaxLayerNameBytes = 1'024;

absl::StatusOr<ValueInfo> ReadPortInfo(pugi::xml_node xml) {
  ValueInfo info;
  BW_ASSIGN_OR_RETURN(info.dtype, ParsePortType(xml.attribute("precision").value()));
  Shape dims;
  for (const pugi::xml_node dim : xml.children("dim")) {
    BW_ASSIGN_OR_RETURN(const int64_t extent, ParseDim(dim.text().get()));
    dims.push_back(extent);
  }
  if (!dims.empty()) {
    BW_ASSIGN_OR_RETURN(info.shape, MakeShape(std::move(dims)));
  }
  info.names = ParseNames(xml.attribute("names").value());
  return info;
}

// The ports of an <input> or <output> element, which may be absent.
absl::StatusOr<IrPorts> ReadPorts(pugi::xml_node list) {
  IrPorts ports;
  for (const pugi::xml_node xml : list.children("port")) {
    if (ports.size() == kMaxLayerPorts) {
      return Invalid("more than ", kMaxLayerPorts, " ports");
    }
    IrPort port;
    BW_ASSIGN_OR_RETURN(port.id, ReadInt(xml, "id"));
    if (!ports.by_id.emplace(port.id, static_cast<int>(ports.size())).second) {
      return Invalid("two ports have the id ", port.id);
    }
    absl::StatusOr<ValueInfo> info = ReadPortInfo(xml);
    if (!info.ok()) {
      return Annotate(info.status(), absl::StrCat("port ", port.id));
    }
    port.info = *std::move(info);
    ports.list.push_back(std::move(port));
  }
  return ports;
}

// The id comes first, since messages name the layer by it; then lengths, as messages about ports
// quote name and type.
absl::StatusOr<IrLayer> ReadLayer(pugi::xml_node xml) {
  IrLayer layer;
  layer.xml = xml;
  layer.name = xml.attribute("name").value();
  layer.type = xml.attribute("type").value();
  layer.version = xml.attribute("version").value();
  absl::StatusOr<int64_t> id = ReadInt(xml, "id");
  if (!id.ok()) {
    return Annotate(id.status(),
                    absl::StrCat("layer '", layer.name.substr(0, kMaxLayerNameBytes), "'"));
  }
  layer.id = *id;
  if (layer.name.size() > kMaxLayerNameBytes || layer.type.size() > kMaxLayerNameBytes ||
      layer.version.size() > kMaxLayerNameBytes) {
    return Invalid("layer ", layer.id, ": name, type and version may have ", kMaxLayerNameBytes,
                   " bytes each");
  }
  if (layer.type.empty()) {
    return Invalid("layer ", layer.id, " '", layer.name, "' has no type");
  }
  if (layer.name.empty()) {
    layer.name = absl::StrCat(layer.type, "_", layer.id);
  }
  absl::StatusOr<IrPorts> inputs = ReadPorts(xml.child("input"));
  if (!inputs.ok()) {
    return Annotate(inputs.status(), absl::StrCat(Describe(layer), ": input"));
  }
  layer.inputs = *std::move(inputs);
  absl::StatusOr<IrPorts> outputs = ReadPorts(xml.child("output"));
  if (!outputs.ok()) {
    return Annotate(outputs.status(), absl::StrCat(Describe(layer), ": output"));
  }
  layer.outputs = *std::move(outputs);
  return layer;
}

absl::StatusOr<IrEdge> ReadEdge(pugi::xml_node xml) {
  IrEdge edge;
  BW_ASSIGN_OR_RETURN(edge.from_layer, ReadInt(xml, "from-layer"));
  BW_ASSIGN_OR_RETURN(edge.from_port, ReadInt(xml, "from-port"));
  BW_ASSIGN_OR_RETURN(edge.to_layer, ReadInt(xml, "to-layer"));
  BW_ASSIGN_OR_RETURN(edge.to_port, ReadInt(xml, "to-port"));
  return edge;
}

}  // namespace

std::string Describe(const IrLayer& layer) {
  const auto shortened = [](const std::string& text) {
    constexpr size_t kMost = 120;
    return text.size() <= kMost ? text : absl::StrCat(text.substr(0, kMost), "...");
  };
  return absl::StrCat("layer ", layer.id, " '", shortened(layer.name), "' (", shortened(layer.type),
                      ")");
}

absl::StatusOr<int64_t> ReadInt(pugi::xml_node node, const char* attribute) {
  const pugi::xml_attribute found = node.attribute(attribute);
  if (!found) {
    return Invalid("<", node.name(), "> has no attribute '", attribute, "'");
  }
  absl::StatusOr<int64_t> value = ParseInt(found.value());
  if (!value.ok()) {
    return Annotate(value.status(), absl::StrCat("attribute '", attribute, "'"));
  }
  return value;
}

absl::StatusOr<int64_t> ReadInt(pugi::xml_node node, const char* attribute, int64_t fallback) {
  return node.attribute(attribute) ? ReadInt(node, attribute) : fallback;
}

// Also for the bodies of loops and branches, which have layers and edges as a whole file does. Ids
// count within one net.
absl::StatusOr<IrNet> ReadNet(pugi::xml_node net) {
  IrNet result;
  for (const pugi::xml_node xml : net.child("layers").children("layer")) {
    if (result.layers.size() == kMaxLayers) {
      return Invalid("more than ", kMaxLayers, " layers");
    }
    BW_ASSIGN_OR_RETURN(IrLayer layer, ReadLayer(xml));
    const auto [it, inserted] = result.by_id.emplace(layer.id, result.layers.size());
    if (!inserted) {
      return Invalid(Describe(layer), ": ", Describe(result.layers[it->second]),
                     " has the same id");
    }
    result.layers.push_back(std::move(layer));
  }
  if (result.layers.empty()) {
    return Invalid("<", net.name(), "> has no layers");
  }
  for (const pugi::xml_node xml : net.child("edges").children("edge")) {
    BW_ASSIGN_OR_RETURN(const IrEdge edge, ReadEdge(xml));
    result.edges.push_back(edge);
  }
  return result;
}

}  // namespace beamwright::ops
