// Tables per token: steps that look up give the bits of steps that compute, whatever the cell, the
// form of the token and the rows; and nothing is tabled that does not depend on the token alone,
// saves nothing or does not fit.
#include "ops/decoder/token_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::Count;
using testing_support::GraphBuilder;
using testing_support::Scanned;
using testing_support::Sliced;
using Value = GraphBuilder::Value;

constexpr int64_t kTokens = 300;  // more than are computed at once
constexpr int64_t kWidth = 20;
constexpr int64_t kHidden = 12;

Tensor Random(Shape shape, uint32_t seed) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = uniform(random);
  }
  return tensor;
}

// How the token comes into the body.
enum class Form { kFlat, kColumn, kRow };

struct Step {
  Loop loop;
  Form form = Form::kFlat;
};

// `make_body` gets the token's ids, [rows], and the state h, [rows, kHidden]; it returns the next
// h.
template <typename MakeBody>
Step MakeStep(Form form, MakeBody make_body) {
  GraphBuilder body;
  const Shape shape = form == Form::kFlat     ? Shape{-1}
                      : form == Form::kColumn ? Shape{-1, 1}
                                              : Shape{1, -1};
  const Value token = body.Parameter("token", DType::kI64, shape);
  const Value h = body.Parameter("h", DType::kF32, {-1, kHidden});
  const Value ids = form == Form::kFlat
                        ? token
                        : body.Add("Squeeze", {token, body.Ints({form == Form::kRow ? 0 : 1})});
  body.Result("next", make_body(body, ids, h));
  Step step;
  step.form = form;
  step.loop.body = body.Build();
  step.loop.inputs = {
      form == Form::kFlat ? Scanned(0, 0) : Sliced(0, 0, form == Form::kRow ? 0 : 1),
      Carried(1, 1, 0)};
  return step;
}

Value Embed(GraphBuilder& body, Value ids, int64_t tokens = kTokens) {
  return body.Add("Gather", {body.Constant(Random({tokens, kWidth}, 1)), ids, body.Int(0)});
}

Value Gru(GraphBuilder& body, Value x, Value h) {
  return body.Add(
      "GRUCell",
      {x, h, body.Constant(Random({3 * kHidden, kWidth}, 2)),
       body.Constant(Random({3 * kHidden, kHidden}, 3)), body.Constant(Random({4 * kHidden}, 4))},
      {{"hidden_size", kHidden}, {"linear_before_reset", true}});
}

// Its hidden state is the cell's only state: c is h.
Value Lstm(GraphBuilder& body, Value x, Value h, bool joined) {
  std::vector<Value> inputs = {x, h, h};
  if (joined) {
    inputs.push_back(body.Constant(Random({4 * kHidden, kWidth + kHidden}, 5)));
  } else {
    inputs.push_back(body.Constant(Random({4 * kHidden, kWidth}, 6)));
    inputs.push_back(body.Constant(Random({4 * kHidden, kHidden}, 7)));
  }
  inputs.push_back(body.Constant(Random({4 * kHidden}, 8)));
  return body.Add("LSTMCell", inputs, {{"hidden_size", kHidden}, {"weights_joined", joined}},
                  "cell", 2);
}

std::unique_ptr<LoopBody> Compile(const Loop& loop, const GraphInfo& info) {
  auto body = LoopBody::Compile(std::make_shared<const Loop>(loop), info, Operators());
  EXPECT_TRUE(body.ok()) << body.status();
  return *std::move(body);
}

// The next h after two steps of rows that start at random states.
Tensor Run(const LoopBody& body, Form form, const std::vector<int64_t>& tokens) {
  const auto rows = static_cast<int64_t>(tokens.size());
  const Shape shape = form == Form::kFlat     ? Shape{rows}
                      : form == Form::kColumn ? Shape{rows, 1}
                                              : Shape{1, rows};
  LoopBody::RequestValues values;
  EXPECT_TRUE(body.Bind(ExecutionContext(), {}, values).ok());
  LoopBody::RequestValues* const request = &values;
  const int count = static_cast<int>(rows);
  std::vector<int32_t> parents(tokens.size());
  std::vector<Tensor> states = {Random({rows, kHidden}, 9)};
  std::vector<Tensor> results;
  LoopBody::RowScratch scratch;
  for (size_t step = 0; step < 2; ++step) {
    for (size_t i = 0; i < parents.size(); ++i) {
      parents[i] = static_cast<int32_t>((i + step) % parents.size());
    }
    const Tensor slice = Tensor::Of<int64_t>(shape, tokens);
    const absl::Status status =
        body.StepRows(ExecutionContext(), {{&request, 1}, {&count, 1}, parents, {&slice, 1}},
                      scratch, states, results);
    EXPECT_TRUE(status.ok()) << status;
  }
  return states[0];
}

