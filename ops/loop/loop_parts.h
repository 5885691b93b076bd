// How values of a loop are cut into the parts that iterations see, and joined from the parts that
// they give. Private to loop/.
#ifndef BEAMWRIGHT_OPS_LOOP_LOOP_PARTS_H_
#define BEAMWRIGHT_OPS_LOOP_LOOP_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/slicing.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// A sliced input while the loop runs.
class Slicer {
 public:
  // The first `length` elements of the axis that `rule` slices (-1: all). Errors name the port.
  static absl::StatusOr<Slicer> Make(const LoopInput& rule, const Tensor& source, int64_t length);

  int64_t num_parts() const { return range_.count; }
  void Take(int64_t iteration, Tensor& part) const;

 private:
  bool drop_axis_ = false;
  Tensor source_;
  int axis_ = 0;
  SliceRange range_;
};

// Gathers one concatenated or stacked output of a loop.
class Collector {
 public:
  // `trips`: number of iterations, -1 if only the end of the loop will tell. `rule` must live while
  // this does.
  Collector(const LoopOutput& rule, int64_t trips) : rule_(&rule), trips_(trips) {}

  // The next iteration's part. Its shape and type must be the first one's.
  absl::Status Add(const Tensor& part, Tensor& output);
  // After the last part, of which there must have been one.
  absl::Status Finish(Tensor& output);

 private:
  absl::Status Start(const Tensor& part, int64_t trips, Tensor& output);
  void Place(int64_t iteration, const Tensor& part, Tensor& output) const;

  const LoopOutput* rule_;
  int64_t trips_;
  int64_t count_ = 0;
  int64_t bytes_ = 0;          // held in parts_
  std::vector<Tensor> parts_;  // while the number of iterations is not known
  Shape part_shape_;
  DType part_dtype_ = DType::kUndefined;
  int axis_ = 0;
  int64_t length_ = 0;
};

// Items' values of one output, joined along a new first axis. With `axis` >= 0 (counted in an item)
// an item may be shorter than `extent` there, or have no value, and is filled with zeros behind its
// end; one at least has a value. InvalidArgument where items differ otherwise.
absl::StatusOr<Tensor> StackItems(const std::vector<Tensor>& items, int axis, int64_t extent);

// The rows (indices of the first axis) of `value` where lengths[row] > position, elsewhere those of
// `held`, or zeros if it has no value. InvalidArgument unless `value` has one row for each length.
absl::StatusOr<Tensor> HoldRows(const Tensor& value, const Tensor& held,
                                absl::Span<const int64_t> lengths, int64_t position);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_LOOP_PARTS_H_
