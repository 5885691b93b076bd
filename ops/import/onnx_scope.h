// Names of an ONNX graph and the values that they stand for. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_SCOPE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_SCOPE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "onnx/onnx_pb.h"
#include "ops/import/onnx_builder.h"
#include "ops/import/onnx_tensor.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_SCOPE_H_
