// An IR file as the XML says it: a net of layers with ports and edges, in which nothing is
// interpreted yet, and the small languages inside its attributes. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_NET_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_NET_H_

#include <pugixml.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"
#include "ops/import/graph_file.h"
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

// Layers of an IR file that hold values: constants, which are ranges of the weights file, and
// variables, which outlive a run.

// The constants of an IR file: Const layers are ranges of bytes of the weights file, which become
// tensors.

// Reads constants out of the weights, since nothing there is aligned. Layers that name the same
// bytes with the same type share one tensor, and what is read altogether is bounded by a small
// multiple of the file: overlapping ranges of a hostile file cannot ask for more.
class IrWeights {
 public:
  // The .bin file, or the reason why it is missing.
  explicit IrWeights(absl::StatusOr<InputFilePtr> file) : file_(std::move(file)) {}

  // The tensor of a Const layer: type and shape from <data> or, without, from its output port.
  // Errors (without the layer's name): no or contradicting type or shape, a range outside the
  // weights or of another size than the shape's, no weights.
  absl::StatusOr<Tensor> Read(const IrLayer& layer);

 private:
  absl::StatusOr<Tensor> Take(int64_t offset, DType dtype, const Shape& shape);

  absl::StatusOr<InputFilePtr> file_;
  absl::flat_hash_map<std::tuple<int64_t, int64_t, DType>, Tensor> taken_;
  int64_t taken_bytes_ = 0;
};

// Type and shape of a Parameter or Const: <data element_type shape>, else the only output port,
// where no dims mean a scalar. An error if there is no type, or if both places contradict.
absl::StatusOr<ValueInfo> ReadDeclaredInfo(const IrLayer& layer);

// ReadValue and Assign (opset 3 and 6): a variable that outlives a run. Its state becomes an input
// and an output of the graph, so that the caller keeps the state, as a search must, which
// drops and repeats it (docs/graph-files.md, 'Variables').

bool IsReadValue(const IrLayer& layer);
bool IsAssign(const IrLayer& layer);

// The variables of a net while it is translated.
class IrVariables {
 public:
  // Appends the Parameter that stands for `layer`, a ReadValue with these inputs, and a Result with
  // its initial value if it has one; its value.
  absl::StatusOr<ValueId> Read(const IrLayer& layer, const std::vector<ValueId>& inputs,
                               Graph& graph);
  // Appends the Result that stands for `layer`, an Assign; the value assigned.
  absl::StatusOr<ValueId> Write(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                Graph& graph);

  // To be added behind the graph's own, in this order.
  const std::vector<int>& parameters() const { return parameters_; }
  const std::vector<int>& results() const { return results_; }

 private:
  absl::flat_hash_set<std::string> read_;
  absl::flat_hash_set<std::string> written_;
  std::vector<int> parameters_;
  std::vector<int> results_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_NET_H_
