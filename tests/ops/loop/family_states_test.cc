// Steps whose rows share parents: states that only cells read are held once for a parent, all
// others once for a row, and every row gets what the body gives for it alone.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "ops/base/interruption.h"
#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Sliced;

constexpr int64_t kFamilyWidth = 32;

Tensor RandomTensor(const Shape& shape, std::mt19937& random) {
  Tensor tensor(DType::kF32, shape);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = uniform(random);
  }
  return tensor;
}

// Two cells, one upon the other; what else reads the first one's state.
enum class Beside {
  kNothing,
  kSum,     // an Add, which takes rows
  kInput,   // the second cell, as its input
  kResult,  // nothing in the body: it is a result as it is
  // What x is: ids of rows of a table, which the first cell takes for its input's product.
  kTable,
  kTableRead,  // its rows are a result as well
};

constexpr int64_t kTokens = 6;

bool ReadsTable(Beside beside) { return beside >= Beside::kTable; }

std::unique_ptr<LoopBody> TwoCells(Beside beside) {
  std::mt19937 random(1);
  GraphBuilder body;
  const auto x = ReadsTable(beside) ? body.Parameter("x", DType::kI64, {-1})
                                    : body.Parameter("x", DType::kF32, {-1, kFamilyWidth});
  const auto a = body.Parameter("a", DType::kF32, {-1, kFamilyWidth});
  const auto b = body.Parameter("b", DType::kF32, {-1, kFamilyWidth});
  const auto cell = [&](GraphBuilder::Value input, GraphBuilder::Value state) {
    return body.Add(
        "GRUCell",
        {input, state, body.Constant(RandomTensor({3 * kFamilyWidth, kFamilyWidth}, random)),
         body.Constant(RandomTensor({3 * kFamilyWidth, kFamilyWidth}, random)),
         body.Constant(RandomTensor({4 * kFamilyWidth}, random))},
        {{"hidden_size", kFamilyWidth}, {"linear_before_reset", true}});
  };
  const auto rows =
      ReadsTable(beside)
          ? body.Add(
                "Gather",
                {body.Constant(RandomTensor({kTokens, 3 * kFamilyWidth}, random)), x, body.Int(0)},
                {{"batch_dims", int64_t{0}}})
          : x;
  const auto next_a =
      ReadsTable(beside)
          ? body.Add("GRUCell",
                     {rows, a, ValueId(),
                      body.Constant(RandomTensor({3 * kFamilyWidth, kFamilyWidth}, random)),
                      body.Constant(RandomTensor({4 * kFamilyWidth}, random))},
                     {{"hidden_size", kFamilyWidth},
                      {"linear_before_reset", true},
                      {"input_is_product", true}})
          : cell(x, a);
  const auto next_b = cell(beside == Beside::kInput ? a : next_a, b);
  body.Result("next_a", beside == Beside::kSum ? body.Add("Add", {next_a, a}) : next_a);
  body.Result("next_b", next_b);
  if (beside == Beside::kResult) {
    body.Result("old_a", a);
  }
  if (beside == Beside::kTableRead) {
    body.Result("rows", rows);
  }
  auto loop = std::make_shared<Loop>();
  loop->body = body.Build();
  LoopInput slice = Sliced(0, 0, 1);
  slice.drop_axis = true;
  loop->inputs = {slice, Carried(1, 1, 0), Carried(2, 2, 1)};
  auto info = InferGraph(loop->body, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  auto compiled = LoopBody::Compile(loop, *info, Operators());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
}

std::vector<int32_t> Ascending(int32_t count) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class FamilyStates : public ::testing::TestWithParam<std::tuple<Beside, bool>> {};

TEST_P(FamilyStates, RowsGetWhatTheyGetAlone) {
  const auto [beside, row_by_row] = GetParam();
  const auto body = TwoCells(beside);
  ASSERT_TRUE(body->plan().separable) << body->plan().reason;
  if (row_by_row) {
    body->ForceRowByRow("asked to");
  }
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  LoopBody::RowScratch scratch;  // one for all: buffers of larger and smaller steps
  for (int round = 0; round < 40; ++round) {
    // Requests that run, with rows to continue, and some that begin.
    const int old_rows = round % 4 == 0 ? 0 : pick(1, 12);
    std::vector<std::vector<Tensor>> first(static_cast<size_t>(pick(old_rows == 0 ? 1 : 0, 2)));
    std::vector<const std::vector<Tensor>*> starts;
    for (std::vector<Tensor>& states : first) {
      states = {RandomTensor({1, kFamilyWidth}, random), RandomTensor({1, kFamilyWidth}, random)};
      starts.push_back(&states);
    }
    const int sources = old_rows + static_cast<int>(starts.size());
    std::vector<int32_t> parents(static_cast<size_t>(pick(1, 15)));
    for (int32_t& parent : parents) {
      parent = pick(0, sources - 1);
    }
    const auto rows = static_cast<int64_t>(parents.size());
    std::vector<Tensor> old = {Tensor(), Tensor()};
    if (old_rows > 0) {
      old = {RandomTensor({old_rows, kFamilyWidth}, random),
             RandomTensor({old_rows, kFamilyWidth}, random)};
    }
    Tensor x = RandomTensor({rows, kFamilyWidth}, random);
    if (ReadsTable(beside)) {
      x = Tensor(DType::kI64, {rows});
      for (int64_t row = 0; row < rows; ++row) {
        x.mutable_data<int64_t>()[row] = pick(0, kTokens - 1);
      }
    }
    LoopBody::RequestValues shared;
    ASSERT_TRUE(body->Bind(ExecutionContext(), {}, shared).ok());
    LoopBody::RequestValues* const request = &shared;
    const auto count = static_cast<int>(rows);
    std::vector<Tensor> states = old;
    std::vector<Tensor> results;
    const absl::Status status =
        body->StepRows(ExecutionContext(), {{&request, 1}, {&count, 1}, parents, {&x, 1}, starts},
                       scratch, states, results);
    ASSERT_TRUE(status.ok()) << status;
    // A step that is interrupted, and made again by its rows but the first.
    Interruption interruption;
    interruption.Raise();
    LoopBody::RowScratch other;
    std::vector<Tensor> again = old;
    std::vector<Tensor> again_results;
    ExecutionContext interrupted;
    interrupted.interruption = &interruption;
    EXPECT_TRUE(absl::IsCancelled(
        body->StepRows(interrupted, {{&request, 1}, {&count, 1}, parents, {&x, 1}, starts}, other,
                       again, again_results)));
    body->RestoreStates(other, again);
    const std::vector<int32_t> all_rows = Ascending(static_cast<int32_t>(rows));
    const auto rest = absl::MakeConstSpan(all_rows).subspan(1);
    if (const auto num_rest = static_cast<int>(rest.size()); num_rest > 0) {
      const Tensor x_rest = x.Rows(1, rows);
      ASSERT_TRUE(body->StepRows(ExecutionContext(),
                                 {{&request, 1}, {&num_rest, 1}, rest, {&x_rest, 1}, {}}, other,
                                 again, again_results)
                      .ok());
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(SameBits(again[i], states[i].Rows(1, rows))) << round;
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t parent = parents[static_cast<size_t>(row)];
      std::vector<Tensor> alone;
      for (size_t i = 0; i < 2; ++i) {
        alone.push_back(parent < old_rows ? old[i].Rows(parent, parent + 1)
                                          : first[static_cast<size_t>(parent - old_rows)][i]);
      }
      const Tensor before = alone[0];
      std::vector<Tensor> alone_results;
      LoopBody::RequestValues own;
      ASSERT_TRUE(body->Bind(ExecutionContext(), {}, own).ok());
      const Tensor slice = x.Rows(row, row + 1);
      ASSERT_TRUE(
          body->StepWhole(ExecutionContext(), {&slice, 1}, 0, own, alone, alone_results).ok());
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(SameBits(alone[i], states[i].Rows(row, row + 1))) << round << ' ' << row;
      }
      if (beside == Beside::kResult) {
        EXPECT_TRUE(SameBits(before, results[2].Rows(row, row + 1))) << round << ' ' << row;
      }
      if (beside == Beside::kTableRead) {
        EXPECT_TRUE(SameBits(alone_results[2], results[2].Rows(row, row + 1))) << round;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyStates,
                         ::testing::Combine(::testing::Values(Beside::kNothing, Beside::kSum,
                                                              Beside::kInput, Beside::kResult,
                                                              Beside::kTable, Beside::kTableRead),
                                            ::testing::Bool()));

}  // namespace
}  // namespace beamwright::ops
