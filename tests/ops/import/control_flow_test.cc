// If, sequences of cells, variables and Loop as OpenVINO writes them: what they become, and what
// they compute.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

using fixture::Content;
using fixture::Layer;
using fixture::Parameter;
using fixture::Parse;
using fixture::Port;
using fixture::Result;
using fixture::Unary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Layer Typed(int id, const std::string& name, const std::string& type, const std::string& shape) {
  return {id,          name,
          "Parameter", absl::StrCat("element_type=\"", type, "\" shape=\"", shape, "\""),
          {},          {Port(0, "")}};
}

absl::StatusOr<std::vector<Tensor>> RunXml(const std::string& xml,
                                           const std::vector<Tensor>& inputs) {
  absl::StatusOr<Graph> graph = Parse(xml);
  if (!graph.ok()) {
    return graph.status();
  }
  const absl::StatusOr<std::unique_ptr<Model>> model = Model::Compile(*std::move(graph));
  if (!model.ok()) {
    return model.status();
  }
  std::vector<Tensor> outputs;
  const absl::Status status = (*model)->Run(ExecutionContext(), inputs, outputs);
  return status.ok() ? absl::StatusOr<std::vector<Tensor>>(std::move(outputs)) : status;
}

Tensor F32(Shape shape, const std::vector<float>& values) {
  return Tensor::Of<float>(std::move(shape), values);
}
std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

// Then: tanh(x), x + x. Else: exp(x), x - y. Maps stand before the ports, else before then.
std::string SoundIf() {
  Layer branches{3, "if", "If"};
  branches.children = absl::StrCat(
      "<else_port_map><input external_port_id=\"1\" internal_layer_id=\"0\"/>"
      "<input external_port_id=\"2\" internal_layer_id=\"1\"/>"
      "<output external_port_id=\"3\" internal_layer_id=\"14\"/>"
      "<output external_port_id=\"4\" internal_layer_id=\"15\"/></else_port_map>"
      "<then_port_map><input external_port_id=\"1\" internal_layer_id=\"7\"/>"
      "<output external_port_id=\"4\" internal_layer_id=\"4\"/>"
      "<output external_port_id=\"3\" internal_layer_id=\"3\"/></then_port_map><then_body>",
      Content({Parameter(7, "tx", "?,2"), Unary(1, "tanh", "Tanh"),
               Layer{2, "sum", "Add", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}},
               Result(3, "r3"), Result(4, "r4")},
              "7.0-1.0, 7.0-2.0, 7.0-2.1, 1.1-3.0, 2.2-4.0"),
      "</then_body><else_body>",
      Content({Parameter(0, "ex", "?,2"), Parameter(1, "ey", "?,2"), Unary(2, "exp", "Exp"),
               Layer{3, "difference", "Subtract", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}},
               Result(14, "r14"), Result(15, "r15")},
              "0.0-2.0, 0.0-3.0, 1.0-3.1, 2.1-14.0, 3.2-15.0"),
      "</else_body>");
  branches.inputs = {Port(0, ""), Port(1, "-1,2"), Port(2, "-1,2")};
  branches.outputs = {Port(3, "-1,2", "precision=\"FP32\""), Port(4, "")};
  return fixture::Net({Typed(0, "c", "boolean", ""), Parameter(1, "x", "?,2"),
                       Parameter(2, "y", "?,2"), branches, Result(4, "a"), Result(5, "b")},
                      "0.0-3.0, 1.0-3.1, 2.0-3.2, 3.3-4.0, 3.4-5.0");
}

