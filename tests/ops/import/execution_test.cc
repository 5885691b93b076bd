// The TensorIterator document's example 2, run; and the files that OpenVINO itself wrote.
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

constexpr size_t kTime = 25;
constexpr size_t kInput = 512;
constexpr size_t kHidden = 256;
constexpr size_t kColumns = kInput + kHidden;

std::vector<float> RandomValues(size_t count, float scale, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(count);
  for (float& value : values) {
    value = uniform(random);
  }
  return values;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The loop that the document describes: gates in the order f, i, c, o; W's columns are x's, then
// h's.
std::vector<double> Reference(const std::vector<float>& x, std::vector<double> h,
                              std::vector<double> c, const std::vector<float>& w,
                              const std::vector<float>& b) {
  std::vector<double> all;
  for (size_t t = 0; t < kTime; ++t) {
    std::vector<double> gates(4 * kHidden);
    for (size_t row = 0; row < gates.size(); ++row) {
      double sum = b[row];
      for (size_t k = 0; k < kInput; ++k) {
        sum += double{w[row * kColumns + k]} * x[t * kInput + k];
      }
      for (size_t k = 0; k < kHidden; ++k) {
        sum += w[row * kColumns + kInput + k] * h[k];
      }
      gates[row] = sum;
    }
    for (size_t k = 0; k < kHidden; ++k) {
      c[k] = Sigmoid(gates[k]) * c[k] +
             Sigmoid(gates[kHidden + k]) * std::tanh(gates[2 * kHidden + k]);
      h[k] = Sigmoid(gates[3 * kHidden + k]) * std::tanh(c[k]);
    }
    all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

TEST(IrExecutionTest, DocumentExampleTwo) {
  std::mt19937 random(5);
  const std::vector<float> w = RandomValues(4 * kHidden * kColumns, 0.08f, random);
  const std::vector<float> b = RandomValues(4 * kHidden, 0.5f, random);
  const std::vector<float> x = RandomValues(kTime * kInput, 1, random);
  const std::vector<float> h = RandomValues(kHidden, 1, random);
  const std::vector<float> c = RandomValues(kHidden, 1, random);
  const int64_t patterns[] = {1, 512, 1, 1, 256};
  std::string weights(reinterpret_cast<const char*>(patterns), 16);
  weights.append(reinterpret_cast<const char*>(w.data()), w.size() * 4);
  weights.append(reinterpret_cast<const char*>(b.data()), b.size() * 4);
  weights.append(reinterpret_cast<const char*>(patterns + 2), 24);

  absl::StatusOr<Graph> graph = fixture::Parse(
      absl::StrReplaceAll(
          fixture::ReadTestFile("tests/ops/import/testdata/tensor_iterator_example_2.xml.txt"),
          {{" ...>", ">"}}),
      weights);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<std::unique_ptr<Model>> model = Model::Compile(*std::move(graph));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<Tensor> outputs;
  const absl::Status status =
      (*model)->Run(ExecutionContext(),
                    {Tensor::Of<float>({1, kTime, kInput}, x), Tensor::Of<float>({1, kHidden}, h),
                     Tensor::Of<float>({1, kHidden}, c)},
                    outputs);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(outputs.size(), 1u);
  ASSERT_EQ(outputs[0].shape(), (Shape{1, kTime, kHidden}));
  const std::vector<double> expected =
      Reference(x, {h.begin(), h.end()}, {c.begin(), c.end()}, w, b);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(outputs[0].data<float>()[i], expected[i], 1e-5) << "element " << i;
  }
}

TEST(IrExecutionTest, FilesWrittenByOpenVinoInfer) {
  for (const char* name : {"encoder", "decoder"}) {
    absl::StatusOr<Graph> graph =
        ReadOpenVinoIr(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/g2p-en/1/", name, ".xml"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const absl::StatusOr<GraphInfo> info = InferGraph(*graph, Operators());
    ASSERT_TRUE(info.ok()) << info.status();
  }
}

TEST(IrExecutionTest, DecoderIsOneLoopWhoseBackEdgesAreItsStates) {
  absl::StatusOr<Graph> graph =
      ReadOpenVinoIr(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/p2g-en/1/decoder.xml"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::string> inputs;
  for (const int node : graph->parameters) {
    inputs.push_back(PortName(*graph, node));
  }
  EXPECT_THAT(inputs, ::testing::ElementsAre("tokens", "memory", "h0_init", "c0_init", "h1_init",
                                             "c1_init"));
  EXPECT_EQ(PortName(*graph, graph->results[0]), "logits");
  const Node& node = fixture::Find(*graph, "decoder.loop");
  std::vector<int> kinds(4);
  for (const LoopInput& input : node.loop->inputs) {
    ++kinds[static_cast<size_t>(input.kind)];
  }
  EXPECT_THAT(kinds, ::testing::ElementsAre(1, 4, 1, 0));
  EXPECT_EQ(node.outputs[0].shape, PartialShape(Shape{-1, -1, 31}));
}

}  // namespace
}  // namespace beamwright::ops
