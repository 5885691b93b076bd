// What init guesses of a decoder's ports, and what it asks where a graph leaves it open.
#include "tools/graph/roles.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/graph_builder.h"
#include "tools/graph/ports.h"

namespace beamwright::ops {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

TEST(NameStem, SplitsWords) {
  EXPECT_THAT(NameWords("decoder/prevHidden.0"), ElementsAre("decoder", "prev", "hidden", "0"));
  EXPECT_THAT(NameWords("h_t-1"), ElementsAre("h", "tm1"));
  EXPECT_THAT(NameWords("__"), ElementsAre());
}

struct Pair {
  const char* input;
  const char* output;
  bool alike;
};

class StatePair : public ::testing::TestWithParam<Pair> {};

TEST_P(StatePair, IsAlikeButForItsSide) {
  const auto& [input, output, alike] = GetParam();
  const bool strict = NameStem(input) == NameStem(output) && !NameStem(input).empty();
  const bool loose = LooseStem(input, true) == LooseStem(output, false);
  EXPECT_EQ(strict || (loose && !LooseStem(input, true).empty()), alike);
}

INSTANTIATE_TEST_SUITE_P(
    All, StatePair,
    ::testing::Values(Pair{"h_in", "h_out", true}, Pair{"h", "h_next", true},
                      Pair{"prev_state", "next_state", true}, Pair{"h0", "hn", true},
                      Pair{"c_0", "c_n", true}, Pair{"past.1.cell", "present.1.cell", true},
                      Pair{"initHidden", "lastHidden", true}, Pair{"h_t-1", "h_t", true},
                      Pair{"old_c", "new_c", true}, Pair{"state_input", "state_output", true},
                      Pair{"h", "c_next", false}, Pair{"h_0_in", "h_1_out", false},
                      Pair{"in", "out", false}, Pair{"past.1.cell", "present.2.cell", false}));

// A step graph whose ports are as the test likes them; what it computes does not matter.
class StepBuilder {
 public:
  Value Token(const std::string& name) { return Input(name, DType::kI64, {-1}); }
  Value Input(const std::string& name, DType dtype, Shape shape) {
    return graph_.Parameter(name, dtype, std::move(shape));
  }
  // A separate output with a value's type and shape.
  void Output(const std::string& name, Value value) {
    graph_.Result(name, graph_.Add("Abs", {value}));
  }
  void Initial(const std::string& variable, Value value) {
    graph_.Result(variable + "/initial", graph_.Add("Broadcast", {value}));
  }
  void Logits(const std::string& name, Value token, int64_t width) {
    const Value table = graph_.Constant(Tensor::Zeros(DType::kF32, {7, width}));
    Output(name, graph_.Add("Gather", {table, token, graph_.Int(0)}));
  }
  GraphBuilder& graph() { return graph_; }
  Graph Build() {
    Graph graph = graph_.Build();
    for (Node& node : graph.nodes) {  // inference would say the same of these
      if (node.op == "Constant") {
        node.outputs[0].dtype = node.constant.dtype();
        node.outputs[0].shape = PartialShape(node.constant.shape());
      }
      if (node.op == "Abs" || node.op == "Broadcast" || node.op == "Gather") {
        const std::vector<std::string> names = node.outputs[0].names;
        node.outputs[0] = node.op == "Gather" ? Gathered(graph, node) : graph.info(node.inputs[0]);
        node.outputs[0].names = names;
      }
    }
    return graph;
  }

 private:
  static ValueInfo Gathered(const Graph& graph, const Node& node) {
    ValueInfo info;
    info.dtype = DType::kF32;
    info.shape = PartialShape({-1, graph.node(node.inputs[0].node).constant.dim(1)});
    return info;
  }
  GraphBuilder graph_;
};

absl::StatusOr<DecoderRoles> Guess(const Graph& graph, const RoleHints& hints = {},
                                   const Graph* encoder = nullptr) {
  std::vector<std::string> reasons;
  return GuessDecoderRoles(graph, encoder, hints, reasons);
}

Graph LstmStep(const std::string& h_next, const std::string& c_next) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value h = step.Input("h", DType::kF32, {-1, 8});
  const Value c = step.Input("c", DType::kF32, {-1, 8});
  step.Input("memory", DType::kF32, {-1, -1, 8});
  step.Logits("scores", token, 20);
  step.Output(h_next, h);
  step.Output(c_next, c);
  return step.Build();
}

