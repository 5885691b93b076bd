// Reads OpenVINO's IR: an .xml file with the graph and a .bin file with the weights.
//
// 1. ReadFiles opens the XML. The weights are opened too, but an error is kept until a constant
//    needs them: a graph without constants has no .bin file.
// 2. ParseXml bounds the text's size and the memory that pugixml will need for it (DocumentBytes
//    counts elements and attributes before the document is parsed), then parses.
// 3. A file may hold a <layer> instead of a <net>, as OpenVINO's document of TensorIterator shows
//    one. WrapBareLayer puts a Parameter before each input port and a Result after each output
//    port.
// 4. BuildGraph (ir_net.cc, ir_layers.cc) translates layer by layer. It does not stop at the first
//    fault: AllFaults joins them to one message, with the layers of unknown types, so that a user
//    sees all at once.
#include <algorithm>
#include <pugixml.hpp>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/import/ir_graph.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {
namespace {

// The form in which the TensorIterator-1 document shows a whole loop: a <layer> alone, without a
// net around it.

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

// Appends to `net` a <net> in which `layer`, a TensorIterator, has a Parameter "input_<port id>"
// before each of its input ports and a Result "output_<port id>" behind each output port. A
// Parameter's type is that of the body's Parameter that it feeds. InvalidArgument if it is another
// layer.
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

// Far more than models of 10,000 layers need.
constexpr int64_t kMaxDocumentBytes = int64_t{48} << 20;

absl::Status CheckVersion(pugi::xml_node net) {
  if (!net.attribute("version")) {
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(const int64_t version, ReadInt(net, "version"));
  if (version != 10 && version != 11) {
    return absl::UnimplementedError(
        absl::StrCat("IR version ", version, " is not supported; 10 and 11 are"));
  }
  return absl::OkStatus();
}

// About the bytes that the parsed document takes besides its text: elements and texts have a node
// each.
int64_t DocumentBytes(absl::string_view xml) {
  constexpr int64_t kNode = 64;
  constexpr int64_t kAttribute = 40;
  int64_t bytes = 0;
  bool blank = true;  // nothing but blanks since the last '>'
  for (size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '<') {
      bytes += (blank ? 0 : kNode) + (i + 1 < xml.size() && xml[i + 1] == '/' ? 0 : kNode);
      blank = true;
    } else if (xml[i] == '=') {
      bytes += kAttribute;
    } else if (xml[i] == '>') {
      blank = true;
    } else if (!absl::ascii_isspace(static_cast<unsigned char>(xml[i]))) {
      blank = false;
    }
  }
  return bytes;
}

absl::Status TooLong(int64_t bytes) {
  return Invalid("the XML has ", bytes, " bytes; at most ", kMaxIrXmlBytes, " are allowed");
}

absl::Status ParseXml(absl::string_view xml, pugi::xml_document& document) {
  if (xml.size() > kMaxIrXmlBytes) {
    return TooLong(static_cast<int64_t>(xml.size()));
  }
  if (DocumentBytes(xml) > kMaxDocumentBytes) {
    return Invalid("the XML has too many elements and attributes: they would take more than ",
                   kMaxDocumentBytes >> 20, " MiB");
  }
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    const absl::string_view before = xml.substr(
        0, std::min(xml.size(), static_cast<size_t>(std::max<ptrdiff_t>(parsed.offset, 0))));
    return Invalid("not well-formed XML: ", parsed.description(), ", line ",
                   1 + std::count(before.begin(), before.end(), '\n'));
  }
  return absl::OkStatus();
}

absl::Status UnknownLayersError(const IrImport& import) {
  const int64_t unlisted = import.num_unknown - static_cast<int64_t>(import.unknown.size());
  return absl::UnimplementedError(
      absl::StrCat(import.num_unknown, import.num_unknown == 1 ? " layer has" : " layers have",
                   " an unsupported type: ", absl::StrJoin(import.unknown, "; "),
                   unlisted > 0 ? absl::StrCat("; and ", unlisted, " more") : ""));
}

