// Sums of rows of embeddings: by segment, and bag by bag.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

Tensor ExampleTable() {
  return F32({5, 2}, {-0.2f, -0.6f, -0.1f, -0.4f, -1.9f, -1.8f, -1.0f, 1.5f, 0.8f, -0.7f});
}

Call Example(std::vector<int64_t> indices, std::vector<int64_t> segments, int64_t count,
             Tensor default_index = {}, Tensor weights = {}) {
  const int64_t n = static_cast<int64_t>(indices.size());
  const int64_t m = static_cast<int64_t>(segments.size());
  return {"EmbeddingSegmentsSum",
          {ExampleTable(), I64({n}, std::move(indices)), I64({m}, std::move(segments)),
           Tensor::Scalar(count), default_index, weights}};
}

TEST(EmbeddingSegmentsSum, TheDocumentsExample) {
  const Tensor out = RunOne(Example({0, 2, 3, 4}, {0, 0, 2, 2}, 3, Tensor::Scalar<int64_t>(0),
                                    F32({4}, {0.5f, 0.5f, 0.5f, 0.5f})));
  EXPECT_EQ(out.shape(), Shape({3, 2}));
  EXPECT_THAT(Floats(out), ElementsAre(FloatEq(-1.05f), FloatEq(-1.2f), FloatEq(-0.2f),
                                       FloatEq(-0.6f), FloatEq(-0.1f), FloatEq(0.4f)));
}

TEST(EmbeddingSegmentsSum, EmptySegments) {
  EXPECT_THAT(Floats(RunOne(Example({}, {}, 2))), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Floats(RunOne(Example({}, {}, 1, Tensor::Scalar<int64_t>(-1)))), ElementsAre(0, 0));
  EXPECT_THAT(Floats(RunOne(Example({1}, {0}, 2, Tensor::Scalar<int64_t>(4)))),
              ElementsAre(-0.1f, -0.4f, 0.8f, -0.7f));
  EXPECT_EQ(RunOne(Example({}, {}, 0)).shape(), Shape({0, 2}));
}

TEST(EmbeddingSegmentsSum, ErrorsNameInputAndIndex) {
  const auto scalar = [](int64_t value) { return Tensor::Scalar(value); };
  EXPECT_EQ(ErrorOf(Example({0, 5}, {0, 0}, 1)), "indices[1]: 5 is outside [0, 5)");
  EXPECT_EQ(ErrorOf(Example({-1}, {0}, 1)), "indices[0]: -1 is outside [0, 5)");
  EXPECT_EQ(ErrorOf(Example({0, 1}, {0, 2}, 2)), "segment_ids[1]: 2 is outside [0, 2)");
  EXPECT_EQ(ErrorOf(Example({0}, {-1}, 2)), "segment_ids[0]: -1 is outside [0, 2)");
  EXPECT_THAT(ErrorOf(Example({0, 1}, {1, 0}, 2)), HasSubstr("segment_ids[1]: 0 is below"));
  EXPECT_THAT(ErrorOf(Example({}, {}, -1)), HasSubstr("num_segments: -1 is negative"));
  EXPECT_THAT(ErrorOf(Example({0, 1}, {0}, 1)), HasSubstr("segment_ids: has 1 elements"));
  EXPECT_THAT(ErrorOf(Example({0}, {0}, 1, scalar(0), F32({2}, {1, 1}))),
              HasSubstr("per_sample_weights: has 2 elements"));
  // Refused although no segment is empty.
  EXPECT_EQ(ErrorOf(Example({0}, {0}, 1, scalar(5))), "default_index: 5 is outside [-1, 5)");
  EXPECT_EQ(ErrorOf(Example({0}, {0}, 1, scalar(-2))), "default_index: -2 is outside [-1, 5)");
}

