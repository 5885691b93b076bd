// What `beamwright-graph init` writes, a server loads and `check` passes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/bundle/bundle.h"
#include "engine/model/decode_model.h"
#include "ops/base/status.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/exports.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/check.h"
#include "tools/bundle/encoder_input.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {
namespace {

using ops::testing_tools::Exported;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TempBundle {
 public:
  TempBundle() {
    std::string pattern = ::testing::TempDir() + "/beamwright-init-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~TempBundle() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

InitOptions ExportedTo(const TempBundle& bundle, const std::string& folder) {
  InitOptions options;
  options.encoder = Exported(folder, "encoder.onnx");
  options.decoder = Exported(folder, "decoder.onnx");
  options.out = bundle.path();
  options.source_vocab = Exported("", "source.vocab");
  options.target_vocab = Exported("", "target.vocab");
  return options;
}

// A file of one that tests/e2e/exports_test.cc serves.
std::string ServedExport(const std::string& file) {
  return testing_support::TestData(absl::StrCat("e2e/exports/whole_gru/openvino/", file));
}

class InitBundleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(InitBundleTest, IsServed) {
  const TempBundle folder;
  std::ostringstream output;
  const absl::Status status = InitBundle(ExportedTo(folder, GetParam()), output);
  ASSERT_TRUE(status.ok()) << status;
  auto bundle = bundle::LoadBundle(folder.path());
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->config.target().begin_token(), "<s>");
  const auto compiled = engine::DecodeModel::Compile(*std::move(bundle));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ((*compiled)->target_vocabulary_size(), 28);
  std::ostringstream checked;
  EXPECT_TRUE(Check({{folder.path()}, ""}, checked).ok());
  EXPECT_EQ(checked.str(),
            absl::StrCat(folder.path(), ":\n  can be loaded\n",
                         "  encodes sources of several requests together\n",
                         "  encodes sources of unequal length apart, because positions of "
                         "ReduceMean '/ReduceMean' cannot be separated\n",
                         "  steps rows of several requests together\n"));
}

INSTANTIATE_TEST_SUITE_P(All, InitBundleTest, ops::testing_tools::AllExports(),
                         ops::testing_tools::NameOfExport);

// No file says whether sources are framed: that is a question, until a flag answers it.
TEST(InitBundle, TokensAroundSourcesAreAskedFor) {
  const auto init = [](const std::function<void(InitOptions&)>& change) {
    const TempBundle folder;
    InitOptions options = ExportedTo(folder, "step-gru");
    options.source_vocab = folder.path() + ".vocab";
    std::ofstream(options.source_vocab) << "</s>\na\nb\nc\n";
    change(options);
    std::ostringstream output;
    const absl::Status status = InitBundle(options, output);
    std::filesystem::remove(options.source_vocab);
    const auto bundle = bundle::LoadBundle(folder.path());
    return std::make_tuple(status, output.str(),
                           bundle.ok() ? bundle->config.source() : v1::TextConfig());
  };
  const auto [asked, output, config] = init([](InitOptions&) {});
  EXPECT_TRUE(asked.ok()) << asked;
  EXPECT_THAT(output, HasSubstr("unknown whether sources were ended with '</s>' in training"));
  EXPECT_EQ(config.end_tokens_size(), 0);
  const auto [told, told_output, told_config] =
      init([](InitOptions& options) { options.special.source_end = "</s>"; });
  EXPECT_TRUE(told.ok()) << told;
  EXPECT_THAT(told_output, ::testing::Not(HasSubstr("unknown whether sources")));
  EXPECT_THAT(told_config.end_tokens(), ::testing::ElementsAre("</s>"));
  const auto [none, none_output, none_config] =
      init([](InitOptions& options) { options.special.source_end = ""; });
  EXPECT_TRUE(none.ok()) << none;
  EXPECT_THAT(none_output, ::testing::Not(HasSubstr("unknown whether sources")));
  EXPECT_EQ(none_config.end_tokens_size(), 0);
  const auto [wrong, wrong_output, wrong_config] =
      init([](InitOptions& options) { options.special.source_end = "<eos>"; });
  EXPECT_THAT(wrong.message(), HasSubstr("token '<eos>' is not in the source vocabulary"));
  const auto [begun, begun_output, begun_config] =
      init([](InitOptions& options) { options.special.source_begin = "a"; });
  EXPECT_TRUE(begun.ok()) << begun;
  EXPECT_EQ(begun_config.begin_token(), "a");
}

TEST(InitBundle, ASourceVocabularyHasARowForEachToken) {
  const TempBundle ids;
  InitOptions options = ExportedTo(ids, "step-gru");
  options.source_vocab.clear();
  std::ostringstream output;
  ASSERT_TRUE(InitBundle(options, output).ok());
  const auto config = bundle::ParseModelConfig(
      (std::ostringstream() << std::ifstream(ids.path() + "/model.textproto").rdbuf()).str());
  ASSERT_TRUE(config.ok()) << config.status();
  const int rows = config->source().size();
  for (const int tokens : {rows, rows + 1}) {
    const TempBundle folder;
    const TempBundle vocabulary;
    options = ExportedTo(folder, "step-gru");
    options.source_vocab = vocabulary.path() + "/vocab";
    std::ofstream lines(options.source_vocab);
    for (int i = 0; i < tokens; ++i) {
      lines << "t" << i << "\n";
    }
    lines.close();
    const absl::Status status = InitBundle(options, output);
    if (tokens == rows) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(status, Invalid("the source vocabulary has ", tokens,
                                " tokens, but the encoder's table only ", rows, " rows"));
    }
  }
}

// A bundle that no server takes is not handed on with 'serve it'.
TEST(InitBundle, IsTriedAsAServerLoadsIt) {
  const TempBundle folder;
  InitOptions options = ExportedTo(folder, "step-gru");
  std::ostringstream output;
  ASSERT_TRUE(InitBundle(options, output).ok());
  EXPECT_THAT(output.str(), AllOf(HasSubstr("tried   it loads, and decodes a made-up source\n"),
                                  HasSubstr("serve it: ")));
  // An export of two sources at a time: every port fits, and no request could be encoded.
  const TempBundle exported;
  const std::string frozen = exported.path() + "/encoder.xml";
  std::filesystem::copy(ServedExport("encoder.bin"), exported.path() + "/encoder.bin");
  std::ostringstream xml;
  xml << std::ifstream(ServedExport("encoder.xml")).rdbuf();
  std::ofstream(frozen) << absl::StrReplaceAll(
      xml.str(),
      {{"shape=\"?,?\"", "shape=\"2,?\""},
       {"<dim>-1</dim>\n\t\t\t\t\t<dim>-1</dim>", "<dim>2</dim>\n\t\t\t\t\t<dim>-1</dim>"}});
  const TempBundle other;
  options = InitOptions();
  options.encoder = frozen;
  options.decoder = ServedExport("decoder.xml");
  options.out = other.path();
  options.special.begin = "0";
  options.special.ends = {"1"};
  std::ostringstream refused;
  EXPECT_THAT(InitBundle(options, refused).message(),
              AllOf(HasSubstr("is removed, for a server refuses it: bundle '"),
                    HasSubstr("': encoder.xml: "), HasSubstr("is for 2 sources at a time alone")));
  EXPECT_THAT(refused.str(), ::testing::Not(HasSubstr("serve it")));
  EXPECT_FALSE(std::filesystem::exists(options.out));
  // A wrong pair, too, leaves nothing that the next call would be refused for.
  const TempBundle paired;
  options = ExportedTo(paired, "step-gru");
  options.pairs = exported.path() + "/pairs";
  std::ofstream(options.pairs) << "a\tno-such-token\n";
  EXPECT_THAT(InitBundle(options, refused).message(),
              HasSubstr("'" + options.out + "' is removed: --pairs '"));
  options.pairs.clear();
  EXPECT_EQ(InitBundle(options, refused), absl::OkStatus());
}

// The encoder of step-gru as forward(source, `input`) would be exported: what its layer starts
// with, zeros there, is an input [2, rows, 8].
std::string EncoderWithState(const std::string& folder, const std::string& input, bool one_row) {
  std::ostringstream content;
  content << std::ifstream(Exported("step-gru", "encoder.onnx"), std::ios::binary).rdbuf();
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(content.str()));
  onnx::GraphProto& graph = *model.mutable_graph();
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.op_type() == "GRU") {
      node.set_input(5, input);
    }
  }
  onnx::ValueInfoProto& state = *graph.add_input();
  state.set_name(input);
  onnx::TypeProto::Tensor& type = *state.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  shape.add_dim()->set_dim_value(2);
  if (one_row) {
    shape.add_dim()->set_dim_value(1);
    graph.mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_value(1);
  } else {
    shape.add_dim()->set_dim_param("rows");
  }
  shape.add_dim()->set_dim_value(8);
  const std::string path = folder + ".encoder.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  return path;
}

