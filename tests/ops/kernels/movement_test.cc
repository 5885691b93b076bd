#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/base/vector_isa.h"
#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Element at coordinates.
int64_t At(const Tensor& tensor, const Index& index) {
  return tensor.data<int64_t>()[OffsetOf(tensor, index)];
}

TEST(Movement, TransposeConcatSplitTile) {
  const Tensor x = Counting({2, 3, 4, 5});
  const std::vector<int64_t> order = {2, 0, 3, 1};
  const Tensor t = RunOne({"Transpose", {x, List(order)}, {}, 1, {1}});
  ASSERT_EQ(t.shape(), Shape({4, 2, 5, 3}));
  ForEachIndex(t.shape(), [&](const Index& i) {
    EXPECT_EQ(At(t, i), At(x, {i[1], i[3], i[0], i[2]}));
  });
  EXPECT_EQ(RunOne({"Transpose", {x, List({})}}).shape(), Shape({5, 4, 3, 2}));

  for (const int64_t axis : {0, 1, 2, 3, -2}) {
    const std::vector<Tensor> halves =
        *RunAll({"VariadicSplit", {x, Tensor::Scalar(axis), List({1, -1})}, {}, 2, {1, 2}});
    EXPECT_EQ(halves[0].dim(*NormalizeAxis(axis, 4)), 1);
    EXPECT_TRUE(SameBits(RunOne({"Concat", halves, {{"axis", axis}}}), x));
  }
  const std::vector<Tensor> parts =
      *RunAll({"Split", {x, List({1})}, {{"num_splits", int64_t{3}}}, 3, {1}});
  ForEachIndex(parts[2].shape(), [&](const Index& i) {
    EXPECT_EQ(At(parts[2], i), At(x, {i[0], 2, i[2], i[3]}));
  });
  const Tensor tiled = RunOne({"Tile", {Counting({2, 3}), List({2, 1, 3})}});
  ASSERT_EQ(tiled.shape(), Shape({2, 2, 9}));
  ForEachIndex(tiled.shape(),
               [&](const Index& i) { EXPECT_EQ(At(tiled, i), i[1] * 3 + i[2] % 3); });
  EXPECT_EQ(RunOne({"Tile", {Counting({2, 3}), List({2})}}).shape(), Shape({2, 6}));

  EXPECT_THAT(ErrorOf({"Split", {x, List({1})}, {{"num_splits", int64_t{2}}}, 2}),
              HasSubstr("extent 3 of axis 1 is not divisible into 2 parts"));
  EXPECT_THAT(ErrorOf({"VariadicSplit", {x, List({1}), List({1, 1})}, {}, 2}), HasSubstr("sum 2"));
  EXPECT_THAT(ErrorOf({"VariadicSplit", {x, List({1}), List({-1, -1})}, {}, 2}),
              HasSubstr("split_lengths[1]"));
  EXPECT_THAT(ErrorOf({"Transpose", {x, List({0, 1, 1, 2})}}), HasSubstr("order: axis 1"));
  EXPECT_THAT(ErrorOf({"Transpose", {x, List({0, 1, 2, -1})}}),
              HasSubstr("order[3]: -1 is not an axis; allowed are 0 to 3"));
  EXPECT_THAT(ErrorOf({"Transpose", {x, List({0, 1, 2, 4})}}), HasSubstr("order[3]: 4"));
  EXPECT_THAT(ErrorOf({"Concat", {x, Counting({2, 2, 4, 5})}, {{"axis", int64_t{0}}}}),
              HasSubstr("input 1: shape [2, 2, 4, 5] does not join"));
  EXPECT_THAT(ErrorOf({"Concat", {x}}), HasSubstr("axis is required"));
}

// Squares of 16 by 16, whole and in part, of elements of 32 bits.
TEST(Movement, TransposeOfManyElements) {
  for (const Shape& shape : {Shape{33, 2, 3, 18}, Shape{5, 1, 4, 16}, Shape{16, 3, 1, 4}}) {
    Tensor x(DType::kF32, shape);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      x.mutable_data<float>()[i] = static_cast<float>(i);
    }
    for (const std::vector<int64_t>& order :
         {std::vector<int64_t>{2, 1, 3, 0}, {3, 1, 2, 0}, {1, 3, 0, 2}, {0, 1, 3, 2}}) {
      for (const VectorIsa isa : {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512}) {
        const ScopedVectorIsa scope(isa);
        const Tensor t = RunOne({"Transpose", {x, List(order)}, {}, 1, {1}});
        ForEachIndex(t.shape(), [&](const Index& i) {
          Index from(4);
          for (size_t axis = 0; axis < 4; ++axis) from[static_cast<size_t>(order[axis])] = i[axis];
          ASSERT_EQ(t.data<float>()[OffsetOf(t, i)], x.data<float>()[OffsetOf(x, from)]);
        });
      }
    }
  }
}