TEST(Roles, StatesAreFoundByName) {
  const auto roles = Guess(LstmStep("c_out", "h_out"));  // in another order than the inputs
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_FALSE(roles->has_loop);
  EXPECT_EQ(roles->token_input, "token");
  ASSERT_EQ(roles->states.size(), 2u);
  EXPECT_EQ(roles->states[0].input, "h");
  EXPECT_EQ(roles->states[0].output, "h_out");
  EXPECT_EQ(roles->states[1].output, "c_out");
  EXPECT_EQ(roles->logits_output, "scores");
  EXPECT_EQ(roles->target_ids, 20);
  ASSERT_EQ(roles->memory.size(), 1u);
  EXPECT_EQ(roles->memory[0].input, "memory");
}

// OpenVINO's ReadValue with an input gives an output for what the variable begins with.
TEST(Roles, AVariableStartsAsItsGraphSays) {
  StepBuilder encoder;
  encoder.Output("context", encoder.Input("source", DType::kF32, {-1, 8}));
  const Graph encoder_graph = encoder.Build();
  StepBuilder step;
  const Value token = step.Token("token");
  const Value context = step.Input("context", DType::kF32, {-1, 8});
  const Value a = step.Input("past_a", DType::kF32, {-1, 8});
  const Value b = step.Input("past_b", DType::kF32, {-1, 8});
  const Value c = step.Input("past_c", DType::kF32, {-1, 8});
  step.Logits("scores", token, 20);
  step.Initial("past_a", context);
  step.Initial("past_b", step.graph().Constant(Tensor::Zeros(DType::kF32, {1, 8})));
  step.Output("past_c/initial", context);
  step.Output("past_a", a);
  step.Output("past_b", b);
  step.Output("past_c", c);
  std::vector<std::string> reasons;
  const auto roles = GuessDecoderRoles(step.Build(), &encoder_graph, {}, reasons);
  ASSERT_TRUE(roles.ok()) << roles.status();
  ASSERT_EQ(roles->states.size(), 3u);
  for (const StateRole& state : roles->states) {
    EXPECT_EQ(state.output, state.input);
  }
  EXPECT_EQ(roles->states[0].encoder_output, "context");
  EXPECT_FALSE(roles->states[0].starts_at_zero);
  EXPECT_TRUE(roles->states[1].starts_at_zero);
  EXPECT_TRUE(roles->states[2].starts_at_zero);
  EXPECT_THAT(reasons, Contains(HasSubstr("'past_c/initial' is not read")));
  EXPECT_EQ(roles->logits_output, "scores");
}

// A result of the input's name is not the input's if it is of another width.
TEST(Roles, WhatFeedsAnInputFitsIt) {
  StepBuilder encoder;
  encoder.Output("memory", encoder.Input("source", DType::kF32, {-1, -1, 9}));
  const Graph encoder_graph = encoder.Build();
  const auto roles = Guess(LstmStep("h_out", "c_out"), {}, &encoder_graph);
  EXPECT_THAT(std::string(roles.status().message()),
              HasSubstr("nothing is known to feed the decoder's input 'memory'"));
}

TEST(Roles, ToldLogitsHaveAScoreForEachToken) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value h = step.Input("h", DType::kF32, {-1, 8});
  const Value memory = step.Input("memory", DType::kF32, {-1, -1});
  step.Logits("scores", token, 20);
  step.Output("h_out", h);
  step.Output("attention", memory);
  const Graph graph = step.Build();
  RoleHints hints;
  hints.logits_output = "attention";
  EXPECT_TRUE(Guess(graph, hints).ok());  // for all that is known
  hints.target_ids = 20;
  EXPECT_THAT(std::string(Guess(graph, hints).status().message()),
              HasSubstr("'attention' is not the logits"));
  hints.logits_output = "scores";
  EXPECT_TRUE(Guess(graph, hints).ok());
}