std::vector<ops::Tensor> Encoded(const std::string& path) {
  auto graph = ops::ReadGraph(path);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto model = ops::Model::Compile(*std::move(graph));
  EXPECT_TRUE(model.ok()) << model.status();
  const std::vector<ops::Tensor> inputs = {
      ops::Tensor::Of<int64_t>({1, 4}, std::vector<int64_t>{3, 1, 4, 1})};
  std::vector<ops::Tensor> outputs;
  const absl::Status status = (*model)->Run({}, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs;
}

// forward(input, hidden): the bundle's encoder has zeros in the state's place.
TEST(InitBundle, AStateThatAnEncoderStartsWithIsZeros) {
  for (const bool one_row : {false, true}) {
    const TempBundle folder;
    InitOptions options = ExportedTo(folder, "step-gru");
    const std::string original = options.encoder;
    options.encoder = EncoderWithState(folder.path(), "hidden", one_row);
    std::ostringstream output;
    const absl::Status status = InitBundle(options, output);
    std::filesystem::remove(options.encoder);
    ASSERT_TRUE(status.ok()) << status << output.str();
    EXPECT_THAT(output.str(),
                AllOf(HasSubstr("encoder input 'hidden': by its name and because"),
                      HasSubstr("found   encodes sources of several requests together")));
    testing_support::ExpectSameBits(Encoded(folder.path() + "/encoder.onnx"), Encoded(original));
  }
}

// [length, rows], as PyTorch's layers read it without batch_first: the graph shows it, or the user
// says so.
TEST(InitBundle, AnEncoderThatReadsTimeFirst) {
  for (const bool is_said : {false, true}) {
    const TempBundle folder;
    InitOptions options = ExportedTo(folder, "step-gru");
    const std::string original = options.encoder;
    std::ostringstream content;
    content << std::ifstream(original, std::ios::binary).rdbuf();
    const auto time_first = RowsFirst(content.str(), "source");
    ASSERT_TRUE(time_first.ok()) << time_first.status();
    const TempBundle beside;
    options.encoder = beside.path() + "/encoder.onnx";
    std::ofstream(options.encoder, std::ios::binary) << *time_first;
    if (is_said) {
      options.length_axis = 0;
    }
    std::ostringstream output;
    const absl::Status status = InitBundle(options, output);
    ASSERT_TRUE(status.ok()) << status << output.str();
    EXPECT_THAT(output.str(),
                AllOf(HasSubstr(is_said ? "is [length, rows]: --length-axis 0; "
                                        : "is [length, rows]: rows of axis 1 are proven to stay "
                                          "apart, those of axis 0 are not; "),
                      HasSubstr("found   encodes sources of several requests together")));
    testing_support::ExpectSameBits(Encoded(folder.path() + "/encoder.onnx"), Encoded(original));
  }
}

// External weights of an ONNX file keep the name that the file has for them.
TEST(InitBundle, WeightsBesideAnOnnxFile) {
  const TempBundle folder;
  InitOptions options = ExportedTo(folder, "step-gru");
  const std::string original = options.encoder;
  std::ostringstream content;
  content << std::ifstream(original, std::ios::binary).rdbuf();
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(content.str()));
  onnx::TensorProto& table = *model.mutable_graph()->mutable_initializer(0);
  const TempBundle beside;
  options.encoder = beside.path() + "/mine.onnx";
  std::ofstream(beside.path() + "/mine.onnx.data", std::ios::binary) << table.raw_data();
  table.clear_raw_data();
  table.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto& location = *table.add_external_data();
  location.set_key("location");
  location.set_value("mine.onnx.data");
  std::ofstream(options.encoder, std::ios::binary) << model.SerializeAsString();
  std::ostringstream output;
  const absl::Status status = InitBundle(options, output);
  ASSERT_TRUE(status.ok()) << status;
  testing_support::ExpectSameBits(Encoded(folder.path() + "/encoder.onnx"), Encoded(original));
}