TEST(EmbeddingSegmentsSum, RefusesWrongTypesAndRanks) {
  Call call = Example({0}, {0}, 1);
  call.inputs[2] = *Convert(call.inputs[2], DType::kI32);
  EXPECT_THAT(ErrorOf(call), HasSubstr("segment_ids: element type i32"));
  call = Example({0}, {0}, 1, {}, I64({1}, {1}));
  EXPECT_THAT(ErrorOf(call), HasSubstr("per_sample_weights: element type i64"));
  call = Example({0}, {0}, 1);
  call.inputs[1] = F32({1}, {0});
  EXPECT_THAT(ErrorOf(call), HasSubstr("indices: element type f32"));
  call = Example({0}, {0}, 1);
  call.inputs[0] = Tensor::Scalar(1.0f);
  EXPECT_THAT(ErrorOf(call), HasSubstr("emb_table: must have rank 1"));
  call.inputs[0] = *Convert(ExampleTable(), DType::kBool);
  EXPECT_THAT(ErrorOf(call), HasSubstr("boolean is not supported"));
}

// Sums in double, item by item.
TEST(EmbeddingSegmentsSum, EqualsNaiveSums) {
  Random random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t rows = random.Int(1, 7);
    const int64_t width = random.Int(1, 150);
    const int64_t segments = random.Int(1, 6);
    std::vector<int64_t> ids;
    for (int64_t s = 0; s < segments; ++s) {
      ids.insert(ids.end(), static_cast<size_t>(random.Int(0, 3)), s);
    }
    const int64_t n = static_cast<int64_t>(ids.size());
    const Tensor table = random.Floats({rows, width, 2});
    const Tensor indices = random.Ints({n}, 0, rows - 1, DType::kI32);
    const bool weighted = trial % 2 == 0;
    const Tensor weights = weighted ? random.Floats({n}) : Tensor();
    std::vector<double> expected(static_cast<size_t>(segments * width * 2), 0.0);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t d = 0; d < width * 2; ++d) {
        expected[static_cast<size_t>(ids[static_cast<size_t>(i)] * width * 2 + d)] +=
            double{table.data<float>()[indices.data<int32_t>()[i] * width * 2 + d]} *
            (weighted ? double{weights.data<float>()[i]} : 1.0);
      }
    }
    const Tensor out =
        RunOne({"EmbeddingSegmentsSum",
                {table, indices, *Convert(I64({n}, ids), DType::kI32),
                 Tensor::Scalar(static_cast<int32_t>(segments)), Tensor(), weights}});
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(Floats(out)[i], expected[i], 1e-6);
    }
  }
}

TEST(EmbeddingSegmentsSum, EveryTypeOfTableAndIndices) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16,
        DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    for (const DType index : {DType::kI64, DType::kI32}) {
      const auto integers = [&](Shape shape, std::vector<int64_t> values) {
        return *Convert(I64(std::move(shape), std::move(values)), index);
      };
      const Tensor out =
          RunOne({"EmbeddingSegmentsSum",
                  {*Convert(I64({3, 2}, {1, 2, 3, 4, 5, 6}), dtype), integers({3}, {0, 2, 1}),
                   integers({3}, {0, 0, 2}), integers({}, {3}), integers({}, {1}),
                   *Convert(I64({3}, {1, 2, 3}), dtype)}});
      EXPECT_EQ(out.dtype(), dtype);
      EXPECT_THAT(Floats(out), ElementsAre(11, 14, 3, 4, 9, 12)) << Name(dtype);
    }
  }
}

TEST(EmbeddingSegmentsSum, HalfIsRoundedOnceAndIntegersWrap) {
  // 1 + 2^-11 + 2^-11 is representable in f16; adding one at a time in f16 stays at 1.
  const Tensor halves = *Convert(F32({2}, {1.0f, 0x1p-11f}), DType::kF16);
  const Tensor sum =
      RunOne({"EmbeddingSegmentsSum",
              {halves, I64({3}, {0, 1, 1}), I64({3}, {0, 0, 0}), Tensor::Scalar<int64_t>(1)}});
  EXPECT_EQ(sum.dtype(), DType::kF16);
  EXPECT_THAT(Floats(sum), ElementsAre(1.0f + 0x1p-10f));
  const Tensor bytes = *Convert(I64({1}, {100}), DType::kI8);
  const Tensor wrapped =
      RunOne({"EmbeddingSegmentsSum",
              {bytes, I64({2}, {0, 0}), I64({2}, {0, 0}), Tensor::Scalar<int64_t>(1)}});
  EXPECT_THAT(Integers(wrapped), ElementsAre(-56));
}

