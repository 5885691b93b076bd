#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/base/vector_isa.h"
#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;

// Rows of the gates in our order: gate i of the result is gate order[i] of `tensor` [gates * S,
// ..].
Tensor ReorderGates(const Tensor& tensor, const std::vector<int>& order) {
  const int64_t size = tensor.dim(0) / static_cast<int64_t>(order.size());
  Tensor result(tensor.dtype(), tensor.shape());
  const int64_t bytes = tensor.num_bytes() / static_cast<int64_t>(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    std::copy(tensor.bytes() + order[i] * bytes, tensor.bytes() + (order[i] + 1) * bytes,
              result.mutable_bytes() + static_cast<int64_t>(i) * bytes);
  }
  EXPECT_GT(size, 0);
  return result;
}

Tensor WithoutFirstAxis(const Tensor& tensor) {
  return tensor.Reshaped(Shape(tensor.shape().begin() + 1, tensor.shape().end()));
}

// One ONNX LSTM, GRU or RNN node as a loop over one of our cells.
class OnnxCell {
 public:
  OnnxCell(const std::string& test, int gates) : vectors_(ReadOnnxVectors(test)), gates_(gates) {
    // LSTM: i o f c -> f i c o; GRU's order z r h is ours.
    order_ = gates == 4   ? std::vector<int>{2, 0, 3, 1}
             : gates == 3 ? std::vector<int>{0, 1, 2}
                          : std::vector<int>{0};
  }

  void Check() {
    const bool batchwise = Attribute("layout") == 1;
    const Tensor x = batchwise ? SwapFirstTwo(Input(0)) : Input(0);  // [T, B, I]
    const int64_t batch = x.dim(1);
    const int64_t hidden = Attribute("hidden_size");
    const Tensor w = ReorderGates(WithoutFirstAxis(Input(1)), order_);
    const Tensor r = ReorderGates(WithoutFirstAxis(Input(2)), order_);
    Tensor h = Tensor::Zeros(DType::kF32, {batch, hidden});
    Tensor c = h;
    std::vector<Tensor> steps;
    for (int64_t t = 0; t < x.dim(0); ++t) {
      Call call;
      call.op = gates_ == 4 ? "LSTMCell" : gates_ == 3 ? "GRUCell" : "RNNCell";
      call.attributes = {{"hidden_size", hidden}};
      call.inputs = {WithoutFirstAxis(x.Rows(t, t + 1)), h};
      if (gates_ == 4) call.inputs.push_back(c);
      call.inputs.insert(call.inputs.end(), {w, r, Bias(hidden)});
      if (gates_ == 4 && Input(7).has_value()) {
        call.inputs.push_back(ReorderGates(WithoutFirstAxis(Input(7)), {2, 0, 1}));
      }
      call.num_outputs = gates_ == 4 ? 2 : 1;
      const size_t first_weight = gates_ == 4 ? 3 : 2;
      call.constants = {first_weight, first_weight + 1};
      const std::vector<Tensor> outputs = *RunAll(call);
      h = outputs[0];
      if (gates_ == 4) c = outputs[1];
      steps.push_back(h);
    }
    int compared = 0;
    for (size_t i = 0; i < vectors_.output_names.size(); ++i) {
      if (vectors_.output_names[i].empty()) continue;
      const Tensor& expected = vectors_.tensors.at(vectors_.output_names[i]);
      std::vector<float> got;
      if (i == 0) {
        for (const Tensor& step : steps) {
          got.insert(got.end(), step.span<float>().begin(), step.span<float>().end());
        }
        ASSERT_TRUE(x.dim(0) == 1 || !batchwise);  // else the layouts differ
      } else {
        got = Floats(i == 1 ? h : c);
      }
      ASSERT_EQ(static_cast<int64_t>(got.size()), expected.num_elements());
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_NEAR(got[k], expected.data<float>()[k], 1e-6);
      }
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }

