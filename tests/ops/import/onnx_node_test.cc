// ONNX's own node tests, as Debian's libonnx-testdata ships them: every one either passes or stands
// in onnx_node_skips.txt with the reason, and then must not pass.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "ops/base/file.h"
#include "ops/import/onnx_operators.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

// "<test or prefix*> <reason>" a line.
using Skips = std::vector<std::pair<std::string, std::string>>;

const Skips& ReadSkips() {
  static const auto* const skips = [] {
    auto* result = new Skips;
    std::ifstream file(std::string(BEAMWRIGHT_SOURCE_DIR) +
                       "/tests/ops/import/testdata/onnx_node_skips.txt");
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (parts.size() == 2 && parts[0] != "#") {
        result->emplace_back(parts[0], parts[1]);
      }
    }
    return result;
  }();
  return *skips;
}

std::string SkipReason(const std::string& test) {
  for (const auto& [name, reason] : ReadSkips()) {
    const bool prefix = absl::EndsWith(name, "*");
    if (prefix ? absl::StartsWith(test, name.substr(0, name.size() - 1)) : test == name) {
      return reason;
    }
  }
  return "";
}

// The data has 16-bit floats of the second kind as u16.
Tensor As(DType dtype, const Tensor& tensor) {
  if (dtype != DType::kBF16 || tensor.dtype() != DType::kU16) {
    return tensor;
  }
  Tensor result(dtype, tensor.shape());
  std::memcpy(result.mutable_bytes(), tensor.bytes(), static_cast<size_t>(tensor.num_bytes()));
  return result;
}

// Whether every operator, in bodies too, means at kOldestOpset what it meant at `opset`: the first
// version in its table is the one in force at kOldestOpset, so it must not be younger than `opset`.
// The tables' versions are checked against ONNX's own in onnx_vocabulary_test.cc.
bool MeansTheSame(const onnx::GraphProto& graph, int64_t opset) {
  return std::all_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto& node) {
    const OnnxOperator* op = FindOnnxOperator(node.domain(), node.op_type());
    const bool bodies = std::all_of(
        node.attribute().begin(), node.attribute().end(),
        [&](const auto& each) { return !each.has_g() || MeansTheSame(each.g(), opset); });
    return bodies && (op == nullptr || op->versions.front() <= opset);
  });
}

// ONNX writes each test at the opset that last changed its operator, which for some is below the
// oldest that is supported (And: 7). Such a model is read as of that one, where nothing in it has
// changed its meaning in between.
absl::StatusOr<Graph> ReadModel(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  onnx::ModelProto model;
  if (!bytes.ok() || !model.ParseFromString(*bytes)) {
    return absl::InternalError(path + " can't be read");
  }
  for (auto& import : *model.mutable_opset_import()) {
    if (import.domain().empty() && MeansTheSame(model.graph(), import.version())) {
      import.set_version(std::max<int64_t>(import.version(), kOldestOpset));
    }
  }
  return fixture::Parse(model);
}

// "" if the model gives the expected outputs.
std::string Fault(const std::string& test) {
  const std::string folder = fixture::OnnxNodeTestFolder(test);
  absl::StatusOr<Graph> graph = ReadModel(folder + "/model.onnx");
  if (!graph.ok()) {
    return std::string(graph.status().message());
  }
  auto inputs = fixture::ReadTensors(folder + "/test_data_set_0", "input");
  const auto expected = fixture::ReadTensors(folder + "/test_data_set_0", "output");
  if (!inputs.ok() || !expected.ok()) {
    return std::string((inputs.ok() ? expected.status() : inputs.status()).message());
  }
  const auto model = Model::Compile(*std::move(graph));
  if (!model.ok()) {
    return std::string(model.status().message());
  }
  for (size_t i = 0; i < inputs->size() && i < (*model)->graph().parameters.size(); ++i) {
    const Graph& compiled = (*model)->graph();
    inputs->at(i) = As(compiled.node(compiled.parameters[i]).outputs[0].dtype, inputs->at(i));
  }
  std::vector<Tensor> outputs;
  const absl::Status status = (*model)->Run(ExecutionContext(), *inputs, outputs);
  if (!status.ok()) {
    return std::string(status.message());
  }
  if (outputs.size() != expected->size()) {
    return "another number of outputs";
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType dtype = outputs[i].dtype();
    const double tolerance = dtype == DType::kF16 ? 1e-3 : dtype == DType::kBF16 ? 1e-2 : 1e-5;
    const std::string difference =
        fixture::Difference(outputs[i], As(outputs[i].dtype(), expected->at(i)), tolerance);
    if (!difference.empty()) {
      return absl::StrCat("output ", i, " ", difference);
    }
  }
  return "";
}

class OnnxNodeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OnnxNodeTest, GivesThePublishedOutputs) {
  const std::string reason = SkipReason(GetParam());
  const std::string fault = Fault(GetParam());
  if (reason.empty()) {
    EXPECT_EQ(fault, "");
  } else {
    EXPECT_NE(fault, "") << "passes, but is skipped: " << reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Published, OnnxNodeTest, ::testing::ValuesIn(fixture::OnnxNodeTests()),
                         [](const auto& test) { return test.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxNodeTest);

}  // namespace
}  // namespace beamwright::ops
