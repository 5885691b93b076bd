// A loop whose body is one recurrent cell, as the importers make it of an LSTM or a GRU over a
// sequence. Its iterations are all alike, so those after the first run on the matrices themselves:
// for a small cell the tensors, shapes and checks of an iteration cost more than its arithmetic.
// Private to loop/.
#ifndef BEAMWRIGHT_OPS_LOOP_CELL_LOOP_H_
#define BEAMWRIGHT_OPS_LOOP_CELL_LOOP_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ops/graph/inference.h"
#include "ops/graph/operator.h"
#include "ops/kernels/cells.h"
#include "ops/loop/loop_parts.h"

namespace beamwright::ops {

class CellLoop {
 public:
  // Nothing: the loop is another one. body: what inference found of its body.
  static std::optional<CellLoop> Find(const Loop& loop, const GraphInfo& body,
                                      const OperatorSet& operators);

  // Whether Run can: states are [rows, hidden], and parts of the sliced input lie as their rows.
  bool Fits(const Slicer& slicer, absl::Span<const Tensor> states) const;

  // Iterations 1 to trips - 1. The first has run as any loop's: `states` are those behind it, and
  // the collectors and outputs, one for each output rule, have its parts. check(iteration) comes
  // before each.
  absl::Status Run(const ExecutionContext& context, const Slicer& slicer, int64_t trips,
                   const std::function<absl::Status(int64_t)>& check, absl::Span<Tensor> states,
                   absl::Span<Collector> collectors, absl::Span<Tensor> outputs) const;

 private:
  CellLoop() = default;

  std::unique_ptr<Kernel> kernel_;
  const CellSteps* steps_ = nullptr;  // the kernel
  Tensor bias_;                       // empty: the cell has no bias
  std::vector<size_t> states_;        // by output of the cell: which of the loop's states it is
  // By output rule: the cell's output that it collects; -1: it gives the last state alone.
  std::vector<int> collected_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_CELL_LOOP_H_
