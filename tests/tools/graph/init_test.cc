// beamwright-graph init, run as people run it; and examples/bring_your_model.py, whose files it
// takes. That a server loads what it writes is tests/tools/bundle/init_bundle_test.cc's business.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/numpy/npz.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/exports.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_tools::Exported;
using testing_tools::Outcome;
using testing_tools::ReadWholeFile;
using testing_tools::RunProgram;
using testing_tools::TempPath;
using testing_tools::WriteFile;

const std::string& DefaultModel() {
  static const std::string* const path = new std::string(BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1/");
  return *path;
}

// A folder that does not exist yet.
std::string FreshFolder() {
  static int count = 0;
  return TempPath(absl::StrCat("bundle", ++count));
}

Outcome Init(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {BEAMWRIGHT_GRAPH_PROGRAM, "init"});
  return RunProgram(arguments);
}

std::vector<std::string> Files(const std::string& folder) {
  return {absl::StrCat(folder, "/encoder.onnx"), absl::StrCat(folder, "/decoder.onnx")};
}

std::vector<std::string> With(std::vector<std::string> first, std::vector<std::string> then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

void ExpectRefusal(const Outcome& outcome, const std::string& out, const std::string& piece) {
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.errors, HasSubstr(piece));
  EXPECT_FALSE(std::filesystem::exists(out)) << "something is written";
}

