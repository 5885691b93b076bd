// Builds a Graph node by node, each inferred as it is added, so that translations may ask for
// types, ranks and known values. Private to import/.
//
// The first error sticks: after it nothing is added, values are absent, and the one who drives the
// translation asks for status(). That keeps translations readable as the formulas that they are.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_BUILDER_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_BUILDER_H_
