// Small models in the graph patterns of exports that are met in the wild: made into bundles by init
// and asked, as the server would be.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/sound/front_end.h"
#include "include/beamwright/engine.h"
#include "ops/import/graph_file.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"
#include "tools/bundle/check.h"
#include "tools/bundle/init.h"
#include "tools/graph/check.h"

// A namespace for this file: a folder's tests are compiled together.
namespace beamwright::tools::made_models {
namespace {

using ::testing::HasSubstr;

// Dimensions of a port: numbers, or names of open ones.
std::string Port(const std::string& kind, const std::string& name, int type,
                 const std::vector<std::string>& dims) {
  std::string text = absl::StrCat(kind, " { name: '", name,
                                  "' type { tensor_type { elem_type: ", type, " shape { ");
  for (const std::string& dim : dims) {
    const bool is_name = dim[0] < '0' || dim[0] > '9';
    absl::StrAppend(&text, "dim { ", is_name ? "dim_param: '" : "dim_value: ", dim,
                    is_name ? "' } " : " } ");
  }
  return text + "} } } } ";
}

std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& output, const std::string& attributes = "") {
  std::string text = absl::StrCat("node { op_type: '", op, "' output: '", output, "' ");
  for (const std::string& input : inputs) {
    absl::StrAppend(&text, "input: '", input, "' ");
  }
  return absl::StrCat(text, attributes, " } ");
}

std::string Ints(const std::string& name, const std::vector<int>& values) {
  std::string text = absl::StrCat("attribute { type: INTS name: '", name, "' ");
  for (const int value : values) {
    absl::StrAppend(&text, "ints: ", value, " ");
  }
  return text + "} ";
}

std::string List(const std::string& name, const std::vector<int>& values) {
  std::string text =
      absl::StrCat("initializer { name: '", name, "' data_type: 7 dims: ", values.size(), " ");
  for (const int value : values) {
    absl::StrAppend(&text, "int64_data: ", value, " ");
  }
  return text + "} ";
}

std::string Weight(const std::string& name, const std::vector<int>& dims) {
  std::string text = absl::StrCat("initializer { name: '", name, "' data_type: 1 ");
  int count = 1;
  for (const int dim : dims) {
    absl::StrAppend(&text, "dims: ", dim, " ");
    count *= dim;
  }
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "float_data: ", 0.125 * ((i * 5) % 7 - 3), " ");
  }
  return text + "} ";
}

std::string Written(const std::string& name, const std::string& graph) {
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("ir_version: 8 opset_import { version: 13 } graph { name: 'g' ", graph, " }"),
      &model));
  const std::string path = ops::testing_tools::TempPath(name + ".onnx");
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  return path;
}