TEST(IfImportTest, Runs) {
  const Tensor x = F32({1, 2}, {0, 1});
  const Tensor y = F32({1, 2}, {5, 7});
  const auto yes = RunXml(SoundIf(), {Tensor::Scalar(true), x, y});
  ASSERT_TRUE(yes.ok()) << yes.status();
  EXPECT_THAT(Floats((*yes)[0]), ElementsAre(0, ::testing::FloatNear(std::tanh(1.0f), 1e-6f)));
  EXPECT_THAT(Floats((*yes)[1]), ElementsAre(0, 2));
  const auto no = RunXml(SoundIf(), {Tensor::Scalar(false), x, y});
  ASSERT_TRUE(no.ok()) << no.status();
  EXPECT_THAT(Floats((*no)[0]), ElementsAre(1, ::testing::FloatNear(std::exp(1.0f), 1e-6f)));
  EXPECT_THAT(Floats((*no)[1]), ElementsAre(-5, -6));
}

// A constant condition rules a branch out, which then may hold layers that there are not.
TEST(IfImportTest, OnlyTheTakenBranchOfAConstantCondition) {
  const std::string parameter = Text(Typed(0, "c", "boolean", ""));
  const std::string constant =
      Text(Layer{0,
                 "c",
                 "Const",
                 "element_type=\"boolean\" shape=\"\" offset=\"0\" size=\"1\"",
                 {},
                 {Port(0, "", "precision=\"BOOL\"")}});
  ASSERT_THAT(SoundIf(), HasSubstr(parameter));
  const std::string xml =
      absl::StrReplaceAll(SoundIf(), {{parameter, constant}, {"\"Exp\"", "\"Fancy\""}});
  absl::StatusOr<Graph> graph = Parse(xml, absl::string_view("\1", 1));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto model = Model::Compile(*std::move(graph));
  ASSERT_TRUE(model.ok()) << model.status();
  // What is taken has the If's place, and the ports their names.
  for (const Node& node : (*model)->graph().nodes) {
    EXPECT_NE(node.op, "If");
  }
  EXPECT_EQ(PortName((*model)->graph(), (*model)->graph().results[1]), "b");
  std::vector<Tensor> outputs;
  ASSERT_TRUE(
      (*model)->Run(ExecutionContext(), {F32({1, 2}, {1, 2}), F32({1, 2}, {5, 7})}, outputs).ok());
  EXPECT_THAT(Floats(outputs[1]), ElementsAre(2, 4));
  const auto other = Parse(xml, absl::string_view("\0", 1));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("Fancy"));
}

TEST(IfImportTest, FaultsNameTheRule) {
  const auto expect = [](const std::string& from, const std::string& to,
                         const std::vector<std::string>& pieces) {
    ASSERT_THAT(SoundIf(), HasSubstr(from));
    const auto graph = Parse(absl::StrReplaceAll(SoundIf(), {{from, to}}));
    ASSERT_FALSE(graph.ok()) << from << " -> " << to;
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr("layer 3 'if' (If)"));
    for (const std::string& piece : pieces) {
      EXPECT_THAT(std::string(graph.status().message()), HasSubstr(piece));
    }
  };
  expect("then_body>", "body>", {"has no <then_body>"});
  expect("else_port_map", "port_map", {"else_port_map: Parameter 'ex' has no rule"});
  expect(
      "internal_layer_id=\"7\"", "internal_layer_id=\"1\"",
      {"then_port_map: input rule of external port 1", "layer 1 is not a Parameter of the body"});
  expect("internal_layer_id=\"14\"", "internal_layer_id=\"2\"",
         {"else_port_map: output rule", "layer 2 is not a Result of the body"});
  expect("<input external_port_id=\"2\" internal_layer_id=\"1\"",
         "<input external_port_id=\"9\" internal_layer_id=\"1\"", {"has no input port 9"});
  expect("<output external_port_id=\"4\" internal_layer_id=\"4\"",
         "<output external_port_id=\"0\" internal_layer_id=\"4\"", {"has no output port 0"});
  expect("<output external_port_id=\"4\" internal_layer_id=\"4\"",
         "<output external_port_id=\"3\" internal_layer_id=\"4\"",
         {"another rule writes output port 3"});
  expect("external_port_id=\"2\" internal_layer_id=\"1\"",
         "external_port_id=\"2\" internal_layer_id=\"0\"", {"another rule feeds Parameter 0"});
  expect("<output external_port_id=\"3\" internal_layer_id=\"3\"/>", "",
         {"then_port_map: output port 3 has no rule"});
  expect("internal_layer_id=\"7\"", "internal_layer_id=\"7\" axis=\"0\"", {"no slices"});
  expect("type=\"Exp\"", "type=\"Exp2\"", {"else_body: layer 2 'exp' (Exp2)"});
}

