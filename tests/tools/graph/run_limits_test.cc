// What `beamwright-graph run` may take: memory, time, and links that it follows; and what of a
// file's names reaches the terminal.
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"
#include "ops/numpy/npz.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_tools::Outcome;
using testing_tools::TempPath;

// A model of opset 17 with an input x of f32 [1, 1] and the output y; `text` is the rest of its
// graph.
std::string WriteModel(const std::string& name, const std::string& text) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 "
                   "} dim { dim_value: 1 } } } } } output { name: 'y' } ",
                   text),
      model.mutable_graph()));
  const std::string path = TempPath(name);
  testing_tools::WriteFile(path, model.SerializeAsString());
  return path;
}

Outcome RunOn(const std::string& model, std::vector<std::string> flags) {
  const std::string inputs = TempPath("x.npz");
  EXPECT_TRUE(WriteNpz(inputs, {{"x", Tensor::Of<float>({1, 1}, std::vector<float>{1})}}).ok());
  std::vector<std::string> arguments = {
      BEAMWRIGHT_GRAPH_PROGRAM, "run", model, "--inputs", inputs, "--outputs", TempPath("y.npz")};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return testing_tools::RunProgram(arguments);
}

// 4 MiB each: one fits, all of them do not. No chain of elementwise nodes, which would be run as
// one.
TEST(RunLimitsTest, TheSumOfWhatIsHeldIsBoundedAndTheNodeIsNamed) {
  const std::string model =
      WriteModel("tiles.onnx",
                 "initializer { name: 'n' dims: 2 data_type: 7 int64_data: 1024 int64_data: 1024 } "
                 "node { op_type: 'Tile' name: 'first' input: 'x' input: 'n' output: 'a' } "
                 "node { op_type: 'Softmax' name: 'second' input: 'a' output: 'b' } "
                 "node { op_type: 'Softmax' name: 'third' input: 'b' output: 'c' } "
                 "node { op_type: 'Add' name: 'fourth' input: 'a' input: 'c' output: 'y' }");
  const Outcome enough = RunOn(model, {"--max-memory", "64MiB"});
  EXPECT_EQ(enough.exit_code, 0) << enough.errors;
  const Outcome little = RunOn(model, {"--max-memory", "10MiB"});
  EXPECT_EQ(little.exit_code, 1);
  EXPECT_THAT(little.errors, AllOf(HasSubstr("'third'"), HasSubstr("does not fit into memory"),
                                   HasSubstr("10 MiB are allowed")));
  const Outcome least = RunOn(model, {"--max-memory", "1MiB"});
  EXPECT_THAT(least.errors, HasSubstr("'first'"));
  EXPECT_EQ(RunOn(model, {"--max-memory", "0"}).exit_code, 2);
}

TEST(RunLimitsTest, WithoutAFlagTwoGibibytesAreTheMost) {
  const std::string model = WriteModel(
      "three.onnx",
      "initializer { name: 'n' dims: 2 data_type: 7 int64_data: 30000 int64_data: 30000 } "
      "node { op_type: 'Tile' name: 'large' input: 'x' input: 'n' output: 'y' }");
  const Outcome outcome = RunOn(model, {});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("'large'"), HasSubstr("does not fit into memory")));
}

TEST(RunLimitsTest, AnArchiveThatUnpacksToMoreIsNotRead) {
  const std::string model =
      WriteModel("neg.onnx", "node { op_type: 'Neg' input: 'x' output: 'y' }");
  const std::string bomb = TempPath("bomb.npz");
  const Outcome made = testing_tools::RunProgram(
      {BEAMWRIGHT_NUMPY_PYTHON, "-c",
       "import sys, numpy; numpy.savez_compressed(sys.argv[1], x=numpy.zeros(1 << 23, 'f8'))",
       bomb});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  ASSERT_LT(std::filesystem::file_size(bomb), size_t{1} << 20);
  const Outcome outcome =
      testing_tools::RunProgram({BEAMWRIGHT_GRAPH_PROGRAM, "run", model, "--inputs", bomb,
                                 "--outputs", TempPath("y.npz"), "--max-memory", "32MiB"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("bomb.npz"), HasSubstr("unpacks to more")));
}

TEST(RunLimitsTest, TimeIsBoundedInLoopsAndInOneLongNode) {
  const std::string loop = WriteModel(
      "loop.onnx",
      "initializer { name: 'm' data_type: 7 int64_data: 1000000000000 } "
      "initializer { name: 'go' data_type: 9 int32_data: 1 } "
      "node { op_type: 'Loop' name: 'forever' input: 'm' input: 'go' input: 'x' output: 'y' "
      "attribute { name: 'body' type: GRAPH g { name: 'b' "
      "input { name: 'i' type { tensor_type { elem_type: 7 } } } "
      "input { name: 'c' type { tensor_type { elem_type: 9 } } } "
      "input { name: 's' type { tensor_type { elem_type: 1 } } } "
      "output { name: 'c1' } output { name: 's1' } "
      "node { op_type: 'Identity' input: 'c' output: 'c1' } "
      "node { op_type: 'Neg' input: 's' output: 's1' } } } }");
  const Outcome looped = RunOn(loop, {"--timeout", "0.3"});
  EXPECT_EQ(looped.exit_code, 1);
  EXPECT_THAT(looped.errors, HasSubstr("'forever'"));
  const std::string product =
      WriteModel("product.onnx",
                 "initializer { name: 'n' dims: 2 data_type: 7 int64_data: 6000 int64_data: 6000 } "
                 "node { op_type: 'Tile' input: 'x' input: 'n' output: 'a' } "
                 "node { op_type: 'MatMul' name: 'long' input: 'a' input: 'a' output: 'y' }");
  const Outcome computed = RunOn(product, {"--timeout", "0.3"});
  EXPECT_EQ(computed.exit_code, 1);
  EXPECT_THAT(computed.errors,
              AllOf(HasSubstr("product.onnx"), HasSubstr("--timeout 0.3 s is over")));
}

