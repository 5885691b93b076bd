// Steps that read several positions of their rows at once: bodies made of random operators, states
// and back edges give each position the bits that a step of one position gives.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ops/base/interruption.h"
#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_weight.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::RandomWeight;
using testing_support::Sliced;

using Value = GraphBuilder::Value;
using Row = std::vector<Tensor>;  // of states, [1, ...] each

constexpr int64_t kWidth = 24;
constexpr int64_t kHeads = 2;
constexpr int64_t kKeys = 4;
constexpr int64_t kValues = 8;
constexpr int64_t kTaps = 3;
constexpr int64_t kTokens = 11;

enum class StateKind { kVector, kWindow, kMatrix, kCell, kConstant, kNumKinds };

class RandomBody {
 public:
  explicit RandomBody(uint32_t seed) : random_(seed) {}

  int Pick(int most) { return std::uniform_int_distribution<int>(0, most - 1)(random_); }

  // A step over tokens with random states; the last result is the sum of all that was computed.
  std::unique_ptr<LoopBody> Build(Precision precision) {
    const Value token = body_.Parameter("token", DType::kI64, {-1});
    pool_ = {body_.Add("Gather", {body_.Constant(Weight({kTokens, kWidth})), token, body_.Int(0)})};
    auto loop = std::make_shared<Loop>();
    loop->inputs = {Sliced(0, 0, 1)};
    loop->inputs[0].drop_axis = true;
    const int count = 1 + Pick(4);
    for (int i = 0; i < count; ++i) {
      kinds_.push_back(static_cast<StateKind>(Pick(static_cast<int>(StateKind::kNumKinds))));
      states_.push_back(body_.Parameter("state" + std::to_string(i), DType::kF32, ShapeOf(i, -1)));
      loop->inputs.push_back(Carried(i + 1, i + 1, i));
    }
    std::vector<Value> next(states_.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      AddOperators(1 + Pick(3));
      next[i] = Next(i);
    }
    AddOperators(2);
    for (size_t i = 0; i < states_.size(); ++i) {
      // Some vectors keep what was computed anywhere, or what another state was.
      const bool any = kinds_[i] == StateKind::kVector;
      body_.Result(
          "next" + std::to_string(i),
          any ? pool_[static_cast<size_t>(Pick(static_cast<int>(pool_.size())))] : next[i]);
    }
    Value sum = pool_[0];
    for (size_t i = 1; i < pool_.size(); ++i) {
      sum = body_.Add("Add", {sum, pool_[i]});
    }
    body_.Result("sum", body_.Add("Add", {sum, sum}));
    loop->body = body_.Build();
    auto info = InferGraph(loop->body, Operators(precision));
    EXPECT_TRUE(info.ok()) << info.status();
    auto compiled = LoopBody::Compile(loop, *info, Operators(precision));
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return *std::move(compiled);
  }

  Row Start() {
    Row row;
    for (size_t i = 0; i < kinds_.size(); ++i) {
      row.push_back(Weight(ShapeOf(static_cast<int>(i), 1)));
    }
    return row;
  }

 private:
  Tensor Weight(const Shape& shape) { return RandomWeight(shape, random_); }
  Value Any() { return pool_[static_cast<size_t>(Pick(static_cast<int>(pool_.size())))]; }
  Value Product(Value value, int64_t columns) {
    return body_.Add("MatMul", {value, body_.Constant(Weight({kWidth, columns}))});
  }
  Value Reshape(Value value, std::vector<int64_t> shape) {
    return body_.Add("Reshape", {value, body_.Ints(std::move(shape))});
  }

  Shape ShapeOf(int state, int64_t rows) const {
    switch (kinds_[static_cast<size_t>(state)]) {
      case StateKind::kWindow:
        return {rows, kWidth, kTaps - 1};
      case StateKind::kMatrix:
        return {rows, kHeads, kKeys, kValues};
      default:
        return {rows, kWidth};
    }
  }