// A recurrent layer with unit weights: h' = relu(x + h / 2), over items of length 3 and 2.
TEST(SequenceImportTest, RnnInBothDirections) {
  Layer sequence{10, "rnn", "RNNSequence",
                 "direction=\"bidirectional\" hidden_size=\"1\" activations=\"relu\" "
                 "activations_alpha=\"\" activations_beta=\"\" clip=\"0\""};
  std::vector<Layer> layers;
  std::string edges;
  const std::vector<std::pair<std::string, std::string>> inputs = {
      {"f32", "?,?,1"}, {"f32", "?,2,1"}, {"i32", "?"},
      {"f32", "2,1,1"}, {"f32", "2,1,1"}, {"f32", "2,1"}};
  for (int i = 0; i < 6; ++i) {
    layers.push_back(Typed(i, absl::StrCat("in", i), inputs[static_cast<size_t>(i)].first,
                           inputs[static_cast<size_t>(i)].second));
    sequence.inputs.push_back(Port(i, ""));
    absl::StrAppend(&edges, i, ".0-10.", i, ", ");
  }
  sequence.outputs = {Port(6, "-1,2,-1,1", "precision=\"FP32\" names=\"y\""),
                      Port(7, "-1,2,1", "precision=\"FP32\" names=\"h\"")};
  layers.push_back(sequence);
  layers.push_back(Result(11, "y"));
  layers.push_back(Result(12, "h"));
  const std::string xml = fixture::Net(layers, edges + "10.6-11.0, 10.7-12.0");
  const std::vector<Tensor> values = {F32({2, 3, 1}, {1, 2, 3, 4, 6, 9}),
                                      Tensor::Zeros(DType::kF32, {2, 2, 1}),
                                      Tensor::Of<int32_t>({2}, std::vector<int32_t>{3, 2}),
                                      F32({2, 1, 1}, {1, 1}),
                                      F32({2, 1, 1}, {0.5, 0.5}),
                                      F32({2, 1}, {0, 0})};
  const auto out = RunXml(xml, values);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].shape(), (Shape{2, 2, 3, 1}));
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(1, 2.5, 4.25, 2.75, 3.5, 3, 4, 8, 0, 7, 6, 0));
  EXPECT_THAT(Floats((*out)[1]), ElementsAre(4.25, 2.75, 8, 7));
  EXPECT_EQ(PortName(*Parse(xml), Parse(xml)->results[1]), "h");
  // A list for each direction.
  const auto twice = RunXml(
      absl::StrReplaceAll(xml, {{"activations=\"relu\"", "activations=\"relu,relu\""}}), values);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_THAT(Floats((*twice)[0]), ElementsAre(1, 2.5, 4.25, 2.75, 3.5, 3, 4, 8, 0, 7, 6, 0));
  const auto message = [&](const std::string& from, const std::string& to) {
    return std::string(RunXml(absl::StrReplaceAll(xml, {{from, to}}), values).status().message());
  };
  EXPECT_THAT(message("bidirectional", "sideways"),
              HasSubstr("layer 10 'rnn' (RNNSequence): attribute direction: 'sideways'"));
  EXPECT_THAT(message("hidden_size=\"1\"", "hidden_size=\"-1\""), HasSubstr("hidden_size -1"));
  EXPECT_THAT(message("\"RNNSequence\"", "\"LSTMSequence\""),
              HasSubstr("has 6 inputs; it takes 7"));
  EXPECT_THAT(message("activations=\"relu\"", "activations=\"swish\""),
              HasSubstr("'swish' is not supported"));
  EXPECT_THAT(message("activations=\"relu\"", "activations=\"relu,tanh\""),
              HasSubstr("attribute activations: the list is for two directions"));
  EXPECT_THAT(
      message("<dim>-1</dim><dim>2</dim><dim>1</dim>", "<dim>-1</dim><dim>2</dim><dim>4</dim>"),
      HasSubstr("is declared [?, 2, 4] but is"));
}

