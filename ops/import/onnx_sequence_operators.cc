// The operators that stand for sequences of tensors once LowerOnnxSequences has been there.
#include <algorithm>
#include <numeric>

#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"

namespace beamwright::ops {
namespace {

// Inputs: the elements. new_axis 1: along an axis that they do not have yet.
void JoinList(OnnxNode& n) {
  const int64_t axis = n.Int("axis", 0);
  std::vector<ValueId> parts = n.inputs();
  if (n.Flag("new_axis", false)) {
    for (ValueId& part : parts) {
      part = n.Add("Unsqueeze", {part, n.List({axis})});
    }
  }
  n.Out(0, n.Add("Concat", std::move(parts), {{"axis", axis}}));
}

// Input: the elements, stacked on axis 0.
void JoinStacked(OnnxNode& n) {
  const ValueId stacked = n.In(0);
  const bool new_axis = n.Flag("new_axis", false);
  const int rank = n.Rank(stacked);
  const int axis = n.Axis(n.Int("axis", 0), std::max(new_axis ? rank : rank - 1, 1));
  if (!n.ok()) {
    return;
  }
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 1, order.begin() + axis + 1);
  const ValueId moved = axis == 0 ? stacked : n.Add("Transpose", {stacked, n.List(order)});
  if (new_axis) {
    n.Out(0, moved);
    return;
  }
  if (rank < 2) {
    n.Fail("scalars cannot be concatenated");
    return;
  }
  // The stack's axis and the one that it now stands before become one.
  std::vector<ValueId> extents;
  for (int i = 0; i < rank - 1; ++i) {
    extents.push_back(i == axis ? n.List({-1}) : Reshaped(n, ExtentOf(n, stacked, i + 1), {1}));
  }
  const ValueId shape = n.Add("Concat", std::move(extents), {{"axis", int64_t{0}}});
  n.Out(0, n.Add("Reshape", {moved, shape}, {{"special_zero", false}}));
}

// Inputs: what was taken apart along `axis`, and an index.
void ElementOf(OnnxNode& n) {
  const ValueId axis = n.Scalar(n.Int("axis", 0));
  const ValueId index = n.Flag("keepdims", true) ? Reshaped(n, n.In(1), {1}) : AsScalar(n, n.In(1));
  n.Out(0, n.Add("Gather", {n.In(0), index, axis}));
}

// Input: what is taken apart along `axis` into parts of `length`; its part with that index.
void ChunkOf(OnnxNode& n) {
  const int64_t length = n.Int("length", 1);
  const int64_t index = n.Int("index", 0);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (index > kMost || length > kMost) {
    n.Fail("part ", index, " of ", length, " each is out of every tensor");
    return;
  }
  n.Out(0, n.Add("Slice", {n.In(0), n.List({index * length}), n.List({(index + 1) * length}),
                           n.List({1}), n.List({n.Int("axis", 0)})}));
}

// Inputs: what is taken apart along `axis`, and the lengths of the parts.
void PartsOf(OnnxNode& n) {
  const ValueId first =
      n.Add("VariadicSplit", {n.In(0), n.Scalar(n.Int("axis", 0)), n.In(1)}, {}, n.num_outputs());
  for (int i = 0; i < n.num_outputs(); ++i) {
    n.Out(i, {first.node, i});
  }
}

void LengthOf(OnnxNode& n) { n.Out(0, ExtentOf(n, n.In(0), n.Int("axis", 0))); }

}  // namespace

std::vector<OnnxOperator> OnnxSequenceOperators() {
  return {
      {"ChunkOf", {1}, 1, 1, 1, "Slice", ChunkOf},
      {"ElementOf", {1}, 2, 2, 1, "Gather", ElementOf},
      {"JoinList", {1}, 1, kAnyNumber, 1, "Concat", JoinList},
      {"JoinStacked", {1}, 1, 1, 1, "Transpose, Reshape", JoinStacked},
      {"LengthOf", {1}, 1, 1, 1, "ShapeOf", LengthOf},
      {"PartsOf", {1}, 2, 2, kAnyNumber, "VariadicSplit", PartsOf},
  };
}

}  // namespace beamwright::ops
