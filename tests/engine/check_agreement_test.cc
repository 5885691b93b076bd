// `beamwright-graph check` and the server's loader must agree on every graph file that the tests
// keep: what the one passes as a decoder the other serves, and what they refuse they refuse for the
// same reason.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "engine/model/decode_model.h"
#include "ops/base/file.h"
#include "ops/decoder/decoder_form.h"
#include "ops/import/graph_file.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/engine/table_bundle.h"
#include "tests/support/graph_builder.h"
#include "tests/support/test_data.h"
#include "tools/graph/check.h"
#include "tools/graph/commands.h"
#include "tools/graph/roles.h"

namespace beamwright::engine {
namespace {

namespace fs = std::filesystem;
using ops::GraphFindings;
using testing_support::TestData;

struct Tally {
  int served = 0;
  int refused = 0;  // as decoders
  int unreadable = 0;
  int no_decoder = 0;
};

// A bundle with this decoder alone, as a user would write it who knows the roles of its ports.
bundle::Bundle BundleOf(ops::Graph graph, const ops::DecoderRoles& roles) {
  bundle::Bundle bundle =
      engine_testing::TableBundle(engine_testing::RandomTable(1), engine_testing::TableOptions());
  bundle.encoder.reset();
  bundle.config.clear_encoder();
  bundle.decoder = std::move(graph);
  v1::DecoderConfig& config = *bundle.config.mutable_decoder();
  config.Clear();
  config.set_token_input(roles.token_input);
  for (const ops::StateRole& role : roles.states) {
    v1::StateConfig& state = *config.add_states();
    state.set_input(role.input);
    state.set_output(role.output);
  }
  for (const ops::MemoryRole& role : roles.memory) {
    config.add_memory()->set_input(role.input);
  }
  config.set_logits_output(roles.logits_output);
  config.set_attention_output(roles.attention_output);
  v1::TextConfig& target = *bundle.config.mutable_target();
  target.set_size(static_cast<int>(roles.target_ids > 0 ? roles.target_ids : 7));
  target.set_begin_token("0");
  target.clear_end_tokens();
  target.add_end_tokens("0");
  bundle.target = engine_testing::IdCodec(target);
  return bundle;
}

// As `check` and `init` guess them.
absl::StatusOr<ops::DecoderRoles> Roles(ops::Graph graph) {
  absl::StatusOr<ops::GraphInfo> info = InferGraph(graph, ops::Operators());
  absl::Status status =
      info.ok() ? FoldShapes(graph, *info, {ops::Operators()}).status() : info.status();
  if (status.ok()) {
    status = LeaveTheStep(graph);
  }
  std::vector<std::string> reasons;
  return status.ok() ? GuessDecoderRoles(graph, nullptr, {}, reasons) : status;
}

// The server's errors begin with the graph's file.
void ExpectReason(const absl::Status& server, const std::string& check) {
  EXPECT_TRUE(!check.empty() && absl::EndsWith(server.message(), check))
      << "the server: " << server << "\ncheck: " << check;
}

void Compare(const std::string& path, Tally& tally) {
  SCOPED_TRACE(path);
  const GraphFindings findings = ops::CheckFile(path, "");
  const absl::StatusOr<ops::Graph> graph = ops::ReadGraph(path, ops::ImportOptions());
  if (!graph.ok()) {
    ++tally.unreadable;
    EXPECT_FALSE(findings.ok()) << "the server: " << graph.status();
    if (findings.unsupported.empty()) {
      ExpectReason(graph.status(), std::string(findings.status.message()));
    }
    return;
  }
  const absl::StatusOr<ops::DecoderRoles> roles = Roles(*graph);
  if (!roles.ok()) {
    ++tally.no_decoder;
    EXPECT_FALSE(findings.step.has_value()) << roles.status();
    return;
  }
  const auto model = DecodeModel::Compile(BundleOf(*graph, *roles));
  ++(model.ok() ? tally.served : tally.refused);
  EXPECT_EQ(findings.step.has_value(), model.ok()) << model.status() << CheckText(findings, 0);
  if (model.ok()) {
    EXPECT_TRUE(findings.ok()) << findings.status;
  } else {
    ExpectReason(model.status(),
                 findings.status.ok() ? findings.no_step : std::string(findings.status.message()));
  }
}

std::vector<fs::path> FilesBelow(const std::string& folder) {
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files.insert(entry.path());
    }
  }
  return {files.begin(), files.end()};
}

