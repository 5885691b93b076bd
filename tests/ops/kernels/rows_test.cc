// Row functions: what they claim is compared with what a stacked run does, bit for bit, and what
// can't be shown must come out as kMixed.
#include <gtest/gtest.h>

#include <set>

#include "ops/kernels/inputs.h"
#include "ops/kernels/kernels.h"
#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kRows = 3;

struct Input {
  Tensor one;  // for one row (fixed and extent inputs: as they are)
  RowInfo info = kFixedRows;
  bool constant = false;
};

// The input for `rows` rows: `one` repeated with other content along the row axis.
Tensor Stacked(const std::vector<Tensor>& singles, int axis) {
  return singles.size() == 1 ? singles[0] : RunOne({"Concat", singles, {{"axis", int64_t{axis}}}});
}

struct RowsCase {
  std::string op;
  std::vector<Input> inputs;
  RowInfo expected;
  std::vector<std::pair<std::string, AttributeValue>> attributes = {};
  int num_outputs = 1;
};

RowInfo Claim(const RowsCase& c) {
  const Operator* op = TestOperators().Find(c.op);
  Call call{c.op, {}, c.attributes, c.num_outputs};
  std::vector<RowInfo> rows;
  std::vector<InputInfo> infos;
  for (const Input& input : c.inputs) {
    Shape dims = input.one.shape();
    if (IsRows(input.info)) dims[static_cast<size_t>(input.info.axis)] = PartialShape::kDynamic;
    infos.push_back({input.one.dtype(), PartialShape(dims), input.constant ? &input.one : nullptr});
    rows.push_back(input.info);
    call.inputs.push_back(input.one);
  }
  Node node = MakeNode(call);
  const absl::Status status = op->infer(node, infos, node.outputs);
  EXPECT_TRUE(status.ok()) << c.op << ": " << status;
  return op->rows(node, rows, infos);
}

// Runs R rows stacked and each alone; the claimed stretches must be equal.
void CheckStacking(const RowsCase& c, Random& random) {
  std::vector<std::vector<Tensor>> singles;  // [row][input]
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<Tensor> inputs;
    for (const Input& input : c.inputs) {
      Tensor one = input.one;
      if (IsRows(input.info)) {
        one = one.dtype() == DType::kF32 ? random.Floats(one.shape())
                                         : random.Ints(one.shape(), 0, 1, one.dtype());
      }
      inputs.push_back(one);
    }
    singles.push_back(inputs);
  }
  Call stacked{c.op, {}, c.attributes, c.num_outputs};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    std::vector<Tensor> parts;
    for (int64_t row = 0; row < kRows; ++row) parts.push_back(singles[static_cast<size_t>(row)][i]);
    stacked.inputs.push_back(IsRows(c.inputs[i].info) ? Stacked(parts, c.inputs[i].info.axis)
                                                      : c.inputs[i].one);
    if (c.inputs[i].constant) stacked.constants.push_back(i);
  }
  const std::vector<Tensor> all = *RunAll(stacked);
  for (size_t output = 0; output < all.size(); ++output) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor>& inputs : singles) {
      Call alone = stacked;
      alone.inputs = inputs;
      parts.push_back((*RunAll(alone))[output]);
      EXPECT_EQ(parts.back().dim(c.expected.axis), c.expected.factor) << c.op;
    }
    EXPECT_TRUE(SameBits(Stacked(parts, c.expected.axis), all[output])) << c.op;
  }
}

Tensor Float(Shape shape) { return Tensor::Zeros(DType::kF32, std::move(shape)); }
Tensor Ids(Shape shape) { return Tensor::Zeros(DType::kI64, std::move(shape)); }
Input Rows(Tensor one, int axis = 0) {
  const int64_t factor = one.dim(axis);
  return {std::move(one), RowsAt(axis, factor)};
}
Input Fixed(Tensor tensor) { return {std::move(tensor), kFixedRows}; }
Input Constant(Tensor tensor) { return {std::move(tensor), kFixedRows, true}; }
Input Extent(Tensor tensor) { return {std::move(tensor), kExtentRows}; }

using Mask = std::vector<int64_t>;

