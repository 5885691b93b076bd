// What inference of a graph, and of the graphs inside it, may take: a small file must not ask for
// much memory or time at load (docs/graph-files.md, 'Hostile files'). Private to graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_INFERENCE_BUDGET_H_
#define BEAMWRIGHT_OPS_GRAPH_INFERENCE_BUDGET_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_INFERENCE_BUDGET_H_
