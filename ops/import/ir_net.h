// An IR file as the XML says it: a net of layers with ports and edges, in which nothing is
// interpreted yet, and the small languages inside its attributes. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_NET_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_NET_H_

#include <pugixml.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"
#include "ops/tensor/dtype.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// The small languages inside IR attributes: numbers, lists, shapes, lists of names. Strict: what is
// not wholly a number is an error, never 0.

inline constexpr int kMaxIrRank = 32;

// What kind of value an attribute's text stands for.
enum class AttributeKind {
  kInt,
  kFloat,
  kBool,     // true, True, 1, false, False, 0
  kEnum,     // a string, made lower case
  kText,     // a string as it stands
  kInts,     // comma separated, blanks allowed; empty text: an empty list
  kFloats,   // lists of numbers
  kEnums,    // lists of names, made lower case
  kDropped,  // means nothing to a kernel
};

// All of these: InvalidArgument naming the text and what is expected.
absl::StatusOr<int64_t> ParseInt(absl::string_view text);
absl::StatusOr<double> ParseFloat(absl::string_view text);  // infinities allowed, NaN not
absl::StatusOr<bool> ParseBool(absl::string_view text);
// Not for kDropped.
absl::StatusOr<AttributeValue> ParseAttribute(AttributeKind kind, absl::string_view text);

// One extent: "25", or "?", "-1", "1..8", "..5", "3.." for an unknown one.
absl::StatusOr<int64_t> ParseDim(absl::string_view text);
// "1, 25, ?"; "" is a scalar's, "..." one of unknown rank.
absl::StatusOr<PartialShape> ParseShape(absl::string_view text);
// Refuses a rank above kMaxIrRank and known extents whose product exceeds 2^48.
absl::StatusOr<PartialShape> MakeShape(Shape dims);
// ParseDType, with kUndefined for "", "dynamic", "undefined" and "unspecified".
absl::StatusOr<DType> ParsePortType(absl::string_view text);
// Tensor names: comma separated, a comma inside a name is written "\,".
std::vector<std::string> ParseNames(absl::string_view text);

// A net as the XML says it: layers with their ports, and edges between port ids; nothing is
// interpreted yet.

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
