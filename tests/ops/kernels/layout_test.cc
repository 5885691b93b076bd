// Pad, Reverse, ReverseSequence, OneHot, block moves, and what is generated: Range, Eye, NonZero.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Tensor Scalar(int64_t value) { return Tensor::Scalar(value); }

Call PadCall(const Tensor& data, std::vector<int64_t> begin, std::vector<int64_t> end,
             const std::string& mode) {
  return {"Pad", {data, List(std::move(begin)), List(std::move(end))}, {{"pad_mode", mode}}};
}

// The operator document's tables.
TEST(Pad, DocumentExamples) {
  const Tensor data = Counting({3, 4}, 1);
  const auto pad = [&](const std::string& mode, bool mixed) {
    return Integers(RunOne(mixed ? PadCall(data, {2, -1}, {-1, 3}, mode)
                                 : PadCall(data, {0, 1}, {2, 3}, mode)));
  };
  EXPECT_THAT(pad("constant", false),
              ElementsAreArray({0,  1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 9, 10, 11,
                                12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0}));
  EXPECT_THAT(pad("edge", false),
              ElementsAreArray({1,  1,  2,  3,  4,  4,  4,  4,  5,  5,  6,  7, 8,  8,
                                8,  8,  9,  9,  10, 11, 12, 12, 12, 12, 9,  9, 10, 11,
                                12, 12, 12, 12, 9,  9,  10, 11, 12, 12, 12, 12}));
  EXPECT_THAT(pad("reflect", false),
              ElementsAreArray({2,  1,  2,  3, 4, 3, 2, 1, 6, 5, 6, 7, 8, 7, 6, 5, 10, 9, 10, 11,
                                12, 11, 10, 9, 6, 5, 6, 7, 8, 7, 6, 5, 2, 1, 2, 3, 4,  3, 2,  1}));
  EXPECT_THAT(
      pad("symmetric", false),
      ElementsAreArray({1,  1,  2,  3,  4, 4, 3,  2,  5,  5,  6,  7,  8, 8, 7, 6, 9, 9, 10, 11,
                        12, 12, 11, 10, 9, 9, 10, 11, 12, 12, 11, 10, 5, 5, 6, 7, 8, 8, 7,  6}));
  EXPECT_THAT(pad("constant", true), ElementsAreArray({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                       2, 3, 4, 0, 0, 0, 6, 7, 8, 0, 0, 0}));
  EXPECT_THAT(pad("edge", true), ElementsAreArray({2, 3, 4, 4, 4, 4, 2, 3, 4, 4, 4, 4,
                                                   2, 3, 4, 4, 4, 4, 6, 7, 8, 8, 8, 8}));
  EXPECT_THAT(pad("reflect", true), ElementsAreArray({10, 11, 12, 11, 10, 9, 6, 7, 8, 7, 6, 5,
                                                      2,  3,  4,  3,  2,  1, 6, 7, 8, 7, 6, 5}));
  EXPECT_THAT(pad("symmetric", true), ElementsAreArray({6, 7, 8, 8, 7, 6, 2, 3, 4, 4, 3, 2,
                                                        2, 3, 4, 4, 3, 2, 6, 7, 8, 8, 7, 6}));
  for (const char* mode : {"constant", "edge", "reflect", "symmetric"}) {
    EXPECT_THAT(Integers(RunOne(PadCall(data, {-1, -1}, {-1, -1}, mode))), ElementsAre(6, 7));
    // More cannot be cut away than there is; all of it can.
    EXPECT_EQ(RunOne(PadCall(data, {-2, 0}, {-1, 0}, mode)).shape(), Shape({0, 4}));
    EXPECT_THAT(ErrorOf(PadCall(data, {-2, 0}, {-2, 0}, mode)),
                HasSubstr("cut more away than the extent 3"));
    EXPECT_THAT(ErrorOf(PadCall(data, {-4, 0}, {1, 0}, mode)),
                HasSubstr("pads_begin[0]: -4 and pads_end[0]: 1 cut more away"));
  }
  Call filled = PadCall(F32({2}, {1, 2}), {1}, {2}, "constant");
  filled.inputs.push_back(Tensor::Scalar(-1.5f));
  EXPECT_THAT(Floats(RunOne(filled)), ElementsAre(-1.5f, 1, 2, -1.5f, -1.5f));
  EXPECT_THAT(Integers(RunOne(PadCall(Scalar(7), {}, {}, "constant"))), ElementsAre(7));
}

