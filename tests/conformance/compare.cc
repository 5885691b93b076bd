#include "tests/conformance/compare.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr double kSinglePrecision = 1e-5;
constexpr double kHalfPrecision = 4.0 / 1024;
constexpr double kBFloat16Precision = 4.0 / 128;

// Elements of a float tensor; f64 keeps its digits.
std::vector<double> Floats(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.num_elements()));
  VisitDType(tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* data = tensor.data<T>();
    std::transform(data, data + values.size(), values.begin(), [](T value) {
      if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<double>(value);
      } else {
        return static_cast<double>(ToFloat(value));
      }
    });
  });
  return values;
}

double MeanMagnitude(const std::vector<double>& values) {
  double sum = 0;
  size_t count = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      sum += std::abs(value);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

// 0: equal. Otherwise the error in units of what is allowed.
double Excess(double actual, double expected, double scale, double tolerance) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) {
    return 0;
  }
  if (!std::isfinite(actual) || !std::isfinite(expected)) {
    return INFINITY;
  }
  const double allowed = tolerance * std::max(std::abs(expected), scale);
  return std::abs(actual - expected) / allowed;
}

std::string Position(const Shape& shape, size_t element) {
  Shape position(shape.size());
  auto rest = static_cast<int64_t>(element);
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return ToString(position);
}

absl::Status CompareFloats(const Tensor& actual, const Tensor& expected, double tolerance) {
  const std::vector<double> got = Floats(actual);
  const std::vector<double> wanted = Floats(expected);
  const double scale = MeanMagnitude(wanted);
  size_t count = 0;
  size_t first = 0;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double excess = Excess(got[i], wanted[i], scale, tolerance);
    worst = std::max(worst, excess);
    if (excess > 1 && count++ == 0) {
      first = i;
    }
  }
  if (count == 0) {
    return absl::OkStatus();
  }
  return Invalid("element ", Position(expected.shape(), first), " is ", got[first], ", not ",
                 wanted[first], "; ", count, " of ", got.size(), " differ, by up to ",
                 worst * tolerance, " (allowed: ", tolerance, ")");
}

absl::Status CompareExactly(const Tensor& actual, const Tensor& expected) {
  return VisitDType(actual.dtype(), [&](auto type) -> absl::Status {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      const absl::Span<const T> got = actual.span<T>();
      const absl::Span<const T> wanted = expected.span<T>();
      for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != wanted[i]) {
          // The sum makes a number of what would print as a character.
          return Invalid("element ", Position(expected.shape(), i), " is ", got[i] + 0, ", not ",
                         wanted[i] + 0);
        }
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

double DefaultTolerance(DType dtype) {
  return dtype == DType::kF16    ? kHalfPrecision
         : dtype == DType::kBF16 ? kBFloat16Precision
                                 : kSinglePrecision;
}

absl::Status Compare(const Tensor& actual, const Tensor& expected, double tolerance) {
  const bool widened = actual.dtype() == DType::kBF16 && expected.dtype() == DType::kF32;
  if (actual.dtype() != expected.dtype() && !widened) {
    return Invalid("is ", Name(actual.dtype()), ", not ", Name(expected.dtype()));
  }
  if (actual.shape() != expected.shape()) {
    return Invalid("has shape ", ToString(actual.shape()), ", not ", ToString(expected.shape()));
  }
  if (!IsFloat(actual.dtype())) {
    return CompareExactly(actual, expected);
  }
  return CompareFloats(actual, expected,
                       tolerance > 0 ? tolerance : DefaultTolerance(actual.dtype()));
}

}  // namespace beamwright::ops
