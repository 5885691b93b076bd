// Reads the layers and edges of a network of OpenVINO's IR from XML, as they are in the file
// (ReadNet): ports with their types and shapes, attributes not yet. ir_wiring.cc connects them, and
// the importer reads each layer's attributes by its type.
//
// Files may come from anywhere: numbers of layers and ports and the lengths of names are bounded,
// ids must be unique, and a fault names its layer (Describe).
#include "ops/import/ir_net.h"

#include "absl/strings/string_view.h"
#include "ops/base/status.h"
#include "ops/import/ir_text.h"

namespace beamwright::ops {
namespace {

constexpr size_t kMaxLayers = 100'000;
constexpr size_t kMaxPorts = 4'096;  // inputs or outputs of one layer
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
    if (ports.size() == kMaxPorts) {
      return Invalid("more than ", kMaxPorts, " ports");
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
