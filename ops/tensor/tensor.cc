// Tensors: a type, a shape, and a place in a shared buffer. Copies and views (Reshaped, Rows) share
// the buffer; Resize takes a new one only if the buffer is shared or too small, so that steady
// steps allocate nothing. Buffers are aligned to cache lines and have room behind the last element,
// because vector loads may read past the end of a row. Their bytes are counted against the thread's
// memory limit (CountHeld).
//
// Convert converts all types to each other: floats to integers truncate and saturate, integers
// wrap, f64 to 16-bit floats is rounded once (RoundToOdd).
#include "ops/tensor/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <new>
#include <type_traits>

#include "absl/strings/str_join.h"
#include "ops/base/memory.h"
#include "ops/base/status.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

// An extent of 0 does not hide that others are too large: [0, 2^40, 2^40] is refused, since a pass
// that drops axis 0 would multiply the others.
absl::StatusOr<int64_t> CheckedNumElements(absl::Span<const int64_t> shape) {
  constexpr int64_t kMost = int64_t{1} << 48;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return Invalid("shape ", ToString(shape), " has a negative extent");
    }
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kMost / dim) {
      return Invalid("shape ", ToString(shape), " has more than 2^48 elements");
    }
    count *= dim;
  }
  return empty ? 0 : count;
}

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

std::string ToString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, int64_t dim) {
                                      absl::StrAppend(out, dim < 0 ? "?" : absl::StrCat(dim));
                                    }),
                      "]");
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return Invalid("axis ", axis, " is outside [", -rank, ", ", rank - 1, "] of a rank-", rank,
                   " tensor");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// As NumPy: [3, 1, 8] and [5, 1] are [3, 5, 8]. An extent of 0 with 1 gives 0.
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape result(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) {
      return Invalid("shapes ", ToString(a), " and ", ToString(b), " do not broadcast");
    }
    result[rank - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

bool PartialShape::is_static() const {
  return has_rank_ && std::all_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim >= 0; });
}

bool PartialShape::Accepts(absl::Span<const int64_t> shape) const {
  if (!has_rank_) {
    return true;
  }
  return std::equal(dims_.begin(), dims_.end(), shape.begin(), shape.end(),
                    [](int64_t known, int64_t dim) { return known == kDynamic || known == dim; });
}

std::string PartialShape::ToString() const { return has_rank_ ? ops::ToString(dims_) : "[...]"; }

namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte> Allocate(int64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment));
  WishHugePages(memory, static_cast<size_t>(bytes));
  CountHeld(bytes);
  return {memory, [bytes](std::byte* pointer) {
            ::operator delete(pointer, kAlignment);
            CountHeld(-bytes);
          }};
}

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// The f32 from which rounding on to 16 bits gives what rounding at once would: what lies between
// two f32 becomes the one with an odd last bit, which is not a tie of the shorter format.
//
// Example: a little above halfway between two neighbours of f16, by less than an f32 can show.
// Rounded to the nearest f32 it is the halfway point itself, a tie, and might be rounded down; the
// odd f32 above it is rounded up, as the number is to be.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == value ||
      (std::bit_cast<uint32_t>(nearest) & 1u) != 0) {
    return nearest;
  }
  const double limit = std::numeric_limits<double>::infinity();
  return std::nextafter(nearest, static_cast<float>(value > nearest ? limit : -limit));
}

template <typename To>
To FromFloat(float value) {
  if constexpr (std::is_same_v<To, Half>) {
    return ToHalf(value);
  } else {
    return ToBFloat16(value);
  }
}

// Truncates towards zero; what is out of range saturates, NaN becomes 0.
template <typename To, typename From>
To ToInteger(From value) {
  if (std::isnan(value)) {
    return 0;
  }
  if (value <= static_cast<From>(std::numeric_limits<To>::min())) {
    return std::numeric_limits<To>::min();
  }
  if (value >= static_cast<From>(std::numeric_limits<To>::max())) {
    return std::numeric_limits<To>::max();
  }
  return static_cast<To>(value);
}

template <typename From, typename To>
To ConvertElement(From value) {
  if constexpr (kIsHalf<From>) {
    if constexpr (kIsHalf<To>) {
      return FromFloat<To>(ToFloat(value));
    } else {
      return ConvertElement<float, To>(ToFloat(value));
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (kIsHalf<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return FromFloat<To>(value);
    } else {
      // 64-bit integers above 2^53 are rounded to f64 before.
      return FromFloat<To>(RoundToOdd(static_cast<double>(value)));
    }
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    return ToInteger<To>(value);
  } else {
    return static_cast<To>(value);  // integers wrap
  }
}

}  // namespace

