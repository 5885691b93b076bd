// Parts of inference: types and shapes that come from two sides, what inference may take, and large
// results of folding. Private to graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_INFERENCE_PARTS_H_
#define BEAMWRIGHT_OPS_GRAPH_INFERENCE_PARTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// What inference does with types and shapes that come from two sides: a declaration and what was
// found, two branches, a body and what is around it.

// The type and shape that both declarations allow; InvalidArgument naming both if nothing is
// allowed. `what` names the place.
absl::Status MergeInfo(absl::string_view what, const ValueInfo& declared, ValueInfo& inferred);

// The narrowest shape that holds both: unknown where they differ.
PartialShape JoinShapes(const PartialShape& a, const PartialShape& b);

// Sets a Parameter of a body (index into Graph::parameters) to what is given from outside, as far
// as its declaration allows.
absl::Status SetParameter(absl::string_view what, Graph& body, size_t parameter, DType dtype,
                          const PartialShape& shape);

// The value that a result of a body returns (index into Graph::results).
const ValueInfo& ResultInfo(const Graph& body, int index);

// False only if a value of this shape cannot have exactly one element.
bool MayHaveOneElement(const PartialShape& shape);

// A condition, and whether it is known at load.
struct KnownCondition {
  bool known = false;
  bool value = false;
};
// InvalidArgument unless `input` may be a boolean of one element.
absl::StatusOr<KnownCondition> ReadCondition(absl::string_view what, const InputInfo& input);

// What inference of a graph, and of the graphs inside it, may take: a small file must not ask for
// much memory or time at load (docs/graph-files.md, 'Hostile files').

class InferenceBudget {
 public:
  // What is freed where inference throws away what it found.
  struct Held {
    int64_t fold_bytes = 0;
    int64_t bodies = 0;
  };

  // A constant of the file adds to what folding may take; nodes may share it, and then it counts
  // once.
  void AddConstant(const Tensor& constant);

  // Whether `node` may be computed at load on these values (absent ones have none), its outputs
  // having the types and static shapes of `outputs`; if so, it is charged. Results of up to 256
  // bytes, shape arithmetic, never wait for memory.
  bool MayFold(const Node& node, absl::Span<const Tensor* const> values,
               absl::Span<const ValueInfo> outputs);
  // The most bytes that one tensor may have while `values` are folded.
  static int64_t MaxFoldedBytes(absl::Span<const Tensor* const> values);

  absl::Status AddBody();
  // Bodies whose states change their shape are inferred again; inside each other they multiply.
  absl::Status AddRepeated(size_t num_nodes);

  Held held() const { return held_; }
  void Release(const Held& before) { held_ = before; }

 private:
  int64_t constant_bytes_ = 0;
  int64_t repeated_nodes_ = 0;
  double work_ = 0;
  Held held_;
  absl::flat_hash_set<const std::byte*> counted_;
};

// Large results of folding, in a DeferredScope: computed again when they are read, so that a weight
// that a file transposes, splits or converts is not held in both forms.

// `results` is what `kernel` has just made of `values`, all known at load. Those that are large and
// are not views become deferred constants (ops/tensor/tensor_memory.h).
absl::Status DeferResults(std::shared_ptr<const Kernel> kernel,
                          absl::Span<const Tensor* const> values, std::vector<Tensor>& results);

// Inference of a loop: what its body's Parameters hold, and what its outputs are.

// Inference of an If: what the Parameters of its branches hold, and what its outputs are. Private
// to graph/.

// Sets type and shape of each Parameter of `body`, a copy of the branch's, from the node's inputs;
// a declaration that contradicts them is an error. `constants`, one per Parameter, gets the values
// known at load.
absl::Status PrepareBranch(const Branch& branch, absl::Span<const InputInfo> inputs, Graph& body,
                           std::vector<Tensor>& constants);

// After the branches were inferred: sets the outputs to what both allow. Null: that branch is never
// taken. Each output must have one type.
absl::Status InferBranchOutputs(const Branch* then_branch, const Branch* else_branch,
                                std::vector<ValueInfo>& outputs);

// For each rule of a loop the shape of its state in every iteration (kCarried; of one item where
// items run apart).
using StateShapes = std::vector<PartialShape>;

// The shapes that states have in the first iteration.
absl::StatusOr<StateShapes> FirstStateShapes(const Node& node, absl::Span<const InputInfo> inputs);

// Widens `states` so that they hold what the inferred body carries on; false: they do already.
// `body` is the loop's.
bool WidenStates(const Loop& loop, const Graph& body, StateShapes& states);

// Sets type and shape of each Parameter of `body`, a copy of the loop's, from the loop's inputs and
// its states; a declaration in the body that contradicts them is an error. `constants`, one per
// Parameter, gets the values known at load (invariant inputs that are constants).
absl::Status PrepareBody(const Node& node, absl::Span<const InputInfo> inputs,
                         const StateShapes& states, Graph& body, std::vector<Tensor>& constants);

// After the loop's body was inferred, in `loop`, a copy of the node's: counts the axes of slices
// and joined outputs from the front where ranks are known, and gives a joined output whose rule has
// the default part of 1 the extent that its parts have, since parts are concatenated as they are.
absl::Status SettleRules(const Node& node, absl::Span<const InputInfo> inputs, Loop& loop);

// After the loop's body was inferred: checks back edges (same type, compatible shape), trip count,
// conditions and lengths, and sets the outputs.
absl::Status InferLoopOutputs(const Node& node, const GraphInfo& body_info,
                              absl::Span<const InputInfo> inputs, std::vector<ValueInfo>& outputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_INFERENCE_PARTS_H_