// As often as it takes.
TEST(Pad, Wraps) {
  EXPECT_THAT(Floats(RunOne(PadCall(F32({3}, {1, 2, 3}), {4}, {2}, "wrap"))),
              ElementsAre(3, 1, 2, 3, 1, 2, 3, 1, 2));
  EXPECT_THAT(Floats(RunOne(PadCall(F32({3}, {1, 2, 3}), {-1}, {1}, "wrap"))),
              ElementsAre(2, 3, 1));
}

TEST(Pad, Errors) {
  const Tensor data = Counting({3, 4});
  EXPECT_THAT(ErrorOf(PadCall(data, {3, 0}, {0, 0}, "reflect")),
              HasSubstr("pads_begin[0]: 3 is more than the 2"));
  EXPECT_THAT(ErrorOf(PadCall(data, {0, 0}, {0, 5}, "symmetric")),
              HasSubstr("pads_end[1]: 5 is more than the 4"));
  EXPECT_THAT(ErrorOf(PadCall(Counting({0}), {1}, {0}, "edge")), HasSubstr("pads_begin[0]: 1"));
  EXPECT_THAT(ErrorOf(PadCall(data, {0}, {0, 0}, "edge")), HasSubstr("pads_begin: has 1 elements"));
  EXPECT_THAT(ErrorOf(PadCall(data, {0, 0}, {0, 0}, "mirror")), HasSubstr("pad_mode: 'mirror'"));
  EXPECT_THAT(ErrorOf(PadCall(Counting({0}), {0}, {1}, "wrap")), HasSubstr("pads_end[0]: 1"));
  EXPECT_THAT(ErrorOf(PadCall(data, {0, std::numeric_limits<int64_t>::max()}, {0, 0}, "edge")),
              HasSubstr("outside [-2^48, 2^48]"));
  EXPECT_THAT(ErrorOf(PadCall(data, {0, int64_t{1} << 40}, {0, 0}, "edge")), HasSubstr("GiB"));
  Call filled = PadCall(data, {1, 1}, {1, 1}, "constant");
  filled.inputs.push_back(Tensor::Scalar(1.0f));
  EXPECT_THAT(ErrorOf(filled), HasSubstr("pad_value: element type f32"));
}

