#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

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

}  // namespace
}  // namespace beamwright::ops
