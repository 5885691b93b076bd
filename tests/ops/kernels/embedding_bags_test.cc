#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

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
