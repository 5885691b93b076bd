#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The document's pseudo-code, written down as it stands; columns without length stay end_token.
std::vector<int64_t> PseudoCode(const std::vector<int64_t>& step_ids,
                                const std::vector<int64_t>& parent_ids,
                                const std::vector<int64_t>& max_seq_len, int64_t end_token,
                                int64_t max_time, int64_t batch_size, int64_t beam_width) {
  std::vector<int64_t> final_ids(step_ids.size(), end_token);
  const auto at = [&](int64_t time, int64_t batch, int64_t beam) {
    return static_cast<size_t>((time * batch_size + batch) * beam_width + beam);
  };
  for (int64_t batch = 0; batch < batch_size; ++batch) {
    for (int64_t beam = 0; beam < beam_width; ++beam) {
      const int64_t last = std::min(max_time, max_seq_len[static_cast<size_t>(batch)]) - 1;
      if (last < 0) {
        continue;
      }
      int64_t parent = parent_ids[at(last, batch, beam)];
      final_ids[at(last, batch, beam)] = step_ids[at(last, batch, beam)];
      for (int64_t level = last - 1; level >= 0; --level) {
        final_ids[at(level, batch, beam)] = step_ids[at(level, batch, parent)];
        parent = parent_ids[at(level, batch, parent)];
      }
      bool finished = false;
      for (int64_t time = 0; time <= last; ++time) {
        if (finished) {
          final_ids[at(time, batch, beam)] = end_token;
        } else if (final_ids[at(time, batch, beam)] == end_token) {
          finished = true;
        }
      }
    }
  }
  return final_ids;
}

TEST(GatherTree, EqualsThePseudoCodeOnRandomTrees) {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t time = random.Int(0, 9);
    const int64_t batch = random.Int(0, 4);
    const int64_t beams = random.Int(1, 6);
    const Tensor steps = random.Ints({time, batch, beams}, 0, 5);
    const Tensor parents = random.Ints({time, batch, beams}, 0, beams - 1);
    const Tensor lengths = random.Ints({batch}, -2, time + 3);
    const std::vector<int64_t> expected =
        PseudoCode(Integers(steps), Integers(parents), Integers(lengths), 2, time, batch, beams);
    for (const DType dtype : {DType::kI64, DType::kI32, DType::kF32, DType::kF16, DType::kBF16,
                              DType::kI8, DType::kF64, DType::kI16}) {
      const Tensor out =
          RunOne({"GatherTree",
                  {*Convert(steps, dtype), *Convert(parents, dtype), *Convert(lengths, dtype),
                   *Convert(Tensor::Scalar<int64_t>(2), dtype)}});
      EXPECT_EQ(Integers(*Convert(out, DType::kI64)), expected) << Name(dtype);
    }
  }
}

TEST(GatherTree, ThreadsDoNotChangeTheResult) {
  Random random(2);
  const Tensor steps = random.Ints({400, 16, 8}, 0, 50);
  const Tensor parents = random.Ints({400, 16, 8}, 0, 7);
  Call call{"GatherTree", {steps, parents, random.Ints({16}, 0, 400), Tensor::Scalar<int64_t>(3)}};
  const Tensor one = RunOne(call);
  for (const int threads : {2, 3, 16, 40}) {
    call.num_threads = threads;
    EXPECT_TRUE(SameBits(one, RunOne(call))) << threads;
  }
}

TEST(GatherTree, IdsAboveTwoToThe24Survive) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const Tensor out = RunOne(
      {"GatherTree",
       {I64({1, 1, 1}, {big}), I64({1, 1, 1}, {0}), I64({1}, {1}), Tensor::Scalar<int64_t>(0)}});
  EXPECT_THAT(Integers(out), ElementsAre(big));
}

Call Example(std::vector<int64_t> parents, int64_t length = 3) {
  return {"GatherTree",
          {I64({3, 1, 2}, {1, 2, 3, 4, 5, 6}), I64({3, 1, 2}, std::move(parents)),
           I64({1}, {length}), Tensor::Scalar<int64_t>(0)}};
}

TEST(GatherTree, ParentsAreCheckedOnlyWhenFollowed) {
  EXPECT_THAT(Integers(RunOne(Example({-1, 9, 1, 0, 0, 0}))), ElementsAre(2, 2, 3, 3, 5, 6));
  EXPECT_THAT(Integers(RunOne(Example({0, 0, 0, 1, -1, 77}, 2))), ElementsAre(1, 2, 3, 4, 0, 0));
  EXPECT_EQ(ErrorOf(Example({0, 0, 2, 0, 0, 1})), "parent_ids[1,0,0]: 2 is outside [0, 2)");
  EXPECT_EQ(ErrorOf(Example({0, 0, 0, 0, -1, 9})), "parent_ids[2,0,0]: -1 is outside [0, 2)");
  // No beam's parent at step 2 is beam 1, so its bad parent at step 1 is never read.
  EXPECT_EQ(ErrorOf(Example({0, 0, 0, 7, 0, 0})), "");
}

