// beamwright-graph, run as people run it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/numpy/npz.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using testing_tools::Outcome;
using testing_tools::TempPath;
using testing_tools::WriteFile;

Outcome Tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BEAMWRIGHT_GRAPH_PROGRAM);
  return testing_tools::RunProgram(arguments);
}

void ExpectFailure(const Outcome& outcome, int exit_code, const std::string& piece) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.errors;
  EXPECT_THAT(outcome.errors, StartsWith("beamwright-graph: "));
  EXPECT_THAT(outcome.errors, HasSubstr(piece));
  EXPECT_THAT(outcome.errors, EndsWith("\n"));
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
}

TEST(GraphTool, HelpIsACommandAndNamesAreSuggested) {
  EXPECT_EQ(Tool({"help", "init"}).output, Tool({"init", "--help"}).output);
  EXPECT_THAT(Tool({"help", "init"}).output, HasSubstr("beamwright-graph init encoder.onnx"));
  ExpectFailure(Tool({"operator"}), 2, "did you mean operators?");
  ExpectFailure(Tool({"bench", "x.onnx", "--lenght", "4"}), 2, "did you mean --length?");
}

// sum = a + b with a of two elements a row; the second output is a itself.
std::string SumModel(const std::string& operation = "Add") {
  const std::string port = "<dim>-1</dim><dim>2</dim></port>";
  const auto parameter = [&](const char* id, const char* name) {
    return absl::StrCat("<layer id=\"", id, "\" name=\"", name,
                        "\" type=\"Parameter\"><data element_type=\"f32\" shape=\"?,2\"/>",
                        "<output><port id=\"0\" precision=\"FP32\">", port, "</output></layer>");
  };
  const auto result = [&](const char* id, const char* name) {
    return absl::StrCat("<layer id=\"", id, "\" name=\"", name,
                        "\" type=\"Result\"><input><port id=\"0\">", port, "</input></layer>");
  };
  const auto edge = [](int from, int from_port, int to, int to_port) {
    return absl::StrCat("<edge from-layer=\"", from, "\" from-port=\"", from_port, "\" to-layer=\"",
                        to, "\" to-port=\"", to_port, "\"/>");
  };
  return absl::StrCat(
      "<net name=\"sum\" version=\"11\"><layers>", parameter("0", "a"), parameter("1", "b"),
      "<layer id=\"2\" name=\"plus\" type=\"", operation, "\"><input><port id=\"0\">", port,
      "<port id=\"1\">", port, "</input><output><port id=\"2\" precision=\"FP32\" names=\"sum\">",
      port, "</output></layer>", result("3", "out"), result("4", "same"), "</layers><edges>",
      edge(0, 0, 2, 0), edge(1, 0, 2, 1), edge(2, 2, 3, 0), edge(0, 0, 4, 0), "</edges></net>");
}

std::string SumPath() {
  const std::string path = TempPath("sum.xml");
  WriteFile(path, SumModel());
  return path;
}

Tensor Floats(Shape shape, const std::vector<float>& values) {
  return Tensor::Of<float>(std::move(shape), values);
}

TEST(GraphToolTest, NonsenseCommandLines) {
  ExpectFailure(Tool({}), 2, "subcommand is required");
  ExpectFailure(Tool({"dance"}), 2, "dance");
  ExpectFailure(Tool({"show"}), 2, "FILE is required");
  ExpectFailure(Tool({"show", "a.xml", "--loud"}), 2, "--loud");
  ExpectFailure(Tool({"run", "a.xml"}), 2, "--inputs is required");
  ExpectFailure(Tool({"run", "a.xml", "--inputs", "i.npz"}), 2, "--outputs is required");
  for (const char* threads : {"0", "-1", "many", "1025", ""}) {
    ExpectFailure(Tool({"run", "a.xml", "--inputs", "i", "--outputs", "o", "--threads", threads}),
                  2, "--threads");
  }
}

TEST(GraphToolTest, Version) {
  const Outcome version = Tool({"--version"});
  EXPECT_EQ(version.exit_code, 0) << version.errors;
  EXPECT_THAT(version.output, ::testing::MatchesRegex("beamwright-graph [0-9.]+\n"));
}

