// Model: a whole graph, compiled and ready to run. What encoders are, and what `beamwright-graph
// run` runs.
#ifndef BEAMWRIGHT_OPS_LOOP_MODEL_H_
#define BEAMWRIGHT_OPS_LOOP_MODEL_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/base/precision.h"
#include "ops/compile/program.h"
#include "ops/compile/row_proof.h"

namespace beamwright::ops {

// Thread-safe: Run may be called by several threads at once.
class Model {
 public:
  // Infers, checks and compiles. Errors name the layer.
  static absl::StatusOr<std::unique_ptr<Model>> Compile(Graph graph,
                                                        Precision weights = Precision::kF32);
  // The same for a graph that may run over rows of several requests: says in `proof` whether they
  // stay apart (ops/compile/row_proof.h). With a length axis given it may take one Parameter more,
  // as proof.lengths says.
  static absl::StatusOr<std::unique_ptr<Model>> Compile(Graph graph, Precision weights,
                                                        const RowInputs& rows, RowProof& proof);

  // Without the elements of large constants.
  const Graph& graph() const { return graph_; }

  // inputs: one per graph().parameters, in that order; type and shape must be what the Parameter
  // allows. outputs: one per graph().results.
  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor> inputs,
                   std::vector<Tensor>& outputs) const;

  // Memory of the values on the way, kept from run to run: fresh memory costs more to map than many
  // operators to compute. One for a thread, of one model.
  struct Workspace {
    Slots slots;
  };
  // The same in kept memory. `outputs` of an earlier run give theirs back, if nothing else holds
  // them.
  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor> inputs,
                   Workspace& workspace, std::vector<Tensor>& outputs) const;

 private:
  Model() = default;
  static absl::StatusOr<std::unique_ptr<Model>> Compile(Graph graph, Precision weights,
                                                        const RowInputs* rows, RowProof* proof);
  size_t SlotOf(ValueId value) const { return static_cast<size_t>(program_.slot(value)); }

  Graph graph_;
  Program program_;
};

// InvalidArgument unless `tensor` has the type of the Parameter and a shape that it accepts.
absl::Status CheckParameter(const Graph& graph, int parameter_node, const Tensor& tensor);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_MODEL_H_
