// Fourier transforms as exports of audio front ends have them: products with constant matrices, as
// their lengths are known.
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"

namespace beamwright::ops {
namespace {

// A matrix has twice as many elements as the square of this.
constexpr int64_t kMostLength = 4096;

// [rows, 2 * columns]: what sample n adds to the real parts of all frequencies, then to the
// imaginary ones. Rows beyond `length` are zeros: samples that are cut off.
struct FourierShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t length = 0;
  bool inverse = false;
};

Tensor FourierMatrix(const FourierShape& shape, bool of_imaginary) {
  Tensor matrix = Tensor::Zeros(DType::kF32, {shape.rows, 2 * shape.columns});
  const double scale = shape.inverse ? 1.0 / static_cast<double>(shape.length) : 1.0;
  const double sign = shape.inverse ? 1.0 : -1.0;
  for (int64_t n = 0; n < std::min(shape.rows, shape.length); ++n) {
    float* const row = matrix.mutable_data<float>() + n * 2 * shape.columns;
    for (int64_t k = 0; k < shape.columns; ++k) {
      const double turn =
          static_cast<double>(n * k % shape.length) / static_cast<double>(shape.length);
      const double real = scale * std::cos(2 * std::numbers::pi * turn);
      const double imaginary = scale * sign * std::sin(2 * std::numbers::pi * turn);
      row[k] = static_cast<float>(of_imaginary ? -imaginary : real);
      row[shape.columns + k] = static_cast<float>(of_imaginary ? real : imaginary);
    }
  }
  return matrix;
}

// The axis that is transformed; from opset 20 on an input.
int SignalAxis(OnnxNode& n, int rank) {
  int64_t axis = n.version() >= 20 ? -2 : n.Int("axis", 1);
  if (n.version() >= 20 && n.Has(2)) {
    const std::vector<int64_t> given = n.KnownInts(2, "axis");
    axis = given.size() == 1 ? given[0] : axis;
  }
  const int found = n.Axis(axis, rank);
  if (n.ok() && found == rank - 1) {
    n.Fail("axis ", axis, " is that of real and imaginary parts");
  }
  return found;
}

// Part 0 (real) or 1 (imaginary) of x, with the signal's axis last.
ValueId SignalPart(OnnxNode& n, ValueId x, int part, int axis, int rank) {
  const ValueId plain = n.Add("Gather", {x, n.Scalar(part), n.Scalar(rank - 1)});
  std::vector<int64_t> order(static_cast<size_t>(rank - 1));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end());
  return n.Add("Transpose", {plain, n.List(order)});
}

void Dft(OnnxNode& n) {
  const ValueId x = n.In(0);
  const int rank = n.Rank(x);
  const bool inverse = n.Flag("inverse", false);
  const bool onesided = n.Flag("onesided", false);
  const int axis = rank < 2 ? 0 : SignalAxis(n, rank);
  if (!n.ok()) {
    return;
  }
  if (rank < 2) {
    n.Fail("input 0 has rank ", rank, "; it needs an axis for the signal and one for its parts");
    return;
  }
  const PartialShape& shape = n.info(x).shape;
  const int64_t parts = shape.dim(rank - 1);
  FourierShape fourier;
  fourier.rows = shape.dim(axis);
  fourier.inverse = inverse;
  fourier.length = fourier.rows;
  if (n.Has(1)) {
    const std::vector<int64_t> given = n.KnownInts(1, "dft_length");
    fourier.length = given.size() == 1 ? given[0] : 0;
  }
  if (fourier.rows < 1 || fourier.length < 1 || (parts != 1 && parts != 2) ||
      std::max(fourier.rows, fourier.length) > kMostLength) {
    n.Unsupported("a transform of ", shape.ToString(), " along axis ", axis,
                  " is not supported; the extent of that axis must be known and at most ",
                  kMostLength, ", and that of the last one 1 or 2");
    return;
  }
  if (n.Type(x) != DType::kF32 || (onesided && inverse)) {
    n.Unsupported("only f32, and one-sided transforms that are not inverse, are supported");
    return;
  }
  fourier.columns = onesided ? fourier.length / 2 + 1 : fourier.length;
  ValueId sum = n.Add("MatMul", {SignalPart(n, x, 0, axis, rank),
                                 n.Constant(FourierMatrix(fourier, /*of_imaginary=*/false))});
  if (parts == 2) {
    const ValueId imaginary =
        n.Add("MatMul", {SignalPart(n, x, 1, axis, rank),
                         n.Constant(FourierMatrix(fourier, /*of_imaginary=*/true))});
    sum = n.Add("Add", {sum, imaginary});
  }
  // [..., 2 * columns] -> [..., 2, columns] -> the parts last, the frequencies where the signal
  // was.
  std::vector<int64_t> pattern(static_cast<size_t>(rank), 0);
  pattern[static_cast<size_t>(rank - 2)] = 2;
  pattern[static_cast<size_t>(rank - 1)] = fourier.columns;
  std::vector<int64_t> order;
  for (int i = 0; i < rank - 2; ++i) {
    order.push_back(i);
  }
  order.insert(order.begin() + axis, rank - 1);
  order.push_back(rank - 2);
  n.Out(0, n.Add("Transpose", {Reshaped(n, sum, pattern), n.List(order)}));
}

}  // namespace

std::vector<OnnxOperator> OnnxSignal() {
  return {{"DFT", {17, 20}, 1, 3, 1, "Gather, Transpose, MatMul, Reshape", Dft}};
}

}  // namespace beamwright::ops
