// Recurrent language models as PyTorch exports them: layers over the whole target, whose states
// begin at zeros that are made to the measures of the embedding. Stepped token by token they give
// the scores of the graph run over the whole target.
#include <google/protobuf/text_format.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/decoder/stepped_decoder.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

constexpr int kVocabulary = 7;
constexpr int kWidth = 3;
constexpr int kHidden = 4;
constexpr int kFloat = 1;
constexpr int kHalf = 10;

std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& output, const std::string& attributes = "") {
  std::string text = absl::StrCat("node { op_type: '", op, "' ");
  for (const std::string& input : inputs) {
    absl::StrAppend(&text, "input: '", input, "' ");
  }
  return absl::StrCat(text, "output: '", output, "' ", attributes, " } ");
}

std::string Ints(const std::string& name, const std::vector<int>& values, bool scalar = false) {
  std::string text = absl::StrCat("initializer { name: '", name, "' data_type: 7 ");
  absl::StrAppend(&text, scalar ? "" : absl::StrCat("dims: ", values.size(), " "));
  for (const int value : values) {
    absl::StrAppend(&text, "int64_data: ", value, " ");
  }
  return text + "} ";
}

void AddWeight(const std::string& name, const Shape& dims, int type, std::mt19937& random,
               onnx::GraphProto& graph) {
  onnx::TensorProto& weight = *graph.add_initializer();
  weight.set_name(name);
  weight.set_data_type(type);
  weight.mutable_dims()->Add(dims.begin(), dims.end());
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(NumElements(dims)));
  for (float& element : values) {
    element = value(random);
  }
  const Tensor tensor =
      *Convert(Tensor::Of<float>(dims, values), type == kHalf ? DType::kF16 : DType::kF32);
  weight.set_raw_data(tensor.bytes(), static_cast<size_t>(tensor.num_bytes()));
}

// nn.Embedding, a recurrent layer without an initial state, and nn.Linear.
onnx::GraphProto LanguageModel(const std::string& op, int gates, int type) {
  const std::string ints = "attribute { type: INTS name: ";
  std::vector<std::string> layer = {"x", "w", "r", "", "", "h0"};
  if (op == "LSTM") {
    layer.push_back("h0");
  }
  const std::string zero =
      absl::StrCat("attribute { name: 'value' type: TENSOR t { dims: 1 data_type: ", type,
                   type == kHalf ? " int32_data: 0" : " float_data: 0", " } }");
  onnx::GraphProto graph = fixture::GraphOf(absl::StrCat(
      "name: 'g' ",
      "input { name: 'tokens' type { tensor_type { elem_type: 7 shape { dim { dim_param: 'rows' } "
      "dim { dim_param: 'time' } } } } } ",
      "output { name: 'logits' type { tensor_type { elem_type: ", type, " shape { ",
      "dim { dim_param: 'rows' } dim { dim_param: 'time' } dim { dim_value: ", kVocabulary,
      " } } } } } ", Node("Gather", {"table", "tokens"}, "embedded"),
      Node("Shape", {"embedded"}, "measures"), Node("Gather", {"measures", "zero"}, "count"),
      Node("Unsqueeze", {"count", "front"}, "rows"),
      Node("Concat", {"one", "rows", "hidden"}, "shape",
           "attribute { name: 'axis' type: INT i: 0 }"),
      Node("ConstantOfShape", {"shape"}, "h0", zero),
      Node("Transpose", {"embedded"}, "x", ints + "'perm' ints: 1 ints: 0 ints: 2 }"),
      Node(op, layer, "y",
           absl::StrCat("attribute { name: 'hidden_size' type: INT i: ", kHidden, " }")),
      Node("Squeeze", {"y", "one"}, "states"),
      Node("Transpose", {"states"}, "back", ints + "'perm' ints: 1 ints: 0 ints: 2 }"),
      Node("MatMul", {"back", "out"}, "logits"), Ints("zero", {0}, true), Ints("front", {0}),
      Ints("one", {1}), Ints("hidden", {kHidden})));
  std::mt19937 random(5);
  AddWeight("table", {kVocabulary, kWidth}, type, random, graph);
  AddWeight("w", {1, gates * kHidden, kWidth}, type, random, graph);
  AddWeight("r", {1, gates * kHidden, kHidden}, type, random, graph);
  AddWeight("out", {kHidden, kVocabulary}, type, random, graph);
  return graph;
}

