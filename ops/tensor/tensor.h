// Tensor: a dense row-major array with a shape and an element type. Copies share the elements; a
// tensor that is the only owner of its buffer may be written. Views of rows and reshapes share the
// buffer as well. Not thread-safe beyond what shared_ptr gives: one writer, or many readers.
#ifndef BEAMWRIGHT_OPS_TENSOR_TENSOR_H_
#define BEAMWRIGHT_OPS_TENSOR_TENSOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/base/check.h"
#include "ops/tensor/dtype.h"

namespace beamwright::ops {

// Shapes: extents of a tensor's axes, outermost first.

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

// Two-dimensional views of memory that other objects own.

// rows x columns elements; row r starts at data + r * stride.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;

  T* row(int64_t index) const { return data + index * stride; }
  absl::Span<T> row_span(int64_t index) const { return {row(index), static_cast<size_t>(columns)}; }
};

template <typename T>
using ConstMatrix = Matrix<const T>;

// Operators refuse to compute a larger tensor: a few bytes of a hostile file could ask for any
// size.
inline constexpr int64_t kMaxTensorBytes = int64_t{8} << 30;

// Elements of a tensor that are made when they are first read: ops/tensor/tensor_memory.h.
class DeferredElements {
 public:
  virtual ~DeferredElements() = default;
  void Ensure() {
    if (absent_.load(std::memory_order_acquire)) {
      Load();
    }
  }
  virtual void Load() = 0;
  // They are never forgotten again.
  virtual void Keep() = 0;
  // No code may hold a pointer to them.
  virtual void Forget() = 0;
  bool is_absent() const { return absent_.load(std::memory_order_acquire); }

 protected:
  std::atomic<bool> absent_ = true;
};

class Tensor {
 public:
  // No type, no elements. Stands for an absent optional input.
  Tensor() = default;
  // Uninitialised elements, aligned to 64 bytes. The shape must have been checked
  // (CheckedNumElements).
  Tensor(DType dtype, Shape shape);

  // Over elements that others allocated, [shape] and BufferBytes of them. `deferred`, unless null,
  // lives as long as the buffer.
  Tensor(DType dtype, Shape shape, std::shared_ptr<std::byte> buffer, DeferredElements* deferred);
  // Bytes of a buffer for `bytes` bytes of elements.
  static int64_t BufferBytes(int64_t bytes);

  // Copies `values`, which must match the shape.
  template <typename T>
  static Tensor Of(Shape shape, absl::Span<const T> values) {
    Tensor result(DTypeOf<T>::value, std::move(shape));
    BW_CHECK(static_cast<int64_t>(values.size()) == result.num_elements());
    std::copy(values.begin(), values.end(), result.mutable_data<T>());
    return result;
  }
  template <typename T>
  static Tensor Of(Shape shape, const std::vector<T>& values) {
    return Of<T>(std::move(shape), absl::Span<const T>(values));
  }
  template <typename T>
  static Tensor Scalar(T value) {
    Tensor result(DTypeOf<T>::value, Shape());
    *result.mutable_data<T>() = value;
    return result;
  }
  static Tensor Zeros(DType dtype, Shape shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t dim(int axis) const { return shape_[static_cast<size_t>(axis)]; }
  int64_t num_elements() const { return num_elements_; }
  int64_t num_bytes() const { return num_elements_ * SizeOf(dtype_); }
  bool has_value() const { return dtype_ != DType::kUndefined; }

  template <typename T>
  const T* data() const {
    BW_DCHECK(dtype_ == DTypeOf<T>::value);
    return reinterpret_cast<const T*>(bytes());
  }
  template <typename T>
  T* mutable_data() {
    BW_DCHECK(dtype_ == DTypeOf<T>::value);
    return reinterpret_cast<T*>(mutable_bytes());
  }
  template <typename T>
  absl::Span<const T> span() const {
    return absl::Span<const T>(data<T>(), static_cast<size_t>(num_elements_));
  }
  const std::byte* bytes() const {
    if (deferred_ != nullptr) {
      deferred_->Ensure();
    }
    return bytes_;
  }
  std::byte* mutable_bytes() {
    if (deferred_ != nullptr) {
      deferred_->Keep();
    }
    return bytes_;
  }
  // Where the elements are, whether they have been made or not: to distinguish buffers.
  const std::byte* place() const { return bytes_; }
  // Null unless the elements are made when they are first read.
  DeferredElements* deferred() const { return deferred_; }
  // Expires with the last tensor that shares the elements: for caches of what was made from them.
  std::weak_ptr<const void> lifetime() const { return buffer_; }

  // Makes this an uninitialised tensor of the given type and shape, keeping the buffer where it is
  // large enough and it is not shared. What steady steps call instead of constructing.
  void Resize(DType dtype, const Shape& shape);

  // The same elements under another shape with as many elements (checked).
  Tensor Reshaped(Shape shape) const;
  // Indices [begin, end) of the first axis, sharing the buffer. Rank >= 1; 0 <= begin <= end <=
  // dim(0).
  Tensor Rows(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<std::byte> buffer_;
  int64_t capacity_bytes_ = 0;
  std::byte* bytes_ = nullptr;
  DeferredElements* deferred_ = nullptr;  // lives in buffer_
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t num_elements_ = 0;
};

// Elements of an integer tensor (any integer type or boolean) as i64; InvalidArgument for floats
// and for u64 above the i64 range.
absl::StatusOr<std::vector<int64_t>> ToInt64(const Tensor& tensor);
// Elements of a float tensor (any float type) or integer tensor as f32.
absl::StatusOr<std::vector<float>> ToFloat32(const Tensor& tensor);
// A tensor converted to another type: integers wrap, floats truncate to integers and saturate (NaN
// becomes 0), boolean is "not zero", and what becomes a float is rounded once, ties to even.
absl::StatusOr<Tensor> Convert(const Tensor& tensor, DType dtype);

// Calls `body(T())` with the C++ type of a dtype.
// Half and BFloat16 are passed as they are. kUndefined is a broken invariant.
template <typename Body>
decltype(auto) VisitDType(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF16:
      return body(Half{});
    case DType::kBF16:
      return body(BFloat16{});
    case DType::kF64:
      return body(double{});
    case DType::kI64:
      return body(int64_t{});
    case DType::kI32:
      return body(int32_t{});
    case DType::kI16:
      return body(int16_t{});
    case DType::kI8:
      return body(int8_t{});
    case DType::kU64:
      return body(uint64_t{});
    case DType::kU32:
      return body(uint32_t{});
    case DType::kU16:
      return body(uint16_t{});
    case DType::kU8:
      return body(uint8_t{});
    case DType::kBool:
      return body(bool{});
    case DType::kUndefined:
      break;
  }
  CheckFailed(__FILE__, __LINE__, "dtype is defined");
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TENSOR_TENSOR_H_
