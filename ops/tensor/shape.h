// Shapes: extents of a tensor's axes, outermost first.
#ifndef BEAMWRIGHT_OPS_TENSOR_SHAPE_H_
#define BEAMWRIGHT_OPS_TENSOR_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace beamwright::ops {

// Extents, all >= 0. Empty: a scalar.
using Shape = absl::InlinedVector<int64_t, 6>;

// Number of elements; InvalidArgument where an extent is negative or the product exceeds 2^48.
absl::StatusOr<int64_t> CheckedNumElements(absl::Span<const int64_t> shape);
// The same for a shape that has been checked before.
int64_t NumElements(absl::Span<const int64_t> shape);
// "[2, ?, 512]"; negative extents print as "?".
std::string ToString(absl::Span<const int64_t> shape);
// `axis` in [0, rank), or negative counting from the end; InvalidArgument naming the allowed range.
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank);
// The shape both broadcast to by NumPy's rule; InvalidArgument naming both.
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// A shape known in part: rank or single extents may be unknown until run time.
class PartialShape {
 public:
  static constexpr int64_t kDynamic = -1;

  PartialShape() = default;  // unknown rank
  explicit PartialShape(Shape dims) : has_rank_(true), dims_(std::move(dims)) {}

  bool has_rank() const { return has_rank_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  const Shape& dims() const { return dims_; }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  bool is_static() const;
  // Could a tensor of `shape` be meant?
  bool Accepts(absl::Span<const int64_t> shape) const;
  std::string ToString() const;  // "[?, 25, 512]", "[...]" for unknown rank

  friend bool operator==(const PartialShape&, const PartialShape&) = default;

 private:
  bool has_rank_ = false;
  Shape dims_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TENSOR_SHAPE_H_
