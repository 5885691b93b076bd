// Canary's encoder as sherpa-onnx's script exports it: sources of one length are proven apart, and
// together each gives the bits that it gives alone; others run apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "tests/support/run_graph.h"
#include "tests/support/test_data.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kBins = 128;

Tensor NoiseOf(Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0, 1);
  Tensor noise(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < noise.num_elements(); ++i) {
    noise.mutable_data<float>()[i] = value(random);
  }
  return noise;
}

TEST(ExportedEncoders, SourcesOfOneLengthRunTogether) {
  const auto graph =
      ReadGraph(testing_support::TestData("e2e/exports/canary_speech/nemo/encoder.onnx"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  RowProof proof;
  const auto model = Model::Compile(*graph, Precision::kF32, {0, 1, -1, 1}, proof);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(proof.separable) << proof.reason;
  EXPECT_FALSE(proof.lengths.holds);
  constexpr int64_t kRows = 3;
  for (const int64_t length : {1, 8, 9, 41, 96}) {
    SCOPED_TRACE(length);
    const Tensor source = NoiseOf({kRows, length, kBins}, 7);
    const Tensor lengths = Tensor::Of<int64_t>({kRows}, std::vector<int64_t>(kRows, length));
    std::vector<Tensor> together;
    const absl::Status status = (*model)->Run(ExecutionContext(), {{source, lengths}}, together);
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t row = 0; row < kRows; ++row) {
      const std::vector<Tensor> own = {source.Rows(row, row + 1), lengths.Rows(row, row + 1)};
      std::vector<Tensor> alone;
      ASSERT_TRUE((*model)->Run(ExecutionContext(), own, alone).ok());
      std::vector<Tensor> part;
      for (size_t i = 0; i < together.size(); ++i) {
        ASSERT_EQ(proof.result_axes[i], 0);
        part.push_back(together[i].Rows(row, row + 1));
      }
      testing_support::ExpectSameBits(part, alone);
    }
  }
}

}  // namespace
}  // namespace beamwright::ops