// Steps with tables against steps without; `tables` of them must have been made.
void ExpectSameBits(const Step& step, int tables, double share = 10) {
  Graph plain_graph = step.loop.body;
  auto info = InferGraph(plain_graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  Loop plain = step.loop;
  plain.body = plain_graph;
  const auto expected_body = Compile(plain, *info);
  Loop tabled = plain;
  const TokenTables made = AddTokenTables({kTokens, share}, Operators(), tabled, *info);
  EXPECT_EQ(made.count, tables) << made.refused;
  const auto body = Compile(tabled, *info);
  ASSERT_TRUE(body->plan().separable) << body->plan().reason;
  for (const std::vector<int64_t>& tokens : std::vector<std::vector<int64_t>>{
           {0}, {299}, {7, 7, 255, 256, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}) {
    const Tensor expected = Run(*expected_body, step.form, tokens);
    const Tensor got = Run(*body, step.form, tokens);
    ASSERT_EQ(got.shape(), expected.shape());
    EXPECT_EQ(std::memcmp(got.bytes(), expected.bytes(), static_cast<size_t>(got.num_bytes())), 0)
        << tokens.size() << " rows";
  }
}

TEST(TokenTables, TheProductsOfCellsAreLookedUp) {
  for (const Form form : {Form::kFlat, Form::kColumn, Form::kRow}) {
    ExpectSameBits(MakeStep(form, [](GraphBuilder& body, Value ids,
                                     Value h) { return Gru(body, Embed(body, ids), h); }),
                   1);
    for (const bool joined : {false, true}) {
      ExpectSameBits(
          MakeStep(form, [&](GraphBuilder& body, Value ids,
                             Value h) { return Lstm(body, Embed(body, ids), h, joined); }),
          1);
    }
  }
}

TEST(TokenTables, WhatTheTableHoldsIsGoneFromTheStep) {
  const Step step = MakeStep(Form::kColumn, [](GraphBuilder& body, Value ids, Value h) {
    return Gru(body, Embed(body, ids), h);
  });
  Loop loop = step.loop;
  auto info = InferGraph(loop.body, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const TokenTables made = AddTokenTables({kTokens, 10}, Operators(), loop, *info);
  EXPECT_EQ(made.bytes, kTokens * 3 * kHidden * 4);
  EXPECT_EQ(Count(loop.body, "MatMul"), 0);
  EXPECT_EQ(Count(loop.body, "Gather"), 1) << "the embedding is looked up no longer";
  for (const Node& node : loop.body.nodes) {
    EXPECT_FALSE(node.op == "Constant" && node.outputs[0].shape == PartialShape({kTokens, kWidth}));
  }
}

TEST(TokenTables, EverythingUpToTheFirstStateIsOneTable) {
  ExpectSameBits(
      MakeStep(Form::kFlat,
               [](GraphBuilder& body, Value ids, Value h) {
                 Value x = Embed(body, ids);
                 x = body.Add("MatMul", {x, body.Constant(Random({kWidth, kHidden}, 10))});
                 x = body.Add("Tanh", {body.Add("Add", {x, body.Constant(Random({kHidden}, 11))})});
                 return body.Add("Tanh", {body.Add("Add", {x, h})});
               }),
      1);
}

// Two factors a token, summed: [rows, 2] indices, segments by row.
TEST(TokenTables, SumsOfFactorsAreLookedUp) {
  ExpectSameBits(
      MakeStep(Form::kFlat,
               [](GraphBuilder& body, Value ids, Value h) {
                 std::vector<int64_t> factors;
                 for (int64_t token = 0; token < kTokens; ++token) {
                   factors.push_back(token % 17);
                   factors.push_back(17 + token % 5);
                 }
                 const Value of_token = body.Constant(Tensor::Of<int64_t>({kTokens, 2}, factors));
                 const Value pairs = body.Add("Gather", {of_token, ids, body.Int(0)});
                 const Value flat = body.Add("Reshape", {pairs, body.Ints({-1})});
                 const Value rows =
                     body.Add("Gather", {body.Add("ShapeOf", {ids}), body.Int(0), body.Int(0)});
                 const Value order = body.Add("Range", {body.Int(0), rows, body.Int(1)},
                                              {{"output_type", std::string("i64")}});
                 const Value column = body.Add("Unsqueeze", {order, body.Ints({1})});
                 const Value shape = body.Add(
                     "Concat", {body.Add("Unsqueeze", {rows, body.Ints({0})}), body.Ints({2})},
                     {{"axis", int64_t{0}}});
                 const Value segments =
                     body.Add("Reshape", {body.Add("Broadcast", {column, shape}), body.Ints({-1})});
                 const Value x =
                     body.Add("EmbeddingSegmentsSum",
                              {body.Constant(Random({22, kWidth}, 12)), flat, segments, rows});
                 return Gru(body, x, h);
               }),
      1);
}

// The embedding is read by the cell and elsewhere: the product gets a table, the embedding is one.
TEST(TokenTables, APlainLookUpNeedsNoTable) {
  ExpectSameBits(
      MakeStep(Form::kFlat,
               [](GraphBuilder& body, Value ids, Value h) {
                 const Value x = Embed(body, ids);
                 const Value next = Gru(body, x, h);
                 const Value both = body.Add("Concat", {next, x}, {{"axis", int64_t{1}}});
                 return body.Add("MatMul",
                                 {both, body.Constant(Random({kHidden + kWidth, kHidden}, 13))});
               }),
      1);
  ExpectSameBits(MakeStep(Form::kFlat,
                          [](GraphBuilder& body, Value ids, Value h) {
                            const Value x = Embed(body, ids);
                            const Value both = body.Add("Concat", {h, x}, {{"axis", int64_t{1}}});
                            return body.Add(
                                "MatMul",
                                {both, body.Constant(Random({kHidden + kWidth, kHidden}, 14))});
                          }),
                 0);
}

TEST(TokenTables, WhatDependsOnTheStateIsNoTable) {
  ExpectSameBits(
      MakeStep(
          Form::kFlat,
          [](GraphBuilder& body, Value ids, Value h) {
            const Value both = body.Add("Concat", {Embed(body, ids), h}, {{"axis", int64_t{1}}});
            const Value x =
                body.Add("MatMul", {both, body.Constant(Random({kWidth + kHidden, kWidth}, 15))});
            return Gru(body, x, h);
          }),
      0);
}

TEST(TokenTables, TablesStayWithinTheBudget) {
  const Step step = MakeStep(Form::kFlat, [](GraphBuilder& body, Value ids, Value h) {
    const Value x = Embed(body, ids);
    return body.Add("Add", {Gru(body, x, h), Lstm(body, x, h, true)});
  });
  // Constants: 300 x 20, 36 x 32 + 48 and 48 x 33 floats; tables: 300 x 36 and 300 x 48.
  constexpr double kConstants = 300 * 20 + 36 * 32 + 48 + 48 * 33;
  ExpectSameBits(step, 0, 300 * 35 / kConstants);
  ExpectSameBits(step, 1, 300 * 37 / kConstants);
  ExpectSameBits(step, 2, 300 * 85 / kConstants);
  ExpectSameBits(step, 0, 0);
}

// The vocabulary is larger than the embedding: what is an error in a step can't be tabled.
TEST(TokenTables, ATokenThatFailsRefusesThem) {
  const Step step = MakeStep(Form::kFlat, [](GraphBuilder& body, Value ids, Value h) {
    return Gru(body, Embed(body, ids, kTokens - 1), h);
  });
  Loop loop = step.loop;
  auto info = InferGraph(loop.body, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const size_t nodes = loop.body.nodes.size();
  const TokenTables made = AddTokenTables({kTokens, 10}, Operators(), loop, *info);
  EXPECT_EQ(made.count, 0);
  EXPECT_THAT(made.refused, HasSubstr("299"));
  EXPECT_EQ(loop.body.nodes.size(), nodes);
}

}  // namespace
}  // namespace beamwright::ops
