// Loops whose items leave the body when they have ended (kItemsLeave): the body says how many
// items it sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/compile/row_follower.h"
#include "tests/ops/loop/run_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Last;
using testing_support::Scanned;
using testing_support::Stacked;

struct Seen {
  std::vector<float> parts;  // [items, length], or [length, items]: how many items were seen
  std::vector<float> last;   // [items]: start + x, and how many were seen, of each part
};

// x holds 100 times the position, from 1 on. time_axis: of x and of the parts.
Seen RunOver(const std::vector<int64_t>& lengths, int64_t extent, bool is_backward,
             int64_t time_axis = 1, bool leaves = true) {
  GraphBuilder body;
  const auto slice = body.Parameter("x", DType::kF32, {-1});
  const auto state = body.Parameter("state", DType::kF32, {-1});
  const auto count = body.Add("Gather", {body.Add("ShapeOf", {slice}), body.Int(0), body.Int(0)});
  const auto seen = body.Add("Convert", {count}, {{"destination_type", std::string("f32")}});
  const auto zeros = body.Add("Multiply", {slice, body.Constant(Tensor::Scalar(0.0f))});
  const auto part = body.Add("Add", {zeros, seen});
  body.Result("part", part);
  body.Result("next", body.Add("Add", {body.Add("Add", {state, slice}), part}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Scanned(0, 0, time_axis, is_backward), Carried(1, 1, 1)};
  loop.outputs = {Stacked(0, 0, time_axis, is_backward), Last(1, 1)};
  loop.items = Loop::Items::kHeld;
  loop.lengths_input = 2;
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1});
  const auto start = graph.Parameter("start", DType::kF32, {-1});
  const auto given = graph.Parameter("lengths", DType::kI64, {-1});
  const auto out = graph.Loop({x, start, given}, std::move(loop), 2);
  Graph built = graph.Build();
  built.node(out.node).attributes.Set(kItemsLeave, leaves);
  graph = GraphBuilder(std::move(built));
  graph.Result("parts", out);
  graph.Result("last", {out.node, 1});

  const auto items = static_cast<int64_t>(lengths.size());
  Tensor values(DType::kF32, time_axis == 1 ? Shape{items, extent} : Shape{extent, items});
  for (int64_t item = 0; item < items; ++item) {
    for (int64_t t = 0; t < extent; ++t) {
      values.mutable_data<float>()[time_axis == 1 ? item * extent + t : t * items + item] =
          static_cast<float>(100 * (t + 1));
    }
  }
  std::vector<float> starts;
  for (int64_t item = 0; item < items; ++item) {
    starts.push_back(static_cast<float>(10'000 * item));
  }
  const auto outputs =
      RunGraph(graph.Build(), {values, F32({items}, starts), I64({items}, lengths)});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? Seen{Floats((*outputs)[0]), Floats((*outputs)[1])} : Seen();
}

// Read forwards they leave one after the other, read backwards they come.
TEST(LeavingItems, TakePartUpToTheirOwnEnds) {
  for (const bool is_backward : {false, true}) {
    const Seen seen = RunOver({4, 2, 2, 1, 0}, 4, is_backward);
    EXPECT_THAT(seen.parts, ElementsAre(4, 3, 1, 1,  //
                                        4, 3, 0, 0,  //
                                        4, 3, 0, 0,  //
                                        4, 0, 0, 0,  //
                                        0, 0, 0, 0))
        << is_backward;
    EXPECT_THAT(seen.last, ElementsAre(1009, 10'307, 20'307, 30'104, 40'000)) << is_backward;
  }
}

TEST(LeavingItems, WhereTimeStandsFirst) {
  for (const bool is_backward : {false, true}) {
    const Seen seen = RunOver({3, 1}, 3, is_backward, 0);
    EXPECT_THAT(seen.parts, ElementsAre(2, 2,  //
                                        1, 0,  //
                                        1, 0));
    EXPECT_THAT(seen.last, ElementsAre(604, 10'102));
  }
}

TEST(LeavingItems, StayWhileNoneHasEnded) {
  const Seen seen = RunOver({2, 2, 2}, 2, false);
  EXPECT_THAT(seen.parts, ElementsAre(3, 3, 3, 3, 3, 3));
  EXPECT_THAT(seen.last, ElementsAre(306, 10'306, 20'306));
}

// Items in another order, or all of them shorter than the axis, are held.
TEST(LeavingItems, AreHeldUnlessTheLongestComeFirst) {
  for (const bool is_backward : {false, true}) {
    Seen seen = RunOver({1, 2}, 2, is_backward);
    EXPECT_THAT(seen.parts, ElementsAre(2, 0, 2, 2));
    EXPECT_THAT(seen.last, ElementsAre(102, 10'304));
    seen = RunOver({2, 1}, 3, is_backward);
    EXPECT_THAT(seen.parts, ElementsAre(2, 2, 0, 2, 0, 0));
    EXPECT_THAT(seen.last, ElementsAre(304, 10'102));
  }
}

TEST(LeavingItems, AreHeldUnlessTheyMayLeave) {
  const Seen seen = RunOver({2, 1}, 2, false, 1, /*leaves=*/false);
  EXPECT_THAT(seen.parts, ElementsAre(2, 2, 2, 0));
  EXPECT_THAT(seen.last, ElementsAre(304, 10'102));
}

}  // namespace
}  // namespace beamwright::ops