TEST(Movement, RelativeShift) {
  const Tensor x = Counting({2, 3, 7});  // distances 2 .. -4 of 3 steps
  const Tensor y = RunOne({"RelativeShift", {x, List({5})}, {}, 1, {1}});
  ASSERT_EQ(y.shape(), Shape({2, 3, 5}));
  ForEachIndex(y.shape(), [&](const Index& i) {
    EXPECT_EQ(At(y, i), At(x, {i[0], i[1], 3 - 1 - i[1] + i[2]}));
  });
  EXPECT_EQ(RunOne({"RelativeShift", {x, Tensor::Scalar<int64_t>(0)}, {}, 1, {1}}).shape(),
            Shape({2, 3, 0}));
  EXPECT_THAT(ErrorOf({"RelativeShift", {x, List({6})}}),
              HasSubstr("keys: 6 for 3 steps need 3 - 1 + 6 places; data are [2, 3, 7]"));
  EXPECT_THAT(ErrorOf({"RelativeShift", {x, List({-1})}}), HasSubstr("keys: -1 is negative"));
  EXPECT_THAT(ErrorOf({"RelativeShift", {Counting({3}), List({1})}}), HasSubstr("no axes of time"));
}

TEST(Movement, Broadcast) {
  const auto run = [](Tensor x, std::vector<int64_t> target, std::string mode) {
    return RunOne({"Broadcast", {x, List(target)}, {{"mode", mode}}});
  };
  const Tensor x = Counting({3, 1});
  Tensor out = run(x, {2, 3, 4}, "numpy");
  ForEachIndex(out.shape(), [&](const Index& i) { EXPECT_EQ(At(out, i), i[1]); });
  EXPECT_EQ(run(x, {4}, "bidirectional").shape(), Shape({3, 4}));
  out = RunOne(
      {"Broadcast", {Counting({3}), List({3, 2}), List({0})}, {{"mode", std::string("explicit")}}});
  EXPECT_THAT(Integers(out), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(ErrorOf({"Broadcast", {x, List({1, 4})}}), HasSubstr("does not broadcast"));
  EXPECT_THAT(ErrorOf({"Broadcast", {x, List({4})}}), HasSubstr("does not broadcast"));
  EXPECT_THAT(ErrorOf({"Broadcast", {x, List({-1, 4})}}), HasSubstr("target_shape[0]: -1"));
  EXPECT_THAT(ErrorOf({"Broadcast", {x, List({3, 4})}, {{"mode", std::string("pdpd")}}}),
              HasSubstr("'pdpd'"));
  EXPECT_THAT(ErrorOf({"Broadcast", {x, List({int64_t{1} << 40, 3, 1})}}), HasSubstr("GiB"));
}

TEST(Movement, ReshapeFamily) {
  const Tensor x = Counting({2, 3, 4});
  const auto shape = [&](std::vector<int64_t> pattern, bool zero = true) {
    return RunOne({"Reshape", {x, List(pattern)}, {{"special_zero", zero}}, 1, {1}}).shape();
  };
  EXPECT_EQ(shape({0, -1}), Shape({2, 12}));
  EXPECT_EQ(shape({-1, 0, 2}), Shape({4, 3, 2}));
  EXPECT_EQ(shape({4, 6}, false), Shape({4, 6}));
  const auto error = [&](std::vector<int64_t> pattern, bool zero = true) {
    return ErrorOf({"Reshape", {x, List(pattern)}, {{"special_zero", zero}}});
  };
  EXPECT_THAT(error({5, -1}), HasSubstr("24 elements are not divisible by 5"));
  EXPECT_THAT(error({5, 5}), HasSubstr("with 24 elements does not reshape"));
  EXPECT_THAT(error({-1, -1}), HasSubstr("pattern[1]: -1"));
  EXPECT_THAT(error({2, 3, 4, 0}), HasSubstr("pattern[3]: 0 copies"));
  EXPECT_THAT(error({0, -1}, false), HasSubstr("not divisible"));
  EXPECT_EQ(RunOne({"Squeeze", {Counting({1, 3, 1})}}).shape(), Shape({3}));
  EXPECT_EQ(RunOne({"Squeeze", {Counting({1, 3, 1}), List({-1})}}).shape(), Shape({1, 3}));
  EXPECT_EQ(RunOne({"Squeeze", {Counting({1, 3, 1}), List({})}}).shape(), Shape({3}));
  EXPECT_EQ(
      RunOne({"Squeeze", {Counting({1, 3, 1}), List({0, 1})}, {{"allow_axis_skip", true}}}).shape(),
      Shape({3, 1}));
  EXPECT_THAT(ErrorOf({"Squeeze", {x, List({1})}}), HasSubstr("has extent 3, only 1"));
  EXPECT_THAT(ErrorOf({"Squeeze", {x, List({3})}}), HasSubstr("axes: axis 3"));
  EXPECT_EQ(RunOne({"Unsqueeze", {x, List({0, -1})}}).shape(), Shape({1, 2, 3, 4, 1}));
  EXPECT_THAT(ErrorOf({"Unsqueeze", {x, List({4, 5})}}), HasSubstr("axis 5"));
}

// What inference knows before a run, with the row axis open.
TEST(Movement, ReshapeInferenceCancelsCopiedExtents) {
  const Tensor pattern = List({0, -1});
  const std::vector<InputInfo> inputs = {{DType::kF32, PartialShape({-1, 8, 64})},
                                         {DType::kI64, PartialShape({2}), &pattern}};
  std::vector<ValueInfo> outputs(1);
  Node node;
  ASSERT_TRUE(TestOperators().Find("Reshape")->infer(node, inputs, outputs).ok());
  EXPECT_EQ(outputs[0].shape, PartialShape({-1, 512}));
}

TEST(Movement, ShapeOfAndRange) {
  EXPECT_THAT(Integers(RunOne({"ShapeOf", {Counting({2, 5})}})), ElementsAre(2, 5));
  EXPECT_EQ(RunOne({"ShapeOf", {Counting({})}, {{"output_type", std::string("i32")}}}).dtype(),
            DType::kI32);
  const auto scalar = [](int64_t value) { return Tensor::Scalar(value); };
  const auto range = [&](int64_t start, int64_t stop, int64_t step) {
    return Integers(RunOne({"Range", {scalar(start), scalar(stop), scalar(step)}}));
  };
  EXPECT_THAT(range(1, 8, 3), ElementsAre(1, 4, 7));
  EXPECT_THAT(range(3, 0, -2), ElementsAre(3, 1));
  EXPECT_TRUE(range(3, 0, 1).empty());
  EXPECT_THAT(Floats(RunOne({"Range",
                             {Tensor::Scalar(0.5f), Tensor::Scalar(2.0f), Tensor::Scalar(0.5f)},
                             {{"output_type", std::string("f32")}}})),
              ElementsAre(0.5f, 1.0f, 1.5f));
  EXPECT_THAT(ErrorOf({"Range", {scalar(0), scalar(1), scalar(0)}}),
              HasSubstr("step: must not be 0"));
  EXPECT_THAT(ErrorOf({"Range", {scalar(0), scalar(int64_t{1} << 50), scalar(1)}}),
              HasSubstr("2^48"));
  EXPECT_THAT(ErrorOf({"ShapeOf", {scalar(0)}, {{"output_type", std::string("f32")}}}),
              HasSubstr("output_type"));
}

TEST(Movement, Gather) {
  Random random(1);
  const Tensor x = Counting({2, 3, 4});
  const Tensor indices = random.Ints({2, 5}, -4, 3);
  Tensor out = RunOne({"Gather", {x, indices, Tensor::Scalar<int64_t>(-1)}, {}, 1, {2}});
  ASSERT_EQ(out.shape(), Shape({2, 3, 2, 5}));
  ForEachIndex(out.shape(), [&](const Index& i) {
    EXPECT_EQ(At(out, i), At(x, {i[0], i[1], (At(indices, {i[2], i[3]}) + 4) % 4}));
  });
  out = RunOne(
      {"Gather", {x, indices, Tensor::Scalar<int64_t>(2)}, {{"batch_dims", int64_t{1}}}, 1, {2}});
  ASSERT_EQ(out.shape(), Shape({2, 3, 5}));
  ForEachIndex(out.shape(), [&](const Index& i) {
    EXPECT_EQ(At(out, i), At(x, {i[0], i[1], (At(indices, {i[0], i[2]}) + 4) % 4}));
  });
  EXPECT_EQ(RunOne({"Gather", {x, Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(0)}}).shape(),
            Shape({3, 4}));
  EXPECT_EQ(ErrorOf({"Gather", {x, I64({1, 2}, {0, 3}), Tensor::Scalar<int64_t>(1)}}),
            "indices[0,1]: 3 is outside [-3, 3)");
  EXPECT_THAT(ErrorOf({"Gather", {x, indices, Tensor::Scalar<int64_t>(3)}}), HasSubstr("axis 3"));
  EXPECT_THAT(
      ErrorOf({"Gather", {x, indices, Tensor::Scalar<int64_t>(0)}, {{"batch_dims", int64_t{1}}}}),
      HasSubstr("batch_dims: 1"));
}

// The indices that a slice takes, as Python's range(dim)[start:stop:step] does.
std::vector<int64_t> Taken(int64_t dim, int64_t start, int64_t stop, int64_t step) {
  const auto bound = [&](int64_t value) {
    value += value < 0 ? dim : 0;
    return std::clamp(value, step > 0 ? int64_t{0} : int64_t{-1}, step > 0 ? dim : dim - 1);
  };
  std::vector<int64_t> result;
  for (int64_t i = bound(start); step > 0 ? i < bound(stop) : i > bound(stop); i += step) {
    result.push_back(i);
  }
  return result;
}

TEST(Movement, SliceAndStridedSliceEqualIndexLists) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const Tensor x = Counting({random.Int(1, 6), random.Int(0, 6)});
    std::vector<int64_t> start, stop, step;
    std::vector<std::vector<int64_t>> taken;
    for (int axis = 0; axis < 2; ++axis) {
      start.push_back(random.Int(-8, 8));
      stop.push_back(random.Int(0, 5) == 0 ? std::numeric_limits<int64_t>::max()
                                           : random.Int(-8, 8));
      step.push_back(random.Int(0, 1) == 0 ? random.Int(1, 3) : random.Int(-3, -1));
      taken.push_back(Taken(x.dim(axis), start.back(), stop.back(), step.back()));
    }
    const Tensor sliced = RunOne({"Slice",
                                  {x, List({start[1], start[0]}), List({stop[1], stop[0]}),
                                   List({step[1], step[0]}), List({-1, 0})},
                                  {},
                                  1,
                                  {1, 2, 3, 4}});
    const Tensor strided =
        RunOne({"StridedSlice", {x, List(start), List(stop), List(step)}, {}, 1, {1, 2, 3}});
    std::vector<int64_t> expected;
    for (const int64_t i : taken[0]) {
      for (const int64_t j : taken[1]) expected.push_back(At(x, {i, j}));
    }
    ASSERT_EQ(Integers(sliced), expected);
    ASSERT_EQ(Integers(strided), expected);
    ASSERT_EQ(sliced.shape(), Shape({static_cast<int64_t>(taken[0].size()),
                                     static_cast<int64_t>(taken[1].size())}));
    ASSERT_EQ(strided.shape(), sliced.shape());
  }
}

