// Sequences of recurrent cells against plain loops over time, items and elements, in double, for
// all cells, directions, layouts and orders of weights.
#include "ops/import/recurrent_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "ops/loop/model.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Cell = RecurrentSequence::Cell;
using Direction = RecurrentSequence::Direction;
using Layout = RecurrentSequence::Layout;
using Weights = RecurrentSequence::Weights;

using Index = std::vector<int64_t>;

// A tensor whose element at each index is what `element` says.
Tensor Fill(Shape shape, const std::function<double(const Index&)>& element) {
  Tensor tensor(DType::kF32, shape);
  Index index(shape.size(), 0);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = static_cast<float>(element(index));
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) {
      index[axis] = 0;
    }
  }
  return tensor;
}

double At(const Tensor& tensor, const Index& index) {
  int64_t flat = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    flat = flat * tensor.shape()[axis] + index[axis];
  }
  return tensor.data<float>()[flat];
}

struct Options {
  Cell cell = Cell::kLstm;
  Direction direction = Direction::kForward;
  Layout layout = Layout::kOnnx;
  Weights weights = Weights::kOnnx;
  bool lengths = false;
  bool initial = true;
  bool bias = true;
  bool peepholes = false;
  bool linear_before_reset = false;
  bool input_forget = false;
  double clip = 0;
  bool constant_weights = true;
};

// Numbers in one form of our own: x [T, B, I]; gates f i c o, z r h; biases apart; p f i o; states
// [D, B, H].
struct Data {
  static constexpr int64_t kTime = 4, kBatch = 3, kInput = 2, kHidden = 3;
  int64_t directions, gates;
  Tensor x, w, r, input_bias, state_bias, p, h0, c0;
  std::vector<int64_t> lengths = {2, 4, 0};

  Data(const Options& options, std::mt19937& random)
      : directions(options.direction == Direction::kBidirectional ? 2 : 1),
        gates(options.cell == Cell::kLstm  ? 4
              : options.cell == Cell::kGru ? 3
                                           : 1) {
    std::uniform_real_distribution<double> value(-1, 1);
    const auto any = [&](const Index&) { return value(random); };
    const auto given = [&](bool is) {
      return [&value, &random, is](const Index&) { return is ? value(random) : 0.0; };
    };
    x = Fill({kTime, kBatch, kInput}, any);
    w = Fill({directions, gates, kHidden, kInput}, any);
    r = Fill({directions, gates, kHidden, kHidden}, any);
    input_bias = Fill({directions, gates, kHidden}, given(options.bias));
    state_bias = Fill({directions, gates, kHidden}, given(options.bias));
    p = Fill({directions, 3, kHidden}, given(options.peepholes));
    h0 = Fill({directions, kBatch, kHidden}, given(options.initial));
    c0 = Fill({directions, kBatch, kHidden}, given(options.initial));
    if (!options.lengths) {
      lengths.assign(kBatch, kTime);
    }
  }
};

double S(double x) { return 1 / (1 + std::exp(-x)); }

// y [T, D, B, H], h and c [D, B, H].
struct Expected {
  Tensor y, h, c;
};