// By another name it is what requests bring.
TEST(InitBundle, AnotherInputThatALayerStartsWithIsBrought) {
  const TempBundle folder;
  InitOptions options = ExportedTo(folder, "step-gru");
  options.encoder = EncoderWithState(folder.path(), "speaker", false);
  std::ostringstream output;
  InitBundle(options, output).IgnoreError();
  std::filesystem::remove(options.encoder);
  EXPECT_THAT(output.str(), HasSubstr("encoder input 'speaker' f32[2, ?, 8]: requests bring it"));
}

// As editors on Windows write it; the bundle has it as bundles must.
TEST(InitBundle, AVocabularyMayHaveAByteOrderMarkAndWindowsLineEnds) {
  const TempBundle folder;
  const TempBundle beside;
  InitOptions options = ExportedTo(folder, "step-gru");
  std::ostringstream content;
  content << std::ifstream(options.target_vocab, std::ios::binary).rdbuf();
  options.target_vocab = beside.path() + "/windows.vocab";
  std::ofstream(options.target_vocab, std::ios::binary)
      << "\xEF\xBB\xBF" << absl::StrReplaceAll(content.str(), {{"\n", "\r\n"}});
  std::ostringstream output;
  const absl::Status status = InitBundle(options, output);
  ASSERT_TRUE(status.ok()) << status << output.str();
  std::ostringstream written;
  written << std::ifstream(folder.path() + "/target.vocab", std::ios::binary).rdbuf();
  EXPECT_EQ(written.str(), content.str());
}