TEST(Reverse, AxesOrMask) {
  const Tensor data = Counting({2, 3});
  const auto run = [&](const Tensor& axis, const std::string& mode) {
    return Integers(RunOne({"Reverse", {data, axis}, {{"mode", mode}}, 1, {1}}));
  };
  EXPECT_THAT(run(List({-1}), "index"), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(run(List({0, 1}), "index"), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(run(List({}), "index"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(run(*Convert(List({1, 0}), DType::kBool), "mask"), ElementsAre(3, 4, 5, 0, 1, 2));
  const auto error = [&](const Tensor& axis, const std::string& mode) {
    return ErrorOf({"Reverse", {data, axis}, {{"mode", mode}}});
  };
  EXPECT_THAT(error(List({2}), "index"), HasSubstr("axis 2"));
  EXPECT_THAT(error(List({0, -2}), "index"), HasSubstr("named twice"));
  EXPECT_THAT(error(List({0}), "mask"), HasSubstr("only boolean"));
  EXPECT_THAT(error(*Convert(List({1}), DType::kBool), "mask"), HasSubstr("a mask of 1 elements"));
  EXPECT_THAT(error(List({0}), "names"), HasSubstr("mode: 'names'"));
}

TEST(Reverse, SequencesEqualNaiveLoop) {
  Random random(1);
  for (int trial = 0; trial < 40; ++trial) {
    Shape shape;
    for (int64_t i = random.Int(2, 4); i > 0; --i) shape.push_back(random.Int(1, 4));
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t batch = random.Int(0, rank - 1);
    const int64_t seq = (batch + random.Int(1, rank - 1)) % rank;
    const auto b = static_cast<size_t>(batch), s = static_cast<size_t>(seq);
    const Tensor lengths = random.Ints({shape[b]}, 0, shape[s]);
    const Tensor data = Counting(shape);
    const Tensor got = RunOne(
        {"ReverseSequence", {data, lengths}, {{"batch_axis", batch}, {"seq_axis", seq - rank}}});
    Shape strides(shape.size(), 1);
    for (size_t axis = shape.size() - 1; axis-- > 0;) {
      strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    for (int64_t i = 0; i < data.num_elements(); ++i) {
      const int64_t at = i / strides[s] % shape[s];
      const int64_t length = lengths.data<int64_t>()[i / strides[b] % shape[b]];
      const int64_t from = at < length ? i + (length - 1 - 2 * at) * strides[s] : i;
      ASSERT_EQ(got.data<int64_t>()[i], from);
    }
  }
  const Tensor data = Counting({2, 3});
  EXPECT_THAT(ErrorOf({"ReverseSequence", {data, List({1, 4})}}), HasSubstr("seq_lengths[1]: 4"));
  EXPECT_THAT(ErrorOf({"ReverseSequence", {data, List({1, -1})}}), HasSubstr("seq_lengths[1]: -1"));
  EXPECT_THAT(ErrorOf({"ReverseSequence", {data, List({1})}}), HasSubstr("extents 2 and 1 differ"));
  EXPECT_THAT(ErrorOf({"ReverseSequence", {data, List({1, 1})}, {{"seq_axis", int64_t{0}}}}),
              HasSubstr("both name axis 0"));
  EXPECT_THAT(ErrorOf({"ReverseSequence", {data, List({1, 1})}, {{"batch_axis", int64_t{2}}}}),
              HasSubstr("batch_axis"));
}

TEST(OneHot, DocumentExamplesAndAxes) {
  const auto run = [](const Tensor& indices, int64_t axis, const std::string& mode) {
    return RunOne({"OneHot",
                   {indices, Scalar(3), Scalar(1), Scalar(2)},
                   {{"axis", axis}, {"negative_indices_mode", mode}}});
  };
  EXPECT_THAT(Integers(run(List({0, -5, -2, 2}), -1, "normalize")),
              ElementsAre(1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 1));
  EXPECT_THAT(Integers(run(List({0, -2, 3}), -1, "ignore_negative")),
              ElementsAre(1, 2, 2, 2, 2, 2, 2, 2, 2));
  const Tensor first = run(List({2, 0}), 0, "ignore-negative");
  EXPECT_EQ(first.shape(), Shape({3, 2}));
  EXPECT_THAT(Integers(first), ElementsAre(2, 1, 2, 2, 1, 2));
  const Tensor middle = run(I64({2, 3}, {0, 3, 1, 1, 2, 4}), 1, "normalize");
  EXPECT_EQ(middle.shape(), Shape({2, 3, 3}));
  EXPECT_THAT(Integers(middle), ElementsAre(1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 1, 2));
  EXPECT_THAT(Integers(run(Scalar(1), 0, "normalize")), ElementsAre(2, 1, 2));
  const auto error = [](const Tensor& depth, const Tensor& on, int64_t axis) {
    return ErrorOf({"OneHot", {List({0}), depth, on, Scalar(0)}, {{"axis", axis}}});
  };
  EXPECT_THAT(error(Scalar(-1), Scalar(1), 0), HasSubstr("depth: -1"));
  EXPECT_THAT(error(Scalar(int64_t{1} << 40), Scalar(1), 0), HasSubstr("GiB"));
  EXPECT_THAT(error(List({1, 2}), Scalar(1), 0), HasSubstr("depth: has 2 elements"));
  EXPECT_THAT(error(Scalar(1), Tensor::Scalar(1.0f), 0), HasSubstr("off_value"));
  EXPECT_THAT(error(Scalar(1), List({1, 2}), 0), HasSubstr("on_value: shape [2]"));
  EXPECT_THAT(error(Scalar(1), Scalar(1), 2), HasSubstr("attribute axis: axis 2"));
}

// A reshape, a transpose and a reshape, as the documents define the block moves.
Tensor Composed(const Tensor& data, const std::vector<int64_t>& split,
                const std::vector<int64_t>& order, const Shape& shape) {
  const Tensor parts = data.Reshaped(Shape(split.begin(), split.end()));
  return RunOne({"Transpose", {parts, List(order)}}).Reshaped(shape);
}

TEST(Blocks, EqualTheirDefinitions) {
  const Tensor deep = Counting({2, 12, 3, 4});
  const auto to_space = [&](const std::string& mode) {
    return RunOne({"DepthToSpace", {deep}, {{"block_size", int64_t{2}}, {"mode", mode}}});
  };
  const auto to_depth = [](const Tensor& x, const std::string& mode) {
    return RunOne({"SpaceToDepth", {x}, {{"block_size", int64_t{2}}, {"mode", mode}}});
  };
  const Shape fine = {2, 3, 6, 8};
  EXPECT_TRUE(SameBits(to_space("blocks_first"),
                       Composed(deep, {2, 2, 2, 3, 3, 4}, {0, 3, 4, 1, 5, 2}, fine)));
  EXPECT_TRUE(SameBits(to_space("depth_first"),
                       Composed(deep, {2, 3, 2, 2, 3, 4}, {0, 1, 4, 2, 5, 3}, fine)));
  for (const char* mode : {"blocks_first", "depth_first"}) {
    EXPECT_TRUE(SameBits(to_depth(to_space(mode), mode), deep)) << mode;
  }
  const Tensor line = RunOne({"DepthToSpace",
                              {Counting({1, 4, 2})},
                              {{"block_size", int64_t{2}}, {"mode", Text("blocks_first")}}});
  EXPECT_THAT(Integers(line), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_TRUE(
      SameBits(RunOne({"ShuffleChannels", {deep}, {{"axis", int64_t{-3}}, {"group", int64_t{3}}}}),
               Composed(deep, {2, 3, 4, 12}, {0, 2, 1, 3}, deep.shape())));
  EXPECT_THAT(ErrorOf({"ShuffleChannels", {deep}, {{"group", int64_t{5}}}}),
              HasSubstr("extent 12 of axis 1 is not divisible into 5 groups"));
  const auto error = [&](const std::string& op, int64_t block, const std::string& mode) {
    return ErrorOf({op, {deep}, {{"block_size", block}, {"mode", mode}}});
  };
  EXPECT_THAT(error("DepthToSpace", 5, "depth_first"),
              HasSubstr("extent 12 of axis 1 is not divisible by 25"));
  EXPECT_THAT(error("SpaceToDepth", 2, "depth_first"), HasSubstr("extent 3 of axis 2"));
  EXPECT_THAT(error("DepthToSpace", 0, "depth_first"), HasSubstr("block_size: 0"));
  EXPECT_THAT(error("DepthToSpace", 2, ""), HasSubstr("mode: ''"));
}

TEST(Generate, Range) {
  const auto range = [](const Tensor& start, const Tensor& stop, const Tensor& step,
                        const std::string& type) {
    return Call{"Range", {start, stop, step}, {{"output_type", type}}};
  };
  // Integers are exact over their whole range.
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const Tensor top = RunOne(
      range(Tensor::Scalar(kMost - 2), Tensor::Scalar(kMost), Tensor::Scalar<int8_t>(1), "u64"));
  ASSERT_EQ(top.num_elements(), 2);
  EXPECT_EQ(top.data<uint64_t>()[1], kMost - 1);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(Integers(RunOne(range(Scalar(kLeast), Scalar(std::numeric_limits<int64_t>::max()),
                                    Scalar(std::numeric_limits<int64_t>::max()), "i64"))),
              ElementsAre(kLeast, -1, std::numeric_limits<int64_t>::max() - 1));
  // Floats that end as integers are truncated first.
  EXPECT_THAT(Integers(RunOne(
                  range(Tensor::Scalar(1.9f), Tensor::Scalar(4.9f), Tensor::Scalar(1.5f), "i32"))),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(
      Floats(RunOne(range(Tensor::Scalar(1.0), Tensor::Scalar(2.5), Tensor::Scalar(0.5), "f64"))),
      ElementsAre(1, 1.5f, 2));
  EXPECT_EQ(RunOne({"Range", {Scalar(0), Scalar(2), Scalar(1)}}).dtype(), DType::kI64);
  EXPECT_THAT(ErrorOf(range(Scalar(0), Scalar(300), Scalar(1), "u8")),
              HasSubstr("stop: does not fit u8"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Tensor::Scalar(1e30f), Scalar(1), "i64")),
              HasSubstr("stop: does not fit i64"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Tensor::Scalar(NAN), Scalar(1), "f32")),
              HasSubstr("stop: nan must be finite"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Tensor::Scalar(NAN), Scalar(1), "i32")),
              HasSubstr("stop: does not fit"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Tensor::Scalar(1e300), Scalar(1), "f64")),
              HasSubstr("more than 2^48 elements"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Scalar(int64_t{1} << 40), Scalar(1), "i64")),
              HasSubstr("GiB"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Scalar(1), Tensor::Scalar(0.5f), "i64")),
              HasSubstr("step: must not be 0"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), List({1, 2}), Scalar(1), "i64")), HasSubstr("stop"));
  EXPECT_THAT(ErrorOf(range(Scalar(0), Scalar(1), Scalar(1), "boolean")),
              HasSubstr("output_type: 'boolean'"));
  EXPECT_THAT(ErrorOf({"Range", {Scalar(0), Tensor::Scalar(2.0f), Scalar(1)}}),
              HasSubstr("stop: element type f32"));
}

