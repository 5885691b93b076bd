// The table of ONNX's operators, by domain: "", com.microsoft, and the internal domain of operators
// on sequences. Each family has a file onnx_*.cc with a function that lists its lines; a name that
// two families list is a fault of ours and ends the program at the first look-up.
//
// A line holds the opsets at which the operator's meaning changed. An operator of a file is
// translated by its form at the file's opset (VersionAt). Opsets before the first one that is
// listed are refused.
//
// Example: the line {"Add", {7, 13, 14}, ...} and a file of opset 11 give version 7; a file of
// opset 6 is refused.
//
// Behind the tables are helpers that several families use. They write as little as is known:
// ShapeList is a constant where the shape is known, so that later passes see through it.
#include "ops/import/onnx_operators.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ops/base/check.h"

namespace beamwright::ops {
namespace {

using Table = absl::flat_hash_map<std::string, OnnxOperator>;

const Table& StandardTable() {
  static const auto* const table = [] {
    auto* result = new Table;
    for (const auto family : {OnnxActivations, OnnxAttention, OnnxControlFlow, OnnxConvolutions,
                              OnnxCreation, OnnxElementwise, OnnxGather, OnnxLinearStates,
                              OnnxMatMul, OnnxMovement, OnnxNormalization, OnnxQuantized,
                              OnnxRecurrent, OnnxReductions, OnnxShapes, OnnxSignal}) {
      for (OnnxOperator& op : family()) {
        BW_CHECK(result->emplace(op.name, op).second);
      }
    }
    return result;
  }();
  return *table;
}

// Contributed operators, all of version 1.
const Table& MicrosoftTable() {
  static const auto* const table = [] {
    auto* result = new Table;
    OnnxOperator gelu = StandardTable().at("Gelu");
    gelu.versions = {1};
    result->emplace("Gelu", gelu);
    for (const auto family : {OnnxMicrosoftAttention, OnnxMicrosoftFused, OnnxMicrosoftLinearStates,
                              OnnxMicrosoftQuantized, OnnxMicrosoftRecurrent}) {
      for (OnnxOperator& op : family()) {
        BW_CHECK(result->emplace(op.name, op).second);
      }
    }
    return result;
  }();
  return *table;
}

const Table& SequenceTable() {
  static const auto* const table = [] {
    auto* result = new Table;
    for (OnnxOperator& op : OnnxSequenceOperators()) {
      result->emplace(op.name, op);
    }
    return result;
  }();
  return *table;
}

const Table* TableOf(absl::string_view domain) {
  return domain.empty()                  ? &StandardTable()
         : domain == "com.microsoft"     ? &MicrosoftTable()
         : domain == kOnnxSequenceDomain ? &SequenceTable()
                                         : nullptr;
}

}  // namespace

int OnnxOperator::VersionAt(int64_t opset) const {
  int found = 0;
  for (const int version : versions) {
    found = version <= opset ? version : found;
  }
  return found;
}

const OnnxOperator* FindOnnxOperator(absl::string_view domain, absl::string_view name) {
  const Table* table = TableOf(domain);
  if (table == nullptr) {
    return nullptr;
  }
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

std::vector<const OnnxOperator*> AllOnnxOperators(absl::string_view domain) {
  std::map<absl::string_view, const OnnxOperator*> sorted;
  for (const auto& [name, op] : *TableOf(domain)) {
    sorted[name] = &op;
  }
  std::vector<const OnnxOperator*> result;
  for (const auto& [name, op] : sorted) {
    result.push_back(op);
  }
  return result;
}

ValueId ShapeList(OnnxNode& n, ValueId x) {
  const PartialShape& shape = n.info(x).shape;
  if (shape.is_static()) {
    return n.List(std::vector<int64_t>(shape.dims().begin(), shape.dims().end()));
  }
  return n.Add("ShapeOf", {x}, {{"output_type", "i64"}});
}

// A number where inference knows it, else the graph computes it: Gather(ShapeOf(x), axis).
ValueId ExtentOf(OnnxNode& n, ValueId x, int64_t axis) {
  if (n.HasRank(x)) {
    const int known_axis = n.Axis(axis, n.Rank(x));
    if (!n.ok()) {
      return {};
    }
    const int64_t extent = n.info(x).shape.dim(known_axis);
    if (extent != PartialShape::kDynamic) {
      return n.Scalar(extent);
    }
  }
  return n.Add("Gather", {ShapeList(n, x), n.Scalar(axis), n.Scalar(0)});
}

ValueId Reshaped(OnnxNode& n, ValueId x, std::vector<int64_t> pattern) {
  return n.Add("Reshape", {x, n.List(pattern)}, {{"special_zero", true}});
}

ValueId AsScalar(OnnxNode& n, ValueId x) {
  if (n.HasRank(x) && n.Rank(x) == 0) {
    return x;
  }
  return n.Add("Reshape", {x, n.List({})}, {{"special_zero", false}});
}

// [a, b, c, d] with axis 2 becomes [a * b, c * d].
//
// 1. Axis at the rank: [-1, 1].
// 2. The axis is the last one, whose extent is known: [-1, d].
// 3. Axis 0: [1, -1]. Axis 1: [0, -1], where 0 copies the extent.
// 4. Otherwise the product of the extents before the axis is computed in the graph.
ValueId Flattened(OnnxNode& n, ValueId x, int64_t axis) {
  if (axis < 0 || n.HasRank(x)) {
    const int rank = n.Rank(x);
    // Unlike elsewhere the rank itself is an axis: everything stands before it.
    axis = axis == rank ? rank : n.Axis(axis, std::max(rank, 1));
    if (axis == rank) {
      return Reshaped(n, x, {-1, 1});
    }
    const int64_t last = axis + 1 == rank ? n.info(x).shape.dim(rank - 1) : 0;
    if (last > 0 && axis != 0) {
      return Reshaped(n, x, {-1, last});
    }
  }
  if (axis <= 1) {
    return Reshaped(n, x, {axis == 0 ? 1 : 0, -1});
  }
  const ValueId before =
      n.Add("Slice", {ShapeList(n, x), n.List({0}), n.List({axis}), n.List({1})});
  const ValueId rows = n.Add("ReduceProd", {before, n.List({0})}, {{"keep_dims", true}});
  const ValueId pattern = n.Add("Concat", {rows, n.List({-1})}, {{"axis", int64_t{0}}});
  return n.Add("Reshape", {x, pattern}, {{"special_zero", false}});
}

ValueId AllAxes(OnnxNode& n, ValueId x) {
  if (n.HasRank(x)) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < n.Rank(x); ++axis) {
      axes.push_back(axis);
    }
    return n.List(axes);
  }
  return Counting(n, AsScalar(n, n.Add("ShapeOf", {ShapeList(n, x)}, {{"output_type", "i64"}})));
}