TEST(GatherTree, TheFirstBadColumnIsReportedForAnyNumberOfThreads) {
  Random random(3);
  const Tensor steps = random.Ints({300, 64, 2}, 0, 9);
  Call call{"GatherTree",
            {steps, random.Ints({300, 64, 2}, 5, 5), random.Ints({64}, 300, 300),
             Tensor::Scalar<int64_t>(0)}};
  EXPECT_EQ(ErrorOf(call), "parent_ids[299,0,0]: 5 is outside [0, 2)");
  call.num_threads = 2;
  EXPECT_EQ(ErrorOf(call), "parent_ids[299,0,0]: 5 is outside [0, 2)");
}

// A column that is lower but goes wrong nearer to its beginning, which is looked at later.
TEST(GatherTree, TheLowerOfTwoBadColumnsIsReported) {
  const Call call{"GatherTree",
                  {I64({3, 1, 2}, {1, 2, 3, 4, 5, 6}), I64({3, 1, 2}, {0, 0, 7, 0, 0, 5}),
                   I64({1}, {3}), Tensor::Scalar<int64_t>(0)}};
  EXPECT_EQ(ErrorOf(call), "parent_ids[1,0,0]: 7 is outside [0, 2)");
}

TEST(GatherTree, LengthsAndParentsOf64BitsWithoutSign) {
  const uint64_t far = (uint64_t{1} << 63) + 1;
  const auto tensor = [](const Shape& shape, const std::vector<uint64_t>& values) {
    return Tensor::Of<uint64_t>(shape, values);
  };
  const auto call = [&](uint64_t parent) {
    return Call{"GatherTree",
                {tensor({2, 1, 1}, {8, 9}), tensor({2, 1, 1}, {0, parent}), tensor({1}, {far}),
                 Tensor::Scalar<uint64_t>(4)}};
  };
  const Tensor out = RunOne(call(0));
  EXPECT_EQ(out.data<uint64_t>()[0], 8u) << "as long as the steps, not empty";
  EXPECT_EQ(out.data<uint64_t>()[1], 9u);
  EXPECT_THAT(ErrorOf(call(far)), HasSubstr("parent_ids[1,0,0]: "));
}

TEST(GatherTree, FloatParentsAndLengthsMustBeWhole) {
  const auto call = [](float parent, float length) {
    return Call{"GatherTree",
                {F32({2, 1, 1}, {1, 2}), F32({2, 1, 1}, {0, parent}), F32({1}, {length}),
                 Tensor::Scalar<float>(0)}};
  };
  EXPECT_EQ(ErrorOf(call(0, 2)), "");
  EXPECT_THAT(ErrorOf(call(0.5f, 2)), HasSubstr("parent_ids[1,0,0]: 0.5 is not a whole"));
  EXPECT_THAT(ErrorOf(call(std::numeric_limits<float>::quiet_NaN(), 2)),
              HasSubstr("parent_ids[1,0,0]: nan is not a whole"));
  EXPECT_THAT(ErrorOf(call(0, 1.5f)), HasSubstr("max_seq_len[0]: 1.5 is not a whole"));
  EXPECT_THAT(ErrorOf(call(0, std::numeric_limits<float>::infinity())),
              HasSubstr("max_seq_len[0]: inf is not a whole"));
  EXPECT_THAT(ErrorOf(call(1e30f, 2)), HasSubstr("is outside [0, 1)"));
}

TEST(GatherTree, RefusesWrongShapesAndTypes) {
  const Tensor ids = I64({2, 1, 1}, {1, 2});
  const Tensor end = Tensor::Scalar<int64_t>(0);
  const auto error = [&](Tensor steps, Tensor parents, Tensor lengths, Tensor token) {
    return ErrorOf({"GatherTree", {steps, parents, lengths, token}});
  };
  EXPECT_THAT(error(I64({2}, {1, 2}), ids, I64({1}, {1}), end), HasSubstr("step_ids"));
  EXPECT_THAT(error(ids, I64({1, 2, 1}, {0, 0}), I64({1}, {1}), end), HasSubstr("parent_ids"));
  EXPECT_THAT(error(ids, ids, I64({2}, {1, 1}), end), HasSubstr("max_seq_len"));
  EXPECT_THAT(error(ids, ids, I64({1}, {1}), I64({1}, {0})), HasSubstr("end_token"));
  EXPECT_THAT(error(ids, ids, *Convert(I64({1}, {1}), DType::kI32), end),
              HasSubstr("max_seq_len: element type i32"));
  const Tensor flags = *Convert(ids, DType::kBool);
  EXPECT_THAT(error(flags, flags, *Convert(I64({1}, {1}), DType::kBool), Tensor::Scalar(true)),
              HasSubstr("boolean is not supported"));
}

}  // namespace
}  // namespace beamwright::ops