TEST(Roles, EqualNamesGoBeforeNamesAlike) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value h = step.Input("h", DType::kF32, {-1, 8});
  step.Logits("scores", token, 20);
  step.Output("h_final", h);
  step.Output("h", h);
  const auto roles = Guess(step.Build());
  ASSERT_TRUE(roles.ok()) << roles.status();
  ASSERT_EQ(roles->states.size(), 1u);
  EXPECT_EQ(roles->states[0].output, "h");
}

TEST(Roles, StatesAreFoundByOrderWhereNamesTellNothing) {
  const auto roles = Guess(LstmStep("101", "102"));
  ASSERT_TRUE(roles.ok()) << roles.status();
  ASSERT_EQ(roles->states.size(), 2u);
  EXPECT_EQ(roles->states[0].output, "101");
  EXPECT_EQ(roles->states[1].output, "102");
}

TEST(Roles, ToldStatesComeFirst) {
  RoleHints hints;
  hints.states = {{"h", "102"}, {"c", "101"}};
  const auto roles = Guess(LstmStep("101", "102"), hints);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->states[0].output, "101");  // of c
  EXPECT_EQ(roles->states[1].output, "102");
  hints.states = {{"h", "scores"}};
  EXPECT_THAT(Guess(LstmStep("101", "102"), hints).status().message(), HasSubstr("'scores'"));
}

TEST(Roles, AmbiguousStatesAreAsked) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value h = step.Input("h", DType::kF32, {-1, 8});
  step.Logits("logits", token, 20);
  step.Output("h_new", h);
  step.Output("h_out", h);
  EXPECT_THAT(Guess(step.Build()).status().message(),
              AllOf(HasSubstr("'h_new'"), HasSubstr("'h_out'"), HasSubstr("--state h=OUTPUT")));
}

TEST(Roles, UnequalNumbersAreAsked) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value h = step.Input("h", DType::kF32, {-1, 8});
  step.Input("speaker", DType::kF32, {-1, 8});
  step.Logits("logits", token, 20);
  step.Output("x", h);
  EXPECT_THAT(Guess(step.Build()).status().message(),
              AllOf(HasSubstr("'h'"), HasSubstr("'speaker'"), HasSubstr("'x'")));
}

TEST(Roles, NoIntegerInput) {
  StepBuilder step;
  step.Output("h_out", step.Input("h", DType::kF32, {-1, 8}));
  EXPECT_THAT(Guess(step.Build()).status().message(),
              AllOf(HasSubstr("no i64 or i32 input"), HasSubstr("'h' f32[?, 8]")));
}

// As wide as the target's vocabulary, which a state may be as well.
TEST(Roles, TokensMayBeOneHot) {
  StepBuilder step;
  const Value token = step.Input("input_2", DType::kF32, {-1, 20});
  step.Output("h_out", step.Input("h", DType::kF32, {-1, 8}));
  step.Output("logits", token);
  const Graph graph = step.Build();
  RoleHints hints;
  hints.target_ids = 20;
  const auto roles = Guess(graph, hints);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->token_input, "input_2");
  EXPECT_EQ(roles->logits_output, "logits");
  // The token more begins, as a vector of zeros.
  hints.target_ids = 21;
  const auto with_begin = Guess(graph, hints);
  ASSERT_TRUE(with_begin.ok()) << with_begin.status();
  EXPECT_EQ(with_begin->token_input, "input_2");
  EXPECT_EQ(with_begin->target_ids, 21);
  hints.target_ids = 22;
  EXPECT_FALSE(Guess(graph, hints).ok());
  hints.target_ids = -1;
  hints.token_input = "input_2";
  const auto told = Guess(graph, hints);
  EXPECT_TRUE(told.ok()) << told.status();
}