std::string Vocabulary(const std::string& content) {
  const std::string path = ops::testing_tools::TempPath("made.vocab");
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

struct Made {
  std::shared_ptr<const engine::DecodeModel> model;
  std::string output;
  std::string out;
};

Made Make(const std::string& name, InitOptions options) {
  Made made;
  made.out = ops::testing_tools::TempPath("made-" + name);
  std::filesystem::remove_all(made.out);
  options.out = made.out;
  std::ostringstream output;
  const absl::Status status = InitBundle(options, output);
  made.output = output.str();
  EXPECT_TRUE(status.ok()) << status << made.output;
  auto model = TryBundle(made.out, "");
  EXPECT_TRUE(model.ok()) << model.status();
  made.model = model.ok() ? *std::move(model) : nullptr;
  return made;
}

absl::StatusOr<v1::Decoded> Decode(const Made& made, const v1::Source& source,
                                   const v1::DecodeOptions& options = {}) {
  engine::EngineOptions settings;
  settings.num_threads = 1;
  return (*engine::Engine::Start(settings))->DecodeAndWait(made.model, source, options);
}

v1::Source Zeros(const std::vector<int>& shape) {
  v1::Source source;
  source.mutable_features()->set_dtype("f32");
  size_t count = 1;
  for (const int extent : shape) {
    source.mutable_features()->add_shape(extent);
    count *= static_cast<size_t>(extent);
  }
  source.mutable_features()->set_data(std::string(count * sizeof(float), '\0'));
  return source;
}

// wav2vec reads raw sound by convolutions, whose windows need 400 samples.
TEST(MadeModelsTest, SoundThatIsShorterThanAWindowIsRefusedByTheLeastLength) {
  InitOptions options;
  options.decoder = Written(
      "sound", Port("input", "input_values", 1, {"rows", "samples"}) +
                   Port("output", "logits", 1, {"rows", "frames", "4"}) + List("one", {1}) +
                   Weight("kernel", {4, 1, 400}) + Node("Unsqueeze", {"input_values", "one"}, "x") +
                   Node("Conv", {"x", "kernel"}, "c", Ints("strides", {320})) +
                   Node("Transpose", {"c"}, "logits", Ints("perm", {0, 2, 1})));
  options.target_vocab = Vocabulary("<blk>\na\nb\nc\n");
  const Made made = Make("sound", options);
  ASSERT_NE(made.model, nullptr);
  const auto refused = Decode(made, Zeros({399}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("source has 399 positions; the model reads sources of 400 at least"));
  EXPECT_TRUE(Decode(made, Zeros({400})).ok());
  EXPECT_TRUE(Decode(made, Zeros({16000})).ok());
}

// Sound is what the front end makes of it, in the encoder's layout: NeMo reads [rows, features,
// frames], each feature normalised over the source, and wav2vec2 [rows, samples].
TEST(MadeModelsTest, SoundIsReadAsTheExportedEncoderReadsIt) {
  const struct {
    const char* folder;
    const char* tokens;
    bool is_turned;
    float frame_ms;  // written by init, or measured at load
  } exports[] = {{"ctc_nemo", "tokens.txt", true, 20},
                 {"ctc_icefall", "tokens.txt", false, 20},
                 {"ctc_wav2vec", "vocab.json", false, 1.25}};
  std::vector<float> samples;
  for (int i = 0; i < 16000; ++i) {
    samples.push_back(static_cast<float>((i * 7919 % 1000) - 500) / 2000.0F);
  }
  for (const auto& [folder, tokens, is_turned, frame_ms] : exports) {
    SCOPED_TRACE(folder);
    const std::string path =
        testing_support::TestData(absl::StrCat("frames/exports/", folder, "/"));
    InitOptions options;
    options.decoder = path + "model.onnx";
    options.target_vocab = path + tokens;
    const Made made = Make(folder, options);
    ASSERT_NE(made.model, nullptr);
    EXPECT_EQ(made.model->config().frame_ms(), frame_ms);
    v1::Source sound;
    sound.mutable_audio()->mutable_format()->set_samples(v1::SAMPLE_FORMAT_F32);
    sound.mutable_audio()->set_data(samples.data(), samples.size() * sizeof(float));
    const auto heard = Decode(made, sound);
    ASSERT_TRUE(heard.ok()) << heard.status();

    const auto front_end = sound::FrontEnd::Create(made.model->config().sound());
    ASSERT_TRUE(front_end.ok()) << front_end.status();
    sound::FrontEndStream stream(*front_end);
    std::vector<float> features;
    stream.Add(samples, features);
    stream.Finish(features);
    (*front_end)->Complete(features);
    const int width = (*front_end)->width();
    const int frames = static_cast<int>(features.size()) / width;
    std::vector<float> laid_out = features;
    for (int i = 0; is_turned && i < frames * width; ++i) {
      laid_out[static_cast<size_t>(i % width * frames + i / width)] =
          features[static_cast<size_t>(i)];
    }
    v1::Source read = is_turned   ? Zeros({width, frames})
                      : width > 1 ? Zeros({frames, width})
                                  : Zeros({frames});
    read.mutable_features()->set_data(laid_out.data(), laid_out.size() * sizeof(float));
    const auto expected = Decode(made, read);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_GT(heard->hypotheses_size(), 0);
    EXPECT_EQ(heard->hypotheses(0).log_prob(), expected->hypotheses(0).log_prob());
    EXPECT_EQ(heard->hypotheses(0).text(), expected->hypotheses(0).text());
  }
}

TEST(MadeModelsTest, WindowsOfAFewFramesHaveALeastLength) {
  InitOptions options;
  options.decoder =
      Written("frames", Port("input", "x", 1, {"rows", "time", "2"}) +
                            Port("output", "logits", 1, {"rows", "frames", "4"}) +
                            Weight("kernel", {4, 2, 7}) +
                            Node("Transpose", {"x"}, "y", Ints("perm", {0, 2, 1})) +
                            Node("Conv", {"y", "kernel"}, "c", Ints("strides", {2})) +
                            Node("Transpose", {"c"}, "logits", Ints("perm", {0, 2, 1})));
  options.target_vocab = Vocabulary("<blk>\na\nb\nc\n");
  const Made made = Make("frames", options);
  ASSERT_NE(made.model, nullptr);
  EXPECT_THAT(std::string(Decode(made, Zeros({6, 2})).status().message()),
              HasSubstr("the model reads sources of 7 at least"));
  EXPECT_TRUE(Decode(made, Zeros({7, 2})).ok());
}

// crnn.pytorch's usual form: x.view(frames * rows, width), a layer, view(frames, rows, -1).
TEST(MadeModelsTest, ColumnsThatAGraphComputesAreThoseOfARun) {
  InitOptions options;
  options.decoder = Written(
      "views",
      Port("input", "image", 1, {"rows", "1", "16", "width"}) +
          Port("output", "scores", 1, {"a", "b", "c"}) + Weight("kernel", {5, 1, 16, 4}) +
          Weight("w", {5, 4}) + List("two", {2}) + List("zero", {0}) + List("open", {-1}) +
          List("flat", {-1, 5}) +
          Node("Conv", {"image", "kernel"}, "conv", Ints("strides", {16, 4})) +
          Node("Squeeze", {"conv", "two"}, "columns") +
          Node("Transpose", {"columns"}, "frames", Ints("perm", {2, 0, 1})) +
          Node("Shape", {"frames"}, "measures") +
          Node("Slice", {"measures", "zero", "two"}, "first") +
          Node("Concat", {"first", "open"}, "shape", "attribute { type: INT name: 'axis' i: 0 }") +
          Node("Reshape", {"frames", "flat"}, "x") + Node("MatMul", {"x", "w"}, "y") +
          Node("Reshape", {"y", "shape"}, "scores"));
  options.target_vocab = Vocabulary("a\nb\nc\n");
  const Made made = Make("views", options);
  ASSERT_NE(made.model, nullptr);
  EXPECT_EQ(ops::testing_tools::ReadWholeFile(made.out + "/target.vocab"), "<blank>\na\nb\nc\n");
  EXPECT_THAT(made.output, HasSubstr("encodes sources of several requests together"));
  EXPECT_TRUE(Decode(made, Zeros({1, 16, 40})).ok());
}

// A language model that was exported as a step: nothing but a prompt, which may be empty.
TEST(MadeModelsTest, ADecoderWithoutAnEncoderNeedsNoSource) {
  InitOptions options;
  options.decoder = Written(
      "step", Port("input", "token", 7, {"rows"}) + Port("input", "h", 1, {"rows", "3"}) +
                  Port("output", "logits", 1, {"rows", "5"}) +
                  Port("output", "h_next", 1, {"rows", "3"}) + Weight("table", {5, 3}) +
                  Weight("r", {3, 3}) + Weight("w", {3, 5}) +
                  Node("Gather", {"table", "token"}, "x") + Node("MatMul", {"h", "r"}, "hr") +
                  Node("Add", {"x", "hr"}, "sum") + Node("Tanh", {"sum"}, "h_next") +
                  Node("MatMul", {"h_next", "w"}, "logits"));
  options.target_vocab = Vocabulary("<s>\n</s>\na\nb\nc\n");
  const Made made = Make("step", options);
  ASSERT_NE(made.model, nullptr);
  EXPECT_THAT(made.output, HasSubstr("state 'h' starts with zeros"));
  v1::DecodeOptions wanted;
  wanted.set_max_length(4);
  EXPECT_TRUE(Decode(made, v1::Source(), wanted).ok());
  wanted.mutable_target_prefix()->set_text("ab");
  const auto answer = Decode(made, v1::Source(), wanted);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(std::string(answer->hypotheses(0).text()), ::testing::StartsWith("ab"));
}

// Padded models have more columns than tokens, and so has a vocabulary that lacks a token.
TEST(MadeModelsTest, AVocabularyWithFewerTokensThanTheModelIsAskedAbout) {
  InitOptions options;
  options.encoder =
      Written("wide-encoder",
              Port("input", "ids", 7, {"rows", "length"}) + Port("output", "h", 1, {"rows", "3"}) +
                  Weight("table", {16, 3}) + Node("Gather", {"table", "ids"}, "x") +
                  Node("ReduceMean", {"x"}, "h",
                       Ints("axes", {1}) + "attribute { type: INT name: 'keepdims' i: 0 }"));
  options.decoder = Written(
      "wide-decoder", Port("input", "token", 7, {"rows"}) + Port("input", "h", 1, {"rows", "3"}) +
                          Port("output", "logits", 1, {"rows", "16"}) +
                          Port("output", "h_next", 1, {"rows", "3"}) + Weight("table", {16, 3}) +
                          Weight("w", {3, 16}) + Node("Gather", {"table", "token"}, "x") +
                          Node("Add", {"x", "h"}, "sum") + Node("Tanh", {"sum"}, "h_next") +
                          Node("MatMul", {"h_next", "w"}, "logits"));
  const auto output = [&](int tokens) {
    std::string content = "<s>\n</s>\n";
    for (int i = 2; i < tokens; ++i) {
      absl::StrAppend(&content, "t", i, "\n");
    }
    options.source_vocab = options.target_vocab = Vocabulary(content);
    return Make("wide", options).output;
  };
  const std::string asked = "unknown whether the ";
  const std::string fewer = output(15);
  EXPECT_THAT(fewer, HasSubstr(asked + "source vocabulary is the model's: it has 15 tokens, and "
                                       "there are 16 rows of the encoder's table"));
  EXPECT_THAT(fewer, HasSubstr(asked + "target vocabulary is the model's: it has 15 tokens, and "
                                       "there are 16 scores"));
  EXPECT_THAT(output(16), ::testing::Not(HasSubstr("is the model's")));
}

// PaddleOCR's exports leave the height open as well: `init` tries usual ones.
TEST(MadeModelsTest, AnOpenHeightIsTriedOrTold) {
  InitOptions options;
  options.decoder =
      Written("tall", Port("input", "image", 1, {"rows", "1", "height", "width"}) +
                          Port("output", "scores", 1, {"frames", "rows", "5"}) +
                          Weight("kernel", {5, 1, 48, 4}) + List("two", {2}) +
                          Node("Conv", {"image", "kernel"}, "conv", Ints("strides", {48, 4})) +
                          Node("Squeeze", {"conv", "two"}, "columns") +
                          Node("Transpose", {"columns"}, "scores", Ints("perm", {2, 0, 1})));
  options.target_vocab = Vocabulary("a\nb\nc\nd\n");
  for (const bool told : {false, true}) {
    options.input_shape = told ? std::vector<int64_t>{1, 48, -1} : std::vector<int64_t>();
    const Made made = Make("tall", options);
    ASSERT_NE(made.model, nullptr);
    EXPECT_EQ(made.output.find("pictures are 48 high") == std::string::npos, told);
    const v1::ModelConfig& config = made.model->config();
    EXPECT_THAT(config.encoder().shape(), ::testing::ElementsAre(1, 48, -1));
    EXPECT_EQ(config.encoder().length_axis(), 3);
    EXPECT_TRUE(Decode(made, Zeros({1, 48, 40})).ok());
    EXPECT_THAT(std::string(Decode(made, Zeros({1, 32, 40})).status().message()),
                HasSubstr("the encoder takes 'image' f32[1, 48, ?]"));
  }
  for (const auto& [shape, refusal] :
       {std::make_pair(std::vector<int64_t>{3, 48, -1},
                       "--input-shape: extent 0 is 3; 'image' is [?, 1, ?, ?]"),
        std::make_pair(std::vector<int64_t>{48, -1}, "--input-shape: has 2 extents")}) {
    options.input_shape = shape;
    options.out = ops::testing_tools::TempPath("made-none");
    std::ostringstream output;
    EXPECT_THAT(std::string(InitBundle(options, output).message()), HasSubstr(refusal));
  }
}

// One step of linear attention as RWKV's exporters write it: a matrix for each head and the last
// token's vector go in and come out. Scores of a transducer have four axes as well.
TEST(MadeModelsTest, AStateOfFourAxesIsNoTransducersScores) {
  InitOptions options;
  options.decoder = Written(
      "linear", Port("input", "token", 7, {"rows"}) +
                    Port("input", "state_in.0", 1, {"rows", "2", "3", "3"}) +
                    Port("input", "state_in.1", 1, {"rows", "6"}) +
                    Port("output", "logits", 1, {"rows", "5"}) +
                    Port("output", "state_out.0", 1, {"rows", "2", "3", "3"}) +
                    Port("output", "state_out.1", 1, {"rows", "6"}) + Weight("table", {5, 6}) +
                    Weight("w", {6, 5}) + List("split", {-1, 2, 3, 1}) + List("join", {-1, 6}) +
                    Node("Gather", {"table", "token"}, "x") +
                    Node("Add", {"x", "state_in.1"}, "state_out.1") +
                    Node("Reshape", {"state_out.1", "split"}, "heads") +
                    Node("Add", {"heads", "state_in.0"}, "state_out.0") +
                    Node("ReduceMean", {"state_out.0"}, "o",
                         Ints("axes", {3}) + "attribute { type: INT name: 'keepdims' i: 0 }") +
                    Node("Reshape", {"o", "join"}, "y") + Node("MatMul", {"y", "w"}, "logits"));
  options.target_vocab = Vocabulary("<s>\n</s>\na\nb\nc\n");
  for (const InitKind kind : {InitKind::kGuess, InitKind::kDecoder}) {
    options.kind = kind;
    const Made made = Make("linear", options);
    ASSERT_NE(made.model, nullptr);
    ASSERT_EQ(made.model->config().decoder().states_size(), 2);
    EXPECT_TRUE(made.model->config().decoder().states(0).has_constant());
    EXPECT_TRUE(made.model->config().decoder().states(1).has_constant());
    EXPECT_THAT(made.output, HasSubstr("found   steps rows of several requests together"));
    EXPECT_TRUE(Decode(made, v1::Source()).ok());
  }
  const auto graph = ops::ReadGraph(options.decoder);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(ops::CheckText(ops::CheckGraph(*graph), 0), HasSubstr("a language model"));
  options.blank = "0";
  options.out = ops::testing_tools::TempPath("made-none");
  std::ostringstream output;
  EXPECT_THAT(std::string(InitBundle(options, output).message()),
              HasSubstr("--blank: is for CTC models, transducers and taggers, not with --decoder"));
}

// Keras' models take ids as floats, which a cast makes integers of; a mask compares them.
TEST(MadeModelsTest, IdsMayBeFloats) {
  const std::string cast = "attribute { type: INT name: 'to' i: 6 }";
  std::vector<std::string> answers;
  for (const bool floats : {false, true}) {
    const auto table = [&](const std::string& input, const std::string& output) {
      return (floats ? Node("Cast", {input}, input + "_ids", cast) : "") +
             Node("Gather", {"table", floats ? input + "_ids" : input}, output);
    };
    const std::string number = "attribute { type: INT name: 'to' i: 1 }";
    InitOptions options;
    options.encoder = Written(
        "float-encoder",
        Port("input", "input_1", floats ? 1 : 7, {"rows", "length"}) +
            Port("output", "h", 1, {"rows", "3"}) + Weight("table", {5, 3}) + Weight("least", {1}) +
            List("last", {-1}) + table("input_1", "embedded") +
            (floats ? "" : Node("Cast", {"input_1"}, "number", number)) +
            Node("Greater", {floats ? "input_1" : "number", "least"}, "is_token") +
            Node("Cast", {"is_token"}, "ones", number) +
            Node("Unsqueeze", {"ones", "last"}, "mask") + Node("Mul", {"embedded", "mask"}, "x") +
            Node("ReduceMean", {"x"}, "h",
                 Ints("axes", {1}) + "attribute { type: INT name: 'keepdims' i: 0 }"));
    options.decoder = Written(
        "float-decoder",
        Port("input", "token", floats ? 1 : 7, {"rows"}) + Port("input", "h", 1, {"rows", "3"}) +
            Port("output", "logits", 1, {"rows", "5"}) +
            Port("output", "h_next", 1, {"rows", "3"}) + Weight("table", {5, 3}) +
            Weight("w", {3, 5}) + table("token", "x") + Node("Add", {"x", "h"}, "sum") +
            Node("Tanh", {"sum"}, "h_next") + Node("MatMul", {"h_next", "w"}, "logits"));
    options.source_vocab = options.target_vocab = Vocabulary("<s>\n</s>\na\nb\nc\n");
    const Made made = Make("floats", options);
    ASSERT_NE(made.model, nullptr);
    EXPECT_THAT(made.output, HasSubstr("found   steps rows of several requests together"));
    v1::Source source;
    source.set_text("abca");
    v1::DecodeOptions wanted;
    wanted.set_n_best(4);
    const auto answer = Decode(made, source, wanted);
    ASSERT_TRUE(answer.ok()) << answer.status();
    std::string text;
    for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
      absl::StrAppend(&text, hypothesis.text(), " ", hypothesis.log_prob(), "\n");
    }
    answers.push_back(text);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

// PyTorch's key_padding_mask is true where there is no token, whatever it is called.
TEST(MadeModelsTest, AMaskMayBeTrueAtPadding) {
  std::vector<std::string> answers;
  for (const bool masked : {false, true}) {
    InitOptions options;
    options.encoder = Written(
        "masked-encoder",
        Port("input", "ids", 7, {"rows", "length"}) +
            (masked ? Port("input", "src_mask", 9, {"rows", "length"}) : "") +
            Port("output", "h", 1, {"rows", "3"}) + Weight("table", {5, 3}) + List("last", {-1}) +
            Node("Gather", {"table", "ids"}, masked ? "x" : "y") +
            (masked
                 ? Node("Not", {"src_mask"}, "kept") +
                       Node("Cast", {"kept"}, "ones", "attribute { type: INT name: 'to' i: 1 }") +
                       Node("Unsqueeze", {"ones", "last"}, "weight") +
                       Node("Mul", {"x", "weight"}, "y")
                 : "") +
            Node("ReduceMean", {"y"}, "h",
                 Ints("axes", {1}) + "attribute { type: INT name: 'keepdims' i: 0 }"));
    options.decoder =
        Written("masked-decoder",
                Port("input", "token", 7, {"rows"}) + Port("input", "h", 1, {"rows", "3"}) +
                    Port("output", "logits", 1, {"rows", "5"}) +
                    Port("output", "h_next", 1, {"rows", "3"}) + Weight("table", {5, 3}) +
                    Weight("w", {3, 5}) + Node("Gather", {"table", "token"}, "x") +
                    Node("Add", {"x", "h"}, "sum") + Node("Tanh", {"sum"}, "h_next") +
                    Node("MatMul", {"h_next", "w"}, "logits"));
    options.source_vocab = options.target_vocab = Vocabulary("<s>\n</s>\na\nb\nc\n");
    const Made made = Make("masked", options);
    ASSERT_NE(made.model, nullptr);
    EXPECT_EQ(absl::StrContains(made.output, "mask 'src_mask' is 1 where there is no token"),
              masked);
    v1::Source source;
    source.set_text("abca");
    const auto answer = Decode(made, source);
    ASSERT_TRUE(answer.ok()) << answer.status();
    answers.push_back(
        absl::StrCat(answer->hypotheses(0).text(), " ", answer->hypotheses(0).log_prob()));
  }
  EXPECT_EQ(answers[0], answers[1]);
}

// Keras' pad_sequences: the export fixed how many ids a source has, and no mask says which are
// some.
TEST(MadeModelsTest, SourcesOfAFixedLengthArePadded) {
  InitOptions options;
  options.encoder =
      Written("fixed-encoder",
              Port("input", "ids", 7, {"rows", "6"}) + Port("output", "h", 1, {"rows", "3"}) +
                  Weight("table", {5, 3}) + Node("Gather", {"table", "ids"}, "x") +
                  Node("ReduceMean", {"x"}, "h",
                       Ints("axes", {1}) + "attribute { type: INT name: 'keepdims' i: 0 }"));
  options.decoder = Written(
      "fixed-decoder", Port("input", "token", 7, {"rows"}) + Port("input", "h", 1, {"rows", "3"}) +
                           Port("output", "logits", 1, {"rows", "5"}) +
                           Port("output", "h_next", 1, {"rows", "3"}) + Weight("table", {5, 3}) +
                           Weight("w", {3, 5}) + Node("Gather", {"table", "token"}, "x") +
                           Node("Add", {"x", "h"}, "sum") + Node("Tanh", {"sum"}, "h_next") +
                           Node("MatMul", {"h_next", "w"}, "logits"));
  options.source_vocab = ops::testing_tools::TempPath("padded.vocab");
  std::ofstream(options.source_vocab) << "a\nb\nc\nd\n<pad>\n";
  options.target_vocab = Vocabulary("<s>\n</s>\na\nb\nc\n");
  const Made made = Make("fixed", options);
  ASSERT_NE(made.model, nullptr);
  EXPECT_THAT(made.output, HasSubstr("sources are padded to 6 tokens with '<pad>'"));
  EXPECT_THAT(made.output, ::testing::Not(HasSubstr("every source must have exactly")));
  const auto ids = [&](const std::vector<int32_t>& values) {
    v1::Source source;
    source.mutable_ids()->mutable_ids()->Add(values.begin(), values.end());
    const auto answer = Decode(made, source);
    return answer.ok() ? answer->hypotheses(0).SerializeAsString()
                       : std::string(answer.status().message());
  };
  v1::Source text;
  text.set_text("ab");
  const auto answer = Decode(made, text);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->source_length(), 6);
  const std::string whole = ids({0, 1, 4, 4, 4, 4});
  EXPECT_EQ(answer->hypotheses(0).SerializeAsString(), whole);
  EXPECT_EQ(ids({0, 1}), whole);
  EXPECT_NE(ids({0, 1, 2}), whole);
  EXPECT_THAT(ids({0, 1, 2, 3, 0, 1, 2}), HasSubstr("source has 7 tokens; at most 6 are allowed"));
  EXPECT_THAT(ids({}), HasSubstr("source is empty"));
}

// What `check` says of a file of the repository.
std::string Checked(const std::string& path) {
  const auto graph = ops::ReadGraph(testing_support::TestData(path));
  EXPECT_TRUE(graph.ok()) << graph.status();
  const ops::GraphFindings findings = ops::CheckGraph(*graph);
  EXPECT_TRUE(findings.ok()) << findings.status;
  return ops::CheckText(findings, 0);
}

// What no bundle can be made of, and what to give in its place.
TEST(MadeModelsTest, ARefusalSaysWhatIsServedInItsPlace) {
  const auto refusal = [](const std::string& path) {
    InitOptions options;
    options.decoder = path;
    options.target_vocab = Vocabulary("<blk>\na\nb\nc\n");
    options.out = ops::testing_tools::TempPath("made-refused");
    std::ostringstream output;
    return std::string(InitBundle(options, output).message());
  };
  const std::string doubles = Written(
      "doubles",
      Port("input", "x", 11, {"time", "rows", "2"}) +
          Port("output", "y", 11, {"time", "1", "rows", "4"}) + Weight("w", {1, 12, 2}) +
          Weight("r", {1, 12, 4}) +
          Node("GRU", {"x", "w", "r"}, "y", "attribute { type: INT name: 'hidden_size' i: 4 }"));
  EXPECT_THAT(refusal(doubles), HasSubstr("export the model in f32 (in PyTorch after "
                                          "model.float())"));
  // As sherpa-onnx's script marks it; the last brace is the metadata's.
  const std::string offset = Port("input", "offset", 7, {"1"}) +
                             Port("output", "output", 7, {"1"}) +
                             Node("Identity", {"offset"}, "output");
  const std::string wenet =
      Written("wenet", offset +
                           "} metadata_props { key: 'model_type' value: 'wenet_ctc' } "
                           "metadata_props { key: 'comment' value: 'streaming' ");
  EXPECT_THAT(refusal(wenet), HasSubstr("give encoder.onnx and ctc.onnx of WeNet's own exporter"));
  // As WeNet's exporter marks it.
  const auto chunks = [&](const std::string& left_chunks) {
    return Written("wenet" + left_chunks,
                   offset +
                       "} metadata_props { key: 'chunk_size' value: '16' } "
                       "metadata_props { key: 'decoding_window' value: '67' } "
                       "metadata_props { key: 'left_chunks' value: '" +
                       left_chunks + "' ");
  };
  EXPECT_THAT(refusal(chunks("4")), HasSubstr("is one of two files of WeNet's exporter"));
  const auto both = [&](const std::string& left_chunks) {
    InitOptions options;
    options.encoder = chunks(left_chunks);
    options.decoder = wenet;
    options.target_vocab = Vocabulary("<blk>\na\nb\nc\n");
    options.out = ops::testing_tools::TempPath("made-refused");
    std::ostringstream output;
    return std::string(InitBundle(options, output).message());
  };
  EXPECT_THAT(both("-1"), HasSubstr("see all sound before them; export it with"));
  EXPECT_THAT(both("0"), HasSubstr("see no chunk before them; export it with"));
  EXPECT_THAT(both("4"), HasSubstr("there is no input 'att_cache'"));
  // As transformers 5.24's OnnxExporter names the ports of a Whisper's step.
  const std::string cache = "put.cache.self_attention_cache.layers.0.keys";
  const std::string step =
      Written("decode", Port("input", "in" + cache, 1, {"s11", "2", "1", "8"}) +
                            Port("output", "out" + cache, 1, {"s11", "2", "1", "8"}) +
                            Node("Identity", {"in" + cache}, "out" + cache));
  EXPECT_THAT(refusal(step), HasSubstr("export the model with `optimum-cli export onnx"));
}

TEST(MadeModelsTest, CheckSaysWhatServesAFile) {
  const std::string exports = "frames/exports/";
  EXPECT_THAT(Checked(exports + "ctc_wav2vec/model.onnx"),
              HasSubstr("encoder, or CTC model: `init THIS --tokens FILE` serves it as CTC"));
  EXPECT_THAT(Checked(exports + "icefall_offline/joiner.onnx"),
              HasSubstr("joiner of a transducer: `init ENCODER PREDICTOR THIS` serves it"));
  EXPECT_THAT(Checked(exports + "icefall_offline/decoder.onnx"),
              HasSubstr("predictor of a transducer without states"));
  EXPECT_THAT(Checked(exports + "nemo/decoder_joint-model.onnx"),
              HasSubstr("predictor and joiner of a transducer in one graph"));
}

}  // namespace
}  // namespace beamwright::tools::made_models
