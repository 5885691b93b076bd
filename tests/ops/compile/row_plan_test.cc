// What the compiler decides about a step: scopes, and which instructions run over all rows.
#include "ops/compile/row_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Sliced;

constexpr int64_t kWidth = 8;

Tensor Random(Shape shape, int seed) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = uniform(random);
  }
  return tensor;
}

// A recurrent step with dot attention over a memory of unknown length: token [R, 1], h [R, W],
// memory [R, S, W]. `concat_memory`: the context passes through a Concat with the memory, which
// does not broadcast rows by itself.
std::shared_ptr<Loop> AttentionBody(bool concat_memory) {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kI64, {-1, 1});
  const auto h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const auto memory = body.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  const auto table = body.Constant(Random({5, kWidth}, 1));
  const auto id = body.Add("Squeeze", {token, body.Ints({1})});
  const auto x = body.Add("Gather", {table, id, body.Int(0)});
  const auto keys =
      body.Add("MatMul", {memory, body.Constant(Random({kWidth, kWidth}, 2))}, {}, "keys");
  const auto query = body.Add("Unsqueeze", {h, body.Ints({2})});
  auto scores = body.Add("MatMul", {keys, query}, {}, "scores");  // [R, S, 1]
  if (concat_memory) {
    const auto joined = body.Add("Concat", {scores, memory}, {{"axis", int64_t{2}}}, "joined");
    scores = body.Add("ReduceSum", {joined, body.Ints({2})}, {{"keep_dims", true}});
  }
  const auto weights = body.Add("SoftMax", {scores}, {{"axis", int64_t{1}}});
  const auto weighted = body.Add("Multiply", {weights, memory}, {}, "weighted");
  const auto context =
      body.Add("ReduceSum", {weighted, body.Ints({1})}, {{"keep_dims", false}}, "context");
  const auto sum = body.Add("Add", {body.Add("Add", {x, context}), h});
  const auto next = body.Add(
      "Tanh", {body.Add("MatMul", {sum, body.Constant(Random({kWidth, kWidth}, 3))})}, {}, "next");
  body.Result("next_h", next);
  body.Result("weights", weights);
  auto loop = std::make_shared<Loop>();
  loop->body = body.Build();
  loop->inputs = {Sliced(0, 0, 1), Carried(1, 1, 0), Invariant(2, 2)};
  return loop;
}

// A step that adds a request's memory [R, W] to its state by halves: both are [2 R, W / 2] there,
// an axis with two elements for each row. `halves_come_out`: as they are.
std::shared_ptr<Loop> HalvesBody(bool halves_come_out) {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kI64, {-1, 1});
  const auto h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const auto memory = body.Parameter("memory", DType::kF32, {-1, kWidth});
  const auto table = body.Constant(Random({5, kWidth}, 1));
  const auto x =
      body.Add("Gather", {table, body.Add("Squeeze", {token, body.Ints({1})}), body.Int(0)});
  const auto halve = [&](GraphBuilder::Value value) {
    return body.Add("Reshape", {value, body.Ints({-1, kWidth / 2})});
  };
  const auto halves = body.Add(
      "Add", {halve(body.Add("Add", {x, h})), halve(body.Add("Tanh", {memory}))}, {}, "halves");
  const auto whole = body.Add("Reshape", {halves, body.Ints({-1, kWidth})});
  body.Result("next_h", body.Add("Tanh", {whole}));
  if (halves_come_out) {
    body.Result("halves", halves);
  }
  auto loop = std::make_shared<Loop>();
  loop->body = body.Build();
  loop->inputs = {Sliced(0, 0, 1), Carried(1, 1, 0), Invariant(2, 2)};
  return loop;
}

std::unique_ptr<LoopBody> Compile(std::shared_ptr<Loop> loop) {
  auto info = InferGraph(loop->body, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  auto body = LoopBody::Compile(loop, *info, Operators());
  EXPECT_TRUE(body.ok()) << body.status();
  return *std::move(body);
}

Scope ScopeOf(const LoopBody& body, const std::string& name) {
  const Graph& graph = body.loop().body;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name) {
      return body.scopes()[i];
    }
  }
  ADD_FAILURE() << name;
  return Scope::kModel;
}

TEST(Scopes, FollowWhatAValueDependsOn) {
  const auto body = Compile(AttentionBody(false));
  EXPECT_EQ(ScopeOf(*body, "keys"), Scope::kRequest);
  EXPECT_EQ(ScopeOf(*body, "token"), Scope::kToken);
  EXPECT_EQ(ScopeOf(*body, "scores"), Scope::kRow);
  EXPECT_EQ(ScopeOf(*body, "next"), Scope::kRow);
}

TEST(RowPlan, OnlyAttentionRunsRequestByRequest) {
  const auto body = Compile(AttentionBody(false));
  EXPECT_TRUE(body->plan().separable) << body->plan().reason;
  ASSERT_EQ(body->plan().segments.size(), 3u);
  EXPECT_FALSE(body->plan().segments[0].per_request);
  EXPECT_TRUE(body->plan().segments[1].per_request);
  EXPECT_EQ(body->plan().segments[1].joined.size(), 1u);  // the context, and not the ragged weights
  EXPECT_FALSE(body->plan().segments[2].per_request);
}

