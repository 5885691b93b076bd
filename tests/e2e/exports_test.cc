// Teams' exports, served: encoders and decoders as PyTorch's two ONNX exporters and OpenVINO's
// converter write them (tests/e2e/exports), made into bundles by `beamwright-graph init`, served
// together by one server and asked through the client library. Every answer must be the one that a
// plain beam search over PyTorch's own modules gave.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "include/beamwright/client.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/server_process.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

namespace fs = std::filesystem;
using ::google::protobuf::Message;
using ::google::protobuf::Struct;
using ::google::protobuf::Value;

struct Export {
  std::string model;
  fs::path folder;  // encoder and decoder, one folder for each exporter
  std::string name() const { return absl::StrCat(model, "_", folder.filename().string()); }
};

void PrintTo(const Export& tested, std::ostream* out) { *out << tested.name(); }

std::vector<Export> AllExports() {
  std::vector<Export> exports;
  for (const auto& model : fs::directory_iterator(testing_support::TestData("e2e/exports"))) {
    if (!fs::exists(model.path() / "answers.jsonl")) {
      continue;
    }
    for (const auto& folder : fs::directory_iterator(model.path())) {
      if (folder.is_directory()) {
        exports.push_back({model.path().filename(), folder.path()});
      }
    }
  }
  std::sort(exports.begin(), exports.end(),
            [](const Export& a, const Export& b) { return a.folder < b.folder; });
  return exports;
}

struct ExportQuestion {
  v1::DecodeRequest request;
  v1::Decoded expected;
};

void Parse(const Message& json, Message& to) {
  std::string text;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(json, &text).ok());
  const auto status = google::protobuf::util::JsonStringToMessage(text, &to);
  ASSERT_TRUE(status.ok()) << status.ToString() << text;
}

std::vector<ExportQuestion> ReadQuestions(const Export& tested) {
  std::ifstream file(tested.folder.parent_path() / "answers.jsonl");
  std::vector<ExportQuestion> questions;
  for (std::string line; std::getline(file, line);) {
    Struct object;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok());
    ExportQuestion& question = questions.emplace_back();
    question.request.set_model(tested.name());
    Parse(object.fields().at("source").struct_value(), *question.request.add_sources());
    Parse(object.fields().at("options").struct_value(), *question.request.mutable_options());
    Struct decoded;
    (*decoded.mutable_fields())["hypotheses"] = object.fields().at("hypotheses");
    Parse(decoded, question.expected);
  }
  return questions;
}

fs::path GraphFile(const Export& tested, const std::string& side) {
  const fs::path ir = tested.folder / (side + ".xml");
  return fs::exists(ir) ? ir : tested.folder / (side + ".onnx");
}

// Language models have none.
bool HasEncoder(const Export& tested) { return fs::exists(GraphFile(tested, "encoder")); }

// `init` as a newcomer runs it.
std::vector<std::string> InitCommand(const Export& tested, const std::string& bundle) {
  std::vector<std::string> command = {BEAMWRIGHT_GRAPH_PROGRAM, "init"};
  if (HasEncoder(tested)) {
    command.push_back(GraphFile(tested, "encoder"));
  }
  for (const std::string& word :
       {GraphFile(tested, "decoder").string(), std::string("--out"), bundle, std::string("--name"),
        tested.name(), std::string("--begin"), std::string("0"), std::string("--end"),
        std::string("1")}) {
    command.push_back(word);
  }
  return command;
}