// One step of item b in direction d: h and c become the next ones.
void Step(const Options& options, const Data& data, int64_t d, int64_t t, int64_t b,
          std::vector<double>& h, std::vector<double>& c) {
  constexpr int64_t kHidden = Data::kHidden;
  const auto bound = [&](double z) {
    return options.clip > 0 ? std::clamp(z, -options.clip, options.clip) : z;
  };
  const auto from_x = [&](int64_t gate, int64_t k) {
    double sum = At(data.input_bias, {d, gate, k});
    for (int64_t i = 0; i < Data::kInput; ++i) {
      sum += At(data.w, {d, gate, k, i}) * At(data.x, {t, b, i});
    }
    return sum;
  };
  const auto from_h = [&](int64_t gate, int64_t k, const std::vector<double>& state) {
    double sum = 0;
    for (int64_t i = 0; i < kHidden; ++i) {
      sum += At(data.r, {d, gate, k, i}) * state[static_cast<size_t>(i)];
    }
    return sum;
  };
  const auto z = [&](int64_t gate, int64_t k) {
    return from_x(gate, k) + from_h(gate, k, h) + At(data.state_bias, {d, gate, k});
  };
  std::vector<double> next_h(kHidden);
  std::vector<double> next_c(kHidden);
  for (int64_t k = 0; k < kHidden; ++k) {
    const auto at = static_cast<size_t>(k);
    if (options.cell == Cell::kRnn) {
      next_h[at] = std::tanh(bound(z(0, k)));
    } else if (options.cell == Cell::kGru) {
      std::vector<double> reset_h = h;
      for (int64_t j = 0; j < kHidden; ++j) {
        reset_h[static_cast<size_t>(j)] *= S(bound(z(1, j)));
      }
      const double reset = S(bound(z(1, k)));
      const double candidate =
          options.linear_before_reset
              ? from_x(2, k) + reset * (from_h(2, k, h) + At(data.state_bias, {d, 2, k}))
              : from_x(2, k) + from_h(2, k, reset_h) + At(data.state_bias, {d, 2, k});
      const double update = S(bound(z(0, k)));
      next_h[at] = (1 - update) * std::tanh(bound(candidate)) + update * h[at];
    } else {
      const auto p = [&](int64_t gate) { return At(data.p, {d, gate, k}); };
      const double i = S(bound(z(1, k) + p(1) * c[at]));
      const double f = options.input_forget ? 1 - i : S(bound(z(0, k) + p(0) * c[at]));
      next_c[at] = f * c[at] + i * std::tanh(bound(z(2, k)));
      next_h[at] = S(bound(z(3, k) + p(2) * next_c[at])) * std::tanh(next_c[at]);
    }
  }
  h = next_h;
  c = next_c;
}

Expected Reference(const Options& options, const Data& data) {
  constexpr int64_t kHidden = Data::kHidden;
  Expected expected;
  const auto zero = [](const Index&) { return 0.0; };
  expected.y = Fill({Data::kTime, data.directions, Data::kBatch, kHidden}, zero);
  expected.h = Fill({data.directions, Data::kBatch, kHidden}, zero);
  expected.c = expected.h.Reshaped(expected.h.shape());
  expected.c = Fill(expected.h.shape(), zero);
  for (int64_t d = 0; d < data.directions; ++d) {
    const bool reverse = d == 1 || options.direction == Direction::kReverse;
    for (int64_t b = 0; b < Data::kBatch; ++b) {
      std::vector<double> h(kHidden);
      std::vector<double> c(kHidden);
      for (int64_t k = 0; k < kHidden; ++k) {
        h[static_cast<size_t>(k)] = At(data.h0, {d, b, k});
        c[static_cast<size_t>(k)] = At(data.c0, {d, b, k});
      }
      const int64_t length = data.lengths[static_cast<size_t>(b)];
      for (int64_t step = 0; step < length; ++step) {
        const int64_t t = reverse ? length - 1 - step : step;
        Step(options, data, d, t, b, h, c);
        for (int64_t k = 0; k < kHidden; ++k) {
          expected.y
              .mutable_data<float>()[((t * data.directions + d) * Data::kBatch + b) * kHidden + k] =
              static_cast<float>(h[static_cast<size_t>(k)]);
        }
      }
      for (int64_t k = 0; k < kHidden; ++k) {
        const int64_t at = (d * Data::kBatch + b) * kHidden + k;
        expected.h.mutable_data<float>()[at] = static_cast<float>(h[static_cast<size_t>(k)]);
        expected.c.mutable_data<float>()[at] = static_cast<float>(c[static_cast<size_t>(k)]);
      }
    }
  }
  return expected;
}

// The data in the file's forms.
struct FileForm {
  Tensor x, h0, c0, w, r, b, p;
};

