// One ONNX node while it is translated: its inputs as values of the graph, its attributes, and the
// means to add nodes. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_NODE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_NODE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "ops/base/status.h"
#include "ops/import/onnx_builder.h"

namespace beamwright::ops {

struct OnnxPlace;  // ops/import/onnx_graph.h
struct OnnxOperator;

// Attributes of a function's call, by name: what its nodes' references mean.
using OnnxAttributes = absl::flat_hash_map<std::string, const onnx::AttributeProto*>;

// Errors stick in the builder, like those of adding nodes: after one, attributes are their
// fallbacks. An attribute that a translation never asks for is an error in the end.
class OnnxNode {
 public:
  OnnxNode(const OnnxPlace& place, const OnnxOperator& op, const onnx::NodeProto& proto,
           int version, std::vector<ValueId> inputs);

  // The opset in which the operator got the meaning that counts here: at most the model's opset.
  int version() const { return version_; }
  const OnnxOperator& op() const { return op_; }
  const OnnxPlace& place() const { return place_; }
  const onnx::NodeProto& proto() const { return proto_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  // Absent if the node leaves it out.
  ValueId In(int index) const;
  bool Has(int index) const { return In(index).present(); }
  int num_outputs() const { return proto_.output_size(); }
  // Whether the output may be read.
  bool Wants(int index) const;
  void Out(int index, ValueId value);
  ValueId output(int index) const { return outputs_[static_cast<size_t>(index)]; }

  // Attributes; another kind than asked for is an error.
  bool HasAttribute(const char* name);
  int64_t Int(const char* name, int64_t fallback);
  bool Flag(const char* name, bool fallback);  // 0 or 1
  double Float(const char* name, double fallback);
  std::string String(const char* name, const char* fallback);
  std::vector<int64_t> Ints(const char* name, std::vector<int64_t> fallback = {});
  std::vector<double> Floats(const char* name);
  std::vector<std::string> Strings(const char* name);
  const onnx::GraphProto* Subgraph(const char* name);  // nullptr: absent
  Tensor TensorAttribute(const char* name);            // without a value: absent
  // It changes nothing here.
  void Ignore(const char* name) { HasAttribute(name); }
  // InvalidArgument or Unimplemented for attributes that were not read.
  absl::Status CheckAllRead() const;
  // Every attribute that is a number, a text or a list of these, unread ones too.
  Attributes PlainAttributes() const;

  OnnxBuilder& builder() const { return builder_; }
  bool ok() const { return builder_.ok(); }
  template <typename... Pieces>
  void Fail(const Pieces&... pieces) {
    builder_.Fail(Invalid(pieces...));
  }
  template <typename... Pieces>
  void Unsupported(const Pieces&... pieces) {
    builder_.Fail(absl::UnimplementedError(absl::StrCat(pieces...)));
  }

  // Adds a node; its first output.
  ValueId Add(const char* op, std::vector<ValueId> inputs,
              OnnxBuilder::AttributeList attributes = {}, int num_outputs = 1) {
    return builder_.Add(op, std::move(inputs), std::move(attributes), num_outputs);
  }
  ValueId Constant(Tensor tensor) { return builder_.Constant(std::move(tensor)); }
  ValueId Scalar(int64_t value) { return Constant(Tensor::Scalar<int64_t>(value)); }
  ValueId List(const std::vector<int64_t>& values);
  // A scalar of x's element type, which must be known.
  ValueId Like(double value, ValueId x);

  const ValueInfo& info(ValueId value) const { return builder_.info(value); }
  // The type of a value; an error if it is not known.
  DType Type(ValueId value);
  // The rank of a value; an error, and 0, if it is not known.
  int Rank(ValueId value);
  bool HasRank(ValueId value) const { return info(value).shape.has_rank(); }
  // An axis counted from the front; an error if the rank is not known or has no such axis.
  int Axis(int64_t axis, int rank);
  const Tensor* Known(ValueId value) const { return builder_.known(value); }
  // The integers of an input that must be known at load; an error naming it if they are not.
  std::vector<int64_t> KnownInts(int input, const char* name);

 private:
  const onnx::AttributeProto* Find(const char* name, onnx::AttributeProto::AttributeType type);

  const OnnxPlace& place_;
  const OnnxOperator& op_;
  const onnx::NodeProto& proto_;
  OnnxBuilder& builder_;
  int version_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  absl::flat_hash_set<std::string> read_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_NODE_H_