class ExportsTest : public ::testing::TestWithParam<Export> {
 protected:
  static void SetUpTestSuite() {
    static int suite = 0;  // each has its own server
    const std::string repository = ops::testing_tools::TempPath(absl::StrCat("exports", ++suite));
    for (const Export& tested : AllExports()) {
      const std::string bundle = absl::StrCat(repository, "/", tested.name(), "/1");
      fs::create_directories(bundle);
      const ops::testing_tools::Outcome outcome =
          ops::testing_tools::RunProgram(InitCommand(tested, bundle));
      EXPECT_EQ(outcome.exit_code, 0) << tested.name() << ": " << outcome.errors;
    }
    server_ = new ServerProcess({"--model-repository", repository});
    ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static ServerProcess* server_;
};

ServerProcess* ExportsTest::server_ = nullptr;

void ExpectAlike(const v1::Decoded& got, const v1::Decoded& want) {
  constexpr double kTolerance = 1e-4;
  ASSERT_EQ(got.hypotheses_size(), want.hypotheses_size());
  for (int i = 0; i < got.hypotheses_size(); ++i) {
    const v1::Hypothesis& hypothesis = got.hypotheses(i);
    const v1::Hypothesis& expected = want.hypotheses(i);
    SCOPED_TRACE(absl::StrCat("hypothesis ", i));
    EXPECT_THAT(hypothesis.tokens(), ::testing::ElementsAreArray(expected.tokens()));
    EXPECT_EQ(hypothesis.finish_reason(), expected.finish_reason());
    EXPECT_NEAR(hypothesis.log_prob(), expected.log_prob(), kTolerance);
    EXPECT_NEAR(hypothesis.score(), expected.score(), kTolerance);
    EXPECT_THAT(hypothesis.token_log_probs(),
                ::testing::Pointwise(::testing::FloatNear(kTolerance), expected.token_log_probs()));
  }
}

// All questions are in flight at once, so that rows of different beams, penalties and lengths share
// steps.
TEST_P(ExportsTest, AnswersAreThoseOfPyTorch) {
  const std::vector<ExportQuestion> questions = ReadQuestions(GetParam());
  ASSERT_GE(questions.size(), 20u);
  auto client = client::Client::Connect({.address = server_->address()});
  ASSERT_TRUE(client.ok()) << client.status();
  std::vector<absl::StatusOr<v1::DecodeResponse>> responses(questions.size());
  absl::BlockingCounter left(static_cast<int>(questions.size()));
  for (size_t i = 0; i < questions.size(); ++i) {
    (*client)->DecodeAsync(questions[i].request, absl::Now() + absl::Minutes(4),
                           [&, i](absl::StatusOr<v1::DecodeResponse> response) {
                             responses[i] = std::move(response);
                             left.DecrementCount();
                           });
  }
  left.Wait();
  for (size_t i = 0; i < questions.size(); ++i) {
    SCOPED_TRACE(questions[i].request.ShortDebugString());
    ASSERT_TRUE(responses[i].ok()) << responses[i].status() << server_->log();
    const v1::Result& result = responses[i]->results(0);
    ASSERT_TRUE(result.has_decoded()) << result.ShortDebugString();
    ExpectAlike(result.decoded(), questions[i].expected);
  }
}

// `check` reads a file as it is, and this one has two steps in it, of which `init` takes one.
bool IsMerged(const Export& tested) { return absl::EndsWith(tested.model, "_merged"); }

// No export falls back to a row at a time, which would be right but slow.
TEST_P(ExportsTest, RowsAreSteppedTogether) {
  if (!IsMerged(GetParam())) {
    const ops::testing_tools::Outcome outcome = ops::testing_tools::RunProgram(
        {BEAMWRIGHT_GRAPH_PROGRAM, "check", GraphFile(GetParam(), "decoder")});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.output,
                ::testing::HasSubstr("a search steps the rows of all requests together"));
  }
  const auto client = client::Client::Connect({.address = server_->address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto description =
      (*client)->DescribeModel(GetParam().name(), "", absl::Now() + absl::Minutes(1));
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_TRUE(description->step_batching().together()) << description->step_batching().reason();
  EXPECT_EQ(Sum(Scrape(server_->metrics_port()), "beamwright_step_batching",
                absl::StrCat("model=\"", GetParam().name(), "\"")),
            1);
}

// Nor is any source encoded alone, and the operator can see that.
TEST_P(ExportsTest, SourcesAreEncodedTogether) {
  if (!HasEncoder(GetParam())) {
    return;
  }
  const ops::testing_tools::Outcome outcome = ops::testing_tools::RunProgram(
      {BEAMWRIGHT_GRAPH_PROGRAM, "check", GraphFile(GetParam(), "encoder")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(
      outcome.output,
      ::testing::HasSubstr("as an encoder: sources of several requests are encoded together"));
  const auto client = client::Client::Connect({.address = server_->address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto description =
      (*client)->DescribeModel(GetParam().name(), "", absl::Now() + absl::Minutes(1));
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_TRUE(description->encoder_batching().together())
      << description->encoder_batching().reason();
  EXPECT_EQ(Sum(Scrape(server_->metrics_port()), "beamwright_encoder_batching",
                absl::StrCat("model=\"", GetParam().name(), "\"")),
            1);
}

class FeatureExportsTest : public ExportsTest {};

// Of one file a source, as NumPy writes it: the command line prints what the client library got.
TEST_P(FeatureExportsTest, ComeFromFiles) {
  const std::vector<ExportQuestion> questions = ReadQuestions(GetParam());
  std::vector<std::string> command = {BEAMWRIGHT_PROGRAM, "decode",    "--server",
                                      server_->address(), "--model",   GetParam().name(),
                                      "--json",           "--features"};
  constexpr size_t kFiles = 3;
  for (size_t i = 0; i < kFiles; ++i) {
    const v1::Tensor& features = questions[i].request.sources(0).features();
    command.push_back(ops::testing_tools::TempPath(absl::StrCat(GetParam().name(), i, ".npy")));
    const ops::testing_tools::Outcome saved = ops::testing_tools::RunProgram(
        {BEAMWRIGHT_NUMPY_PYTHON, "-c",
         absl::StrCat("import numpy as np\n", "x = np.frombuffer(bytes.fromhex('",
                      absl::BytesToHexString(features.data()), "'), np.float32).reshape(",
                      absl::StrJoin(features.shape(), ", "), ")\n", "np.save('", command.back(),
                      "', x.astype(np.float64))")});
    ASSERT_EQ(saved.exit_code, 0) << "this test needs NumPy: " << saved.errors;
  }
  const ops::testing_tools::Outcome outcome = ops::testing_tools::RunProgram(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::vector<std::string> lines = absl::StrSplit(outcome.output, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), kFiles);
  auto client = client::Client::Connect({.address = server_->address()});
  ASSERT_TRUE(client.ok()) << client.status();
  for (size_t i = 0; i < kFiles; ++i) {
    v1::DecodeRequest request = questions[i].request;
    request.clear_options();
    const auto response = (*client)->Decode(request, absl::Now() + absl::Minutes(1));
    ASSERT_TRUE(response.ok()) << response.status();
    Struct printed;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(lines[i], &printed).ok());
    EXPECT_EQ(printed.fields().at("source_name").string_value(),
              command[command.size() - kFiles + i]);
    v1::Result result;
    Parse(printed.fields().at("result").struct_value(), result);
    ASSERT_GT(result.decoded().hypotheses_size(), 0);
    EXPECT_THAT(result.decoded().hypotheses(0).tokens(),
                ::testing::ElementsAreArray(response->results(0).decoded().hypotheses(0).tokens()));
    EXPECT_EQ(result.decoded().hypotheses(0).score(),
              response->results(0).decoded().hypotheses(0).score());
  }
}

std::vector<Export> ExportsOfFeatures() {
  std::vector<Export> exports = AllExports();
  exports.erase(std::remove_if(exports.begin(), exports.end(),
                               [](const Export& tested) {
                                 return !ReadQuestions(tested)[0].request.sources(0).has_features();
                               }),
                exports.end());
  return exports;
}

INSTANTIATE_TEST_SUITE_P(All, FeatureExportsTest, ::testing::ValuesIn(ExportsOfFeatures()),
                         [](const auto& tested) { return tested.param.name(); });
INSTANTIATE_TEST_SUITE_P(All, ExportsTest, ::testing::ValuesIn(AllExports()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace beamwright::e2e