FileForm ToFile(const Options& options, const Data& data) {
  constexpr int64_t kHidden = Data::kHidden;
  const int64_t d = data.directions;
  const bool onnx = options.weights == Weights::kOnnx;
  const bool batch_first = options.layout != Layout::kOnnx;
  const auto gate = [&](int64_t row) {  // our gate of the file's row
    const int64_t block = row / kHidden;
    const int64_t iofc[] = {1, 3, 0, 2};
    return onnx && options.cell == Cell::kLstm ? iofc[block] : block;
  };
  FileForm file;
  file.x = batch_first ? Fill({Data::kBatch, Data::kTime, Data::kInput},
                              [&](const Index& i) {
                                return At(data.x, {i[1], i[0], i[2]});
                              })
                       : data.x;
  const auto state = [&](const Tensor& tensor) {
    return batch_first ? Fill({Data::kBatch, d, kHidden},
                              [&](const Index& i) {
                                return At(tensor, {i[1], i[0], i[2]});
                              })
                       : tensor;
  };
  file.h0 = state(data.h0);
  file.c0 = state(data.c0);
  const auto weights = [&](const Tensor& tensor, int64_t columns) {
    return Fill({d, data.gates * kHidden, columns}, [&](const Index& i) {
      return At(tensor, {i[0], gate(i[1]), i[1] % kHidden, i[2]});
    });
  };
  file.w = weights(data.w, Data::kInput);
  file.r = weights(data.r, kHidden);
  const int64_t rows = data.gates * kHidden;
  if (onnx) {
    file.b = Fill({d, 2 * rows}, [&](const Index& i) {
      const Tensor& bias = i[1] < rows ? data.input_bias : data.state_bias;
      return At(bias, {i[0], gate(i[1] % rows), i[1] % kHidden});
    });
  } else {
    const bool apart = options.linear_before_reset;
    file.b = Fill({d, rows + (apart ? kHidden : 0)}, [&](const Index& i) {
      const int64_t block = i[1] / kHidden;
      const int64_t k = i[1] % kHidden;
      const bool input_only = apart && block == 2;
      const bool state_only = apart && block == 3;
      const int64_t g = state_only ? 2 : block;
      return (state_only ? 0 : At(data.input_bias, {i[0], g, k})) +
             (input_only ? 0 : At(data.state_bias, {i[0], g, k}));
    });
  }
  file.p = Fill({d, 3 * kHidden}, [&](const Index& i) {
    const int64_t iof[] = {1, 2, 0};
    const int64_t block = i[1] / kHidden;
    return At(data.p, {i[0], onnx ? iof[block] : block, i[1] % kHidden});
  });
  return file;
}

std::vector<Tensor> RunSequence(const Options& options, const Data& data, const FileForm& file) {
  testing_support::GraphBuilder builder;
  std::vector<Tensor> inputs;
  const auto input = [&](const std::string& name, const Tensor& tensor) {
    inputs.push_back(tensor);
    return builder.Parameter(name, tensor.dtype(), Shape(tensor.shape().size(), -1));
  };
  const auto weight = [&](const std::string& name, const Tensor& tensor) {
    return options.constant_weights ? builder.Constant(tensor) : input(name, tensor);
  };
  RecurrentSequence sequence;
  sequence.cell = options.cell;
  sequence.direction = options.direction;
  sequence.layout = options.layout;
  sequence.weights = options.weights;
  sequence.hidden_size = Data::kHidden;
  sequence.clip = options.clip;
  sequence.linear_before_reset = options.linear_before_reset;
  sequence.input_forget = options.input_forget;
  sequence.x = input("x", file.x);
  if (options.lengths) {
    sequence.lengths = input(
        "lengths", Tensor::Of<int32_t>({Data::kBatch}, std::vector<int32_t>(data.lengths.begin(),
                                                                            data.lengths.end())));
  }
  if (options.initial) {
    sequence.h0 = input("h0", file.h0);
    if (options.cell == Cell::kLstm) {
      sequence.c0 = input("c0", file.c0);
    }
  }
  sequence.w = weight("w", file.w);
  sequence.r = weight("r", file.r);
  if (options.bias) {
    sequence.b = weight("b", file.b);
  }
  if (options.peepholes) {
    sequence.p = weight("p", file.p);
  }
  Graph graph = builder.Build();
  const absl::StatusOr<RecurrentOutputs> outputs =
      AppendRecurrentSequence(sequence, "sequence", graph);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  for (const ValueId value : {outputs->y, outputs->h, outputs->c}) {
    if (value.present()) {
      Node result;
      result.op = "Result";
      result.inputs = {value};
      graph.results.push_back(static_cast<int>(graph.nodes.size()));
      graph.nodes.push_back(result);
    }
  }
  const absl::StatusOr<std::unique_ptr<Model>> model = Model::Compile(std::move(graph));
  if (!model.ok()) {
    ADD_FAILURE() << model.status();
    return {};
  }
  std::vector<Tensor> results;
  const absl::Status status = (*model)->Run(ExecutionContext(), inputs, results);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? results : std::vector<Tensor>();
}