// All faults of the file, in one message.
absl::Status AllFaults(const IrImport& import, Graph graph) {
  std::vector<absl::Status> faults = import.faults;
  if (import.num_unknown > 0) {
    faults.insert(faults.begin(), UnknownLayersError(import));
  }
  faults.push_back(FaultsBesideUnknown(std::move(graph), KnownOperatorSet()));
  return JoinErrors(faults);
}

std::string WeightsPath(const std::string& xml_path) {
  return absl::StrCat(absl::StripSuffix(xml_path, ".xml"), ".bin");
}

absl::StatusOr<Graph> ParseNet(absl::string_view xml, absl::StatusOr<InputFilePtr> weights,
                               const ImportOptions& options) {
  pugi::xml_document document;
  BW_RETURN_IF_ERROR(ParseXml(xml, document));
  pugi::xml_node root = document.document_element();
  pugi::xml_document wrapped;
  if (absl::string_view(root.name()) == "layer") {
    BW_RETURN_IF_ERROR(WrapBareLayer(root, wrapped));
    root = wrapped.document_element();
  }
  if (absl::string_view(root.name()) != "net") {
    return Invalid("the root element is <", absl::string_view(root.name()).substr(0, 60),
                   ">; an IR file has <net>");
  }
  BW_RETURN_IF_ERROR(CheckVersion(root));
  IrImport import{IrWeights(std::move(weights))};
  BW_ASSIGN_OR_RETURN(IrGraph result, BuildGraph(root, import));
  if (!import.faults.empty() || (import.num_unknown > 0 && !options.keep_unknown_layers)) {
    return AllFaults(import, std::move(result.graph));
  }
  if (result.graph.results.empty()) {
    return Invalid("the net has no Result layer, so it computes nothing");
  }
  return std::move(result.graph);
}

absl::StatusOr<InputFilePtr> OpenWeights(const std::string& xml_path,
                                         const OpenFileFunction& open) {
  const std::string path = WeightsPath(xml_path);
  BW_ASSIGN_OR_RETURN(InputFilePtr file, open(path));
  BW_RETURN_IF_ERROR(Annotate(CheckWeightsKind(*file), absl::StrCat("'", path, "'")));
  return file;
}

absl::StatusOr<Graph> ReadFiles(const std::string& xml_path, const OpenFileFunction& open,
                                const ImportOptions& options) {
  BW_ASSIGN_OR_RETURN(const InputFilePtr file, open(xml_path));
  BW_RETURN_IF_ERROR(CheckFileKind(*file));
  if (file->size() > static_cast<int64_t>(kMaxIrXmlBytes)) {
    return TooLong(file->size());
  }
  BW_ASSIGN_OR_RETURN(const std::string xml, file->ReadAll());
  BW_RETURN_IF_ERROR(file->CheckUnchanged());
  // A graph without constants needs no weights file: only the importer knows.
  return ParseNet(xml, OpenWeights(xml_path, open), options);
}

}  // namespace

absl::StatusOr<Graph> ParseOpenVinoIr(absl::string_view xml,
                                      const absl::StatusOr<absl::string_view>& weights,
                                      const ImportOptions& options) {
  if (!weights.ok()) {
    return ParseNet(xml, weights.status(), options);
  }
  return ParseNet(xml, InputFile::OfContent(std::string(*weights)), options);
}

absl::StatusOr<Graph> ReadOpenVinoIr(const std::string& xml_path, const OpenFileFunction& open,
                                     const ImportOptions& options) {
  absl::StatusOr<Graph> graph = ReadFiles(xml_path, open, options);
  return graph.ok() ? std::move(graph) : Annotate(graph.status(), absl::StrCat("'", xml_path, "'"));
}

absl::StatusOr<Graph> ReadOpenVinoIr(const std::string& xml_path, const ImportOptions& options) {
  return ReadOpenVinoIr(xml_path, FilesBeside(xml_path, options.allow_links), options);
}

}  // namespace beamwright::ops