ValueId Counting(OnnxNode& n, ValueId count) {
  return n.Add("Range", {n.Scalar(0), count, n.Scalar(1)}, {{"output_type", "i64"}});
}

// The number of the diagonal that each element lies on, column - row: for [2, 3] it is [[0, 1, 2],
// [-1, 0, 1]].
ValueId DiagonalNumbers(OnnxNode& n, ValueId x) {
  const ValueId row = Reshaped(n, Counting(n, ExtentOf(n, x, -2)), {-1, 1});
  return n.Add("Subtract", {Counting(n, ExtentOf(n, x, -1)), row});
}

ValueId ConvertTo(OnnxNode& n, ValueId x, DType dtype) {
  if (n.info(x).dtype == dtype) {
    return x;
  }
  return n.Add("Convert", {x}, {{"destination_type", std::string(Name(dtype))}});
}

std::string FaultOfScale(OnnxNode& n, int input, const char* name) {
  const Tensor* const known = n.Has(input) ? n.Known(n.In(input)) : nullptr;
  const absl::StatusOr<std::vector<float>> values =
      known == nullptr ? std::vector<float>() : ToFloat32(*known);
  for (size_t i = 0; values.ok() && i < values->size(); ++i) {
    const float value = (*values)[i];
    if (!(value > 0) || std::isinf(value)) {
      return absl::StrCat("input '", name, "': element ", i, " is ", value,
                          "; a scale must be a finite number above 0");
    }
  }
  return "";
}

void CheckScale(OnnxNode& n, int input, const char* name) {
  const std::string fault = FaultOfScale(n, input, name);
  if (!fault.empty()) {
    n.Fail(fault);
  }
}

}  // namespace beamwright::ops