TEST(Generate, Eye) {
  const auto eye = [](int64_t rows, int64_t columns, int64_t diagonal) {
    return Call{
        "Eye", {Scalar(rows), List({columns}), Scalar(diagonal)}, {{"output_type", Text("i32")}}};
  };
  EXPECT_THAT(Integers(RunOne(eye(3, 4, 2))), ElementsAre(0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0));
  EXPECT_THAT(Integers(RunOne(eye(3, 4, -1))), ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0));
  for (const int64_t far : {int64_t{5}, int64_t{-5}, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(Integers(RunOne(eye(1, 2, far))), ElementsAre(0, 0));
  }
  Call batched = eye(2, 1, 0);
  batched.inputs.push_back(List({1, 2}));
  const Tensor out = RunOne(batched);
  EXPECT_EQ(out.shape(), Shape({1, 2, 2, 1}));
  EXPECT_THAT(Integers(out), ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(RunOne(eye(0, 3, 0)).shape(), Shape({0, 3}));
  EXPECT_THAT(ErrorOf(eye(-1, 2, 0)), HasSubstr("num_rows: -1"));
  EXPECT_THAT(ErrorOf(eye(int64_t{1} << 20, int64_t{1} << 20, 0)), HasSubstr("GiB"));
  batched.inputs[3] = List({-1});
  EXPECT_THAT(ErrorOf(batched), HasSubstr("batch_shape: -1"));
}

TEST(Generate, NonZero) {
  const Tensor out = RunOne({"NonZero", {F32({2, 2}, {1, 0, -0.0f, NAN})}});
  EXPECT_EQ(out.shape(), Shape({2, 2}));
  EXPECT_THAT(Integers(out), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(RunOne({"NonZero", {F32({2}, {0, 0})}, {{"output_type", Text("i32")}}}).shape(),
            Shape({1, 0}));
  EXPECT_EQ(RunOne({"NonZero", {Scalar(3)}}).shape(), Shape({0, 1}));
  EXPECT_THAT(ErrorOf({"NonZero", {Scalar(3)}, {{"output_type", Text("f32")}}}),
              HasSubstr("output_type"));
}

}  // namespace
}  // namespace beamwright::ops