TEST(Roles, SeveralIntegerInputs) {
  for (const bool named : {true, false}) {
    StepBuilder step;
    const Value token = step.Token(named ? "prev_token" : "a");
    const Value position = step.Token(named ? "position" : "b");
    const Value h = step.Input("h", DType::kF32, {-1, 8});
    step.Output("seen", position);
    step.Output("h_out", h);
    const Value table = step.graph().Constant(Tensor::Zeros(DType::kF32, {7, 9}));
    step.Output("logits",
                step.graph().Add("Gather", {table, named ? token : h, step.graph().Int(0)}));
    const auto roles = Guess(step.Build());
    if (named) {
      ASSERT_TRUE(roles.ok()) << roles.status();
      EXPECT_EQ(roles->token_input, "prev_token");
    } else {
      EXPECT_THAT(roles.status().message(),
                  AllOf(HasSubstr("'a' i64[?], 'b' i64[?]"), HasSubstr("--token-input")));
    }
  }
}

TEST(Roles, AmbiguousLogits) {
  StepBuilder step;
  const Value token = step.Token("token");
  step.Output("h_out", step.Input("h", DType::kF32, {-1, 8}));
  step.Logits("first", token, 20);
  step.Logits("second", token, 20);
  step.Logits("small", token, 3);
  const Graph graph = step.Build();
  EXPECT_THAT(Guess(graph).status().message(),
              AllOf(HasSubstr("'first'"), HasSubstr("'second'"), HasSubstr("--logits-output")));
  RoleHints hints;
  hints.logits_output = "second";
  EXPECT_EQ(Guess(graph, hints)->logits_output, "second");
  hints.logits_output = "";
  hints.target_ids = 3;  // the vocabulary decides
  EXPECT_EQ(Guess(graph, hints)->logits_output, "small");
  hints.logits_output = "none";
  EXPECT_THAT(Guess(graph, hints).status().message(), HasSubstr("no output 'none'"));
}

// Fewer tokens than the states are wide, and no names: not the widest output, but the one that is
// like no state.
TEST(Roles, NarrowLogitsAreUnlikeStates) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value h = step.Input("h", DType::kF32, {-1, 64});
  step.Output("103", h);
  step.Logits("104", token, 28);
  const auto roles = Guess(step.Build());
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->logits_output, "104");
  ASSERT_EQ(roles->states.size(), 1u);
  EXPECT_EQ(roles->states[0].output, "103");
}

TEST(Roles, StartsComeFromTheEncoder) {
  StepBuilder encoder;
  const Value source = encoder.Input("source", DType::kI64, {-1, -1});
  encoder.Output("h_init", encoder.Input("unused", DType::kF32, {-1, 8}));
  encoder.Output("annotations", encoder.Input("unused_too", DType::kF32, {-1, -1, 8}));
  static_cast<void>(source);
  const Graph encoder_graph = encoder.Build();
  const auto roles = Guess(LstmStep("h_out", "c_out"), {}, &encoder_graph);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->states[0].encoder_output, "h_init");  // a name alike
  EXPECT_FALSE(roles->states[0].starts_at_zero);
  EXPECT_EQ(roles->states[1].encoder_output, "");
  EXPECT_TRUE(roles->states[1].starts_at_zero);
  EXPECT_EQ(roles->memory[0].encoder_output, "annotations");  // by shape
}

TEST(Roles, UnfedInputsAreNamed) {
  StepBuilder encoder;
  encoder.Output("h", encoder.Input("x", DType::kF32, {-1, 8}));
  const Graph encoder_graph = encoder.Build();
  EXPECT_THAT(Guess(LstmStep("h_out", "c_out"), {}, &encoder_graph).status().message(),
              AllOf(HasSubstr("'memory' f32[?, ?, 8]"), HasSubstr("'h' f32[?, 8]")));
}