// What init could not know is refused by name, not served with a guess.
TEST(InitBundle, OpenQuestionsAreRefused) {
  const TempBundle folder;
  InitOptions options = ExportedTo(folder, "step-gru");
  options.source_vocab.clear();
  options.target_vocab.clear();
  std::ostringstream output;
  const absl::Status status = InitBundle(options, output);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(bundle::LoadBundle(folder.path()).status().message(),
              AllOf(HasSubstr("target.begin_token: is not set"),
                    HasSubstr("target.end_tokens: is not set")));
  std::ostringstream checked;
  EXPECT_EQ(Check({{folder.path()}, ""}, checked),
            Invalid("'", folder.path(), "' can't be loaded"));
  EXPECT_THAT(checked.str(), AllOf(HasSubstr("  can't be loaded\n  "),
                                   HasSubstr("target.begin_token: is not set")));
}

// Every field that init can write, under names that need quoting, and comments that break lines.
TEST(InitBundle, EveryFieldIsParsed) {
  ops::EncoderRoles encoder{"so\"urce\\", 30, ops::LengthKind::kMask, "mask\n"};
  ops::DecoderRoles decoder;
  decoder.token_input = "token";
  decoder.states = {
      {"h", "h_next", "h", false}, {"c", "c_next", "", true}, {"d", "d_next", "d_init", false}};
  decoder.memory = {{"memory", "annotations", ops::LengthKind::kNone},
                    {"same", "same", ops::LengthKind::kNone},
                    {"lengths", "", ops::LengthKind::kLengths},
                    {"bias", "", ops::LengthKind::kAdditiveMask}};
  decoder.logits_output = "logits";
  decoder.score_kind = ops::ScoreKind::kLogProbs;
  decoder.attention_output = "attention";
  v1::ModelConfig config;
  config.set_format_version(1);
  *config.mutable_encoder() = EncoderConfigOf("encoder.onnx", encoder);
  *config.mutable_decoder() = DecoderConfigOf("decoder.onnx", decoder);
  config.mutable_source()->set_size(30);
  config.mutable_target()->set_begin_token("\xC3\xA4");
  config.mutable_target()->add_end_tokens("x");
  config.mutable_target()->set_vocabulary("target.vocab");
  const std::string text = FormatBundle(config, {"a line\nthat breaks"});
  const auto parsed = bundle::ParseModelConfig(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
  EXPECT_THAT(text, AllOf(HasSubstr("# - a line\\nthat breaks\n"), HasSubstr("\"\xC3\xA4\"")));
  EXPECT_EQ(parsed->encoder().graph(), "encoder.onnx");
  EXPECT_EQ(parsed->encoder().input(), "so\"urce\\");
  EXPECT_EQ(parsed->encoder().length_kind(), v1::LENGTH_INPUT_MASK);
  EXPECT_EQ(parsed->encoder().length_input(), "mask\n");
  EXPECT_EQ(parsed->decoder().token_input(), "token");
  ASSERT_EQ(parsed->decoder().states_size(), 3);
  EXPECT_EQ(parsed->decoder().states(0).output(), "h_next");
  EXPECT_FALSE(parsed->decoder().states(0).has_encoder_output());
  EXPECT_TRUE(parsed->decoder().states(1).has_constant());
  EXPECT_EQ(parsed->decoder().states(2).encoder_output(), "d_init");
  ASSERT_EQ(parsed->decoder().memory_size(), 3);
  EXPECT_EQ(parsed->decoder().memory(0).encoder_output(), "annotations");
  EXPECT_EQ(parsed->decoder().memory(1).length_kind(), v1::LENGTH_INPUT_LENGTHS);
  EXPECT_EQ(parsed->decoder().memory(2).length_kind(), v1::LENGTH_INPUT_ADDITIVE_MASK);
  EXPECT_EQ(parsed->decoder().logits_output(), "logits");
  EXPECT_EQ(parsed->decoder().logits_kind(), v1::LOGITS_KIND_LOG_PROBS);
  EXPECT_EQ(parsed->decoder().attention_output(), "attention");
  EXPECT_EQ(parsed->source().size(), 30);
  EXPECT_EQ(parsed->target().begin_token(), "\xC3\xA4");
}

// A loop's states and their outputs stand in its graph.
TEST(InitBundle, OfALoopOnlyStartsOfOtherNamesAreTold) {
  ops::DecoderRoles decoder;
  decoder.has_loop = true;
  decoder.states = {{"h", "", "h", false}, {"c", "", "", true}, {"d", "", "d_init", false}};
  const v1::DecoderConfig config = DecoderConfigOf("decoder.xml", decoder);
  ASSERT_EQ(config.states_size(), 2);
  EXPECT_TRUE(config.states(0).has_constant());
  EXPECT_EQ(config.states(1).encoder_output(), "d_init");
}

}  // namespace