  void AddOperators(int count) {
    for (int i = 0; i < count; ++i) {
      switch (Pick(4)) {
        case 0:
          pool_.push_back(body_.Add("Tanh", {Product(Any(), kWidth)}));
          break;
        case 1:
          pool_.push_back(body_.Add("Multiply", {Any(), Any()}));
          break;
        case 2:  // two parts of the first axis for each row
          pool_.push_back(Reshape(
              body_.Add("SoftMax", {Reshape(Any(), {-1, kWidth / 2})}, {{"axis", int64_t{1}}}),
              {-1, kWidth}));
          break;
        default:
          pool_.push_back(body_.Add("Subtract", {Any(), Any()}));
          break;
      }
    }
  }

  // Reads the state into the pool, and gives its next value.
  Value Next(size_t i) {
    const Value state = states_[i];
    switch (kinds_[i]) {
      case StateKind::kWindow: {
        const Value whole =
            body_.Add("Concat", {state, Reshape(Any(), {-1, kWidth, 1})}, {{"axis", int64_t{2}}});
        const Value weighted =
            body_.Add("Multiply", {whole, body_.Constant(Weight({kWidth, kTaps}))});
        pool_.push_back(
            body_.Add("ReduceSum", {weighted, body_.Ints({2})}, {{"keep_dims", false}}));
        return body_.Add("Slice", {whole, body_.Ints({1}), body_.Ints({kTaps}), body_.Ints({1}),
                                   body_.Ints({2})});
      }
      case StateKind::kMatrix: {
        const Value decay =
            body_.Add("Sigmoid", {Reshape(Product(Any(), kHeads), {-1, kHeads, 1, 1})});
        const Value update = body_.Add(
            "StateUpdate",
            {state, decay, Reshape(Product(Any(), kHeads * kKeys), {-1, kHeads, kKeys, 1}),
             Reshape(Product(Any(), kHeads * kValues), {-1, kHeads, 1, kValues}),
             Reshape(Product(Any(), kHeads * kKeys), {-1, kHeads, kKeys, 1})},
            {{"rule", std::string("sum")}}, "", 2);
        const Value read = Reshape(Value{update.node, 1}, {-1, kHeads * kValues});
        pool_.push_back(
            body_.Add("MatMul", {read, body_.Constant(Weight({kHeads * kValues, kWidth}))}));
        return update;
      }
      case StateKind::kCell: {
        const Value cell = body_.Add(
            "GRUCell",
            {Any(), state, body_.Constant(Weight({3 * kWidth, kWidth})),
             body_.Constant(Weight({3 * kWidth, kWidth})), body_.Constant(Weight({4 * kWidth}))},
            {{"hidden_size", kWidth}, {"linear_before_reset", true}});
        pool_.push_back(cell);
        return cell;
      }
      case StateKind::kConstant:
        pool_.push_back(state);
        return state;
      default:
        pool_.push_back(state);
        return {};
    }
  }

  std::mt19937 random_;
  GraphBuilder body_;
  std::vector<Value> pool_;  // [rows, kWidth] each
  std::vector<StateKind> kinds_;
  std::vector<Value> states_;
};

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
}

Tensor TokensOf(const std::vector<int64_t>& tokens) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(tokens.size())}, tokens);
}

// A step of one row in one position.
struct Alone {
  Row states;
  Tensor sum;
};
Alone StepAlone(const LoopBody& body, LoopBody::RequestValues& request, const Row& from,
                int64_t token) {
  const Tensor tokens = TokensOf({token});
  const int one = 1;
  const int32_t parent = 0;
  const std::vector<Tensor>* const start = &from;
  LoopBody::RequestValues* const requests = &request;
  std::vector<Tensor> states(from.size());
  std::vector<Tensor> results;
  LoopBody::RowScratch scratch;
  const absl::Status status = body.StepRows(
      ExecutionContext(), {{&requests, 1}, {&one, 1}, {&parent, 1}, {&tokens, 1}, {&start, 1}},
      scratch, states, results);
  EXPECT_TRUE(status.ok()) << status;
  return {body.StatesOfRow(scratch, states, 0), results.back()};
}

class Positions : public ::testing::TestWithParam<Precision> {};