TEST(InitTest, DefaultModelIsGuessedWhole) {
  const std::string out = FreshFolder();
  const Outcome outcome =
      Init({DefaultModel() + "encoder.xml", DefaultModel() + "decoder.xml", "--out", out,
            "--source-vocab", DefaultModel() + "source.vocab", "--target-vocab",
            DefaultModel() + "target.vocab", "--name", "spoken"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* file : {"encoder.xml", "encoder.bin", "decoder.xml", "decoder.bin",
                           "source.vocab", "target.vocab"}) {
    EXPECT_EQ(ReadWholeFile(absl::StrCat(out, "/", file)), ReadWholeFile(DefaultModel() + file));
  }
  const std::string config = ReadWholeFile(out + "/model.textproto");
  for (const char* line :
       {"name: \"spoken\"", "  input: \"source\"", "  token_input: \"tokens\"",
        "  logits_output: \"logits\"", "  attention_output: \"attention\"",
        "  form: TEXT_FORM_CHARACTERS", "  lowercase: true", "  form: TEXT_FORM_WHITESPACE",
        "  begin_token: \"<s>\"", "  end_tokens: \"</s>\"", "  unknown_token: \"<unk>\""}) {
    EXPECT_THAT(config, HasSubstr(absl::StrCat("\n", line, "\n")));
  }
  // States start with results of the same names: nothing to say.
  EXPECT_THAT(config, Not(HasSubstr("\n  states")));
  EXPECT_THAT(outcome.output, HasSubstr("guess   token input 'tokens': the only integer input\n"));
  EXPECT_THAT(outcome.output, HasSubstr("serve it: beamwright-server --model-path " + out));
}

// A padding token is found unasked, and moves every score: that is said, on the screen and in the
// file.
TEST(InitTest, APadTokenIsToldWithWhatItDoes) {
  const auto init = [](const std::string& last) {
    const std::string out = FreshFolder();
    const std::string vocabulary = TempPath("pad.vocab");
    std::string tokens = "<s>\n</s>\n";
    for (int i = 0; i < 25; ++i) {
      absl::StrAppend(&tokens, "t", i, "\n");
    }
    WriteFile(vocabulary, absl::StrCat(tokens, last, "\n"));
    const Outcome outcome =
        Init(With(Files(Exported("whole-gru", "")), {"--out", out, "--target-vocab", vocabulary}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return std::make_pair(outcome.output, ReadWholeFile(out + "/model.textproto"));
  };
  const std::string said = "target pad token '<pad>' changes scores: it is never generated";
  const auto [output, config] = init("<pad>");
  EXPECT_THAT(config, HasSubstr("  pad_token: \"<pad>\"\n"));
  EXPECT_THAT(config, HasSubstr("# - " + said));
  EXPECT_THAT(output, HasSubstr("guess   " + said));
  const auto [plain_output, plain_config] = init("t25");
  EXPECT_THAT(plain_output, Not(HasSubstr("pad token")));
  EXPECT_THAT(plain_config, Not(HasSubstr("pad_token")));
}

TEST(InitTest, StepGraphsNameTheirStates) {
  const std::string out = FreshFolder();
  const Outcome outcome = Init(With(Files(Exported("step-lstm", "")), {"--out", out}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::string config = ReadWholeFile(out + "/model.textproto");
  EXPECT_THAT(config, HasSubstr("  states {\n    input: \"h\"\n    output: \"h_next\"\n  }\n"
                                "  states {\n    input: \"c\"\n    output: \"c_next\"\n  }\n"));
  EXPECT_THAT(config, HasSubstr("graph: \"decoder.onnx\""));
  EXPECT_EQ(ReadWholeFile(out + "/decoder.onnx"),
            ReadWholeFile(Exported("step-lstm", "decoder.onnx")));
}

// What only a person can know stays open, in the file and on the screen.
TEST(InitTest, OpenQuestionsAreNamed) {
  const std::string out = FreshFolder();
  const Outcome outcome = Init(With(Files(Exported("whole-gru", "")), {"--out", out}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("missing target.begin_token"));
  EXPECT_THAT(outcome.output, HasSubstr("missing target.end_tokens"));
  const std::string config = ReadWholeFile(out + "/model.textproto");
  EXPECT_THAT(config, HasSubstr("# - target.begin_token: "));
  EXPECT_THAT(config, HasSubstr("  size: 28\n"));  // columns of the logits
  EXPECT_THAT(config, HasSubstr("  size: 26\n"));  // rows of the encoder's table
  const std::string told = FreshFolder();
  const Outcome answered = Init(With(Files(Exported("whole-gru", "")),
                                     {"--out", told, "--begin", "0", "--end", "1", "--end", "2"}));
  ASSERT_EQ(answered.exit_code, 0) << answered.errors;
  EXPECT_THAT(answered.output, Not(HasSubstr("missing")));
  EXPECT_THAT(ReadWholeFile(told + "/model.textproto"),
              HasSubstr("  begin_token: \"0\"\n  end_tokens: \"1\"\n  end_tokens: \"2\"\n"));
}

TEST(InitTest, NonsenseIsRefused) {
  const std::string out = FreshFolder();
  const std::string encoder = Exported("step-lstm", "encoder.onnx");
  const std::string decoder = Exported("step-lstm", "decoder.onnx");
  ExpectRefusal(Init({decoder, encoder, "--out", out}), out, "Is it the decoder?");
  ExpectRefusal(Init({encoder, "--out", out}), out, "decoder");
  ExpectRefusal(Init({encoder, "/nonexistent.onnx", "--out", out}), out, "/nonexistent.onnx");
  ExpectRefusal(Init({encoder, Exported("", "target.vocab"), "--out", out}), out, ".onnx");
  ExpectRefusal(
      Init({encoder, decoder, "--out", out, "--target-vocab", Exported("", "source.vocab")}), out,
      "has scores for 28 tokens, but the target vocabulary has 26");
  ExpectRefusal(Init({encoder, decoder, "--out", out, "--target-vocab",
                      Exported("", "target.vocab"), "--begin", "<begin>"}),
                out, "'<begin>' is not in the target vocabulary");
  ExpectRefusal(Init({decoder, "--out", out, "--source-vocab", Exported("", "source.vocab")}), out,
                "--source-vocab");
  EXPECT_EQ(Init({encoder, decoder, "--out", out, "--state", "h"}).exit_code, 2);
  EXPECT_EQ(Init({encoder, decoder}).exit_code, 2);
  // Three files are a transducer's; these are not, and four are nothing.
  ExpectRefusal(Init({encoder, decoder, decoder, "--out", out}), out, "the predictor must have");
  EXPECT_EQ(Init({encoder, decoder, decoder, decoder, "--out", out}).exit_code, 2);
  std::filesystem::create_directory(out);
  WriteFile(out + "/mine", "");
  const Outcome taken = Init({encoder, decoder, "--out", out});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.errors, HasSubstr("exists"));
}

// What the server would refuse of vocabularies, names and tokens.
TEST(InitTest, WhatCouldNotBeServedIsNotWritten) {
  const std::string out = FreshFolder();
  const std::vector<std::string> plain = With(Files(Exported("step-lstm", "")), {"--out", out});
  const auto refused = [&](std::vector<std::string> more, const std::string& piece) {
    ExpectRefusal(Init(With(plain, std::move(more))), out, piece);
  };
  const std::string vocabulary = ReadWholeFile(Exported("", "target.vocab"));
  const auto vocab = [&](const std::string& content, const std::string& piece) {
    const std::string path = TempPath("spoilt.vocab");
    WriteFile(path, content);
    refused({"--target-vocab", path}, "target vocabulary '" + path + "': " + piece);
  };
  vocab("", "the file is empty");
  vocab(vocabulary + "\n", "line 29: is empty");
  vocab(vocabulary + "<s>\n", "line 29: '<s>' is in line ");
  vocab(vocabulary + "two words\n", "'two words' contains white space");
  vocab("x" + std::string(50, 'a') + " b\n",
        "'x" + std::string(39, 'a') + "' contains white space, which separates tokens; a ");
  refused({"--name", "a b"}, "--name: 'a b' cannot name a model");
  ExpectRefusal(Init(With(Files(Exported("step-lstm", "")), {"--out", out + "/a b/"})), out,
                "--out names the model, for there is no --name: 'a b'");
  refused({"--begin", "28", "--end", "1"},
          "target token '28' is not a valid id; there are 28, from 0");
  refused({"--begin", "0", "--end", "</s>"}, "target token '</s>' is not a valid id");
  refused({"--begin", "0", "--end", "1", "--end", "1"}, "--end: a token is given twice");
  const Outcome twice = Init(With(plain, {"--state", "h=h_next", "--state", "h=c_next"}));
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.errors, HasSubstr("--state: 'h' is given twice"));
}

class ExportTest : public ::testing::TestWithParam<const char*> {};

// What PyTorch computed, this library computes.
TEST_P(ExportTest, ReplayAgreesWithPyTorch) {
  const std::string folder = GetParam();
  const std::string out = FreshFolder();
  const Outcome outcome =
      Init(With(Files(Exported(folder, "")),
                {"--out", out, "--target-vocab", Exported("", "target.vocab"), "--replay",
                 Exported(folder, "inputs.npz"), Exported(folder, "outputs.npz")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("replay  logits: largest difference "));
  EXPECT_THAT(outcome.output, HasSubstr(": agrees\n"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("DIFFERS")));
}

TEST_P(ExportTest, ASearchStepsItsRowsTogether) {
  const Outcome outcome =
      RunProgram({BEAMWRIGHT_GRAPH_PROGRAM, "check", Exported(GetParam(), "decoder.onnx"),
                  Exported(GetParam(), "encoder.onnx")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("a search steps the rows of all requests together"));
  EXPECT_THAT(outcome.output, HasSubstr("no search steps it: "));
}

// Exports whose rows have to be separated from heads, or from the steps of a layer inside a loop.
TEST(ConformanceExportTest, ASearchStepsItsRowsTogether) {
  for (const char* name : {"step_heads,dynamo", "loop_of_cells,torchscript", "step_lstm,dynamo"}) {
    const Outcome outcome = RunProgram({BEAMWRIGHT_GRAPH_PROGRAM, "check",
                                        testing_support::TestData(absl::StrCat(
                                            "conformance/data/pytorch/", name, "/model.onnx"))});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("a search steps the rows of all requests together"))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExportTest, testing_tools::AllExports(), testing_tools::NameOfExport);

TEST(ReplayTest, DifferencesAreShownAndNothingIsWritten) {
  auto expected = ReadNpz(Exported("step-gru", "outputs.npz"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  Tensor& logits = expected->at("logits");
  Tensor changed = Tensor::Of<float>(logits.shape(), logits.span<float>());
  changed.mutable_data<float>()[0] += 0.5f;
  logits = changed;
  ASSERT_TRUE(WriteNpz(TempPath("wrong.npz"), *expected).ok());
  const std::string out = FreshFolder();
  const std::vector<std::string> replay = {"--out", out, "--replay",
                                           Exported("step-gru", "inputs.npz")};
  const std::vector<std::string> files = Files(Exported("step-gru", ""));
  const Outcome wrong = Init(With(With(files, replay), {TempPath("wrong.npz")}));
  ExpectRefusal(wrong, out, "replay: 'logits' differ");
  EXPECT_THAT(wrong.output, HasSubstr("replay  logits: largest difference 0.5, relative "));
  EXPECT_THAT(wrong.output, HasSubstr("h_next: largest difference"));
  expected->erase("logits");
  (*expected)["nothing"] = changed;
  ASSERT_TRUE(WriteNpz(TempPath("wrong.npz"), *expected).ok());
  ExpectRefusal(Init(With(With(files, replay), {TempPath("wrong.npz")})), out,
                "no output 'nothing'");
}

// The script of docs/bring-your-model.md, where PyTorch is installed; the files that it wrote once
// are what the other tests read.
class BringYourModelTest : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(BringYourModelTest, ScriptExportsWhatInitTakes) {
  if (RunProgram({BEAMWRIGHT_NUMPY_PYTHON, "-c", "import torch"}).exit_code != 0) {
    GTEST_SKIP() << "PyTorch is not installed (Debian: python3-torch)";
  }
  const std::string exported = FreshFolder();
  const Outcome script = RunProgram(
      With({BEAMWRIGHT_NUMPY_PYTHON, BEAMWRIGHT_SOURCE_DIR "/examples/bring_your_model.py",
            exported, "--width", "8", "--train", "1"},
           GetParam()));
  ASSERT_EQ(script.exit_code, 0) << script.errors;
  const std::string out = FreshFolder();
  const Outcome outcome =
      Init(With(Files(exported), {"--out", out, "--source-vocab", exported + "/source.vocab",
                                  "--target-vocab", exported + "/target.vocab", "--replay",
                                  exported + "/inputs.npz", exported + "/outputs.npz"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr(": agrees\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Script, BringYourModelTest,
    ::testing::Values(std::vector<std::string>{},
                      std::vector<std::string>{"--form", "whole", "--cell", "ssru"}),
    [](const auto& tested) { return tested.param.empty() ? "Default" : "WholeSsru"; });

}  // namespace
}  // namespace beamwright::ops