// An export for one length of its example must be reported before it is served.

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::GraphBuilder;

ops::Graph Inferred(ops::Graph graph) {
  EXPECT_TRUE(InferGraph(graph, ops::Operators()).ok());
  return graph;
}

// Source [rows, length] to memory of the same extents.
ops::Graph Encoder(int64_t length) {
  GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kF32, {-1, length});
  graph.Result("annotations", graph.Add("Tanh", {source}));
  return Inferred(graph.Build());
}

ops::Graph Decoder(int64_t length) {
  GraphBuilder graph;
  const auto memory = graph.Parameter("memory", ops::DType::kF32, {-1, length});
  graph.Result("logits", graph.Add("Tanh", {memory}));
  return Inferred(graph.Build());
}

std::vector<std::string> Lines(int64_t encoder_length, int64_t decoder_length) {
  v1::EncoderConfig config;
  config.set_input("source");
  ops::DecoderRoles roles;
  ops::MemoryRole& memory = roles.memory.emplace_back();
  memory.input = "memory";
  memory.encoder_output = "annotations";
  const ops::Graph encoder = Encoder(encoder_length);
  return FixedExtents(&encoder, config, Decoder(decoder_length), roles);
}

TEST(FixedExtents, OpenOnesNeedNoLine) { EXPECT_THAT(Lines(-1, -1), IsEmpty()); }

TEST(FixedExtents, ALengthOfTheSourceIsToldWithTheRemedy) {
  EXPECT_THAT(Lines(9, 9),
              ElementsAre(AllOf(HasSubstr("every source must have exactly 9 positions: the export "
                                          "fixed axis 1 of 'source' f32[?, 9]"),
                                HasSubstr("dynamic_axes={'source': {0: 'rows', 1: 'length'}"))));
}

TEST(FixedExtents, AMemoryThatTheEncoderVariesIsTold) {
  EXPECT_THAT(Lines(-1, 7),
              ElementsAre(AllOf(HasSubstr("the encoder gives 'annotations' f32[?, ?], but the "
                                          "decoder takes 'memory' f32[?, 7]: the export fixed "
                                          "axis 1"),
                                HasSubstr("dynamic_axes={'memory'"))));
}

}  // namespace

}  // namespace beamwright::tools