// The number of iterations of loops, 'm', and their condition.
std::string Trips(const std::string& count) {
  return absl::StrCat("initializer { name: 'm' data_type: 7 int64_data: ", count,
                      " } initializer { name: 'go' data_type: 9 int32_data: 1 } ");
}

// A loop of one state, s in its body: its output and those of the body besides the condition.
std::string LoopNode(const std::string& input, const std::string& output, const std::string& nodes,
                     const std::string& body_outputs) {
  return absl::StrCat(
      "node { op_type: 'Loop' input: 'm' input: 'go' input: '", input, "' ", output,
      " attribute { name: 'body' type: GRAPH g { name: 'b' "
      "input { name: 'i' type { tensor_type { elem_type: 7 } } } "
      "input { name: 'c' type { tensor_type { elem_type: 9 } } } "
      "input { name: 's' type { tensor_type { elem_type: 1 } } } output { name: 'c1' } ",
      body_outputs, " node { op_type: 'Identity' input: 'c' output: 'c1' } ", nodes, " } } }");
}

TEST(RunLimitsTest, StatesThatDoubleEndAtTheLimit) {
  const std::string model = WriteModel(
      "double.onnx",
      Trips("60") + LoopNode("x", "output: 'y'",
                             "node { op_type: 'Concat' name: 'twice' input: 's' input: 's' "
                             "output: 't' attribute { name: 'axis' type: INT i: 0 } }",
                             "output { name: 't' }"));
  const Outcome outcome = RunOn(model, {"--max-memory", "64MiB"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("Loop"), HasSubstr("'twice'"), HasSubstr("64 MiB are allowed")));
}

// 300 million parts of four bytes: each is a tensor of some hundred bytes until the loop ends.
TEST(RunLimitsTest, PartsThatALoopGathersCountAsTheTensorsThatTheyAre) {
  const std::string model = WriteModel(
      "gather.onnx", Trips("300000000") + LoopNode("x", "output: 'z' output: 'y'",
                                                   "node { op_type: 'Neg' input: 's' output: 't' } "
                                                   "node { op_type: 'Neg' input: 's' output: 'u' }",
                                                   "output { name: 't' } output { name: 'u' }"));
  const Outcome outcome = RunOn(model, {"--max-memory", "32MiB"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("Loop"));
  const std::string before = "what ";
  const size_t at = outcome.errors.find(before);
  ASSERT_NE(at, std::string::npos) << outcome.errors;
  EXPECT_LT(std::atoll(outcome.errors.c_str() + at + before.size()), (32 << 20) / 400);
}

TEST(RunLimitsTest, LoopsInLoopsEndInTime) {
  std::string body = "node { op_type: 'Neg' input: 's' output: 't' }";
  for (int depth = 0; depth < 5; ++depth) {
    body = LoopNode("s", "output: 't'", body, "output { name: 't' }");
  }
  const std::string model =
      WriteModel("deep.onnx", Trips("4611686018427387904") +
                                  LoopNode("x", "output: 'y'", body, "output { name: 't' }"));
  const Outcome outcome = RunOn(model, {"--timeout", "0.3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("Loop"), HasSubstr("deadline passed")));
}

TEST(RunLimitsTest, LinksAreFollowedIntoTheFolderThatIsNamed) {
  const std::string text =
      "initializer { name: 'w' dims: 1 data_type: 1 data_location: EXTERNAL "
      "external_data { key: 'location' value: 'w.data' } } "
      "node { op_type: 'Add' input: 'x' input: 'w' output: 'y' }";
  std::filesystem::create_directories(TempPath("linked"));
  std::filesystem::create_directories(TempPath("blobs"));
  const std::string model = WriteModel("linked/m.onnx", text);
  testing_tools::WriteFile(TempPath("blobs/1"), std::string(4, '\0'));
  std::filesystem::create_symlink("../blobs/1", TempPath("linked/w.data"));
  const auto with = [&](const std::string& command, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {BEAMWRIGHT_GRAPH_PROGRAM, command, model});
    return testing_tools::RunProgram(flags);
  };
  for (const std::string command : {"check", "show"}) {
    EXPECT_EQ(with(command, {}).exit_code, 1) << command;
    const Outcome allowed = with(command, {"--allow-links", TempPath("blobs")});
    EXPECT_EQ(allowed.exit_code, 0) << command << allowed.errors << allowed.output;
  }
  EXPECT_THAT(RunOn(model, {}).errors, HasSubstr("outside of the model's folder"));
  EXPECT_EQ(RunOn(model, {"--allow-links", TempPath("blobs")}).exit_code, 0);
}

TEST(RunLimitsTest, NamesOfAFileReachTheTerminalAsUtf8) {
  const std::string path = WriteModel(
      "bad\x80name.onnx", "node { op_type: 'No\\377Such' name: 'n\\233m' input: 'x' output: 'y' }");
  for (const std::string command : {"check", "show"}) {
    const Outcome outcome = testing_tools::RunProgram({BEAMWRIGHT_GRAPH_PROGRAM, command, path});
    EXPECT_THAT(outcome.output + outcome.errors,
                AllOf(Not(HasSubstr("\xff")), Not(HasSubstr("\x9b")), HasSubstr("No\\xffSuch")))
        << command;
  }
}

}  // namespace
}  // namespace beamwright::ops