// Scores of every step, one after the other.
std::vector<float> Stepped(const Graph& graph, const std::vector<int32_t>& tokens) {
  DecoderPorts ports;
  ports.token_input = "tokens";
  DecoderOptions options;
  options.token_table_share = 0;
  SteppedDecoder decoder;
  const absl::Status compiled = CompileDecoder(graph, ports, options, decoder);
  EXPECT_TRUE(compiled.ok()) << compiled;
  StartValues start;
  const absl::Status prepared =
      compiled.ok() ? Prepare(decoder, ExecutionContext(), {}, start) : compiled;
  EXPECT_TRUE(prepared.ok()) << prepared;
  std::vector<float> scores;
  for (size_t step = 0; prepared.ok() && step < tokens.size(); ++step) {
    std::vector<Tensor> results;
    const std::vector<Tensor> slices = {decoder.TokenTensor({tokens[step]})};
    const absl::Status stepped =
        decoder.body->StepWhole(ExecutionContext(), slices, static_cast<int64_t>(step),
                                start.values, start.states, results);
    EXPECT_TRUE(stepped.ok()) << stepped;
    Tensor memory;
    const Tensor& all = AllScores(decoder, ExecutionContext(),
                                  results[static_cast<size_t>(decoder.logits_result)], memory);
    scores.insert(scores.end(), all.data<float>(), all.data<float>() + all.num_elements());
  }
  return scores;
}

void ExpectStepsAsTheWhole(const std::string& op, int gates, int type, double tolerance) {
  const absl::StatusOr<Graph> graph =
      fixture::Parse(fixture::Model(LanguageModel(op, gates, type)));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<int32_t> tokens = {3, 0, 6, 6, 1};
  const auto model = Model::Compile(*graph);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const std::vector<Tensor> inputs = {Tensor::Of<int64_t>({1, 5}, ids)};
  std::vector<Tensor> outputs;
  const absl::Status ran = (*model)->Run(ExecutionContext(), inputs, outputs);
  ASSERT_TRUE(ran.ok()) << ran;
  const std::vector<float> expected = *ToFloat32(outputs[0]);
  const std::vector<float> scores = Stepped(*graph, tokens);
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(scores[i], expected[i], tolerance) << op << ' ' << i;
  }
}

TEST(LanguageModelTest, StatesThatAreMadeToAnEmbeddingsMeasuresDoNotReadTheTokens) {
  ExpectStepsAsTheWhole("GRU", 3, kFloat, 1e-5);
  ExpectStepsAsTheWhole("LSTM", 4, kFloat, 1e-5);
  ExpectStepsAsTheWhole("RNN", 1, kFloat, 1e-5);
}

TEST(LanguageModelTest, AModelOfHalfFloatsGivesScoresOfF32) {
  ExpectStepsAsTheWhole("GRU", 3, kHalf, 5e-3);
  ExpectStepsAsTheWhole("LSTM", 4, kHalf, 5e-3);
  ExpectStepsAsTheWhole("RNN", 1, kHalf, 5e-3);
}

// A state that is looked up with the first token is not known before it.
TEST(LanguageModelTest, StatesThatReadTheTokensAreRefused) {
  onnx::GraphProto proto = LanguageModel("GRU", 3, kFloat);
  std::mt19937 random(6);
  AddWeight("starts", {kVocabulary, kHidden}, kFloat, random, proto);
  for (onnx::NodeProto& node : *proto.mutable_node()) {
    if (node.op_type() == "GRU") {
      node.set_input(5, "start");
    }
  }
  const onnx::GraphProto looked_up = fixture::GraphOf(absl::StrCat(
      "name: 'g' ",
      Node("Gather", {"tokens", "zero"}, "first", "attribute { name: 'axis' type: INT i: 1 }"),
      Node("Gather", {"starts", "first"}, "state"),
      Node("Unsqueeze", {"state", "front"}, "start")));
  // Before its reader.
  onnx::GraphProto all = proto;
  all.clear_node();
  *all.mutable_node() = looked_up.node();
  all.mutable_node()->MergeFrom(proto.node());
  const absl::StatusOr<Graph> graph = fixture::Parse(fixture::Model(all));
  ASSERT_TRUE(graph.ok()) << graph.status();
  DecoderPorts ports;
  ports.token_input = "tokens";
  SteppedDecoder decoder;
  const absl::Status status = CompileDecoder(*graph, ports, DecoderOptions(), decoder);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("a state or an invariant input of it depends on the target"));
}

}  // namespace
}  // namespace beamwright::ops