TEST(EmbeddingSegmentsSum, ThreadsDoNotChangeTheResult) {
  Random random(6);
  std::vector<int64_t> ids;
  for (int64_t s = 0; s < 64; ++s) {
    ids.insert(ids.end(), static_cast<size_t>(s % 5), s);
  }
  const int64_t n = static_cast<int64_t>(ids.size());
  Call call{"EmbeddingSegmentsSum",
            {random.Floats({50, 1024}), random.Ints({n}, 0, 49), I64({n}, ids),
             Tensor::Scalar<int64_t>(64), Tensor::Scalar<int64_t>(7)}};
  const Tensor one = RunOne(call);
  call.num_threads = 2;
  EXPECT_TRUE(SameBits(one, RunOne(call)));
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The operator documents' table: [5, 2].
Tensor Table() {
  return F32({5, 2}, {-0.2f, -0.6f, -0.1f, -0.4f, -1.9f, -1.8f, -1.0f, 1.5f, 0.8f, -0.7f});
}

Call Offsets(std::vector<int64_t> indices, std::vector<int64_t> offsets,
             Tensor default_index = Tensor(), Tensor weights = Tensor()) {
  Call call{"EmbeddingBagOffsetsSum",
            {Table(), List(std::move(indices)), List(std::move(offsets))}};
  if (default_index.has_value() || weights.has_value()) call.inputs.push_back(default_index);
  if (weights.has_value()) call.inputs.push_back(weights);
  return call;
}

TEST(EmbeddingBagOffsets, ExampleOfTheDocument) {
  const Tensor out = RunOne(Offsets({0, 2, 3, 4}, {0, 2, 2}, Tensor::Scalar<int64_t>(0),
                                    F32({4}, {0.5f, 0.5f, 0.5f, 0.5f})));
  ASSERT_EQ(out.shape(), Shape({3, 2}));
  const std::vector<float> expected = {-1.05f, -1.2f, -0.2f, -0.6f, -0.1f, 0.4f};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(Floats(out)[i], expected[i], 1e-6);
}

TEST(EmbeddingBagOffsets, EmptyBagsAndItemsBeforeTheFirst) {
  // Bag 0 skips item 0; bag 1 is empty; the last bag begins at the end.
  const Tensor out = RunOne(Offsets({0, 1, 4}, {1, 3, 3}));
  EXPECT_THAT(Floats(out), ElementsAre(-0.1f + 0.8f, -0.4f + -0.7f, 0, 0, 0, 0));
  EXPECT_THAT(Floats(RunOne(Offsets({}, {0}, Tensor::Scalar<int64_t>(3)))),
              ElementsAre(-1.0f, 1.5f));
  EXPECT_THAT(Floats(RunOne(Offsets({}, {0}, Tensor::Scalar<int64_t>(-1)))), ElementsAre(0, 0));
  EXPECT_EQ(RunOne(Offsets({1}, {})).shape(), Shape({0, 2}));
}

TEST(EmbeddingBagPacked, ExampleOfTheDocument) {
  const Tensor indices = I64({3, 2}, {0, 2, 1, 2, 3, 4});
  const Tensor out =
      RunOne({"EmbeddingBagPackedSum",
              {Table(), indices, F32({3, 2}, {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f})}});
  const std::vector<float> expected = {-1.05f, -1.2f, -1.0f, -1.1f, -0.1f, 0.4f};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(Floats(out)[i], expected[i], 1e-6);
  EXPECT_THAT(Floats(RunOne({"EmbeddingBagPacked", {Table(), I64({2, 0}, {})}})),
              ElementsAre(0, 0, 0, 0));
}

TEST(EmbeddingBags, MeansOfEveryType) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16,
        DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    const Tensor table = *Convert(I64({3}, {1, 100, 120}), dtype);
    const auto run = [&](const char* op, std::vector<Tensor> inputs, const char* reduction) {
      inputs.insert(inputs.begin(), table);
      const Tensor out = RunOne({op, inputs, {{"reduction", std::string(reduction)}}});
      EXPECT_EQ(out.dtype(), dtype);
      return Floats(out);
    };
    EXPECT_THAT(run("EmbeddingBagOffsets", {List({0, 0, 1, 2}), List({0, 2})}, "mean"),
                ElementsAre(1, 110))
        << Name(dtype);  // the sum, 220, is above i8's range
    EXPECT_THAT(run("EmbeddingBagPacked", {I64({1, 2}, {0, 1})}, "sum"), ElementsAre(101));
  }
  // Integers truncate towards zero.
  const Tensor table = *Convert(I64({2}, {-3, 0}), DType::kI32);
  EXPECT_THAT(Integers(RunOne({"EmbeddingBagPacked",
                               {table, I64({1, 2}, {0, 1})},
                               {{"reduction", std::string("mean")}}})),
              ElementsAre(-1));
}