std::vector<RowsCase> Separable() {
  const RowInfo front = RowsAt(0, 1);
  const int64_t zero = 0;
  return {
      {"Add", {Rows(Float({1, 4})), Fixed(Float({4}))}, front},
      {"Add", {Rows(Float({1, 4})), Rows(Float({1, 4}))}, front},
      {"Add", {Rows(Float({1, 4})), Fixed(Float({2, 1, 4}))}, RowsAt(1, 1)},
      {"Add", {Rows(Float({2, 1, 4}), 1), Rows(Float({1, 1}))}, RowsAt(1, 1)},
      {"Add", {Rows(Float({2, 3})), Fixed(Float({1, 3}))}, RowsAt(0, 2)},
      {"Tanh", {Rows(Float({2, 3}), 1)}, RowsAt(1, 3)},
      {"Select",
       {Fixed(*Convert(Ids({5}), DType::kBool)), Rows(Float({1, 5})), Fixed(Float({}))},
       front},
      {"MatMul", {Rows(Float({1, 4})), Constant(Float({4, 5}))}, front},
      {"MatMul", {Rows(Float({2, 4})), Fixed(Float({4}))}, RowsAt(0, 2)},
      {"MatMul", {Rows(Float({1, 3, 4})), Rows(Float({1, 4, 2}))}, front},
      {"MatMul", {Rows(Float({4, 1}), 1), Fixed(Float({4, 2}))}, front, {{"transpose_a", true}}},
      {"MatMul", {Rows(Float({1, 4})), Fixed(Float({3, 4, 2}))}, RowsAt(1, 1)},
      {"MatMul", {Fixed(Float({3, 4})), Rows(Float({1, 4, 2}))}, front},
      {"MatMul", {Fixed(Float({3, 4})), Rows(Float({4, 2}), 1)}, RowsAt(1, 2)},
      {"MatMul", {Fixed(Float({4})), Rows(Float({1, 4, 2}))}, front},
      {"MatMul", {Fixed(Float({4})), Rows(Float({4, 2}), 1)}, RowsAt(0, 2)},
      {"Gather", {Fixed(Float({5, 3})), Rows(Ids({2})), Constant(List({0}))}, RowsAt(0, 2)},
      {"Gather", {Fixed(Float({2, 5, 3})), Rows(Ids({1, 2})), Constant(List({1}))}, RowsAt(1, 1)},
      {"Gather", {Rows(Float({1, 5})), Constant(Ids({2, 2})), Constant(List({1}))}, front},
      {"Gather",
       {Rows(Float({5, 1}), 1), Constant(Ids({2, 2})), Constant(List({0}))},
       RowsAt(2, 1)},
      {"Gather",
       {Rows(Float({1, 5})), Rows(Ids({1, 2})), Constant(List({1}))},
       front,
       {{"batch_dims", int64_t{1}}}},
      {"Concat", {Rows(Float({1, 2})), Rows(Float({1, 3}))}, front, {{"axis", int64_t{-1}}}},
      {"Split", {Rows(Float({1, 6})), Constant(List({1}))}, front, {{"num_splits", int64_t{3}}}, 3},
      {"Reshape", {Rows(Float({1, 6})), Constant(List({0, 2, 3}))}, front},
      {"Reshape", {Rows(Float({1, 6})), Constant(List({-1, 2, 3}))}, front},
      {"Reshape", {Rows(Float({1, 6})), Constant(List({-1, 2}))}, RowsAt(0, 3)},
      {"Reshape", {Rows(Ids({1, 2})), Constant(List({-1}))}, RowsAt(0, 2)},
      {"Reshape", {Rows(Float({4, 1, 6}), 1), Constant(List({0, 0, 2, 3}))}, RowsAt(1, 1)},
      {"Reshape", {Rows(Float({6})), Constant(List({-1, 3}))}, RowsAt(0, 2)},
      // Extents of 1 before the rows come, go and stay: multi-head attention with the time first.
      {"Reshape", {Rows(Float({1, 6})), Constant(List({1, -1, 3}))}, RowsAt(1, 2)},
      {"Reshape", {Rows(Float({1, 1, 6}), 1), Constant(List({0, -1, 3}))}, RowsAt(1, 2)},
      {"Reshape", {Rows(Float({1, 1, 6}), 1), Constant(List({1, -1, 3}))}, RowsAt(1, 2)},
      {"Reshape", {Rows(Float({1, 1, 6}), 1), Constant(List({-1, 6}))}, RowsAt(0, 1)},
      {"Reshape", {Rows(Float({2, 3, 1, 6}), 2), Constant(List({6, -1, 3}))}, RowsAt(1, 2)},
      {"Squeeze", {Rows(Float({1, 1, 4}), 1), Constant(List({0}))}, front},
      {"Unsqueeze", {Rows(Float({1, 4})), Constant(List({0, 2}))}, RowsAt(1, 1)},
      {"Transpose", {Rows(Float({1, 2, 3})), Constant(List({2, 0, 1}))}, RowsAt(1, 1)},
      {"ReduceSum", {Rows(Float({4, 1, 3}), 1), Constant(List({0, 2}))}, front},
      {"ReduceMax",
       {Rows(Float({4, 1}), 1), Constant(List({0}))},
       RowsAt(1, 1),
       {{"keep_dims", true}}},
      {"SoftMax", {Rows(Float({1, 9}))}, front, {{"axis", int64_t{-1}}}},
      {"RelativeShift", {Rows(Float({2, 1, 3, 5}), 1), Constant(I64({}, {3}))}, RowsAt(1, 1)},
      {"StateUpdate",
       {Rows(Float({1, 2, 3, 4})), Constant(Float({2, 1, 1})), Rows(Float({1, 2, 3, 1})),
        Rows(Float({1, 1, 1, 4}))},
       front},
      {"Slice",
       {Rows(Float({1, 9})), Constant(List({2})), Constant(List({7})), Constant(List({2})),
        Constant(List({1}))},
       front},
      {"StridedSlice",
       {Rows(Float({1, 9})), Constant(List({0, 0, 3})), Constant(List({0, 0, 0}))},
       RowsAt(1, 1),
       {{"new_axis_mask", Mask{1, 0, 0}},
        {"begin_mask", Mask{0, 1, 0}},
        {"end_mask", Mask{0, 1, 0}},
        {"shrink_axis_mask", Mask{0, 0, 1}}}},
      {"Tile", {Rows(Float({1, 3})), Constant(List({2, 1, 2}))}, RowsAt(1, 1)},
      {"Broadcast",
       {Rows(Float({1, 1})), Constant(List({1, 4}))},
       front,
       {{"mode", std::string("bidirectional")}}},
      {"LSTMCell",
       {Rows(Float({1, 3})), Rows(Float({1, 2})), Rows(Float({1, 2})), Constant(Float({8, 3})),
        Constant(Float({8, 2})), Constant(Float({8}))},
       front,
       {{"hidden_size", int64_t{2}}},
       2},
      {"Erf", {Rows(Float({1, 4}))}, front},
      {"Gelu", {Rows(Float({2, 4}), 1)}, RowsAt(1, 4)},
      {"HardSigmoid", {Rows(Float({1, 4})), Fixed(Float({})), Fixed(Float({}))}, front},
      {"Swish", {Rows(Float({1, 4})), Fixed(Float({}))}, front},
      {"IsNaN", {Rows(Float({1, 4}))}, front},
      {"PReLU", {Rows(Float({1, 4})), Fixed(Float({1}))}, front},
      {"PReLU", {Rows(Float({1, 4, 5})), Fixed(Float({4}))}, front},
      {"PReLU", {Rows(Float({1, 4, 5})), Fixed(Float({1, 5}))}, front},
      {"ConvertLike", {Rows(Float({1, 4})), Rows(Ids({1}))}, front},
      {"ReduceLogicalOr", {Rows(*Convert(Ids({1, 4}), DType::kBool)), Constant(List({1}))}, front},
      {"GatherElements", {Rows(Float({1, 4})), Rows(Ids({1, 2}))}, front, {{"axis", int64_t{1}}}},
      {"GatherElements", {Fixed(Float({5, 4})), Rows(Ids({2, 4}))}, RowsAt(0, 2), {{"axis", zero}}},
      {"GatherND", {Fixed(Float({5, 4})), Rows(Ids({1, 2}))}, front},
      {"GatherND", {Fixed(Float({5, 4})), Rows(Ids({1, 3, 1}))}, front},
      {"GatherND",
       {Rows(Float({1, 4, 3})), Rows(Ids({1, 2, 1}))},
       front,
       {{"batch_dims", int64_t{1}}}},
      {"GatherND", {Rows(Float({4, 1, 3}), 1), Fixed(Ids({2, 2, 1}))}, RowsAt(2, 1)},
      {"ScatterUpdate",
       {Rows(Float({1, 4})), Constant(List({2, 0})), Rows(Float({1, 2})), Constant(List({1}))},
       front},
      {"ScatterUpdate",
       {Rows(Float({4, 2}), 1), Fixed(Ids({2, 2})), Rows(Float({2, 2, 2}), 2), Constant(List({0}))},
       RowsAt(1, 2)},
      {"ScatterElementsUpdate",
       {Rows(Float({1, 4})), Rows(Ids({1, 2})), Rows(Float({1, 2})), Constant(List({1}))},
       front,
       {{"reduction", std::string("sum")}}},
      {"ScatterNDUpdate",
       {Rows(Float({4, 1}), 1), Fixed(I64({2, 1}, {3, 1})), Rows(Float({2, 1}), 1)},
       RowsAt(1, 1)},
      {"OneHot",
       {Rows(Ids({2})), Constant(Tensor::Scalar<int64_t>(3)), Fixed(Tensor::Scalar(1.0f)),
        Fixed(Float({}))},
       RowsAt(0, 2),
       {{"axis", int64_t{-1}}}},
      {"OneHot",
       {Rows(Ids({1, 2})), Constant(Tensor::Scalar<int64_t>(3)), Fixed(Tensor::Scalar(1.0f)),
        Fixed(Float({}))},
       RowsAt(1, 1),
       {{"axis", int64_t{0}}}},
      {"Pad",
       {Rows(Float({1, 4})), Constant(List({0, 1})), Constant(List({0, -2}))},
       front,
       {{"pad_mode", std::string("edge")}}},
      {"Reverse",
       {Rows(Float({1, 4})), Constant(List({-1}))},
       front,
       {{"mode", std::string("index")}}},
      {"Reverse",
       {Rows(Float({4, 1}), 1), Constant(*Convert(List({1, 0}), DType::kBool))},
       RowsAt(1, 1),
       {{"mode", std::string("mask")}}},
      {"ReverseSequence", {Rows(Float({1, 4})), Rows(Ids({1}))}, front},
      {"ReverseSequence", {Rows(Float({2, 4, 1}), 2), Fixed(List({3, 2}))}, RowsAt(2, 1)},
      {"DepthToSpace",
       {Rows(Float({1, 4, 2, 2}))},
       front,
       {{"block_size", int64_t{2}}, {"mode", std::string("depth_first")}}},
      {"ShuffleChannels", {Rows(Float({1, 6}))}, front, {{"group", int64_t{3}}}},
      {"Convolution",
       {Rows(Float({2, 3, 6})), Constant(Float({4, 3, 2}))},
       RowsAt(0, 2),
       {{"strides", Mask{2}}}},
      {"GroupConvolution", {Rows(Float({1, 4, 5})), Constant(Float({2, 3, 2, 2}))}, front},
      {"ConvolutionBackpropData", {Rows(Float({1, 3, 6})), Constant(Float({3, 4, 2}))}, front},
      {"MaxPool", {Rows(Float({1, 2, 6}))}, front, {{"kernel", Mask{2}}}},
      {"MaxPool", {Rows(Float({1, 2, 6}))}, front, {{"kernel", Mask{2}}, {"axis", int64_t{1}}}, 2},
      {"AvgPool", {Rows(Float({1, 2, 6}))}, front, {{"kernel", Mask{3}}}},
      {"MVN", {Rows(Float({1, 4, 3})), Constant(List({1, 2}))}, front, {{"eps", 0.1}}},
      {"MVN", {Rows(Float({1, 4, 3}))}, front, {{"eps", 0.1}}},
      {"NormalizeL2", {Rows(Float({4, 1}), 1), Constant(List({0}))}, RowsAt(1, 1), {{"eps", 0.1}}},
      {"BatchNormInference",
       {Rows(Float({1, 2, 3})), Constant(Float({2})), Constant(Float({2})), Constant(Float({2})),
        Constant(Float({2}))},
       front,
       {{"epsilon", 1.0}}},
      {"GroupNormalization",
       {Rows(Float({1, 2, 3})), Constant(Float({2})), Constant(Float({2}))},
       front,
       {{"num_groups", int64_t{2}}, {"epsilon", 1.0}}},
      {"TopK", {Rows(Float({1, 6})), Constant(I64({}, {2}))}, front, {{"axis", int64_t{-1}}}, 2},
      {"ArgMax", {Rows(Float({4, 1}), 1)}, front, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}}},
      {"CumSum", {Rows(Float({1, 6})), Constant(List({1}))}, front},
      {"CumProd", {Rows(Float({1, 6})), Constant(List({1}))}, front},
      {"BitCast", {Rows(Float({1, 4}))}, front, {{"destination_type", std::string("i32")}}},
      {"Einsum",
       {Rows(Float({1, 2, 3})), Rows(Float({1, 3, 4}))},
       front,
       {{"equation", std::string("bij,bjk->bik")}}},
      {"Einsum",
       {Fixed(Float({2, 3})), Rows(Float({3, 2}), 1)},
       RowsAt(1, 2),
       {{"equation", std::string("ij,jk->ik")}}},
      {"Einsum",
       {Rows(Float({1, 2, 3})), Fixed(Float({1, 3, 2}))},
       front,
       {{"equation", std::string("...ij,...jk->...ik")}}},
      {"FakeQuantize",
       {Rows(Float({1, 3})), Fixed(Float({})), Constant(Float({3})), Fixed(Float({})),
        Fixed(Float({}))},
       front,
       {{"levels", int64_t{4}}}},
      {"QuantizeLinear", {Rows(Float({1, 3})), Constant(Float({3}))}, front},
      {"QuantizeLinear", {Rows(Float({1, 3})), Constant(Float({}))}, front},
      {"MatMulInteger",
       {Rows(*Convert(Ids({1, 3}), DType::kU8)), Constant(*Convert(Ids({3, 2}), DType::kI8))},
       front},
      {"EmbeddingBagPackedSum", {Fixed(Float({5, 3})), Rows(Ids({2, 3}))}, RowsAt(0, 2)},
  };
}

