// Cells that read a state once for all rows that continue it, and products where a table has them,
// against the same cells with a copy for each row.
#include <gtest/gtest.h>

#include "ops/base/vector_isa.h"
#include "ops/graph/operator.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

struct Made {
  std::unique_ptr<Kernel> kernel;
  const RowSourceKernel* by_source = nullptr;
};

Made Make(const Call& call) {
  const Operator* const op = TestOperators().Find(call.op);
  Node node = MakeNode(call);
  std::vector<InputInfo> infos;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool constant =
        std::find(call.constants.begin(), call.constants.end(), i) != call.constants.end();
    infos.push_back({call.inputs[i].dtype(), PartialShape(call.inputs[i].shape()),
                     constant ? &call.inputs[i] : nullptr});
  }
  auto kernel = op->make({node, infos, TestOperators()});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  Made made{*std::move(kernel), nullptr};
  made.by_source = dynamic_cast<const RowSourceKernel*>(made.kernel.get());
  return made;
}

std::vector<const Tensor*> Pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) {
    pointers.push_back(&tensor);
  }
  return pointers;
}

Call Gru(Random& random, int64_t rows, int64_t input, int64_t hidden, bool is_product) {
  Call call{
      "GRUCell",
      {is_product ? random.Floats({rows, 3 * hidden}, -3, 3) : random.Floats({rows, input}, -2, 2),
       random.Floats({rows, hidden}), is_product ? Tensor() : random.Floats({3 * hidden, input}),
       random.Floats({3 * hidden, hidden}), random.Floats({4 * hidden})},
      {{"hidden_size", hidden}, {"linear_before_reset", true}, {"input_is_product", is_product}}};
  call.constants = is_product ? std::vector<size_t>{3} : std::vector<size_t>{2, 3};
  return call;
}

Call Lstm(Random& random, int64_t rows, int64_t input, int64_t hidden, bool is_product) {
  Call call{
      "LSTMCell",
      {is_product ? random.Floats({rows, 4 * hidden}, -3, 3) : random.Floats({rows, input}, -2, 2),
       random.Floats({rows, hidden}), random.Floats({rows, hidden}),
       is_product ? Tensor() : random.Floats({4 * hidden, input}),
       random.Floats({4 * hidden, hidden}), random.Floats({4 * hidden})},
      {{"hidden_size", hidden}, {"input_is_product", is_product}},
      2};
  call.constants = is_product ? std::vector<size_t>{4} : std::vector<size_t>{3, 4};
  return call;
}

// lstm, is_product
class CellFamilies : public ::testing::TestWithParam<std::tuple<VectorIsa, bool, bool>> {};