TEST(Movement, StridedSliceMasks) {
  const Tensor x = Counting({2, 3, 4});
  using Mask = std::vector<int64_t>;
  // x[..., newaxis, 1, ::-1] with masked bounds
  Tensor out = RunOne({"StridedSlice",
                       {x, List({0, 0, 1, 0}), List({0, 0, 0, 0}), List({1, 1, 1, -1})},
                       {{"ellipsis_mask", Mask{1}},
                        {"new_axis_mask", Mask{0, 1}},
                        {"shrink_axis_mask", Mask{0, 0, 1}},
                        {"begin_mask", Mask{0, 0, 0, 1}},
                        {"end_mask", Mask{0, 0, 0, 1}}}});
  ASSERT_EQ(out.shape(), Shape({2, 1, 4}));
  ForEachIndex(out.shape(), [&](const Index& i) {
    EXPECT_EQ(At(out, i), At(x, {i[0], 1, 3 - i[2]}));
  });
  out = RunOne({"StridedSlice", {x, List({-1}), List({0})}, {{"shrink_axis_mask", Mask{1}}}});
  EXPECT_EQ(out.shape(), Shape({3, 4}));
  EXPECT_EQ(At(out, {0, 0}), 12);
  EXPECT_THAT(ErrorOf({"StridedSlice", {x, List({2}), List({0})}, {{"shrink_axis_mask", Mask{1}}}}),
              HasSubstr("begin[0]: 2 is outside [-2, 2)"));
  EXPECT_THAT(ErrorOf({"StridedSlice", {x, List({0}), List({1}), List({0})}}),
              HasSubstr("strides[0]"));
  EXPECT_THAT(ErrorOf({"StridedSlice", {x, List({0}), List({1})}, {{"begin_mask", Mask{2}}}}),
              HasSubstr("begin_mask: 2 must be 0 or 1"));
  EXPECT_THAT(ErrorOf({"StridedSlice", {x, List({0, 0, 0, 0}), List({1, 1, 1, 1})}}),
              HasSubstr("4 entries for data of rank 3"));
  EXPECT_THAT(ErrorOf({"Slice", {x, List({0}), List({1}), List({0})}}), HasSubstr("step[0]"));
  EXPECT_THAT(ErrorOf({"Slice", {x, List({0}), List({1, 1}), List({1})}}),
              HasSubstr("stop: has 2"));
}

}  // namespace
}  // namespace beamwright::ops