TEST(GraphToolTest, AFullStandardOutputIsAnError) {
  const Outcome outcome = testing_tools::RunProgram(
      {"/bin/sh", "-c", "exec " BEAMWRIGHT_GRAPH_PROGRAM " operators > /dev/full"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.errors, "beamwright-graph: cannot write to standard output\n");
}

TEST(GraphToolTest, CheckOfAModelsFolderNamesItsVersions) {
  const std::string folder = TempPath("model");
  std::filesystem::create_directories(folder + "/1");
  WriteFile(folder + "/1/model.textproto", "");
  const Outcome outcome = Tool({"check", folder});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("; check " + folder + "/1\n"));
}

TEST(GraphToolTest, Help) {
  const Outcome all = Tool({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.errors, IsEmpty());
  for (const char* piece : {"show", "run", "check", "bench", "init", "operators", "Exit codes"}) {
    EXPECT_THAT(all.output, HasSubstr(piece));
  }
  const Outcome run = Tool({"run", "--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* piece : {"--inputs", "--outputs", "--threads", ".npz"}) {
    EXPECT_THAT(run.output, HasSubstr(piece));
  }
}

TEST(GraphToolTest, ShowNamesPortsAndNodes) {
  const Outcome shown = Tool({"show", SumPath()});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_THAT(shown.errors, IsEmpty());
  for (const char* piece :
       {"graph 'sum'", "'a'", "'b'", "'sum'", "f32[?, 2]", "Add 'plus' (0, 1) f32[?, 2]",
        "constants: 0 tensors", "open extents: 'a' on axis 0; 'b' on axis 0\n"}) {
    EXPECT_THAT(shown.output, HasSubstr(piece));
  }
}

TEST(GraphToolTest, ShowPrintsLoopsOfTheDefaultModel) {
  const std::string path = absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/p2g-en/1/decoder.xml");
  const Outcome shown = Tool({"show", path});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  for (const char* piece :
       {"'tokens'", "i64[?, ?]", "'logits'", "Loop 'decoder.loop'", "slices of axis 1",
        "elements 0 to -1, forward, parts of 1", "the same in each iteration",
        "later the back edge", "joined along axis 1", "value of the last iteration",
        "body:", "LSTMCell", "hidden_size=224"}) {
    EXPECT_THAT(shown.output, HasSubstr(piece));
  }
  EXPECT_THAT(shown.output, Not(HasSubstr("remark")));
  const Outcome json = Tool({"show", path, "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  WriteFile(TempPath("shown.json"), json.output);
  const Outcome checked = testing_tools::RunProgram(
      {BEAMWRIGHT_NUMPY_PYTHON, "-c",
       absl::StrCat("import json\nd = json.load(open('", TempPath("shown.json"), "'))\n",
                    "g = d['graph']\n"
                    "assert [i['name'] for i in g['inputs']][:2] == ['tokens', 'memory']\n"
                    "assert g['inputs'][1]['shape'] == [-1, -1, 448]\n"
                    "loop = [n for n in g['nodes'] if n['op'] == 'Loop'][0]['loop']\n"
                    "assert [i['kind'] for i in loop['inputs']].count('carried') == 4\n"
                    "ops = [n['op'] for n in loop['body']['nodes']]\n"
                    "assert ops.count('LSTMCell') == 2\n"
                    "assert d['constants']['bytes'] > 1000000 and d['remarks'] == []\n")});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
}

TEST(GraphToolTest, ShowWorksWithoutTheOperators) {
  const std::string path = TempPath("odd.xml");
  WriteFile(path, SumModel("Fancy&#10;Op"));
  const Outcome shown = Tool({"show", path});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_THAT(shown.output, HasSubstr("operator not supported: Fancy\\nOp 'plus'"));
  EXPECT_THAT(shown.output, HasSubstr("f32[?, 2]"));
  TensorMap inputs;
  inputs["a"] = inputs["b"] = Floats({1, 2}, {1, 2});
  ASSERT_TRUE(WriteNpz(TempPath("in.npz"), inputs).ok());
  ExpectFailure(
      Tool({"run", path, "--inputs", TempPath("in.npz"), "--outputs", TempPath("out.npz")}), 1,
      "layer 2 'plus'");
}

TEST(GraphToolTest, ShowRefusesBadFiles) {
  ExpectFailure(Tool({"show", "/nonexistent.xml"}), 1, "/nonexistent.xml");
  WriteFile(TempPath("broken.xml"), "<net><layers>");
  ExpectFailure(Tool({"show", TempPath("broken.xml")}), 1, "not well-formed XML");
  ExpectFailure(Tool({"show", TempPath("")}), 1, "is not the name of a graph file");
  const std::string folder = TempPath("folder.xml");
  std::filesystem::create_directory(folder);
  ExpectFailure(Tool({"show", folder}), 1, "not a regular file");
}

TEST(GraphToolTest, RunComputesAndWritesOutputs) {
  TensorMap inputs;
  inputs["a"] = Floats({2, 2}, {1, 2, 3, 4});
  inputs["b"] = Floats({1, 2}, {10, 20});
  ASSERT_TRUE(WriteNpz(TempPath("in.npz"), inputs).ok());
  for (const char* threads : {"1", "3"}) {
    const Outcome run = Tool({"run", SumPath(), "--inputs", TempPath("in.npz"), "--outputs",
                              TempPath("out.npz"), "--threads", threads});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(run.output, "same  f32[2, 2]\nsum  f32[2, 2]\n");
    const absl::StatusOr<TensorMap> outputs = ReadNpz(TempPath("out.npz"));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), 2u);
    EXPECT_THAT(outputs->at("sum").span<float>(), ElementsAre(11, 22, 13, 24));
    EXPECT_THAT(outputs->at("same").span<float>(), ElementsAre(1, 2, 3, 4));
  }
}

TEST(GraphToolTest, RunNamesAllFaultyInputsAtOnce) {
  TensorMap inputs;
  inputs["c"] = Floats({1}, {1});
  inputs["a"] = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(WriteNpz(TempPath("in.npz"), inputs).ok());
  const Outcome run =
      Tool({"run", SumPath(), "--inputs", TempPath("in.npz"), "--outputs", TempPath("no.npz")});
  ExpectFailure(run, 1, "'a' is f32[2, 3]");
  EXPECT_THAT(run.errors, HasSubstr("'b' is missing"));
  EXPECT_THAT(run.errors, HasSubstr("'c' is not known"));
  EXPECT_THAT(run.errors, HasSubstr("the model's inputs are: 'a' f32[?, 2], 'b' f32[?, 2]"));
  ExpectFailure(
      Tool({"run", SumPath(), "--inputs", "/nonexistent.npz", "--outputs", TempPath("no.npz")}), 1,
      "/nonexistent.npz");
  inputs = {{"a", Floats({1, 2}, {1, 2})}, {"b", Floats({1, 2}, {1, 2})}};
  ASSERT_TRUE(WriteNpz(TempPath("in.npz"), inputs).ok());
  ExpectFailure(
      Tool({"run", SumPath(), "--inputs", TempPath("in.npz"), "--outputs", "/nonexistent/out.npz"}),
      1, "/nonexistent/out.npz");
}

// Each edge of the text joins two of its nodes, and only back edges are dashed.
TEST(GraphTool, ShowDrawsGraphs) {
  const Outcome shown =
      Tool({"show", "--dot", BEAMWRIGHT_SOURCE_DIR "/models/p2g-en/1/decoder.xml"});
  ASSERT_EQ(shown.exit_code, 0) << shown.errors;
  std::set<std::string> nodes;
  int dashed = 0;
  int clusters = 0;
  int depth = 0;
  std::vector<std::string> ends;
  std::istringstream lines(shown.output);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    ASSERT_FALSE(words.empty());
    depth += words.back() == "{" ? 1 : words.back() == "}" ? -1 : 0;
    clusters += words[0] == "subgraph" ? 1 : 0;
    dashed += line.find("style=dashed") != std::string::npos ? 1 : 0;
    if (words.size() > 3 && words[1] == "->") {
      ends.insert(ends.end(), {words[0], words[2]});
    } else if (words[0][0] == 'n') {
      nodes.insert(words[0]);
    }
  }
  for (const std::string& end : ends) {
    EXPECT_EQ(nodes.count(end), 1u) << end;
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(clusters, 1);
  EXPECT_EQ(dashed, 4);  // two LSTM cells
  EXPECT_THAT(shown.output, HasSubstr("LSTMCell"));
  ExpectFailure(Tool({"show", "a.xml", "--dot", "--json"}), 2, "--");
}

TEST(GraphTool, ChecksSeveralFiles) {
  const std::string decoder = BEAMWRIGHT_SOURCE_DIR "/models/p2g-en/1/decoder.xml";
  const std::string odd = TempPath("odd-check.xml");
  WriteFile(odd, SumModel("Fancy"));
  const Outcome outcome = Tool({"check", decoder, odd, "/nonexistent.xml"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr(decoder + ":\n  can be loaded\n"));
  EXPECT_THAT(outcome.output, HasSubstr("request by request, as they touch"));
  EXPECT_THAT(outcome.output, HasSubstr("MatMul 'attention.scores'"));
  EXPECT_THAT(outcome.output, HasSubstr("once per request: MatMul 'attention.keys'"));
  EXPECT_THAT(outcome.output, HasSubstr("operator not supported: Fancy 'plus'"));
  EXPECT_THAT(outcome.errors, HasSubstr("'/nonexistent.xml' can't be loaded"));
  EXPECT_THAT(outcome.errors, Not(HasSubstr("decoder.xml")));
}

TEST(GraphTool, BenchRunsEveryCombination) {
  const std::vector<std::string> arguments = {"bench",     SumPath(), "--batch",   "1,3",
                                              "--threads", "1,2",     "--seconds", "0"};
  const Outcome table = Tool(arguments);
  ASSERT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_EQ(std::count(table.output.begin(), table.output.end(), '\n'), 5) << table.output;
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  const Outcome json = Tool(with_json);
  WriteFile(TempPath("bench.json"), json.output);
  const Outcome checked = testing_tools::RunProgram(
      {BEAMWRIGHT_NUMPY_PYTHON, "-c",
       absl::StrCat("import json\nd = json.load(open('", TempPath("bench.json"), "'))\n",
                    "cases = [(c['batch'], c['length'], c['threads']) for c in d]\n"
                    "assert cases == [(1, 16, 1), (1, 16, 2), (3, 16, 1), (3, 16, 2)], cases\n"
                    "assert all(c['runs'] >= 1 for c in d)\n"
                    "assert all(0 <= c['min_ms'] <= c['median_ms'] <= c['max_ms'] for c in d)\n")});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors << json.output;
  ExpectFailure(Tool({"bench", SumPath(), "--batch", "0"}), 2, "--batch");
  ExpectFailure(Tool({"bench", SumPath(), "--batch", "1073741824"}), 1, "would be too large");
}

// States [layers, rows, width] have as many rows as the token: their second axis is not a length.
TEST(GraphTool, BenchCountsTheRowsOfStates) {
  const std::string decoder =
      testing_support::TestData("e2e/exports/layered_lstm/torchscript/decoder.onnx");
  const Outcome outcome = Tool({"bench", decoder, "--batch", "3", "--seconds", "0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST(GraphTool, BenchTakesInputsFromAFile) {
  const std::string inputs = TempPath("bench.npz");
  const Outcome saved = testing_tools::RunProgram(
      {BEAMWRIGHT_NUMPY_PYTHON, "-c",
       absl::StrCat("import numpy as np\nnp.savez('", inputs,
                    "', a=np.ones((2, 2), 'f4'), b=np.ones((2, 2), 'f4'))")});
  ASSERT_EQ(saved.exit_code, 0) << saved.errors;
  ExpectFailure(Tool({"bench", SumPath(), "--inputs", inputs, "--batch", "1"}), 2, "--inputs");
  ExpectFailure(Tool({"bench", SumPath(), "--inputs", "/nonexistent.npz"}), 1, "nonexistent");
  const Outcome outcome = Tool({"bench", SumPath(), "--inputs", inputs, "--seconds", "0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

// docs/operators.md ends with the table that the program prints, and `show` prints scopes in loop
// bodies.
TEST(GraphTool, DocumentsEveryOperator) {
  const Outcome table = Tool({"operators"});
  EXPECT_EQ(table.exit_code, 0);
  std::ifstream file(BEAMWRIGHT_SOURCE_DIR "/docs/operators.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(page, EndsWith(table.output));
}

TEST(GraphTool, ShowsScopes) {
  const Outcome shown = Tool({"show", BEAMWRIGHT_SOURCE_DIR "/models/p2g-en/1/decoder.xml"});
  EXPECT_THAT(shown.output, HasSubstr("MatMul 'attention.keys'"));
  std::istringstream lines(shown.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("'attention.keys'") != std::string::npos) {
      EXPECT_THAT(line, HasSubstr("# scope request; 100352 multiply-adds, "));
    }
  }
}

}  // namespace
}  // namespace beamwright::ops
