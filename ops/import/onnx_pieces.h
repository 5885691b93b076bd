// Small graphs that several operators of ONNX are translated with. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_PIECES_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_PIECES_H_

#include <vector>

#include "ops/import/onnx_node.h"

namespace beamwright::ops {

// The shape as an i64 list: a constant where all extents are known.
ValueId ShapeList(OnnxNode& n, ValueId x);
// The extent of one axis as an i64 scalar; axis may count from the end.
ValueId ExtentOf(OnnxNode& n, ValueId x, int64_t axis);
// x under another shape. pattern: as Reshape takes it; 0 copies the input's extent.
ValueId Reshaped(OnnxNode& n, ValueId x, std::vector<int64_t> pattern);
// A list of one element as a scalar; scalars stay.
ValueId AsScalar(OnnxNode& n, ValueId x);
// [product of the extents before axis, product of the others]. axis in [-rank, rank].
ValueId Flattened(OnnxNode& n, ValueId x, int64_t axis);
// The axes 0 .. rank - 1 as an i64 list.
ValueId AllAxes(OnnxNode& n, ValueId x);
// i64 numbers 0 .. count - 1; count: i64 scalar.
ValueId Counting(OnnxNode& n, ValueId count);
// column - row for every element of the last two axes of x: i64 [rows, columns].
ValueId DiagonalNumbers(OnnxNode& n, ValueId x);
ValueId ConvertTo(OnnxNode& n, ValueId x, DType dtype);
// What is wrong with an input that is known at load and holds what is not a scale of quantised
// numbers, naming it; empty: nothing. CheckScale fails by it.
std::string FaultOfScale(OnnxNode& n, int input, const char* name);
void CheckScale(OnnxNode& n, int input, const char* name);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_PIECES_H_
