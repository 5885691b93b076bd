// 16-bit floats through kernels that compute in f32: the f32 result, rounded once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/kernels/types.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;

struct CellCase {
  const char* op;
  int64_t gates;
  int states;  // H, or H and C
  bool linear;
};

// X, H[, C], W, R, B of a cell with hidden size 5 over inputs of size 3.
Call CellCall(const CellCase& c, Random& random) {
  Call call{c.op, {random.Floats({4, 3})}, {{"hidden_size", int64_t{5}}}, c.states};
  for (int i = 0; i < c.states; ++i) call.inputs.push_back(random.Floats({4, 5}));
  call.inputs.push_back(random.Floats({c.gates * 5, 3}));
  call.inputs.push_back(random.Floats({c.gates * 5, 5}));
  call.inputs.push_back(random.Floats({(c.gates + (c.linear ? 1 : 0)) * 5}));
  if (c.linear) call.attributes.emplace_back("linear_before_reset", true);
  return call;
}

TEST(Widened, CellsRoundTheF32Result) {
  Random random(1);
  for (const CellCase& c : std::vector<CellCase>{{"LSTMCell", 4, 2, false},
                                                 {"GRUCell", 3, 1, false},
                                                 {"GRUCell", 3, 1, true},
                                                 {"RNNCell", 1, 1, false}}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      for (const bool constant : {false, true}) {
        Call narrow = CellCall(c, random);
        if (constant) {
          for (size_t i = narrow.inputs.size() - 3; i < narrow.inputs.size(); ++i) {
            narrow.constants.push_back(i);
          }
        }
        Call wide = narrow;
        for (size_t i = 0; i < narrow.inputs.size(); ++i) {
          narrow.inputs[i] = *Convert(narrow.inputs[i], dtype);
          wide.inputs[i] = *Convert(narrow.inputs[i], DType::kF32);
        }
        const std::vector<Tensor> outputs = *RunAll(narrow), expected = *RunAll(wide);
        for (size_t i = 0; i < outputs.size(); ++i) {
          EXPECT_TRUE(SameBits(outputs[i], *Convert(expected[i], dtype))) << c.op;
        }
      }
    }
  }
}

TEST(Widened, CellsRefuseMixedTypes) {
  Random random(2);
  Call call = CellCall({"RNNCell", 1, 1, false}, random);
  call.inputs[2] = *Convert(call.inputs[2], DType::kF16);
  EXPECT_THAT(ErrorOf(call), HasSubstr("W: element type f16 is not that of X, f32"));
}

// What a kernel has packed, a run may leave out: the weights of products and of cells, of any type.
TEST(Widened, PackedInputsNeedNotBeGiven) {
  Random random(3);
  std::vector<Call> calls = {CellCall({"GRUCell", 3, 1, false}, random),
                             CellCall({"LSTMCell", 4, 2, false}, random),
                             {"MatMul", {random.Floats({2, 3}), random.Floats({3, 4})}}};
  // The older form: W and R side by side.
  calls.push_back({"LSTMCell",
                   {random.Floats({4, 3}), random.Floats({4, 5}), random.Floats({4, 5}),
                    random.Floats({20, 8}), random.Floats({20})},
                   {{"hidden_size", int64_t{5}}, {"weights_joined", true}},
                   2});
  const std::vector<std::vector<size_t>> weights = {{2, 3}, {3, 4}, {1}, {3}};
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      Call call = calls[i];
      for (Tensor& input : call.inputs) input = *Convert(input, dtype);
      call.constants = weights[i];
      const std::vector<Tensor> expected = *RunAll(call);
      const Operator* op = TestOperators().Find(call.op);
      const Node node = MakeNode(call);
      std::vector<InputInfo> infos;
      std::vector<const Tensor*> inputs;
      const Tensor absent;
      for (const Tensor& input : call.inputs) {
        infos.push_back({input.dtype(), PartialShape(input.shape()), nullptr});
        inputs.push_back(&input);
      }
      for (const size_t weight : weights[i]) infos[weight].value = &call.inputs[weight];
      const std::unique_ptr<Kernel> kernel = *op->make({node, infos, TestOperators()});
      for (size_t input = 0; input < inputs.size(); ++input) {
        const bool is_weight = infos[input].value != nullptr;
        EXPECT_EQ(kernel->NeedsInput(input), !is_weight) << call.op << " " << input;
        if (is_weight) inputs[input] = &absent;
      }
      std::vector<Tensor> outputs(expected.size());
      ASSERT_TRUE(kernel->Run({}, inputs, absl::MakeSpan(outputs)).ok());
      for (size_t output = 0; output < outputs.size(); ++output) {
        EXPECT_TRUE(SameBits(outputs[output], expected[output])) << call.op;
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::ops