 private:
  int64_t Attribute(const std::string& name) const {
    return vectors_.attributes.count(name) > 0 ? vectors_.attributes.at(name) : 0;
  }
  Tensor Input(size_t i) const {
    return i < vectors_.input_names.size() && !vectors_.input_names[i].empty()
               ? vectors_.tensors.at(vectors_.input_names[i])
               : Tensor();
  }
  // ONNX: B [1, 2 g S], biases of W then of R; ours is their sum.
  Tensor Bias(int64_t hidden) const {
    if (!Input(3).has_value()) return Tensor();
    const Tensor both = WithoutFirstAxis(Input(3));
    Tensor sum(DType::kF32, {gates_ * hidden});
    for (int64_t i = 0; i < sum.dim(0); ++i) {
      sum.mutable_data<float>()[i] = both.data<float>()[i] + both.data<float>()[sum.dim(0) + i];
    }
    return ReorderGates(sum, order_);
  }
  static Tensor SwapFirstTwo(const Tensor& t) {
    return RunOne({"Transpose", {t, I64({3}, {1, 0, 2})}});
  }

  OnnxVectors vectors_;
  int gates_;
  std::vector<int> order_;
};

TEST(Cells, OnnxNodeVectors) {
  if (!HaveOnnxVectors()) {
    GTEST_SKIP() << "libonnx-testdata is not installed";
  }
  for (const char* test : {"test_lstm_defaults", "test_lstm_with_initial_bias",
                           "test_lstm_with_peepholes", "test_lstm_batchwise"}) {
    SCOPED_TRACE(test);
    OnnxCell(test, 4).Check();
  }
  for (const char* test : {"test_gru_defaults", "test_gru_with_initial_bias", "test_gru_seq_length",
                           "test_gru_batchwise"}) {
    SCOPED_TRACE(test);
    OnnxCell(test, 3).Check();
  }
  for (const char* test : {"test_simple_rnn_defaults", "test_simple_rnn_with_initial_bias",
                           "test_simple_rnn_batchwise", "test_rnn_seq_length"}) {
    SCOPED_TRACE(test);
    OnnxCell(test, 1).Check();
  }
}

double S(double x) { return 1 / (1 + std::exp(-x)); }

struct CellCase {
  int64_t rows, input, hidden;
  Tensor x, h, c, w, r, b;

  CellCase(Random& random, int64_t num_rows, int64_t in, int64_t size, int64_t gates,
           int64_t bias_gates)
      : rows(num_rows), input(in), hidden(size) {
    x = random.Floats({rows, input}, -2, 2);
    h = random.Floats({rows, hidden});
    c = random.Floats({rows, hidden}, -2, 2);
    w = random.Floats({gates * hidden, input});
    r = random.Floats({gates * hidden, hidden});
    b = random.Floats({bias_gates * hidden});
  }
  // Row `gate * hidden + k` of X W^T or of `state` R^T, for batch row `row`.
  double Wx(int64_t row, int64_t gate, int64_t k) const {
    double sum = 0;
    for (int64_t i = 0; i < input; ++i) {
      sum += double{x.data<float>()[row * input + i]} *
             w.data<float>()[(gate * hidden + k) * input + i];
    }
    return sum;
  }
  double Rh(int64_t row, int64_t gate, int64_t k,
            const std::vector<double>* reset = nullptr) const {
    double sum = 0;
    for (int64_t i = 0; i < hidden; ++i) {
      const double scale = reset == nullptr ? 1.0 : (*reset)[static_cast<size_t>(i)];
      sum += scale * h.data<float>()[row * hidden + i] *
             r.data<float>()[(gate * hidden + k) * hidden + i];
    }
    return sum;
  }
  double B(int64_t gate, int64_t k) const { return b.data<float>()[gate * hidden + k]; }
  double H(int64_t row, int64_t k) const { return h.data<float>()[row * hidden + k]; }
};

TEST(Cells, LstmFormulaWithClipInBothForms) {
  Random random(3);
  for (const double clip : {0.0, 0.5}) {
    const CellCase cell(random, 5, 7, 9, 4, 4);
    const auto bound = [clip](double x) { return clip > 0 ? std::clamp(x, -clip, clip) : x; };
    const Call call{"LSTMCell",
                    {cell.x, cell.h, cell.c, cell.w, cell.r, cell.b},
                    {{"hidden_size", int64_t{9}}, {"clip", clip}},
                    2};
    const std::vector<Tensor> out = *RunAll(call);
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t k = 0; k < 9; ++k) {
        const auto z = [&](int64_t gate) {
          return bound(cell.Wx(row, gate, k) + cell.Rh(row, gate, k) + cell.B(gate, k));
        };
        const double c = S(z(0)) * cell.c.data<float>()[row * 9 + k] + S(z(1)) * std::tanh(z(2));
        EXPECT_NEAR(out[1].data<float>()[row * 9 + k], c, 2e-6);
        EXPECT_NEAR(out[0].data<float>()[row * 9 + k], S(z(3)) * std::tanh(c), 2e-6);
      }
    }
    const Tensor joined = RunOne({"Concat", {cell.w, cell.r}, {{"axis", int64_t{1}}}});
    Call old{"LSTMCell",
             {cell.x, cell.h, cell.c, joined, cell.b},
             {{"hidden_size", int64_t{9}}, {"clip", clip}, {"weights_joined", true}},
             2};
    EXPECT_TRUE(SameBits(RunAll(old)->at(0), out[0]));
    old.constants = {3};
    Call constant = call;
    constant.constants = {3, 4};
    EXPECT_TRUE(SameBits(RunAll(old)->at(1), RunAll(constant)->at(1)));
  }
}