TEST(Rows, ClaimsHoldWhenRowsAreStacked) {
  Random random(1);
  for (const RowsCase& c : Separable()) {
    SCOPED_TRACE(c.op);
    ASSERT_EQ(static_cast<int>(Claim(c).kind), static_cast<int>(c.expected.kind));
    EXPECT_EQ(Claim(c).axis, c.expected.axis);
    EXPECT_EQ(Claim(c).factor, c.expected.factor);
    CheckStacking(c, random);
  }
}

TEST(Rows, WhatCantBeShownIsMixed) {
  const std::vector<RowsCase> cases = {
      {"Add", {Rows(Float({1, 4})), Fixed(Float({3, 4}))}, kMixedRows},
      {"Add", {Rows(Float({1, 4})), Rows(Float({4, 1}), 1)}, kMixedRows},
      {"Add", {Rows(Float({1, 4})), Rows(Float({4}))}, kMixedRows},
      {"Add", {Rows(Float({2, 4})), Rows(Float({1, 4}))}, kMixedRows},
      {"Add", {Rows(Float({1, 4})), Extent(Float({1, 4}))}, kMixedRows},
      {"MatMul", {Rows(Float({4, 1}), 1), Fixed(Float({1, 2}))}, kMixedRows},
      {"MatMul", {Rows(Float({1, 4})), Rows(Float({4, 1}), 1)}, kMixedRows},
      {"MatMul", {Rows(Float({1, 2, 4})), Fixed(Float({3, 4, 2}))}, kMixedRows},
      {"Gather", {Rows(Float({1, 3})), Rows(Ids({1})), Constant(List({0}))}, kMixedRows},
      {"Gather", {Rows(Float({2, 3})), Constant(List({1})), Constant(List({0}))}, kMixedRows},
      {"Concat", {Rows(Float({1, 2})), Rows(Float({1, 2}))}, kMixedRows, {{"axis", int64_t{0}}}},
      {"Concat", {Rows(Float({1, 2})), Fixed(Float({1, 2}))}, kMixedRows, {{"axis", int64_t{1}}}},
      {"Reshape", {Rows(Float({1, 6})), Constant(List({2, 3}))}, kMixedRows},
      {"Reshape", {Rows(Float({1, 6})), Constant(List({2, -1}))}, kMixedRows},
      {"Reshape", {Rows(Float({1, 6})), Constant(List({-1, 4}))}, kMixedRows},
      {"Reshape", {Rows(Float({4, 1, 6}), 1), Constant(List({2, -1, 6}))}, kMixedRows},
      {"Squeeze", {Rows(Float({1, 4})), Constant(List({0}))}, kMixedRows},
      {"Squeeze", {Rows(Float({1, 4}))}, kMixedRows},
      {"ReduceSum", {Rows(Float({1, 4})), Constant(List({0}))}, kMixedRows},
      {"SoftMax", {Rows(Float({1, 4}))}, kMixedRows, {{"axis", int64_t{0}}}},
      {"Slice",
       {Rows(Float({3, 4})), Constant(List({1})), Constant(List({2})), Constant(List({1}))},
       kMixedRows},
      {"Tile", {Rows(Float({1, 3})), Constant(List({2, 1}))}, kMixedRows},
      {"Broadcast", {Rows(Float({1, 3})), Constant(List({3, 3}))}, kMixedRows},
      {"LSTMCell",
       {Rows(Float({1, 3})), Fixed(Float({1, 2})), Rows(Float({1, 2})), Constant(Float({8, 3})),
        Constant(Float({8, 2}))},
       kMixedRows,
       {{"hidden_size", int64_t{2}}},
       2},
      {"Squeeze", {Rows(Float({1, 4})), Constant(List({}))}, kMixedRows},
      {"PReLU", {Rows(Float({3, 1}), 1), Fixed(Float({4}))}, kMixedRows},
      {"GatherElements",
       {Rows(Float({1, 4})), Fixed(Ids({1, 4}))},
       kMixedRows,
       {{"axis", int64_t{1}}}},
      {"GatherElements",
       {Fixed(Float({5, 4})), Rows(Ids({1, 4}))},
       kMixedRows,
       {{"axis", int64_t{1}}}},
      {"GatherND", {Rows(Float({1, 4})), Rows(Ids({1, 1}))}, kMixedRows},
      {"GatherND", {Rows(Float({1, 4})), Fixed(Ids({2, 1}))}, kMixedRows},
      {"ScatterUpdate",
       {Rows(Float({1, 4})), Constant(List({0})), Rows(Float({1, 4})), Constant(List({0}))},
       kMixedRows},
      {"ScatterElementsUpdate",
       {Fixed(Float({1, 4})), Rows(Ids({1, 4})), Rows(Float({1, 4})), Constant(List({1}))},
       kMixedRows},
      {"ScatterNDUpdate",
       {Rows(Float({1, 4})), Fixed(Ids({1, 1})), Rows(Float({1, 4}))},
       kMixedRows},
      {"Pad",
       {Rows(Float({1, 4})), Constant(List({0, 1})), Constant(List({1, 0}))},
       kMixedRows,
       {{"pad_mode", std::string("edge")}}},
      {"Reverse",
       {Rows(Float({1, 4})), Constant(List({0}))},
       kMixedRows,
       {{"mode", std::string("index")}}},
      {"ReverseSequence", {Rows(Float({1, 4})), Fixed(Ids({1}))}, kMixedRows},
      {"NonZero", {Rows(Float({1, 4}))}, kMixedRows},
      {"Unique", {Rows(Float({1, 4})), Constant(List({1}))}, kMixedRows, {}, 4},
      {"FirstRow", {Rows(Float({4, 1}), 1)}, kMixedRows},
      {"RelativeShift", {Rows(Float({2, 1, 3}), 1), Constant(Ids({}))}, kMixedRows},
      {"StateUpdate",
       {Rows(Float({3, 1, 4}), 1), Constant(Float({1, 1})), Rows(Float({1, 1, 1})),
        Rows(Float({1, 1, 4}))},
       kMixedRows},
      {"ShuffleChannels", {Rows(Float({6, 1}), 1)}, kMixedRows},
      {"Convolution", {Rows(Float({3, 1, 6}), 1), Constant(Float({4, 1, 2}))}, kMixedRows},
      {"Convolution", {Fixed(Float({1, 3, 6})), Rows(Float({1, 3, 2}))}, kMixedRows},
      {"MaxPool", {Rows(Float({1, 2, 6}))}, kMixedRows, {{"kernel", Mask{2}}}, 2},
      {"MVN", {Rows(Float({1, 4})), Constant(List({0}))}, kMixedRows},
      {"BatchNormInference",
       {Rows(Float({2, 1}), 1), Fixed(Float({1})), Fixed(Float({1})), Fixed(Float({1})),
        Fixed(Float({1}))},
       kMixedRows},
      {"TopK", {Rows(Float({1, 6})), Constant(Ids({}))}, kMixedRows, {{"axis", int64_t{0}}}, 2},
      {"ArgMax", {Rows(Float({1, 6}))}, kMixedRows},
      {"CumSum", {Rows(Float({1, 6})), Fixed(Ids({}))}, kMixedRows},
      {"Einsum", {Rows(Float({1, 3}))}, kMixedRows, {{"equation", std::string("ij->j")}}},
      {"Einsum", {Rows(Float({1, 1}))}, kMixedRows, {{"equation", std::string("ii->i")}}},
      {"Einsum",
       {Rows(Float({1, 3})), Fixed(Float({1, 3}))},
       kMixedRows,
       {{"equation", std::string("ij,ik->i")}}},
      {"FakeQuantize",
       {Fixed(Float({1, 3})), Rows(Float({1, 1})), Fixed(Float({})), Fixed(Float({})),
        Fixed(Float({}))},
       kMixedRows,
       {{"levels", int64_t{4}}}},
      {"QuantizeLinear",
       {Rows(Float({2, 1}), 1), Fixed(Float({2, 1}))},
       kMixedRows,
       {{"block_size", int64_t{1}}}},
      {"MatMulInteger",
       {Rows(*Convert(Ids({1, 3}), DType::kU8)), Constant(*Convert(Ids({3, 2}), DType::kI8)),
        Fixed(*Convert(Ids({4}), DType::kU8))},
       kMixedRows},
      {"DynamicQuantizeLinear", {Rows(Float({1, 3}))}, kMixedRows, {}, 3},
      {"EmbeddingBagPackedSum", {Rows(Float({5, 3})), Fixed(Ids({2, 3}))}, kMixedRows},
      {"GatherTree",
       {Rows(Ids({1, 1, 1})), Fixed(Ids({1, 1, 1})), Fixed(Ids({1})), Fixed(Ids({}))},
       kMixedRows},
  };
  for (const RowsCase& c : cases) {
    EXPECT_EQ(static_cast<int>(Claim(c).kind), static_cast<int>(RowInfo::Kind::kMixed))
        << c.op << " of " << ToString(c.inputs[0].one.shape());
  }
}