// A net of one sequence with hidden size 1, run on its inputs.
absl::StatusOr<std::vector<Tensor>> RunSequence(const std::string& type,
                                                const std::string& attributes,
                                                const std::vector<Tensor>& inputs,
                                                int num_outputs) {
  Layer sequence{20, "s", type, absl::StrCat("hidden_size=\"1\" ", attributes)};
  std::vector<Layer> layers;
  std::string edges;
  int port = 0;
  for (; port < static_cast<int>(inputs.size()); ++port) {
    const Tensor& input = inputs[static_cast<size_t>(port)];
    layers.push_back(Typed(port, absl::StrCat("in", port), std::string(Name(input.dtype())),
                           absl::StrReplaceAll(ToString(input.shape()), {{"[", ""}, {"]", ""}})));
    sequence.inputs.push_back(Port(port, ""));
    absl::StrAppend(&edges, port, ".0-20.", port, ", ");
  }
  std::vector<Layer> results;
  for (int i = 0; i < num_outputs; ++i, ++port) {
    sequence.outputs.push_back(Port(port, ""));
    results.push_back(Result(30 + i, absl::StrCat("r", i)));
    absl::StrAppend(&edges, "20.", port, "-", 30 + i, ".0, ");
  }
  layers.push_back(sequence);
  layers.insert(layers.end(), results.begin(), results.end());
  return RunXml(fixture::Net(layers, edges), inputs);
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Six names, three for each direction, as OpenVINO's converter writes them. OpenVINO applies the
// first three to both, so others have no single meaning.
TEST(SequenceImportTest, AnLstmMayListItsActivationsForEachDirection) {
  const std::vector<float> w = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f};
  const std::vector<Tensor> inputs = {F32({1, 1, 1}, {0.5}),
                                      F32({1, 2, 1}, {0.25, 0.25}),
                                      F32({1, 2, 1}, {-0.75, -0.75}),
                                      Tensor::Of<int64_t>({1}, std::vector<int64_t>{1}),
                                      F32({2, 4, 1}, w),
                                      F32({2, 4, 1}, w),
                                      F32({2, 4}, w)};
  const auto run = [&](const std::string& activations) {
    return RunSequence(
        "LSTMSequence",
        absl::StrCat("direction=\"bidirectional\" activations=\"", activations, "\""), inputs, 3);
  };
  const auto out = run("sigmoid,tanh,relu,sigmoid,tanh,relu");
  ASSERT_TRUE(out.ok()) << out.status();
  for (size_t direction = 0; direction < 2; ++direction) {
    const auto z = [&](size_t gate) { return w[4 * direction + gate] * (0.5 + 0.25 + 1); };
    const double c = Sigmoid(z(0)) * -0.75 + Sigmoid(z(1)) * std::tanh(z(2));
    const double h = Sigmoid(z(3)) * std::max(c, 0.0);
    EXPECT_NEAR(Floats((*out)[2])[direction], c, 1e-6);
    EXPECT_NEAR(Floats((*out)[1])[direction], h, 1e-6);
  }
  EXPECT_THAT(std::string(run("sigmoid,tanh,relu,sigmoid,tanh,tanh").status().message()),
              HasSubstr("export the layer as one of direction forward and one of direction "
                        "reverse"));
}

