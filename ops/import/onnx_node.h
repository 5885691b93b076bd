// One ONNX node while it is translated, and the builder of the Graph that it adds nodes to. Private
// to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_NODE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_NODE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "ops/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Builds a Graph node by node, each inferred as it is added, so that translations may ask for
// types, ranks and known values.
//
// The first error sticks: after it nothing is added, values are absent, and the one who drives the
// translation asks for status(). That keeps translations readable as the formulas that they are.

class OnnxBuilder {
 public:
  using AttributeList = std::vector<std::pair<const char*, AttributeValue>>;

  // lenient: what can't be inferred stays unknown and is not an error.
  explicit OnnxBuilder(bool lenient);
  // For a body inside the graph that `outside` builds, which must outlive this.
  explicit OnnxBuilder(OnnxBuilder* outside);
  OnnxBuilder(const OnnxBuilder&) = delete;

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void Fail(absl::Status status);  // OK changes nothing
  // Goes on after an error, whose nodes stay: for looking at a graph, not for running it.
  void Forgive() { status_ = absl::OkStatus(); }
  // From now on as if made with `lenient`; nodes that could not be inferred so far are passed over.
  // What inference says against a later one is kept until it is asked for.
  void BecomeLenient();
  absl::Status TakeInferenceFault() { return std::exchange(inference_fault_, absl::OkStatus()); }

  int depth() const { return depth_; }
  bool lenient() const { return lenient_; }
  // Name of the nodes that are added from now on, and what the file calls their operator.
  void set_name(std::string name) { name_ = std::move(name); }
  void set_file_operator(std::string type) { file_operator_ = std::move(type); }
  const std::string& name() const { return name_; }
  const std::string& file_operator() const { return file_operator_; }

  // The node's first output; the others follow it. Absent after an error.
  ValueId Add(std::string op, std::vector<ValueId> inputs, AttributeList attributes = {},
              int num_outputs = 1);
  ValueId Add(Node node);
  ValueId Constant(Tensor tensor);
  // A Parameter; its index in graph().parameters follows from the order of calls.
  ValueId Parameter(std::string name, ValueInfo info);
  void Result(std::string name, ValueId value);
  // What the file says of a value besides; a contradiction is an error.
  void Declare(ValueId value, const ValueInfo& declared);
  // The same of a node's output: a shape that contradicts what its node computes is passed over, as
  // ONNX Runtime does, with a warning. Tools that edit graphs leave such shapes behind.
  void DeclareOutput(ValueId value, const ValueInfo& declared, const std::string& name);
  void AddName(ValueId value, const std::string& name);

  // What is known of a value; nothing of an absent one.
  const ValueInfo& info(ValueId value) const;
  // nullptr where it is not known at load. Valid until the next node is added.
  const Tensor* known(ValueId value) const;

  // For those who append nodes themselves and call InferAppended then. Messages call these what the
  // file calls them.
  Graph& graph() { return graph_; }
  void InferAppended();
  // Gives the graph away; nothing may be called afterwards.
  Graph Take() { return std::move(graph_); }

 private:
  Graph graph_;
  StepwiseInference inference_;
  int depth_;
  bool lenient_;
  std::string name_;
  std::string file_operator_;  // empty: the nodes are not the file's
  size_t num_inferred_ = 0;
  absl::Status status_;
  absl::Status inference_fault_;  // the first since it was taken
};

// One ONNX node while it is translated: its inputs as values of the graph, its attributes, and the
// means to add nodes.

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
