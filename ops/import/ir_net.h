// A net as the XML says it: layers with their ports, and edges between port ids; nothing is
// interpreted yet. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_NET_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_NET_H_

#include <pugixml.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

struct IrPort {
  int64_t id = 0;
  ValueInfo info;  // a port without dims has a shape of unknown rank: files write both alike
};

// The ports of one <input> or <output> element, in the order of the file.
struct IrPorts {
  std::vector<IrPort> list;
  absl::flat_hash_map<int64_t, int> by_id;  // port id -> index into list

  // Position of the port with `id`, -1 if missing.
  int Find(int64_t id) const {
    const auto it = by_id.find(id);
    return it == by_id.end() ? -1 : it->second;
  }
  size_t size() const { return list.size(); }
  const IrPort& operator[](size_t position) const { return list[position]; }
};

struct IrLayer {
  int64_t id = 0;
  std::string name;  // "<type>_<id>" if the file gives none
  std::string type;
  std::string version;  // "opset1"; may be empty
  IrPorts inputs;
  IrPorts outputs;
  pugi::xml_node xml;  // valid while the document lives
};

struct IrEdge {
  int64_t from_layer = 0;
  int64_t from_port = 0;
  int64_t to_layer = 0;
  int64_t to_port = 0;
};

struct IrNet {
  std::vector<IrLayer> layers;  // in the order of the file
  std::vector<IrEdge> edges;
  absl::flat_hash_map<int64_t, size_t> by_id;  // layer id -> index into layers
};

// "layer 7 'cell' (LSTMCell)": how messages name a layer.
std::string Describe(const IrLayer& layer);

// An integer attribute; InvalidArgument naming it if it is absent or not an integer.
absl::StatusOr<int64_t> ReadInt(pugi::xml_node node, const char* attribute);
// The same with a default.
absl::StatusOr<int64_t> ReadInt(pugi::xml_node node, const char* attribute, int64_t fallback);

// The <layers> and <edges> children of a net or loop body. Refuses duplicate layer and port ids,
// bad numbers, types and shapes, and more than the limits in docs/graph-files.md.
absl::StatusOr<IrNet> ReadNet(pugi::xml_node net);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_NET_H_