// Callers move their shape in.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Tensor::Tensor(DType dtype, Shape shape) { Resize(dtype, shape); }

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<std::byte> buffer,
               DeferredElements* deferred)
    : buffer_(std::move(buffer)),
      bytes_(buffer_.get()),
      deferred_(deferred),
      dtype_(dtype),
      shape_(std::move(shape)),
      num_elements_(NumElements(shape_)) {
  capacity_bytes_ = BufferBytes(num_bytes());
}

// Vector loads may read a few elements past the end of a row: round up to whole cache lines.
int64_t Tensor::BufferBytes(int64_t bytes) { return (bytes + 127) / 64 * 64; }

Tensor Tensor::Zeros(DType dtype, Shape shape) {
  Tensor result(dtype, std::move(shape));
  std::memset(result.mutable_bytes(), 0, static_cast<size_t>(result.num_bytes()));
  return result;
}

// The buffer stays if this tensor is the only owner, it is large enough, and its elements are not
// deferred (tensor_memory.h). A view of rows gets the begin of the buffer again.
void Tensor::Resize(DType dtype, const Shape& shape) {
  dtype_ = dtype;
  shape_ = shape;
  num_elements_ = NumElements(shape);
  const int64_t bytes = num_bytes();
  if (buffer_ == nullptr || buffer_.use_count() != 1 || capacity_bytes_ < bytes ||
      deferred_ != nullptr) {
    capacity_bytes_ = BufferBytes(bytes);
    buffer_ = Allocate(capacity_bytes_);
    deferred_ = nullptr;
  }
  bytes_ = buffer_.get();
}

Tensor Tensor::Reshaped(Shape shape) const {
  BW_CHECK(NumElements(shape) == num_elements_);
  Tensor result = *this;
  result.shape_ = std::move(shape);
  return result;
}

// A view: the same buffer, from row `begin` on.
Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  BW_DCHECK(rank() >= 1 && begin >= 0 && begin <= end && end <= dim(0));
  Tensor result = *this;
  const int64_t row_elements = dim(0) == 0 ? 0 : num_elements_ / dim(0);
  result.shape_[0] = end - begin;
  result.num_elements_ = row_elements * (end - begin);
  result.bytes_ = bytes_ + begin * row_elements * SizeOf(dtype_);
  return result;
}

absl::StatusOr<std::vector<int64_t>> ToInt64(const Tensor& tensor) {
  if (!tensor.has_value() || IsFloat(tensor.dtype())) {
    return Invalid("expected integers, got ", Name(tensor.dtype()));
  }
  std::vector<int64_t> result(static_cast<size_t>(tensor.num_elements()));
  bool in_range = true;
  VisitDType(tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      const T* data = tensor.data<T>();
      for (size_t i = 0; i < result.size(); ++i) {
        if constexpr (std::is_same_v<T, uint64_t>) {
          in_range = in_range && data[i] <= uint64_t{std::numeric_limits<int64_t>::max()};
        }
        result[i] = static_cast<int64_t>(data[i]);
      }
    }
  });
  if (!in_range) {
    return Invalid("an unsigned value is above 2^63 - 1");
  }
  return result;
}

absl::StatusOr<std::vector<float>> ToFloat32(const Tensor& tensor) {
  BW_ASSIGN_OR_RETURN(const Tensor converted, Convert(tensor, DType::kF32));
  const absl::Span<const float> values = converted.span<float>();
  return std::vector<float>(values.begin(), values.end());
}

// One loop for each pair of types, chosen by the two visits: 13 types, so 169 loops.
absl::StatusOr<Tensor> Convert(const Tensor& tensor, DType dtype) {
  if (!tensor.has_value() || dtype == DType::kUndefined) {
    return Invalid("cannot convert a tensor without a type");
  }
  if (tensor.dtype() == dtype) {
    return tensor;
  }
  Tensor result(dtype, tensor.shape());
  VisitDType(tensor.dtype(), [&](auto from) {
    using From = decltype(from);
    const From* in = tensor.data<From>();
    VisitDType(dtype, [&](auto to) {
      using To = decltype(to);
      To* out = result.mutable_data<To>();
      const int64_t count = tensor.num_elements();
      for (int64_t i = 0; i < count; ++i) {
        out[i] = ConvertElement<From, To>(in[i]);
      }
    });
  });
  return result;
}

}  // namespace beamwright::ops
