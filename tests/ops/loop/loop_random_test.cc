// Random port maps against a naive interpreter: slices along any axis, in any direction and of any
// part size, handed on, joined along other axes or stacked, with states that rotate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/ops/loop/run_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Joined;
using testing_support::Last;
using testing_support::Sliced;
using testing_support::Stacked;

// An array of three axes as nested loops see it.
struct Array {
  int64_t extents[3];
  std::vector<float> values;

  Array(int64_t a, int64_t b, int64_t c) : extents{a, b, c} {
    values.resize(static_cast<size_t>(a * b * c));
  }
  float& at(int64_t i, int64_t j, int64_t k) {
    return values[static_cast<size_t>((i * extents[1] + j) * extents[2] + k)];
  }
  // Elements [begin, begin + length) of an axis.
  Array Part(int axis, int64_t begin, int64_t length) {
    Array part(axis == 0 ? length : extents[0], axis == 1 ? length : extents[1],
               axis == 2 ? length : extents[2]);
    part.ForEach([&](int64_t i, int64_t j, int64_t k) {
      part.at(i, j, k) =
          at(i + (axis == 0 ? begin : 0), j + (axis == 1 ? begin : 0), k + (axis == 2 ? begin : 0));
    });
    return part;
  }
  template <typename F>
  void ForEach(F f) {
    for (int64_t i = 0; i < extents[0]; ++i) {
      for (int64_t j = 0; j < extents[1]; ++j) {
        for (int64_t k = 0; k < extents[2]; ++k) {
          f(i, j, k);
        }
      }
    }
  }
  Tensor ToTensor() const { return F32({extents[0], extents[1], extents[2]}, values); }
};

Array Join(std::vector<Array> parts, int axis) {
  int64_t extents[3] = {parts[0].extents[0], parts[0].extents[1], parts[0].extents[2]};
  extents[axis] *= static_cast<int64_t>(parts.size());
  Array joined(extents[0], extents[1], extents[2]);
  int64_t offset = 0;
  for (Array& part : parts) {
    part.ForEach([&](int64_t i, int64_t j, int64_t k) {
      joined.at(i + (axis == 0 ? offset : 0), j + (axis == 1 ? offset : 0),
                k + (axis == 2 ? offset : 0)) = part.at(i, j, k);
    });
    offset += part.extents[axis];
  }
  return joined;
}