// One element and one step distinguish every input: each weight is another number.
TEST(SequenceImportTest, InputsOfLstmAndGru) {
  const auto s = Sigmoid;
  const Tensor length = Tensor::Of<int64_t>({1}, std::vector<int64_t>{1});
  const auto near = [](double x) { return ::testing::FloatNear(static_cast<float>(x), 1e-6f); };
  const Tensor x = F32({1, 1, 1}, {0.5});
  const Tensor h = F32({1, 1, 1}, {0.25});
  {
    const Tensor c = F32({1, 1, 1}, {-0.75});
    const std::vector<float> w = {0.1f, 0.2f, 0.3f, 0.4f};
    const std::vector<float> r = {0.5f, 0.6f, 0.7f, 0.8f};
    const std::vector<float> b = {1.1f, 1.2f, 1.3f, 1.4f};
    const std::vector<float> p = {2.1f, 2.2f, 2.3f};
    for (const bool peepholes : {false, true}) {
      std::vector<Tensor> inputs = {
          x, h, c, length, F32({1, 4, 1}, w), F32({1, 4, 1}, r), F32({1, 4}, b)};
      if (peepholes) {
        inputs.push_back(F32({1, 3}, p));
      }
      const auto out = RunSequence("LSTMSequence", "direction=\"reverse\"", inputs, 3);
      ASSERT_TRUE(out.ok()) << out.status();
      const auto z = [&](size_t gate) { return w[gate] * 0.5 + r[gate] * 0.25 + b[gate]; };
      const auto peep = [&](size_t i, double cell) { return peepholes ? p[i] * cell : 0.0; };
      const double next_c =
          s(z(0) + peep(0, -0.75)) * -0.75 + s(z(1) + peep(1, -0.75)) * std::tanh(z(2));
      const double next_h = s(z(3) + peep(2, next_c)) * std::tanh(next_c);
      EXPECT_THAT(Floats((*out)[0]), ElementsAre(near(next_h)));
      EXPECT_THAT(Floats((*out)[1]), ElementsAre(near(next_h)));
      EXPECT_THAT(Floats((*out)[2]), ElementsAre(near(next_c)));
    }
  }
  const std::vector<float> w = {0.1f, 0.2f, 0.3f};
  const std::vector<float> r = {0.5f, 0.6f, 0.7f};
  const std::vector<float> b = {1.1f, -1.2f, 1.3f, 1.4f};
  const auto out =
      RunSequence("GRUSequence", "direction=\"forward\" linear_before_reset=\"True\"",
                  {x, h, length, F32({1, 3, 1}, w), F32({1, 3, 1}, r), F32({1, 4}, b)}, 2);
  ASSERT_TRUE(out.ok()) << out.status();
  const auto z = [&](size_t gate) { return s(w[gate] * 0.5 + r[gate] * 0.25 + b[gate]); };
  const double candidate = std::tanh(w[2] * 0.5 + z(1) * (r[2] * 0.25 + b[3]) + b[2]);
  EXPECT_THAT(Floats((*out)[1]), ElementsAre(near((1 - z(0)) * candidate + z(0) * 0.25)));
}

std::string SoundVariables() {
  return fixture::Net(
      {Parameter(0, "x", "1,2"),
       Parameter(1, "start", "1,2"),
       {2,
        "read",
        "ReadValue",
        "variable_id=\"v\" variable_type=\"dynamic\" variable_shape=\"...\"",
        {Port(0, "1,2")},
        {Port(1, "1,2", "precision=\"FP32\"")},
        "",
        "version=\"opset6\""},
       {3, "sum", "Add", "", {Port(0, ""), Port(1, "")}, {Port(2, "", "names=\"total\"")}},
       {4, "write", "Assign", "variable_id=\"v\"", {Port(0, "")}, {Port(1, "")}},
       {5,
        "read3",
        "ReadValue",
        "variable_id=\"constant\"",
        {Port(0, "1,2")},
        {Port(1, "1,2", "precision=\"FP32\"")}},
       {6, "product", "Multiply", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}},
       Result(7, "y")},
      "0.0-3.0, 1.0-2.0, 2.1-3.1, 3.2-4.0, 1.0-5.0, 3.2-6.0, 5.1-6.1, 6.2-7.0");
}