TEST_P(CellFamilies, GiveTheBitsOfAStateForEachRow) {
  const auto [isa, lstm, is_product] = GetParam();
  const ScopedVectorIsa scope(isa);
  if (CurrentVectorIsa() != isa) {
    GTEST_SKIP() << "not on this machine";
  }
  Random random(21);
  struct Extents {
    int64_t rows, old_rows, input, hidden;
  };
  // One tile and several of rows, and of units; as many parents as rows and a few of them only.
  for (const Extents& extents : {Extents{1, 1, 5, 32}, Extents{5, 5, 8, 30}, Extents{70, 9, 20, 64},
                                 Extents{64, 200, 8, 32}, Extents{130, 90, 300, 160}}) {
    const auto [rows, old_rows, input, hidden] = extents;
    if (isa == VectorIsa::kPlain && rows == 130) {
      continue;  // takes seconds
    }
    const Call call = lstm ? Lstm(random, rows, input, hidden, is_product)
                           : Gru(random, rows, input, hidden, is_product);
    const Made cell = Make(call);
    ASSERT_NE(cell.by_source, nullptr);
    ASSERT_EQ(cell.by_source->state_input(), 1);
    const Tensor old = random.Floats({old_rows, hidden});
    std::vector<int32_t> parents;
    for (int64_t row = 0; row < rows; ++row) {
      parents.push_back(static_cast<int32_t>(random.Int(0, old_rows - 1)));
    }
    RowFamilies families;
    families.Assign(parents);
    const auto gathered = [&old](absl::Span<const int32_t> from) {
      Tensor tensor(DType::kF32, {static_cast<int64_t>(from.size()), old.dim(1)});
      for (size_t i = 0; i < from.size(); ++i) {
        std::copy_n(old.data<float>() + from[i] * old.dim(1), old.dim(1),
                    tensor.mutable_data<float>() + static_cast<int64_t>(i) * old.dim(1));
      }
      return tensor;
    };
    std::vector<Tensor> by_row = call.inputs;
    by_row[1] = gathered(parents);
    std::vector<Tensor> by_family = call.inputs;
    by_family[1] = gathered(families.parents());
    for (const int threads : {1, 2}) {
      std::vector<Tensor> expected(static_cast<size_t>(call.num_outputs));
      std::vector<Tensor> got(expected.size());
      ASSERT_TRUE(
          cell.kernel->Run({.num_threads = threads}, Pointers(by_row), absl::MakeSpan(expected))
              .ok());
      const absl::Status status = cell.by_source->RunRows(
          {.num_threads = threads}, Pointers(by_family), {&families, nullptr}, absl::MakeSpan(got));
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(SameBits(got[i], expected[i])) << rows << " rows of " << families.num_families()
                                                   << " families, " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CellFamilies,
                         ::testing::Combine(::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2,
                                                              VectorIsa::kAvx512),
                                            ::testing::Bool(), ::testing::Bool()));

// Products of a table's rows, of states by row or by family, for both cells.
class CellTables : public ::testing::TestWithParam<std::tuple<VectorIsa, bool, DType>> {};

TEST_P(CellTables, GiveTheBitsOfACopyForEachRow) {
  const auto [isa, lstm, index_type] = GetParam();
  const ScopedVectorIsa scope(isa);
  Random random(22);
  constexpr int64_t kTokens = 11;
  for (const int64_t rows : {1, 6, 75}) {
    for (const int64_t hidden : {30, 64}) {
      const int64_t gates = lstm ? 4 : 3;
      Call call{lstm ? "LSTMCell" : "GRUCell",
                {random.Floats({rows, gates * hidden}, -3, 3), random.Floats({rows, hidden})},
                {{"hidden_size", hidden}, {"input_is_product", true}},
                lstm ? 2 : 1};
      if (lstm) {
        call.inputs.push_back(random.Floats({rows, hidden}));
      } else {
        call.attributes.push_back({"linear_before_reset", true});
      }
      call.constants = {call.inputs.size() + 1};
      call.inputs.insert(call.inputs.end(), {Tensor(), random.Floats({gates * hidden, hidden}),
                                             random.Floats({4 * hidden})});
      const Made cell = Make(call);
      ASSERT_EQ(cell.by_source->table_input(), 0);
      ASSERT_EQ(cell.by_source->state_input(), 1);
      std::vector<Tensor> from_table = call.inputs;
      from_table[0] = random.Floats({kTokens, gates * hidden}, -3, 3);
      // Negative ones count from the end.
      const Tensor tokens = random.Ints({rows}, -kTokens, kTokens - 1, index_type);
      std::vector<Tensor> copied = call.inputs;
      copied[0] = RunOne({"Gather", {from_table[0], tokens, Tensor::Scalar(int64_t{0})}});
      std::vector<Tensor> expected(static_cast<size_t>(call.num_outputs));
      std::vector<Tensor> got(expected.size());
      ASSERT_TRUE(cell.kernel->Run({}, Pointers(copied), absl::MakeSpan(expected)).ok());
      const absl::Status status = cell.by_source->RunRows({}, Pointers(from_table),
                                                          {nullptr, &tokens}, absl::MakeSpan(got));
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(SameBits(got[i], expected[i])) << rows << " rows of " << hidden;
      }
      Tensor outside = I64({rows}, std::vector<int64_t>(static_cast<size_t>(rows), kTokens));
      EXPECT_EQ(cell.by_source
                    ->RunRows({}, Pointers(from_table), {nullptr, &outside}, absl::MakeSpan(got))
                    .code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Isa, CellTables,
    ::testing::Combine(::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512),
                       ::testing::Bool(), ::testing::Values(DType::kI32, DType::kI64)));

// A product of the reset state with R is a row's own, and so is what has no packed weights.
TEST(RowSourceKernels, AreOnlyCellsWhoseStateIsMultipliedApart) {
  Random random(4);
  Call call = Gru(random, 3, 4, 32, false);
  EXPECT_EQ(Make(call).by_source->state_input(), 1);
  Call unpacked = call;
  unpacked.constants = {2};
  EXPECT_EQ(Make(unpacked).by_source->state_input(), -1);
  Call clipped = call;
  clipped.attributes.push_back({"clip", 1.0});
  EXPECT_EQ(Make(clipped).by_source->state_input(), -1);
  Call reset_first = call;
  reset_first.attributes[1] = {"linear_before_reset", false};
  reset_first.inputs.pop_back();
  EXPECT_EQ(Make(reset_first).by_source->state_input(), -1);
}

// Peepholes are not among what a cell computes tile by tile.
TEST(RowSourceKernels, PeepholesTakeNoTable) {
  Random random(6);
  Call call{"LSTMCell",
            {random.Floats({3, 128}), random.Floats({3, 32}), random.Floats({3, 32}), Tensor(),
             random.Floats({128, 32}), random.Floats({128})},
            {{"hidden_size", 32}, {"input_is_product", true}},
            2};
  call.constants = {4};
  EXPECT_EQ(Make(call).by_source->table_input(), 0);
  call.inputs.push_back(random.Floats({96}));
  EXPECT_EQ(Make(call).by_source->table_input(), -1);
}

TEST(RowSourceKernels, RefuseStatesOfAnotherNumber) {
  Random random(5);
  const Call call = Gru(random, 3, 4, 32, false);
  RowFamilies families;
  families.Assign({0, 0, 1});
  std::vector<Tensor> outputs(1);
  const absl::Status status = Make(call).by_source->RunRows(
      {}, Pointers(call.inputs), {&families, nullptr}, absl::MakeSpan(outputs));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace beamwright::ops