void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST(CheckAgreement, OnGraphsOfExporters) {
  Tally tally;
  for (const std::string& folder :
       {std::string("models"), TestData("e2e/exports"), TestData("tools/graph/testdata")}) {
    for (const fs::path& path : FilesBelow(folder)) {
      if (path.extension() == ".onnx" || path.extension() == ".xml") {
        Compare(path.string(), tally);
      }
    }
  }
  EXPECT_GT(tally.served, 20);
  EXPECT_GT(tally.no_decoder, 10);  // encoders
}

// What fuzzing kept: an ONNX model as it is, or an IR's XML, a zero byte and its weights.
TEST(CheckAgreement, OnHostileGraphs) {
  Tally tally;
  const std::string stem = testing::TempDir() + "/beamwright-check-agreement";
  for (const fs::path& path : FilesBelow(TestData("fuzz/corpus/onnx"))) {
    SCOPED_TRACE(path);
    Write(stem + ".onnx", *ReadFile(path.string()));
    Compare(stem + ".onnx", tally);
  }
  for (const fs::path& path : FilesBelow(TestData("fuzz/corpus/openvino_ir"))) {
    SCOPED_TRACE(path);
    const std::string content = *ReadFile(path.string());
    const size_t end = std::min(content.find('\0'), content.size());
    Write(stem + ".xml", content.substr(0, end));
    Write(stem + ".bin", content.substr(std::min(end + 1, content.size())));
    Compare(stem + ".xml", tally);
  }
  EXPECT_GT(tally.served, 20);
  EXPECT_GT(tally.unreadable, 80);
}

// The sum of tokens and iteration numbers is the state, and its line of a table the scores.
ops::Graph CountingLoop() {
  testing_support::GraphBuilder body;
  const auto token = body.Parameter("x", ops::DType::kI64, {-1, 1});
  const auto state = body.Parameter("state", ops::DType::kI64, {-1});
  const auto iteration = body.Parameter("iteration", ops::DType::kI64, {});
  const auto sum = body.Add("Add", {state, body.Add("Squeeze", {token, body.Ints({1})})});
  const auto next = body.Add("FloorMod", {body.Add("Add", {sum, iteration}), body.Int(5)});
  const auto table = body.Constant(ops::Tensor::Of<float>({5, 2}, std::vector<float>(10)));
  const auto scores = body.Add("Gather", {table, next, body.Int(0)});
  body.Result("part", body.Add("Unsqueeze", {scores, body.Ints({1})}));
  body.Result("next", next);
  testing_support::GraphBuilder graph;
  const auto tokens = graph.Parameter("token", ops::DType::kI64, {-1, -1});
  const auto start = graph.Parameter("state", ops::DType::kI64, {-1});
  ops::Loop loop;
  loop.body = body.Build();
  ops::LoopInput count;
  count.kind = ops::LoopInput::Kind::kIteration;
  count.body_parameter = 2;
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 1), count};
  loop.outputs = {testing_support::Joined(0, 0, 1)};
  graph.Result("logits", graph.Loop({tokens, start}, std::move(loop), 1));
  return graph.Build();
}

TEST(CheckAgreement, OnALoopThatReadsItsIterationNumber) {
  const ops::Graph graph = CountingLoop();
  const auto roles = Roles(graph);
  ASSERT_TRUE(roles.ok()) << roles.status();
  const auto model = DecodeModel::Compile(BundleOf(graph, *roles));
  ASSERT_FALSE(model.ok());
  const GraphFindings findings = ops::CheckGraph(graph);
  EXPECT_FALSE(findings.ok());
  EXPECT_FALSE(findings.step.has_value());
  EXPECT_TRUE(absl::StrContains(findings.status.message(), "iteration number")) << findings.status;
  ExpectReason(model.status(), std::string(findings.status.message()));
}

}  // namespace
}  // namespace beamwright::engine