TEST(RowPlan, SaysWhyRowsCannotBeToldApart) {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kI64, {-1});
  const auto h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const auto mean = body.Add("ReduceMean", {h, body.Ints({0})}, {{"keep_dims", true}}, "mean");
  body.Result("next", body.Add("Subtract", {h, mean}));
  body.Result("seen", token);
  auto loop = std::make_shared<Loop>();
  loop->body = body.Build();
  LoopInput slice = Sliced(0, 0, 0);
  slice.drop_axis = true;
  loop->inputs = {slice, Carried(1, 1, 0)};
  const auto compiled = Compile(loop);
  EXPECT_FALSE(compiled->plan().separable);
  EXPECT_THAT(compiled->plan().reason, HasSubstr("ReduceMean 'mean'"));
}

TEST(RowPlan, AResultWithSeveralElementsARowIsNotToldApart) {
  EXPECT_TRUE(Compile(HalvesBody(false))->plan().separable);
  const auto compiled = Compile(HalvesBody(true));
  EXPECT_FALSE(compiled->plan().separable);
  EXPECT_THAT(compiled->plan().reason, HasSubstr("Result 'halves' cannot be separated"));
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
}

// Random populations of requests with sources of different lengths, random parents, duplicates and
// departures: each row equals the body run on that row alone, as it is written, bit for bit.
void StackedRowsEqualRowsAlone(std::shared_ptr<Loop> loop, bool row_by_row) {
  const auto body = Compile(std::move(loop));
  const bool has_length =
      body->loop().body.node(body->loop().body.parameters[2]).outputs[0].shape.rank() == 3;
  if (row_by_row) {
    body->ForceRowByRow("asked to");
  }
  ASSERT_EQ(body->plan().separable, !row_by_row);
  std::mt19937 random(17);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const int num_requests = pick(1, 5);
    std::vector<Tensor> memories;
    std::vector<LoopBody::RequestValues> values(static_cast<size_t>(num_requests));
    std::vector<LoopBody::RequestValues*> pointers;
    std::vector<int> counts;
    std::vector<int32_t> parents;
    std::vector<int> owner;
    const int old_rows = pick(1, 9);
    for (int i = 0; i < num_requests; ++i) {
      memories.push_back(
          Random(has_length ? Shape{1, pick(1, 7), kWidth} : Shape{1, kWidth}, round * 10 + i));
      auto& own = values[static_cast<size_t>(i)];
      ASSERT_TRUE(body->Bind(ExecutionContext(), {&memories.back(), 1}, own).ok());
      pointers.push_back(&own);
      counts.push_back(pick(1, 5));
      for (int row = 0; row < counts.back(); ++row) {
        parents.push_back(pick(0, old_rows - 1));
        owner.push_back(i);
      }
    }
    const auto rows = static_cast<int64_t>(parents.size());
    Tensor tokens(DType::kI64, {rows, 1});
    for (int64_t row = 0; row < rows; ++row) {
      tokens.mutable_data<int64_t>()[row] = pick(0, 4);
    }
    const Tensor old = Random({old_rows, kWidth}, round);
    std::vector<Tensor> states = {old};
    std::vector<Tensor> results;
    LoopBody::RowScratch scratch;
    ExecutionContext context;
    context.num_threads = round % 2 + 1;
    const absl::Status status = body->StepRows(context, {pointers, counts, parents, {&tokens, 1}},
                                               scratch, states, results);
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t parent = parents[static_cast<size_t>(row)];
      std::vector<Tensor> alone = {old.Rows(parent, parent + 1)};
      std::vector<Tensor> alone_results;
      LoopBody::RequestValues own;
      const Tensor& memory = memories[static_cast<size_t>(owner[static_cast<size_t>(row)])];
      ASSERT_TRUE(body->Bind(ExecutionContext(), {&memory, 1}, own).ok());
      const Tensor token = tokens.Rows(row, row + 1);
      ASSERT_TRUE(
          body->StepWhole(ExecutionContext(), {&token, 1}, 0, own, alone, alone_results).ok());
      EXPECT_TRUE(SameBits(alone[0], states[0].Rows(row, row + 1))) << round << ' ' << row;
    }
  }
}

TEST(StepRows, EqualsRowsAlone) { StackedRowsEqualRowsAlone(AttentionBody(false), false); }
TEST(StepRows, RepeatsRequestValuesWhereAnOperatorNeedsIt) {
  StackedRowsEqualRowsAlone(AttentionBody(true), false);
}
TEST(StepRows, RepeatsRequestValuesOfSeveralElementsARow) {
  StackedRowsEqualRowsAlone(HalvesBody(false), false);
}
TEST(StepRows, RowByRowGivesTheSame) { StackedRowsEqualRowsAlone(AttentionBody(true), true); }

}  // namespace
}  // namespace beamwright::ops