TEST(RandomLoops, AgreeWithNestedLoops) {
  std::mt19937 random(11);
  const auto any = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const int64_t trips = any(1, 4);
    const int num_slices = static_cast<int>(any(1, 3));
    GraphBuilder body;
    Loop loop;
    std::vector<Tensor> inputs;
    std::vector<Tensor> expected;
    for (int i = 0; i < num_slices; ++i) {
      const int axis = static_cast<int>(any(0, 2));
      const int64_t part = any(1, 3);
      const bool backwards = any(0, 1) == 1;
      const int64_t before = any(0, 2);  // elements outside the range
      int64_t extents[3] = {any(1, 3), any(1, 3), any(1, 3)};
      const int64_t length = part * trips;
      extents[axis] = before + length + any(0, 2);
      Array array(extents[0], extents[1], extents[2]);
      std::iota(array.values.begin(), array.values.end(), static_cast<float>(100 * i));
      // What iterations see, by the rules of the document.
      std::vector<Array> parts;
      for (int64_t t = 0; t < trips; ++t) {
        const int64_t begin = backwards ? before + length - (t + 1) * part : before + t * part;
        parts.push_back(array.Part(axis, begin, part));
      }
      int64_t start = backwards ? before + length - 1 : before;
      int64_t end = backwards ? before : before + length - 1;
      start -= any(0, 1) * extents[axis];
      end -= any(0, 1) * extents[axis];
      const int64_t stride = backwards ? -part : part;
      const int64_t rule_axis = axis - 3 * any(0, 1);
      body.Result("slice" + std::to_string(i),
                  body.Parameter("p" + std::to_string(i), DType::kF32, {-1, -1, -1}));
      loop.inputs.push_back(Sliced(i, i, rule_axis, start, end, stride, part));
      inputs.push_back(array.ToTensor());
      // Where they land: joined along any axis, in either order.
      const int out_axis = static_cast<int>(any(0, 2));
      const bool reversed = any(0, 1) == 1;
      loop.outputs.push_back(
          Joined(i, i, out_axis - 3 * any(0, 1), reversed, parts[0].extents[out_axis]));
      if (reversed) {
        std::reverse(parts.begin(), parts.end());
      }
      expected.push_back(Join(parts, out_axis).ToTensor());
    }
    // Three states that rotate, the first of them stacked: iteration t sees state t % 3.
    std::vector<float> first_states;
    for (int state = 0; state < 3; ++state) {
      const int at = num_slices + state;
      body.Result("r" + std::to_string(state),
                  body.Parameter("s" + std::to_string(state), DType::kF32, {2}));
      loop.inputs.push_back(Carried(at, at, num_slices + (state + 1) % 3));
      inputs.push_back(F32({2}, {1.0f * static_cast<float>(state), 50}));
    }
    const int64_t new_axis = any(-2, 1);
    const bool reversed = any(0, 1) == 1;
    loop.outputs.push_back(Stacked(num_slices, num_slices, new_axis, reversed));
    loop.outputs.push_back(Last(num_slices + 1, num_slices));
    Tensor stacked = Tensor::Zeros(
        DType::kF32, new_axis == 0 || new_axis == -2 ? Shape{trips, 2} : Shape{2, trips});
    for (int64_t t = 0; t < trips; ++t) {
      const int64_t place = reversed ? trips - 1 - t : t;
      const bool leading = stacked.dim(0) == trips && (new_axis == 0 || new_axis == -2);
      stacked.mutable_data<float>()[leading ? place * 2 : place] = static_cast<float>(t % 3);
      stacked.mutable_data<float>()[leading ? place * 2 + 1 : trips + place] = 50;
    }
    expected.push_back(stacked);
    // The result r0 is the source of the back edge of the last state.
    expected.push_back(F32({2}, {static_cast<float>((trips - 1) % 3), 50}));
    loop.body = body.Build();

    GraphBuilder graph;
    std::vector<ValueId> values;
    const bool shapes_known = any(0, 1) == 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      values.push_back(
          graph.Parameter("in" + std::to_string(i), DType::kF32,
                          shapes_known ? inputs[i].shape() : Shape(inputs[i].shape().size(), -1)));
    }
    const auto out = graph.Loop(values, std::move(loop), static_cast<int>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      graph.Result("out" + std::to_string(i), {out.node, static_cast<int>(i)});
    }
    const auto outputs = RunGraph(graph.Build(), inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ((*outputs)[i].shape(), expected[i].shape()) << "output " << i;
      EXPECT_EQ(Floats((*outputs)[i]), Floats(expected[i])) << "output " << i;
    }
  }
}

// A sum over all elements by loops inside each other.
Loop SumOverAxes(int depth) {
  GraphBuilder body;
  const Shape part(static_cast<size_t>(depth), -1);
  const auto x = body.Parameter("x", DType::kF32, part);
  const auto sum = body.Parameter("sum", DType::kF32, {1});
  if (depth == 1) {
    body.Result("next", body.Add("Add", {sum, x}));
  } else {
    // The slice keeps its axis, of extent 1: drop it.
    const auto row = body.Add("Squeeze", {x, body.Ints({0})});
    body.Result("next", body.Loop({row, sum}, SumOverAxes(depth - 1), 1));
  }
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 0), Carried(1, 1, 0)};
  loop.outputs = {Last(0, 0)};
  return loop;
}

absl::StatusOr<std::vector<Tensor>> SumNested(int depth, Shape shape) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, Shape(shape.size(), -1));
  const auto zero = graph.Constant(F32({1}, {0}));
  graph.Result("sum", graph.Loop({x, zero}, SumOverAxes(depth), 1));
  Tensor input(DType::kF32, shape);
  std::iota(input.mutable_data<float>(), input.mutable_data<float>() + input.num_elements(), 1.0f);
  return RunGraph(graph.Build(), {input});
}

TEST(NestedLoops, RunThreeAndSixteenDeepAndNotDeeper) {
  EXPECT_EQ(Floats(SumNested(3, {2, 3, 4})->at(0)), std::vector<float>{300});
  Shape deep(16, 1);
  deep[7] = 3;
  const auto outputs = SumNested(16, deep);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(Floats(outputs->at(0)), std::vector<float>{6});
  EXPECT_THAT(ErrorOf(SumNested(17, Shape(17, 1))), HasSubstr("nested more than 16 deep"));
}

}  // namespace
}  // namespace beamwright::ops
