// The sequence driver: the "Loop" operator. It iterates a LoopBody over the parts of its sliced
// inputs, as often as trip count and conditions say (TensorIterator, Loop, Scan and recurrent
// sequences alike), with identity parents, and gathers the outputs. The contract is that of Loop in
// ops/graph/graph.h. Its parts come first: values that are cut and joined (Slicer, Collector),
// batch items of different lengths, loops whose body is one cell (CellLoop). Private to loop/.
#ifndef BEAMWRIGHT_OPS_LOOP_SEQUENCE_DRIVER_H_
#define BEAMWRIGHT_OPS_LOOP_SEQUENCE_DRIVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/graph/body_maps.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"
#include "ops/graph/operator.h"
#include "ops/kernels/cells.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// How values of a loop are cut into the parts that iterations see, and joined from the parts that
// they give.

// A sliced input while the loop runs.
class Slicer {
 public:
  // The first `length` elements of the axis that `rule` slices (-1: all). Errors name the port.
  static absl::StatusOr<Slicer> Make(const LoopInput& rule, const Tensor& source, int64_t length);

  int64_t num_parts() const { return range_.count; }
  void Take(int64_t iteration, Tensor& part) const;
  // The first `rows` of the part's first axis, which must not be the one that is sliced.
  void TakeRows(int64_t iteration, int64_t rows, Tensor& part) const;
  // A part as `rows` rows of the source, which is f32; null: its elements do not lie so.
  ConstMatrix<float> Rows(int64_t iteration, int64_t rows) const;

 private:
  Shape PartShape() const;

  bool drop_axis_ = false;
  Tensor source_;
  Tensor together_;  // the source by the sliced axis, if a part stands together and is large
  int axis_ = 0;
  SliceRange range_;
};

// Gathers one concatenated or stacked output of a loop.
class Collector {
 public:
  // `trips`: number of iterations, -1 if unknown before the end of the loop. `rule` must live while
  // this does. `memory` is used for the output if it is large enough and not shared.
  Collector(const LoopOutput& rule, int64_t trips, Tensor memory = {})
      : rule_(&rule), trips_(trips), memory_(std::move(memory)) {}

  // The next iteration's part. Its shape and type must be the first one's.
  absl::Status Add(const Tensor& part, Tensor& output);
  // The same of the elements of a part that is like the first one. The number of iterations must be
  // known.
  void AddLike(const void* elements, Tensor& output) { Place(count_++, elements, output); }
  // The same of a part of which the first rows are given, on its first axis; the others, up to
  // `all_rows`, are zeros. The number of iterations must be known, and the axis that parts are
  // joined along must not be that of their rows.
  absl::Status AddRows(const Tensor& part, int64_t all_rows, Tensor& output);
  // After the last part, of which there must have been one.
  absl::Status Finish(Tensor& output);

 private:
  // The first part begins the output, the others must be like it.
  absl::Status Expect(const Shape& shape, DType dtype, Tensor& output);
  // Of parts like the first one.
  absl::Status Start(int64_t trips, Tensor& output);
  int64_t PlaceOf(int64_t iteration) const {
    return rule_->reversed ? trips_ - 1 - iteration : iteration;
  }
  void Place(int64_t iteration, const void* elements, Tensor& output) const;
  void PlaceRows(int64_t iteration, const Tensor& part, Tensor& output) const;

  const LoopOutput* rule_;
  int64_t trips_;
  Tensor memory_;
  int64_t count_ = 0;
  int64_t bytes_ = 0;          // held in parts_
  std::vector<Tensor> parts_;  // while the number of iterations is not known
  Shape part_shape_;
  DType part_dtype_ = DType::kUndefined;
  int axis_ = 0;
  int64_t length_ = 0;
};

// The error of `count` parts that together are beyond MaxTensorBytes().
absl::Status TooManyParts(int64_t count, const Shape& part);

// Copies elements [0, part's extent) of an axis of `whole`, from `part`.
void CopyToFront(const Tensor& part, int axis, Tensor& whole);

