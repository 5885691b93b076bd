// From the nodes of an ONNX graph, body or function to nodes of a Graph. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_GRAPH_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_GRAPH_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "ops/import/graph_file.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_node.h"

namespace beamwright::ops {

// Names of an ONNX graph and the values that they stand for.

// A name is looked up in the graph itself first, then in the graphs around it. What a body finds
// outside becomes a Parameter of it, or, where it is known at load, a Constant.
class OnnxScope {
 public:
  // `outer`: the scope of the graph that holds this one as an attribute; nullptr for a model's
  // graph and for functions, which see nothing around them.
  OnnxScope(OnnxBuilder& builder, OnnxTensors& tensors, OnnxScope* outer)
      : builder_(builder), tensors_(tensors), outer_(outer) {}

  OnnxBuilder& builder() const { return builder_; }

  void Define(const std::string& name, ValueId value) { values_[name] = value; }
  // An initializer: becomes a Constant when it is first looked up.
  void DefineLater(const onnx::TensorProto& initializer) {
    initializers_[initializer.name()] = &initializer;
  }
  // Nothing if there is no such name, and after an error. An absent value is an optional input of a
  // function that the call leaves out.
  std::optional<ValueId> Find(const std::string& name);

  // What bodies read of the graphs around them, in the order of their Parameters.
  struct Capture {
    ValueId outside;
    int parameter = 0;  // index into the body's Graph::parameters
  };
  const std::vector<Capture>& captures() const { return captures_; }

 private:
  OnnxBuilder& builder_;
  OnnxTensors& tensors_;
  OnnxScope* outer_;
  absl::flat_hash_map<std::string, ValueId> values_;
  absl::flat_hash_map<std::string, const onnx::TensorProto*> initializers_;
  std::vector<Capture> captures_;
};

// Domain ("" for the default one) -> version.
using OnnxOpsets = absl::flat_hash_map<std::string, int64_t>;

struct OnnxFunction {
  const onnx::FunctionProto* proto = nullptr;
  OnnxOpsets opsets;
  // Values of attributes that a call leaves out. The schema's newer field, kept here since Debian's
  // messages do not know it.
  std::vector<onnx::AttributeProto> defaults;
  int64_t copied_bytes = 0;  // by one call (ops/import/onnx_order.h)
};

// What the translation of a model shares among its graphs.
struct OnnxImport {
  // Nodes that are translated and nodes that they become, those of functions once a call:
  // functions that call each other could ask for any number.
  static constexpr int64_t kMaxNodes = 80'000;
  static constexpr int kMaxFunctionDepth = 16;

  OnnxTensors tensors;
  bool keep_unknown = false;
  // By domain and name. A map, so that functions stay where they are.
  std::map<std::pair<std::string, std::string>, OnnxFunction> functions;
  int64_t num_nodes = 0;
  int64_t copied_bytes = 0;  // by calls of functions so far
  int64_t file_bytes = 0;
  // What is wrong with nodes of the graph, all of them at once, bodies and functions as the nodes
  // that they belong to.
  std::vector<absl::Status> faults;
};

// Where a node stands.
struct OnnxPlace {
  OnnxImport& import;
  const OnnxOpsets& opsets;
  OnnxScope& scope;
  const OnnxAttributes* attributes = nullptr;  // of the call, in a function's body
  int function_depth = 0;
};

// A node's attribute with references to the attributes of the function's call resolved; nullptr if
// missing.
const onnx::AttributeProto* FindOnnxAttribute(const onnx::NodeProto& node, absl::string_view name,
                                              const OnnxAttributes* call);

// The domain's version where the node stands; 0 if it is not imported.
int64_t OpsetOf(const OnnxOpsets& opsets, absl::string_view domain);

// Translates the graph's nodes into place.scope, whose inputs have been defined, and its
// initializers. Errors stick in the scope's builder as well.
absl::Status TranslateOnnxGraph(const onnx::GraphProto& graph, const OnnxPlace& place);

// A graph in an attribute as a separate Graph.
struct OnnxBody {
  Graph graph;
  int num_inputs = 0;  // Parameters: first the graph's own inputs, then what it captures
  std::vector<OnnxScope::Capture> captures;
};

// `inputs`: what is known of the body's inputs, one each, to which the body's declarations are
// added. Results are the body's outputs. Errors name the way into the body, without the node's
// name.
absl::StatusOr<OnnxBody> TranslateOnnxBody(const onnx::GraphProto& graph, const OnnxPlace& place,
                                           absl::Span<const ValueInfo> inputs);
// Inputs of a body that are not initializers (files of IR version 3 list these too).
int CountBodyInputs(const onnx::GraphProto& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_GRAPH_H_
