#include "ops/import/ir_bare_layer.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr const char* kLayerId = "0";

// External port id -> precision of the body Parameter that a rule connects it to.
absl::flat_hash_map<std::string, std::string> InputPrecisions(pugi::xml_node layer) {
  absl::flat_hash_map<std::string, std::string> by_body_id;
  for (const pugi::xml_node body : layer.child("body").child("layers").children("layer")) {
    by_body_id[body.attribute("id").value()] =
        body.child("output").child("port").attribute("precision").value();
  }
  absl::flat_hash_map<std::string, std::string> result;
  for (const pugi::xml_node rule : layer.child("port_map").children("input")) {
    const auto it = by_body_id.find(rule.attribute("internal_layer_id").value());
    if (it != by_body_id.end()) {
      result[rule.attribute("external_port_id").value()] = it->second;
    }
  }
  return result;
}

void SetAttribute(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(value.c_str());
}

// A layer with one port, a copy of `port` that is renumbered 0; returns the port.
pugi::xml_node AppendLayer(pugi::xml_node layers, const std::string& id, pugi::xml_node port,
                           bool is_parameter) {
  pugi::xml_node layer = layers.append_child("layer");
  SetAttribute(layer, "id", id);
  SetAttribute(layer, "name",
               absl::StrCat(is_parameter ? "input_" : "output_", port.attribute("id").value()));
  SetAttribute(layer, "type", is_parameter ? "Parameter" : "Result");
  pugi::xml_node copy = layer.append_child(is_parameter ? "output" : "input").append_copy(port);
  copy.remove_attribute("id");
  SetAttribute(copy, "id", "0");
  return copy;
}

void AppendEdge(pugi::xml_node edges, const char* direction, const std::string& other,
                pugi::xml_node port) {
  pugi::xml_node edge = edges.append_child("edge");
  const bool into = absl::string_view(direction) == "input";
  SetAttribute(edge, "from-layer", into ? other : kLayerId);
  SetAttribute(edge, "from-port", into ? "0" : port.attribute("id").value());
  SetAttribute(edge, "to-layer", into ? kLayerId : other);
  SetAttribute(edge, "to-port", into ? port.attribute("id").value() : "0");
}

}  // namespace

absl::Status WrapBareLayer(pugi::xml_node layer, pugi::xml_document& net) {
  if (!absl::EqualsIgnoreCase(layer.attribute("type").value(), "TensorIterator")) {
    return Invalid("a file of one <layer> must hold a TensorIterator, this one holds '",
                   absl::string_view(layer.attribute("type").value()).substr(0, 60), "'");
  }
  pugi::xml_node root = net.append_child("net");
  pugi::xml_node layers = root.append_child("layers");
  pugi::xml_node edges = root.append_child("edges");
  const auto precisions = InputPrecisions(layer);
  int next_id = 1;
  for (const pugi::xml_node port : layer.child("input").children("port")) {
    const std::string id = absl::StrCat(next_id++);
    pugi::xml_node copy = AppendLayer(layers, id, port, true);
    const auto it = precisions.find(port.attribute("id").value());
    if (!copy.attribute("precision") && it != precisions.end()) {
      SetAttribute(copy, "precision", it->second);
    }
    AppendEdge(edges, "input", id, port);
  }
  pugi::xml_node copy = layers.append_copy(layer);
  copy.remove_attribute("id");
  SetAttribute(copy, "id", kLayerId);
  for (const pugi::xml_node port : layer.child("output").children("port")) {
    const std::string id = absl::StrCat(next_id++);
    AppendLayer(layers, id, port, false);
    AppendEdge(edges, "output", id, port);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
