// How values of a loop are cut into the parts that iterations see, and joined from the parts that
// they give. Private to loop/.
#ifndef BEAMWRIGHT_OPS_LOOP_LOOP_PARTS_H_
#define BEAMWRIGHT_OPS_LOOP_LOOP_PARTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/body_maps.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_LOOP_PARTS_H_