TEST(Rows, FixedStaysFixedAndExtentsStayExtents) {
  const auto kind = [](const RowsCase& c) { return static_cast<int>(Claim(c).kind); };
  const int fixed = static_cast<int>(RowInfo::Kind::kFixed);
  const int extent = static_cast<int>(RowInfo::Kind::kExtent);
  EXPECT_EQ(kind({"Add", {Fixed(Float({2})), Fixed(Float({2}))}, {}}), fixed);
  EXPECT_EQ(kind({"ShapeOf", {Rows(Float({1, 2}))}, {}}), extent);
  EXPECT_EQ(kind({"ShapeOf", {Fixed(Float({1, 2}))}, {}}), fixed);
  EXPECT_EQ(kind({"Gather", {Extent(Ids({2})), Constant(List({0})), Constant(List({0}))}, {}}),
            extent);
  EXPECT_EQ(kind({"Multiply", {Extent(Ids({})), Constant(List({2}))}, {}}), extent);
  EXPECT_EQ(kind({"Range", {Fixed(Ids({})), Extent(Ids({})), Fixed(Ids({}))}, {}}), extent);
  EXPECT_EQ(kind({"Broadcast", {Fixed(Float({})), Extent(Ids({2}))}, {}}), extent);
  EXPECT_EQ(kind({"EmbeddingSegmentsSum",
                  {Fixed(Float({5, 3})), Rows(Ids({2})), Extent(Ids({2})), Extent(Ids({}))},
                  {}}),
            static_cast<int>(RowInfo::Kind::kRows));
  EXPECT_EQ(kind({"EmbeddingSegmentsSum",
                  {Fixed(Float({5, 3})), Rows(Ids({2})), Fixed(Ids({2})), Extent(Ids({}))},
                  {}}),
            static_cast<int>(RowInfo::Kind::kMixed));
}

TEST(Registry, NamesAreUniqueAndLinesComplete) {
  std::set<std::string> names;
  for (const Operator& op : KernelOperators()) {
    EXPECT_TRUE(names.insert(std::string(op.name)).second) << op.name;
    EXPECT_TRUE(op.infer != nullptr && op.make != nullptr && op.rows != nullptr) << op.name;
  }
}

}  // namespace
}  // namespace beamwright::ops