TEST_P(Positions, HaveTheBitsOfSingleSteps) {
  int num_possible = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    RandomBody random(seed);
    const auto body = random.Build(GetParam());
    ASSERT_TRUE(body->plan().separable) << body->plan().reason;
    if (!body->plan_positions().possible) {
      EXPECT_EQ(body->plan_positions().reason, "states take turns") << seed;
      continue;
    }
    ++num_possible;
    const bool in_place = body->writes_in_place() && random.Pick(3) > 0;
    // Two requests, whose rows continue rows of the step before.
    std::vector<LoopBody::RequestValues> values(2);
    std::vector<LoopBody::RequestValues*> requests;
    for (LoopBody::RequestValues& one : values) {
      ASSERT_TRUE(body->Bind(ExecutionContext(), {}, one).ok());
      requests.push_back(&one);
    }
    std::vector<std::vector<Row>> rows = {{random.Start()}, {random.Start()}};
    std::vector<std::vector<int32_t>> places = {{0}, {1}};
    const std::vector<Row> first = {rows[0][0], rows[1][0]};
    std::vector<const Row*> starts = {&first[0], &first[1]};
    std::vector<Tensor> states(first[0].size());
    std::vector<Tensor> results;
    LoopBody::RowScratch scratch;
    for (int step = 0; step < 5; ++step) {
      std::vector<int> counts;
      std::vector<int32_t> parents;
      std::vector<int64_t> tokens;
      std::vector<std::vector<Row>> next(2);
      std::vector<std::vector<int32_t>> next_places(2);
      std::vector<Tensor> sums;
      for (size_t request = 0; request < 2; ++request) {
        const size_t begin = parents.size();
        for (int row = random.Pick(2); row >= 0; --row) {
          const auto parent =
              static_cast<size_t>(random.Pick(static_cast<int>(rows[request].size())));
          Row now = rows[request][parent];
          const int positions = random.Pick(3) == 0 ? 1 : 1 + random.Pick(6);
          for (int position = 0; position < positions; ++position) {
            parents.push_back(position == 0 ? places[request][parent] : LoopBody::kRowBefore);
            tokens.push_back(random.Pick(kTokens));
            Alone alone = StepAlone(*body, values[request], now, tokens.back());
            now = std::move(alone.states);
            sums.push_back(std::move(alone.sum));
          }
          next[request].push_back(std::move(now));
          next_places[request].push_back(static_cast<int32_t>(parents.size()) - 1);
        }
        counts.push_back(static_cast<int>(parents.size() - begin));
      }
      const Tensor slice = TokensOf(tokens);
      const LoopBody::RowStep together{requests, counts, parents, {&slice, 1}, starts, in_place};
      Interruption interruption;
      interruption.Raise();
      ExecutionContext interrupted;
      interrupted.interruption = &interruption;
      if (!in_place && random.Pick(2) == 0) {
        // Interrupted, and made again by rows that continue themselves.
        ASSERT_TRUE(
            absl::IsCancelled(body->StepRows(interrupted, together, scratch, states, results)));
        body->RestoreStates(scratch, states);
        for (size_t row = 0; row < parents.size(); ++row) {
          parents[row] =
              parents[row] == LoopBody::kRowBefore ? parents[row] : static_cast<int32_t>(row);
        }
        starts.clear();
      }
      // A step in place goes on to its end.
      const absl::Status status = body->StepRows(
          in_place ? interrupted : ExecutionContext(),
          {requests, counts, parents, {&slice, 1}, starts, in_place}, scratch, states, results);
      ASSERT_TRUE(status.ok()) << seed << ' ' << status;
      for (size_t row = 0; row < parents.size(); ++row) {
        const auto at = static_cast<int64_t>(row);
        ASSERT_TRUE(SameBits(results.back().Rows(at, at + 1), sums[row]))
            << seed << ", step " << step << ", row " << row;
      }
      for (size_t request = 0; request < 2; ++request) {
        for (size_t row = 0; row < next[request].size(); ++row) {
          const Row found = body->StatesOfRow(scratch, states, next_places[request][row]);
          for (size_t i = 0; i < found.size(); ++i) {
            ASSERT_TRUE(SameBits(found[i], next[request][row][i])) << seed << ", state " << i;
          }
        }
      }
      rows = std::move(next);
      places = std::move(next_places);
      starts.clear();
    }
  }
  EXPECT_GT(num_possible, 90);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Positions,
                         ::testing::Values(Precision::kF32, Precision::kBf16, Precision::kBf16Dot,
                                           Precision::kInt8));

}  // namespace
}  // namespace beamwright::ops
