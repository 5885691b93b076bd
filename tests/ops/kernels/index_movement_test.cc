#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t& At(Tensor& tensor, const Index& index) {
  return tensor.mutable_data<int64_t>()[OffsetOf(tensor, index)];
}
int64_t Get(const Tensor& tensor, const Index& index) {
  return At(const_cast<Tensor&>(tensor), index);
}

Tensor Axis(int64_t axis) { return Tensor::Scalar(axis); }
Tensor Copy(const Tensor& tensor) {
  return Tensor::Of<int64_t>(tensor.shape(), tensor.span<int64_t>());
}
int64_t Wrap(int64_t index, int64_t extent) { return index < 0 ? index + extent : index; }
Index Joined(Index a, const Index& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Index Part(const Index& index, size_t begin, size_t end) {
  return {index.begin() + static_cast<std::ptrdiff_t>(begin),
          index.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(IndexMovement, GatherAndScatterElementsEqualNaiveLoops) {
  Random random(1);
  for (int trial = 0; trial < 60; ++trial) {
    Shape shape;
    for (int64_t i = random.Int(1, 4); i > 0; --i) shape.push_back(random.Int(1, 4));
    const int64_t axis = random.Int(0, static_cast<int64_t>(shape.size()) - 1);
    const auto at = static_cast<size_t>(axis);
    const int64_t given = random.Int(0, 1) == 0 ? axis : axis - static_cast<int64_t>(shape.size());
    Shape inside = shape;
    for (int64_t& dim : inside) dim = random.Int(1, dim);
    inside[at] = random.Int(0, 6);
    const Tensor data = Counting(shape);
    const Tensor indices = random.Ints(inside, -shape[at], shape[at] - 1);
    const Tensor gathered = RunOne({"GatherElements", {data, indices}, {{"axis", given}}});
    ASSERT_EQ(gathered.shape(), inside);
    ForEachIndex(inside, [&](const Index& i) {
      Index from = i;
      from[at] = Wrap(Get(indices, i), shape[at]);
      ASSERT_EQ(Get(gathered, i), Get(data, from));
    });

    const Tensor updates = random.Ints(inside, 1, 9);
    const std::pair<std::string, std::function<int64_t(int64_t, int64_t)>> reductions[] = {
        {"none", [](int64_t, int64_t b) { return b; }},
        {"sum", [](int64_t a, int64_t b) { return a + b; }},
        {"prod", [](int64_t a, int64_t b) { return a * b; }},
        {"min", [](int64_t a, int64_t b) { return std::min(a, b); }},
        {"max", [](int64_t a, int64_t b) { return std::max(a, b); }}};
    // clang does not capture structured bindings where OpenMP is on.
    for (const auto& reduction : reductions) {
      const auto& name = reduction.first;
      const auto& reduce = reduction.second;
      for (const bool use_init : {true, false}) {
        Tensor expected = Copy(data);
        Tensor seen = Tensor::Zeros(DType::kI64, shape);
        ForEachIndex(inside, [&](const Index& i) {
          Index to = i;
          to[at] = Wrap(Get(indices, i), shape[at]);
          const bool fresh = !use_init && At(seen, to) == 0;
          At(expected, to) = fresh ? Get(updates, i) : reduce(At(expected, to), Get(updates, i));
          At(seen, to) = 1;
        });
        const Tensor got = RunOne({"ScatterElementsUpdate",
                                   {data, indices, updates, Axis(given)},
                                   {{"reduction", name}, {"use_init_val", use_init}},
                                   1,
                                   {3}});
        ASSERT_TRUE(SameBits(got, expected)) << name;
      }
    }
  }
}

// Means by hand; those of integers round down.
TEST(IndexMovement, ScatterElementsMean) {
  const auto mean = [](const Tensor& data, const Tensor& updates, bool use_init) {
    return RunOne({"ScatterElementsUpdate",
                   {data, List({1, 1, 2}), updates, Axis(0)},
                   {{"reduction", Text("mean")}, {"use_init_val", use_init}}});
  };
  const Tensor data = List({10, 1, -4}), updates = List({2, 4, 3});
  EXPECT_THAT(Integers(mean(data, updates, true)), ElementsAre(10, 2, -1));  // 7/3, -1/2
  EXPECT_THAT(Integers(mean(data, updates, false)), ElementsAre(10, 3, 3));
  const Tensor halves = *Convert(data, DType::kF16);
  EXPECT_THAT(Floats(mean(halves, *Convert(updates, DType::kF16), true)),
              ElementsAre(10, ToFloat(ToHalf(7.0f / 3)), -0.5f));
  EXPECT_THAT(Integers(mean(*Convert(List({0, 100, 0}), DType::kI8),
                            *Convert(List({100, 100, 0}), DType::kI8), true)),
              ElementsAre(0, 100, 0));
  const Tensor flags = *Convert(List({0, 0, 0}), DType::kBool);
  EXPECT_THAT(ErrorOf({"ScatterElementsUpdate",
                       {flags, List({1}), *Convert(List({1}), DType::kBool), Axis(0)},
                       {{"reduction", Text("mean")}}}),
              HasSubstr("boolean is not supported"));
}

TEST(IndexMovement, ScatterUpdateEqualsNaiveLoop) {
  Random random(2);
  for (int trial = 0; trial < 60; ++trial) {
    Shape shape, index_shape;
    for (int64_t i = random.Int(1, 3); i > 0; --i) shape.push_back(random.Int(1, 4));
    for (int64_t i = random.Int(0, 2); i > 0; --i) index_shape.push_back(random.Int(0, 3));
    const auto axis = static_cast<size_t>(random.Int(0, static_cast<int64_t>(shape.size()) - 1));
    Shape updates_shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
    updates_shape.insert(updates_shape.end(), index_shape.begin(), index_shape.end());
    updates_shape.insert(updates_shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                         shape.end());
    const Tensor data = Counting(shape);
    const Tensor indices = random.Ints(index_shape, 0, shape[axis] - 1, DType::kI32);
    const Tensor updates = random.Ints(updates_shape, 100, 900);
    const Tensor wide = *Convert(indices, DType::kI64);
    Tensor expected = Copy(data);
    ForEachIndex(updates_shape, [&](const Index& i) {
      const size_t end = axis + index_shape.size();
      Index to = Joined(Part(i, 0, axis), {Get(wide, Part(i, axis, end))});
      At(expected, Joined(to, Part(i, end, i.size()))) = Get(updates, i);
    });
    const Tensor got = RunOne(
        {"ScatterUpdate", {data, indices, updates, Axis(static_cast<int64_t>(axis))}, {}, 1, {3}});
    ASSERT_TRUE(SameBits(got, expected));
  }
}

TEST(IndexMovement, GatherAndScatterNdEqualNaiveLoops) {
  Random random(3);
  for (int trial = 0; trial < 60; ++trial) {
    Shape shape;
    for (int64_t i = random.Int(1, 4); i > 0; --i) shape.push_back(random.Int(1, 3));
    const auto rank = static_cast<int64_t>(shape.size());
    const auto batch = static_cast<size_t>(random.Int(0, rank - 1));
    const auto length = static_cast<size_t>(random.Int(0, rank - static_cast<int64_t>(batch)));
    Shape index_shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(batch));
    for (int64_t i = random.Int(0, 2); i > 0; --i) index_shape.push_back(random.Int(1, 3));
    const size_t tuples = index_shape.size();
    index_shape.push_back(static_cast<int64_t>(length));
    Tensor indices(DType::kI64, index_shape);
    ForEachIndex(index_shape, [&](const Index& i) {
      const int64_t extent = shape[batch + static_cast<size_t>(i.back())];
      At(indices, i) = random.Int(-extent, extent - 1);
    });
    const auto target = [&](const Index& tuple, size_t first) {
      Index to = Part(tuple, 0, first);
      for (size_t k = 0; k < length; ++k) {
        to.push_back(
            Wrap(Get(indices, Joined(tuple, {static_cast<int64_t>(k)})), shape[first + k]));
      }
      return to;
    };
    const Tensor data = Counting(shape);
    const Tensor gathered =
        RunOne({"GatherND", {data, indices}, {{"batch_dims", static_cast<int64_t>(batch)}}});
    Shape out(index_shape.begin(), index_shape.end() - 1);
    out.insert(out.end(), shape.begin() + static_cast<std::ptrdiff_t>(batch + length), shape.end());
    ASSERT_EQ(gathered.shape(), out);
    ForEachIndex(out, [&](const Index& i) {
      const Index from = Joined(target(Part(i, 0, tuples), batch), Part(i, tuples, i.size()));
      ASSERT_EQ(Get(gathered, i), Get(data, from));
    });
    if (batch > 0) continue;
    const Tensor updates = random.Ints(out, 1, 9);
    const std::pair<std::string, std::function<int64_t(int64_t, int64_t)>> reductions[] = {
        {"none", [](int64_t, int64_t b) { return b; }},
        {"sum", [](int64_t a, int64_t b) { return a + b; }},
        {"sub", [](int64_t a, int64_t b) { return a - b; }},
        {"prod", [](int64_t a, int64_t b) { return a * b; }},
        {"min", [](int64_t a, int64_t b) { return std::min(a, b); }},
        {"max", [](int64_t a, int64_t b) { return std::max(a, b); }}};
    // clang does not capture structured bindings where OpenMP is on.
    for (const auto& reduction : reductions) {
      const auto& name = reduction.first;
      const auto& reduce = reduction.second;
      Tensor expected = Copy(data);
      ForEachIndex(out, [&](const Index& i) {
        int64_t& to =
            At(expected, Joined(target(Part(i, 0, tuples), 0), Part(i, tuples, i.size())));
        to = reduce(to, Get(updates, i));
      });
      ASSERT_TRUE(SameBits(
          RunOne({"ScatterNDUpdate", {data, indices, updates}, {{"reduction", name}}}), expected))
          << name;
    }
  }
}

// The documents' own numbers for what random shapes leave out.
TEST(IndexMovement, DocumentExamples) {
  const Tensor data = I64({2, 3, 4}, [] {
    std::vector<int64_t> values(24);
    for (size_t i = 0; i < 24; ++i) values[i] = static_cast<int64_t>(i) + 1;
    return values;
  }());
  const Tensor indices = I64({2, 3, 1, 1}, {1, 0, 2, 0, 2, 2});
  const Tensor apart = RunOne({"GatherND", {data, indices}, {{"batch_dims", int64_t{2}}}});
  EXPECT_EQ(apart.shape(), Shape({2, 3, 1}));
  EXPECT_THAT(Integers(apart), ElementsAre(2, 5, 11, 13, 19, 23));
  // GatherND-5
  EXPECT_EQ(
      RunOne({"GatherND", {data, indices}, {{"batch_dims", int64_t{2}}, {"joins_batch", true}}})
          .shape(),
      Shape({6, 1}));
  const Tensor x = List({2, 3, 4, 6});
  const Tensor sums = List({10, 20, 30, 40, 70, 60});
  EXPECT_THAT(Integers(RunOne({"ScatterElementsUpdate",
                               {x, List({1, 0, 0, -2, -1, 2}), sums, Axis(0)},
                               {{"reduction", Text("sum")}}})),
              ElementsAre(52, 13, 104, 76));
  EXPECT_THAT(Integers(RunOne({"ScatterElementsUpdate",
                               {x, List({1, 0, 0, 2, 3, 2}), sums, Axis(0)},
                               {{"reduction", Text("sum")}, {"use_init_val", false}}})),
              ElementsAre(50, 10, 100, 70));
  const Tensor flags = *Convert(List({1, 0, 1}), DType::kBool);
  const auto scatter = [&](const std::string& reduction) {
    return Integers(
        RunOne({"ScatterNDUpdate",
                {flags, I64({3, 1}, {0, 1, 2}), *Convert(List({1, 1, 0}), DType::kBool)},
                {{"reduction", reduction}}}));
  };
  EXPECT_THAT(scatter("sum"), ElementsAre(1, 1, 1));
  EXPECT_THAT(scatter("sub"), ElementsAre(0, 1, 1));
  EXPECT_THAT(scatter("prod"), ElementsAre(1, 0, 0));
  // One update may be a scalar.
  EXPECT_THAT(Integers(RunOne({"ScatterNDUpdate", {x, List({1}), Tensor::Scalar<int64_t>(9)}})),
              ElementsAre(2, 9, 4, 6));
}

TEST(IndexMovement, Errors) {
  const Tensor x = Counting({2, 3});
  const AttributeValue zero = int64_t{0};
  EXPECT_EQ(ErrorOf({"GatherElements", {x, I64({1, 3}, {0, 2, 0})}, {{"axis", zero}}}),
            "indices[0,1]: 2 is outside [-2, 2)");
  EXPECT_THAT(ErrorOf({"GatherElements", {x, I64({1, 4}, {0, 0, 0, 0})}, {{"axis", zero}}}),
              HasSubstr("indices: shape [1, 4] is not inside that of data, [2, 3]"));
  EXPECT_THAT(ErrorOf({"GatherElements", {x, List({0})}, {{"axis", zero}}}), HasSubstr("indices"));
  EXPECT_THAT(ErrorOf({"GatherElements", {x, x}, {{"axis", int64_t{2}}}}), HasSubstr("axis 2"));
  EXPECT_THAT(ErrorOf({"GatherElements", {x, x}}), HasSubstr("axis is required"));
  EXPECT_EQ(ErrorOf({"GatherND", {x, I64({1, 2}, {0, -4})}}),
            "indices[0,1]: -4 is outside [-3, 3)");
  EXPECT_THAT(ErrorOf({"GatherND", {x, I64({1, 3}, {0, 0, 0})}}), HasSubstr("tuples of 3"));
  EXPECT_THAT(ErrorOf({"GatherND", {x, List({0})}, {{"batch_dims", int64_t{1}}}}),
              HasSubstr("batch_dims: 1"));
  EXPECT_THAT(ErrorOf({"GatherND", {x, I64({3, 1}, {0, 0, 0})}, {{"batch_dims", int64_t{1}}}}),
              HasSubstr("batch axis 0"));
  EXPECT_THAT(ErrorOf({"GatherND", {x, F32({1}, {0})}}), HasSubstr("indices: element type f32"));

  EXPECT_EQ(ErrorOf({"ScatterUpdate", {x, List({-1}), Counting({1, 3}), Axis(0)}}),
            "indices[0]: -1 is outside [0, 2)");
  EXPECT_THAT(ErrorOf({"ScatterUpdate", {x, List({0}), Counting({2, 3}), Axis(0)}}),
              HasSubstr("updates: shape [2, 3] must be [1, 3]"));
  EXPECT_THAT(ErrorOf({"ScatterUpdate", {x, List({0}), Counting({1, 3}), Axis(-3)}}),
              HasSubstr("axis -3"));
  EXPECT_THAT(ErrorOf({"ScatterUpdate", {x, List({0}), F32({1, 3}, {0, 0, 0}), Axis(0)}}),
              HasSubstr("updates: element type f32"));
  EXPECT_EQ(ErrorOf({"ScatterElementsUpdate", {x, I64({1, 1}, {5}), I64({1, 1}, {5}), Axis(1)}}),
            "indices[0,0]: 5 is outside [-3, 3)");
  EXPECT_THAT(
      ErrorOf({"ScatterElementsUpdate", {x, I64({1, 1}, {0}), I64({1, 2}, {5, 6}), Axis(1)}}),
      HasSubstr("updates: shape [1, 2] must be [1, 1]"));
  EXPECT_THAT(ErrorOf({"ScatterElementsUpdate", {x, x, x, Axis(1)}, {{"reduction", Text("sub")}}}),
              HasSubstr("reduction: 'sub' is not supported"));
  EXPECT_THAT(ErrorOf({"ScatterNDUpdate", {x, x, x}, {{"reduction", Text("mean")}}}),
              HasSubstr("reduction: 'mean' is not supported"));
  EXPECT_EQ(ErrorOf({"ScatterNDUpdate", {x, I64({1, 2}, {2, 0}), List({1})}}),
            "indices[0,0]: 2 is outside [-2, 2)");
  EXPECT_THAT(ErrorOf({"ScatterNDUpdate", {x, I64({1, 2}, {0, 0}), List({1, 2})}}),
              HasSubstr("updates: shape [2] must be [1]"));
  // An unsigned index above the range of i64 is as far outside as any.
  EXPECT_THAT(
      ErrorOf({"GatherND", {x, Tensor::Of<uint64_t>({1}, std::vector<uint64_t>{~uint64_t{0}})}}),
      HasSubstr("outside [-2, 2)"));
}

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