TEST(Roles, LengthsAndMasks) {
  GraphBuilder graph;
  const auto kind = [&](Value value) {
    Graph copy = graph.Build();
    const LengthKind found = GuessLengthKind(copy, value.node);
    graph = GraphBuilder();
    return found;
  };
  EXPECT_EQ(kind(graph.Parameter("src_len", DType::kI32, {-1})), LengthKind::kLengths);
  EXPECT_EQ(kind(graph.Parameter("lengthy", DType::kI32, {-1})), LengthKind::kNone);
  EXPECT_EQ(kind(graph.Parameter("length", DType::kF32, {-1})), LengthKind::kNone);
  EXPECT_EQ(kind(graph.Parameter("mask", DType::kBool, {-1, -1})), LengthKind::kMask);
  EXPECT_EQ(kind(graph.Parameter("key_padding_mask", DType::kBool, {-1, -1})),
            LengthKind::kAdditiveMask);
  const Value mask = graph.Parameter("mask", DType::kF32, {-1, -1});
  const Value scores = graph.Parameter("x", DType::kF32, {-1, 1, -1});
  graph.Result("y", graph.Add("Add", {graph.Add("Unsqueeze", {mask, graph.Ints({1})}), scores}));
  EXPECT_EQ(kind(mask), LengthKind::kAdditiveMask);
}

TEST(Roles, EncodersHaveOneSource) {
  std::vector<std::string> reasons;
  StepBuilder encoder;
  const Value table = encoder.graph().Constant(Tensor::Zeros(DType::kF32, {30, 4}));
  const Value source = encoder.Token("source");
  encoder.Input("source_lengths", DType::kI64, {-1});
  encoder.Output("memory", encoder.graph().Add("Gather", {table, source, encoder.graph().Int(0)}));
  const auto roles = GuessEncoderRoles(encoder.Build(), reasons);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->input, "source");
  EXPECT_EQ(roles->source_ids, 30);
  EXPECT_EQ(roles->length_input, "source_lengths");
  EXPECT_EQ(roles->length_kind, LengthKind::kLengths);
  EXPECT_THAT(GuessEncoderRoles(LstmStep("h_out", "c_out"), reasons).status().message(),
              AllOf(HasSubstr("'memory'"), HasSubstr("Is it the decoder?")));
}

// Requests bring an encoder's inputs besides the source.
TEST(Roles, TheSourceOfSeveralInputs) {
  const auto guess = [](const Shape& vector, const std::string& told) {
    StepBuilder encoder;
    encoder.Input("words", DType::kI64, {-1, -1});
    encoder.Input("speaker", DType::kF32, vector);
    encoder.Input("words_lengths", DType::kI64, {-1});
    std::vector<std::string> reasons;
    return GuessEncoderRoles(encoder.Build(), reasons, told);
  };
  const auto by_length = guess({-1, 8}, "");
  ASSERT_TRUE(by_length.ok()) << by_length.status();
  EXPECT_EQ(by_length->input, "words");
  EXPECT_EQ(by_length->length_input, "words_lengths");
  EXPECT_THAT(by_length->further_inputs, ElementsAre("speaker"));
  EXPECT_THAT(
      guess({-1, -1, 8}, "").status().message(),
      AllOf(HasSubstr("which of them takes the source is left open"), HasSubstr("--source-input")));
  const auto told = guess({-1, -1, 8}, "speaker");
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->input, "speaker");
  EXPECT_THAT(told->further_inputs, ElementsAre("words"));
  EXPECT_THAT(guess({-1, 8}, "voice").status().message(),
              HasSubstr("--source-input: there is no input 'voice'"));
}

// OpenVINO's converter names two Results alike that read one value.
TEST(Roles, OneValueReadTwiceIsOneOutput) {
  StepBuilder step;
  const Value token = step.Token("token");
  const Value next = step.graph().Add("Abs", {step.Input("h", DType::kF32, {-1, 8})});
  step.Logits("scores", token, 20);
  step.graph().Result("h_next", next);
  step.graph().Result("h_next", next);
  const auto roles = Guess(step.Build());
  ASSERT_TRUE(roles.ok()) << roles.status();
  ASSERT_EQ(roles->states.size(), 1u);
  EXPECT_EQ(roles->states[0].output, "h_next");
}

}  // namespace
}  // namespace beamwright::ops