// With input_forget the forget gate's own product, bias and peephole do not matter.
TEST(Cells, LstmPeepholesAndInputForget) {
  Random random(8);
  const CellCase cell(random, 3, 4, 5, 4, 4);
  const Tensor peepholes = random.Floats({15});
  for (const bool input_forget : {false, true}) {
    const std::vector<Tensor> out =
        *RunAll({"LSTMCell",
                 {cell.x, cell.h, cell.c, cell.w, cell.r, cell.b, peepholes},
                 {{"hidden_size", int64_t{5}}, {"input_forget", input_forget}},
                 2});
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t k = 0; k < 5; ++k) {
        const auto z = [&](int64_t gate) {
          return cell.Wx(row, gate, k) + cell.Rh(row, gate, k) + cell.B(gate, k);
        };
        const auto p = [&](int64_t gate) { return double{peepholes.data<float>()[gate * 5 + k]}; };
        const double old_c = cell.c.data<float>()[row * 5 + k];
        const double i = S(z(1) + p(1) * old_c);
        const double f = input_forget ? 1 - i : S(z(0) + p(0) * old_c);
        const double c = f * old_c + i * std::tanh(z(2));
        EXPECT_NEAR(out[1].data<float>()[row * 5 + k], c, 2e-6);
        EXPECT_NEAR(out[0].data<float>()[row * 5 + k], S(z(3) + p(2) * c) * std::tanh(c), 2e-6);
      }
    }
  }
}

TEST(Cells, GruFormulaBothWays) {
  Random random(4);
  for (const bool linear : {false, true}) {
    const CellCase cell(random, 4, 6, 8, 3, linear ? 4 : 3);
    Call call{"GRUCell",
              {cell.x, cell.h, cell.w, cell.r, cell.b},
              {{"hidden_size", int64_t{8}}, {"linear_before_reset", linear}}};
    for (const std::vector<size_t>& constants :
         {std::vector<size_t>{}, std::vector<size_t>{2, 3}}) {
      call.constants = constants;
      const Tensor out = RunOne(call);
      for (int64_t row = 0; row < 4; ++row) {
        std::vector<double> reset;
        for (int64_t k = 0; k < 8; ++k) {
          reset.push_back(S(cell.Wx(row, 1, k) + cell.Rh(row, 1, k) + cell.B(1, k)));
        }
        for (int64_t k = 0; k < 8; ++k) {
          const double z = S(cell.Wx(row, 0, k) + cell.Rh(row, 0, k) + cell.B(0, k));
          const double inner =
              linear ? reset[static_cast<size_t>(k)] * (cell.Rh(row, 2, k) + cell.B(3, k))
                     : cell.Rh(row, 2, k, &reset);
          const double g = std::tanh(cell.Wx(row, 2, k) + inner + cell.B(2, k));
          EXPECT_NEAR(out.data<float>()[row * 8 + k], (1 - z) * g + z * cell.H(row, k), 2e-6);
        }
      }
    }
  }
}