// Batch items that iterate on their own: their lengths, their share of the loop's inputs, and how
// their outputs come together (Loop::Items in ops/graph/graph.h).
//
// `values` below are the node's inputs by the loop's input rules.

// How often a loop iterates, as its trip count, its condition and its slices say.
struct Trips {
  int64_t most = 0;        // iterations at most
  bool exact = false;      // as many as `most`
  bool unbounded = false;  // `most` is only the limit of patience
};

// inputs: the node's. parts: what slices have, -1 if nothing is sliced. condition_stays: the body's
// condition is known to be true. InvalidArgument where nothing ends the loop, or parts do not
// suffice for its trip count.
absl::StatusOr<Trips> FindTrips(const Loop& loop, absl::Span<const Tensor* const> inputs,
                                int64_t parts, bool condition_stays);

// The value of a condition; InvalidArgument, naming `what`, unless it is one boolean.
absl::StatusOr<bool> OneBool(absl::string_view what, const Tensor& value);

// Extent of the sliced axes; they must agree.
absl::StatusOr<int64_t> SlicedExtent(const Loop& loop, const std::vector<Tensor>& values);

// Number of items where they run apart: the first extent of all states and sliced inputs.
absl::StatusOr<int64_t> BatchExtent(const Loop& loop, const std::vector<Tensor>& values);

// The lengths, checked: one for each item, each in [0, SlicedExtent]. Errors name the item.
absl::StatusOr<std::vector<int64_t>> ReadLengths(const Loop& loop, const Tensor& lengths,
                                                 const std::vector<Tensor>& values);

// `values` as one item sees them where items run apart.
std::vector<Tensor> ItemOf(const Loop& loop, const std::vector<Tensor>& values, int64_t item);

// Items' values of one output, joined along a new first axis. With `axis` >= 0 (counted in an item)
// an item may be shorter than `extent` there, or have no value, and is filled with zeros behind its
// end; one at least has a value. InvalidArgument where items differ otherwise.
absl::StatusOr<Tensor> StackItems(const std::vector<Tensor>& items, int axis, int64_t extent);

// Items that the body sees only while they take part (kItemsLeave), the longest first: at any
// position those that take part are the first ones. Read forwards they leave one after the other,
// read backwards they come.
class LeavingItems {
 public:
  // Whether lengths fall, from `extent` on.
  static bool AreSorted(absl::Span<const int64_t> lengths, int64_t extent);

  // `lengths` must outlive this. starts: [items, ...] each.
  LeavingItems(absl::Span<const int64_t> lengths, std::vector<Tensor> starts)
      : lengths_(lengths), starts_(std::move(starts)) {}

  // Makes `states` those of the items that take part at `position`, and returns how many these are.
  // Positions must be looked at in order, from either end.
  int64_t Enter(int64_t position, std::vector<Tensor>& states);
  // Behind the last position: the states of all items.
  void Finish(std::vector<Tensor>& states);

 private:
  void Leave(int64_t first, const std::vector<Tensor>& states);

  absl::Span<const int64_t> lengths_;
  std::vector<Tensor> starts_;
  std::vector<Tensor> last_;  // of those that have left; made when the first does
  int64_t active_ = 0;
};

// The rows (indices of the first axis) of `value` where lengths[row] > position, elsewhere those of
// `held`, or zeros if it has no value. InvalidArgument unless `value` has one row for each length.
absl::StatusOr<Tensor> HoldRows(const Tensor& value, const Tensor& held,
                                absl::Span<const int64_t> lengths, int64_t position);

// A loop whose body is one recurrent cell, as the importers make it of an LSTM or a GRU over a
// sequence. Its iterations are all alike, so those after the first run on the matrices themselves:
// for a small cell the tensors, shapes and checks of an iteration cost more than its arithmetic.

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

// Kernel of op "Loop". Errors at run time name the port: ranges that do not fit, sliced inputs that
// do not agree on the number of iterations, lengths out of range, states whose shape changes where
// it may not. The deadline is looked at in each iteration (DeadlineExceeded).
absl::StatusOr<std::unique_ptr<Kernel>> MakeLoopKernel(const KernelRequest& request);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_SEQUENCE_DRIVER_H_