TEST(EmbeddingBags, IndicesMayBeI32) {
  Call call = Offsets({1, 4}, {0, 1}, Tensor::Scalar<int64_t>(0));
  for (size_t i = 1; i < 4; ++i) call.inputs[i] = *Convert(call.inputs[i], DType::kI32);
  EXPECT_THAT(Floats(RunOne(call)), ElementsAre(-0.1f, -0.4f, 0.8f, -0.7f));
}

TEST(EmbeddingBags, RefuseWhatCannotBe) {
  EXPECT_THAT(ErrorOf(Offsets({5}, {0})), HasSubstr("indices[0]: 5 is outside [0, 5)"));
  EXPECT_THAT(ErrorOf(Offsets({0, -1}, {0})), HasSubstr("indices[1]: -1"));
  // Also an item that no bag holds.
  EXPECT_THAT(ErrorOf(Offsets({9, 0}, {1})), HasSubstr("indices[0]: 9"));
  EXPECT_THAT(ErrorOf(Offsets({0}, {0, 2})), HasSubstr("offsets[1]: 2 is outside [0, 1]"));
  EXPECT_THAT(ErrorOf(Offsets({0}, {-1})), HasSubstr("offsets[0]: -1"));
  EXPECT_THAT(ErrorOf(Offsets({0, 1}, {0, 2, 1})),
              HasSubstr("offsets[2]: 1 is below offsets[1], 2"));
  EXPECT_THAT(ErrorOf(Offsets({0}, {0}, Tensor::Scalar<int64_t>(5))),
              HasSubstr("default_index: 5 is outside [-1, 5)"));
  EXPECT_THAT(ErrorOf(Offsets({0}, {0}, Tensor(), F32({2}, {1, 1}))),
              HasSubstr("per_sample_weights: shape [2]"));
  Call call = Offsets({0}, {0});
  call.inputs[2] = *Convert(call.inputs[2], DType::kI32);
  EXPECT_THAT(ErrorOf(call), HasSubstr("offsets: element type i32"));
  const auto reduction = [](const char* name) {
    return std::pair<std::string, AttributeValue>("reduction", std::string(name));
  };
  const Tensor packed = I64({1, 1}, {0});
  EXPECT_THAT(ErrorOf({"EmbeddingBagPacked", {Table(), packed}, {reduction("max")}}),
              HasSubstr("reduction: 'max'"));
  EXPECT_THAT(
      ErrorOf({"EmbeddingBagPacked", {Table(), packed, F32({1, 1}, {1})}, {reduction("mean")}}),
      HasSubstr("not allowed with reduction mean"));
  EXPECT_THAT(ErrorOf({"EmbeddingBagPackedSum", {Table(), List({0})}}), HasSubstr("rank 2"));
  EXPECT_THAT(ErrorOf({"EmbeddingBagPackedSum", {Tensor::Scalar(1.0f), packed}}),
              HasSubstr("rank 1 or more"));
}

}  // namespace

}  // namespace beamwright::ops