TEST(Cells, Activations) {
  Random random(5);
  const CellCase cell(random, 3, 4, 5, 1, 1);
  const std::vector<std::pair<std::string, std::function<double(double)>>> functions = {
      {"ReLU", [](double x) { return std::max(x, 0.0); }},
      {"sigmoid", S},
      {"HardSigmoid", [](double x) { return std::clamp(0.4 * x + 0.3, 0.0, 1.0); }},
      {"affine", [](double x) { return 0.4 * x + 0.3; }},
      {"leakyrelu", [](double x) { return x < 0 ? 0.4 * x : x; }},
      {"thresholdedrelu", [](double x) { return x > 0.4 ? x : 0; }},
      {"scaledtanh", [](double x) { return 0.4 * std::tanh(0.3 * x); }},
      {"elu", [](double x) { return x < 0 ? 0.4 * (std::exp(x) - 1) : x; }},
      {"softsign", [](double x) { return x / (1 + std::fabs(x)); }}};
  for (const auto& [name, function] : functions) {
    const Tensor out = RunOne({"RNNCell",
                               {cell.x, cell.h, cell.w, cell.r, cell.b},
                               {{"hidden_size", int64_t{5}},
                                {"activations", std::vector<std::string>{name}},
                                {"activations_alpha", std::vector<double>{0.4}},
                                {"activations_beta", std::vector<double>{0.3}}}});
    for (int64_t i = 0; i < 15; ++i) {
      const double z = cell.Wx(i / 5, 0, i % 5) + cell.Rh(i / 5, 0, i % 5) + cell.B(0, i % 5);
      EXPECT_NEAR(out.data<float>()[i], function(z), 2e-6) << name;
    }
  }
}

// Any rows in any company, any number of threads, any instruction set: one set of bits.
TEST(Cells, ARowsBitsFollowFromTheRowAlone) {
  Random random(6);
  struct Form {
    const char* op;
    int64_t gates;
    bool linear;
  };
  for (const Form& form : {Form{"LSTMCell", 4, false}, Form{"GRUCell", 3, false},
                           Form{"GRUCell", 3, true}, Form{"RNNCell", 1, false}}) {
    const CellCase cell(random, 70, 40, 90, form.gates, form.gates + (form.linear ? 1 : 0));
    const bool lstm = form.gates == 4;
    const auto run = [&](VectorIsa isa, int64_t first, int64_t count, int threads) {
      const ScopedVectorIsa scope(isa);
      Call call{form.op,
                {cell.x.Rows(first, first + count), cell.h.Rows(first, first + count)},
                {{"hidden_size", int64_t{90}}},
                lstm ? 2 : 1};
      if (lstm) call.inputs.push_back(cell.c.Rows(first, first + count));
      call.inputs.insert(call.inputs.end(), {cell.w, cell.r, cell.b});
      if (form.linear) call.attributes.push_back({"linear_before_reset", true});
      call.constants = lstm ? std::vector<size_t>{3, 4, 5} : std::vector<size_t>{2, 3, 4};
      call.num_threads = threads;
      return *RunAll(call);
    };
    std::vector<std::vector<Tensor>> alone;
    for (int64_t row = 0; row < 70; ++row) alone.push_back(run(VectorIsa::kPlain, row, 1, 1));
    for (const int64_t count : {1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 70}) {
      for (const VectorIsa isa :
           {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512, VectorIsa::kAmx}) {
        const int64_t first = random.Int(0, 70 - count);
        const std::vector<Tensor> out = run(isa, first, count, count % 2 == 0 ? 1 : 2);
        for (int64_t row = 0; row < count; ++row) {
          for (size_t i = 0; i < out.size(); ++i) {
            ASSERT_TRUE(
                SameBits(out[i].Rows(row, row + 1), alone[static_cast<size_t>(first + row)][i]))
                << form.op << " row " << row << " of " << count;
          }
        }
      }
    }
  }
}

// Cells that are computed in tiles of rows and units (ops/kernels/cells.h) against the passes
// over all rows that a cell with clipping takes, here at a bound that nothing reaches: the same
// formulas in the same order, so the same bits.
class CellTiles : public ::testing::TestWithParam<std::tuple<VectorIsa, bool, bool>> {};