void Check(const Options& options, std::mt19937& random) {
  const Data data(options, random);
  const Expected expected = Reference(options, data);
  const std::vector<Tensor> actual = RunSequence(options, data, ToFile(options, data));
  ASSERT_EQ(actual.size(), options.cell == Cell::kLstm ? 3u : 2u);
  const int64_t d = data.directions;
  const bool batch_first = options.layout != Layout::kOnnx;
  const Shape y_shape = options.layout == Layout::kOnnx
                            ? Shape{Data::kTime, d, Data::kBatch, Data::kHidden}
                        : options.layout == Layout::kOnnxBatchFirst
                            ? Shape{Data::kBatch, Data::kTime, d, Data::kHidden}
                            : Shape{Data::kBatch, d, Data::kTime, Data::kHidden};
  const Tensor y = Fill(y_shape, [&](const Index& i) {
    return options.layout == Layout::kOnnx             ? At(expected.y, i)
           : options.layout == Layout::kOnnxBatchFirst ? At(expected.y, {i[1], i[2], i[0], i[3]})
                                                       : At(expected.y, {i[2], i[1], i[0], i[3]});
  });
  const auto state = [&](const Tensor& tensor) {
    return batch_first ? Fill({Data::kBatch, d, Data::kHidden},
                              [&](const Index& i) {
                                return At(tensor, {i[1], i[0], i[2]});
                              })
                       : tensor;
  };
  const Tensor wanted[] = {y, state(expected.h), state(expected.c)};
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].shape(), wanted[i].shape()) << i;
    for (int64_t k = 0; k < wanted[i].num_elements(); ++k) {
      EXPECT_NEAR(actual[i].data<float>()[k], wanted[i].data<float>()[k], 3e-6)
          << "output " << i << " element " << k;
    }
  }
}

TEST(RecurrentSequence, EveryForm) {
  std::mt19937 random(5);
  for (const Cell cell : {Cell::kLstm, Cell::kGru, Cell::kRnn}) {
    for (const Direction direction :
         {Direction::kForward, Direction::kReverse, Direction::kBidirectional}) {
      for (const Layout layout : {Layout::kOnnx, Layout::kOnnxBatchFirst, Layout::kOpenVino}) {
        for (const Weights weights : {Weights::kOnnx, Weights::kOpenVino}) {
          for (const bool lengths : {false, true}) {
            SCOPED_TRACE(::testing::Message()
                         << "cell " << static_cast<int>(cell) << " direction "
                         << static_cast<int>(direction) << " layout " << static_cast<int>(layout)
                         << " weights " << static_cast<int>(weights) << " lengths " << lengths);
            Options options;
            options.cell = cell;
            options.direction = direction;
            options.layout = layout;
            options.weights = weights;
            options.lengths = lengths;
            Check(options, random);
          }
        }
      }
    }
  }
}