TEST(VariableImportTest, StatesBecomeInputsAndOutputs) {
  const auto graph = Parse(SoundVariables());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto names = [&](const std::vector<int>& nodes) {
    std::vector<std::string> result;
    for (const int node : nodes) {
      result.push_back(PortName(*graph, node));
    }
    return result;
  };
  EXPECT_THAT(names(graph->parameters), ElementsAre("x", "start", "v", "constant"));
  EXPECT_THAT(names(graph->results), ElementsAre("y", "v/initial", "v", "constant/initial"));
  const auto out = RunXml(SoundVariables(), {F32({1, 2}, {1, 2}), F32({1, 2}, {7, 8}),
                                             F32({1, 2}, {10, 20}), F32({1, 2}, {3, 4})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(33, 88));
  EXPECT_THAT(Floats((*out)[1]), ElementsAre(7, 8));
  EXPECT_THAT(Floats((*out)[2]), ElementsAre(11, 22));
  EXPECT_THAT(Floats((*out)[3]), ElementsAre(7, 8));
}

TEST(VariableImportTest, Faults) {
  const auto message = [](const std::string& from, const std::string& to) {
    EXPECT_THAT(SoundVariables(), HasSubstr(from));
    return std::string(
        Parse(absl::StrReplaceAll(SoundVariables(), {{from, to}})).status().message());
  };
  EXPECT_THAT(message("variable_id=\"constant\"", "variable_id=\"v\""),
              HasSubstr("another ReadValue reads variable 'v'"));
  EXPECT_THAT(message("variable_id=\"constant\"", ""), HasSubstr("'variable_id' is missing"));
  EXPECT_THAT(message("id=\"1\" precision=\"FP32\"", "id=\"1\""), "")
      << "the type is that of the initial value";
  Layer loop = fixture::Loop(
      1, "TensorIterator",
      "<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
      "<output external_port_id=\"1\" internal_layer_id=\"2\"/>",
      "",
      Content({Parameter(0, "p", "1"),
               {1, "read", "ReadValue", "variable_id=\"v\"", {Port(0, "")}, {Port(1, "")}},
               Result(2, "r")},
              "0.0-1.0, 1.1-2.0"));
  loop.inputs = {Port(0, "")};
  loop.outputs = {Port(1, "")};
  const auto inside =
      Parse(fixture::Net({Parameter(0, "x", "1"), loop, Result(2, "r")}, "0.0-1.0, 1.1-2.0"));
  EXPECT_EQ(inside.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(inside.status().message()), HasSubstr("a variable inside a loop"));
}

// OpenVINO writes an invariant input twice where a branch in the body reads it; with two values it
// would be ambiguous.
TEST(LoopRunTest, ARuleMayBeRepeatedForTheSameValue) {
  Layer loop =
      fixture::Loop(2, "TensorIterator",
                    "<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
                    "<input external_port_id=\"1\" internal_layer_id=\"0\"/>"
                    "<output external_port_id=\"2\" internal_layer_id=\"2\"/>",
                    "",
                    Content({Parameter(0, "p", "1"), Unary(1, "n", "Negative"), Result(2, "r")},
                            "0.0-1.0, 1.1-2.0"));
  loop.inputs = {Port(0, ""), Port(1, "")};
  loop.outputs = {Port(2, "")};
  const auto net = [&](const std::string& second) {
    return fixture::Net({Parameter(0, "x", "1"), Parameter(1, "y", "1"), loop, Result(3, "r")},
                        absl::StrCat("0.0-2.0, ", second, ".0-2.1, 2.2-3.0"));
  };
  const auto out = RunXml(net("0"), {F32({1}, {3}), F32({1}, {4})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(-3));
  EXPECT_THAT(std::string(Parse(net("1")).status().message()),
              HasSubstr("another rule feeds body Parameter 'p'"));
}

// As OpenVINO writes a Loop: trip count on port 0, condition on port 1, data from port 2; the state
// grows, and an iteration that makes the condition false is the last.
TEST(LoopRunTest, StatesGrowUntilTheConditionFails) {
  const std::string body =
      Content({Typed(0, "i", "i64", ""),
               Parameter(1, "h", "?"),
               Parameter(2, "x", "1"),
               {3, "next", "Concat", "axis=\"0\"", {Port(0, ""), Port(1, "")}, {Port(2, "")}},
               Typed(4, "limit", "i64", ""),
               {5, "again", "Less", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}},
               Result(6, "h_out"),
               Result(7, "again_out"),
               Result(8, "i_out")},
              "1.0-3.0, 2.0-3.1, 3.2-6.0, 0.0-5.0, 4.0-5.1, 5.2-7.0, 0.0-8.0");
  Layer loop = fixture::Loop(
      10, "Loop",
      "<input external_port_id=\"2\" internal_layer_id=\"1\"/>"
      "<input external_port_id=\"3\" internal_layer_id=\"2\" axis=\"0\" start=\"0\" end=\"-1\" "
      "stride=\"1\" part_size=\"1\"/>"
      "<input external_port_id=\"4\" internal_layer_id=\"4\"/>"
      "<output external_port_id=\"5\" internal_layer_id=\"6\"/>"
      "<output external_port_id=\"6\" internal_layer_id=\"8\" axis=\"0\" start=\"0\" end=\"-1\" "
      "stride=\"1\" part_size=\"1\"/>"
      "<input external_port_id=\"-1\" internal_layer_id=\"0\" purpose=\"current_iteration\"/>"
      "<output external_port_id=\"-1\" internal_layer_id=\"7\" purpose=\"execution_condition\"/>",
      "<edge from-layer=\"6\" to-layer=\"1\"/>", body);
  loop.inputs = {Port(0, ""), Port(1, ""), Port(2, ""), Port(3, ""), Port(4, "")};
  loop.outputs = {Port(5, "-1", "precision=\"FP32\""), Port(6, "-1", "precision=\"I64\"")};
  const std::string xml =
      fixture::Net({Typed(0, "trips", "i64", ""), Typed(1, "condition", "boolean", ""),
                    Parameter(2, "h", "1"), Parameter(3, "x", "?"), Typed(4, "limit", "i64", ""),
                    loop, Result(11, "h_last"), Result(12, "all")},
                   "0.0-10.0, 1.0-10.1, 2.0-10.2, 3.0-10.3, 4.0-10.4, 10.5-11.0, 10.6-12.0");
  const auto run = [&](int64_t trips, bool condition, int64_t limit) {
    return RunXml(xml, {Tensor::Scalar(trips), Tensor::Scalar(condition), F32({1}, {9}),
                        F32({4}, {1, 2, 3, 4}), Tensor::Scalar(limit)});
  };
  auto out = run(-1, true, 100);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(9, 1, 2, 3, 4));
  EXPECT_THAT((*out)[1].span<int64_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Floats(run(2, true, 100)->at(0)), ElementsAre(9, 1, 2));
  EXPECT_THAT(Floats(run(4, true, 0)->at(0)), ElementsAre(9, 1));
  out = run(4, false, 100);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(9));
  EXPECT_EQ((*out)[1].shape(), (Shape{0}));
  EXPECT_THAT(std::string(run(5, true, 100).status().message()),
              HasSubstr("the trip count is 5, sliced inputs have 4 parts"));
}

}  // namespace
}  // namespace beamwright::ops