TEST_P(CellTiles, HaveTheBitsOfWholePasses) {
  const auto [isa, lstm, has_bias] = GetParam();
  const ScopedVectorIsa scope(isa);
  if (CurrentVectorIsa() != isa) {
    GTEST_SKIP() << "not on this machine";
  }
  Random random(9);
  const int64_t gates = lstm ? 4 : 3;
  struct Extents {
    int64_t rows, input, hidden;
  };
  // Units in whole strips and not, one tile and several of rows and of units, also of both, a
  // thread and two.
  for (const Extents& extents :
       {Extents{1, 5, 32}, Extents{3, 40, 96}, Extents{57, 20, 64}, Extents{115, 8, 30},
        Extents{60, 400, 160}, Extents{150, 400, 160}}) {
    const auto [rows, input, hidden] = extents;
    if (isa == VectorIsa::kPlain && input == 400) {
      continue;  // takes seconds
    }
    const CellCase cell(random, rows, input, hidden, gates, 4);
    const Tensor product = random.Floats({rows, gates * hidden}, -3, 3);
    for (const bool is_product : {true, false}) {
      Call call{lstm ? "LSTMCell" : "GRUCell",
                {is_product ? product : cell.x, cell.h},
                {{"hidden_size", hidden}, {"input_is_product", is_product}},
                lstm ? 2 : 1};
      if (lstm) {
        call.inputs.push_back(cell.c);
      } else {
        call.attributes.push_back({"linear_before_reset", true});
      }
      const size_t w = call.inputs.size();
      call.inputs.insert(call.inputs.end(), {is_product ? Tensor() : cell.w, cell.r});
      call.constants = is_product ? std::vector<size_t>{w + 1} : std::vector<size_t>{w, w + 1};
      if (has_bias) {
        call.inputs.push_back(cell.b);
      }
      for (const int threads : {1, 2}) {
        call.num_threads = threads;
        const std::vector<Tensor> tiled = *RunAll(call);
        Call whole = call;
        whole.attributes.push_back({"clip", 1e30});
        const std::vector<Tensor> expected = *RunAll(whole);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(SameBits(tiled[i], expected[i]))
              << rows << " rows of " << hidden << ", input_is_product " << is_product << ", "
              << threads << " threads, output " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CellTiles,
                         ::testing::Combine(::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2,
                                                              VectorIsa::kAvx512, VectorIsa::kAmx),
                                            ::testing::Bool(), ::testing::Bool()));

TEST(Cells, Errors) {
  Random random(7);
  const CellCase cell(random, 2, 3, 4, 4, 4);
  using Extra = std::vector<std::pair<std::string, AttributeValue>>;
  const auto error = [&](Extra extra, int changed = -1, Tensor input = {}) {
    Call call{"LSTMCell", {cell.x, cell.h, cell.c, cell.w, cell.r, cell.b}, std::move(extra), 2};
    if (changed >= 0) call.inputs[static_cast<size_t>(changed)] = input;
    return ErrorOf(call);
  };
  const std::pair<std::string, AttributeValue> size = {"hidden_size", int64_t{4}};
  EXPECT_EQ(error({size}), "");
  EXPECT_THAT(error({}), HasSubstr("hidden_size: 0"));
  EXPECT_THAT(error({{"hidden_size", int64_t{5}}}), HasSubstr("H: extent 4 of axis 1"));
  EXPECT_THAT(error({size, {"clip", -1.0}}), HasSubstr("clip: -1 must not be negative"));
  EXPECT_THAT(error({size, {"weights_format", std::string("iofc")}}), HasSubstr("'iofc'"));
  EXPECT_THAT(error({size, {"activations", std::vector<std::string>{"sigmoid", "tanh", "swish"}}}),
              HasSubstr("'swish' is not supported, only sigmoid"));
  EXPECT_THAT(error({size, {"activations", std::vector<std::string>{"tanh"}}}),
              HasSubstr("the cell has 3 activations"));
  EXPECT_THAT(error({size}, 0, random.Floats({3, 3})), HasSubstr("H: extent 2 of axis 0"));
  EXPECT_THAT(error({size}, 3, random.Floats({12, 3})), HasSubstr("W: extent 12 of axis 0"));
  EXPECT_THAT(error({size}, 4, random.Floats({16, 5})), HasSubstr("R: extent 5 of axis 1"));
  EXPECT_THAT(error({size}, 5, random.Floats({12})), HasSubstr("B: extent 12"));
  EXPECT_THAT(error({size}, 1, I64({2, 4}, std::vector<int64_t>(8))),
              HasSubstr("H: element type i64"));
  EXPECT_THAT(ErrorOf({"LSTMCell",
                       {cell.x, cell.h, cell.c, random.Floats({16, 6}), cell.b},
                       {size, {"weights_joined", true}},
                       2}),
              HasSubstr("W: extent 6 of axis 1"));
}

}  // namespace
}  // namespace beamwright::ops