TEST(RecurrentSequence, Variants) {
  std::mt19937 random(6);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    Options options;
    options.cell = static_cast<Cell>(random() % 3);
    options.direction = static_cast<Direction>(random() % 3);
    options.weights = static_cast<Weights>(random() % 2);
    options.lengths = random() % 2 == 0;
    options.initial = random() % 2 == 0;
    options.bias = random() % 2 == 0;
    options.peepholes = options.cell == Cell::kLstm && random() % 2 == 0;
    options.input_forget = options.cell == Cell::kLstm && random() % 2 == 0;
    options.linear_before_reset = options.cell == Cell::kGru && random() % 2 == 0;
    options.clip = random() % 2 == 0 ? 0.3 : 0;
    options.constant_weights = random() % 2 == 0;
    Check(options, random);
  }
}

std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

// All iterations but the first run without tensors (ops/loop/sequence_driver.h); one alone has a
// first.
TEST(RecurrentSequence, HasTheBitsOfItsStepsOneByOne) {
  std::mt19937 random(8);
  for (const Cell cell : {Cell::kLstm, Cell::kGru}) {
    for (const Direction direction : {Direction::kForward, Direction::kReverse}) {
      Options options;
      options.cell = cell;
      options.direction = direction;
      options.linear_before_reset = cell == Cell::kGru;
      const Data data(options, random);
      const FileForm file = ToFile(options, data);
      const std::vector<Tensor> whole = RunSequence(options, data, file);
      FileForm step = file;
      for (int64_t i = 0; i < Data::kTime; ++i) {
        const int64_t t = direction == Direction::kForward ? i : Data::kTime - 1 - i;
        step.x = file.x.Rows(t, t + 1);
        const std::vector<Tensor> one = RunSequence(options, data, step);
        EXPECT_EQ(Floats(one[0]), Floats(whole[0].Rows(t, t + 1))) << t;
        step.h0 = one[1];
        step.c0 = cell == Cell::kLstm ? one[2] : step.c0;
      }
      EXPECT_EQ(Floats(whole[1]), Floats(step.h0));
      EXPECT_TRUE(cell == Cell::kGru || Floats(whole[2]) == Floats(step.c0));

      options.layout = Layout::kOnnxBatchFirst;  // parts do not stand together
      const std::vector<Tensor> turned = RunSequence(options, data, ToFile(options, data));
      const Tensor y = Fill(whole[0].shape(), [&](const Index& i) {
        return At(turned[0], {i[2], i[0], i[1], i[3]});
      });
      EXPECT_EQ(Floats(y), Floats(whole[0]));
    }
  }
}

// What stands behind an item's end, even NaN, reaches nothing.
TEST(RecurrentSequence, NothingBehindTheEndIsRead) {
  for (const Direction direction : {Direction::kForward, Direction::kReverse}) {
    std::mt19937 random(7);
    Options options;
    options.direction = direction;
    options.lengths = true;
    const Data data(options, random);
    FileForm file = ToFile(options, data);
    const std::vector<Tensor> clean = RunSequence(options, data, file);
    file.x = Fill(file.x.shape(), [&](const Index& i) {
      return i[0] < data.lengths[static_cast<size_t>(i[1])] ? At(data.x, i) : NAN;
    });
    const std::vector<Tensor> dirty = RunSequence(options, data, file);
    for (size_t i = 0; i < clean.size(); ++i) {
      EXPECT_EQ(Floats(clean[i]), Floats(dirty[i]));
    }
  }
}

TEST(RecurrentSequence, LengthsAreChecked) {
  std::mt19937 random(8);
  Options options;
  options.lengths = true;
  Data data(options, random);
  const FileForm file = ToFile(options, data);
  testing_support::GraphBuilder builder;
  RecurrentSequence sequence;
  sequence.layout = Layout::kOnnx;
  sequence.weights = Weights::kOnnx;
  sequence.x = builder.Parameter("x", DType::kF32, {-1, -1, 2});
  sequence.lengths = builder.Parameter("lengths", DType::kI64, {-1});
  sequence.w = builder.Constant(file.w);
  sequence.r = builder.Constant(file.r);
  Graph graph = builder.Build();
  graph.node(sequence.r.node).outputs[0].shape = PartialShape(file.r.shape());
  const auto outputs = AppendRecurrentSequence(sequence, "sequence", graph);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  Node result;
  result.op = "Result";
  result.inputs = {outputs->h};
  graph.results = {static_cast<int>(graph.nodes.size())};
  graph.nodes.push_back(result);
  const auto model = Model::Compile(std::move(graph));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto error = [&](const std::vector<int64_t>& lengths) {
    std::vector<Tensor> results;
    const std::vector<Tensor> inputs = {
        data.x, Tensor::Of<int64_t>({static_cast<int64_t>(lengths.size())}, lengths)};
    return std::string((*model)->Run(ExecutionContext(), inputs, results).message());
  };
  EXPECT_EQ(error({0, 4, 1}), "");
  EXPECT_THAT(error({0, 5, 1}), HasSubstr("lengths[1]: 5 is outside [0, 4]"));
  EXPECT_THAT(error({0, 1, -1}), HasSubstr("lengths[2]: -1 is outside [0, 4]"));
  EXPECT_THAT(error({0, 1}), HasSubstr("lengths are [2]; input port 1 is [3, 3]"));
}

TEST(RecurrentSequence, HiddenSizeAndActivationsAreChecked) {
  const auto error = [](const std::function<void(RecurrentSequence&)>& change) {
    testing_support::GraphBuilder builder;
    RecurrentSequence sequence;
    sequence.x = builder.Parameter("x", DType::kF32, {-1, -1, 2});
    sequence.w = builder.Parameter("w", DType::kF32, {-1, -1, -1});
    sequence.r = builder.Parameter("r", DType::kF32, {-1, -1, -1});
    change(sequence);
    Graph graph = builder.Build();
    return std::string(AppendRecurrentSequence(sequence, "s", graph).status().message());
  };
  EXPECT_THAT(error([](RecurrentSequence&) {}), HasSubstr("hidden_size is not given"));
  EXPECT_THAT(error([](RecurrentSequence& s) { s.hidden_size = -3; }),
              HasSubstr("hidden_size -3 must be in"));
  EXPECT_THAT(error([](RecurrentSequence& s) {
                s.hidden_size = 3;
                s.activations.resize(2);
              }),
              HasSubstr("for 2 directions, not 1"));
}

// Parameters are consumed by the activations that take them.
TEST(RecurrentSequence, OnnxActivationParameters) {
  RecurrentSequence sequence;
  sequence.direction = Direction::kBidirectional;
  ASSERT_TRUE(SetOnnxActivations({"Sigmoid", "HardSigmoid", "Tanh", "LeakyRelu", "Affine", "Relu"},
                                 {0.3, 0.4, 0.5}, {0.6, 0.7}, sequence)
                  .ok());
  ASSERT_EQ(sequence.activations.size(), 2u);
  EXPECT_THAT(sequence.activations[0].alpha, ElementsAre(0, 0.3, 0));
  EXPECT_THAT(sequence.activations[0].beta, ElementsAre(0, 0.6, 0));
  EXPECT_THAT(sequence.activations[1].names, ElementsAre("LeakyRelu", "Affine", "Relu"));
  EXPECT_THAT(sequence.activations[1].alpha, ElementsAre(0.4, 0.5));
  EXPECT_THAT(sequence.activations[1].beta, ElementsAre(0, 0.7));
  EXPECT_THAT(std::string(SetOnnxActivations({"Tanh"}, {}, {}, sequence).message()),
              HasSubstr("has 1 entries; the node has 6"));
  sequence.direction = Direction::kForward;
  EXPECT_THAT(
      std::string(SetOnnxActivations({"Sigmoid", "Tanh", "Tanh"}, {0.1}, {}, sequence).message()),
      HasSubstr("the activations take 0 and 0"));
}

}  // namespace
}  // namespace beamwright::ops
