// Attention as people write it: none of its spellings may be refused, and what `check` says of each
// is fixed here, so that a change to row plans shows which decoders become slower or faster.
#include <algorithm>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tools/graph/check.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

constexpr int64_t kWidth = 4;
constexpr int64_t kHeads = 2;
constexpr int64_t kTokens = 6;

// What a spelling may use: h [rows, width], memory [rows, length, width], and how long a source is.
struct Context {
  GraphBuilder& graph;
  Value h;
  Value memory;
  Value lengths;   // i64 [rows]
  Value mask;      // boolean [rows, length], true at tokens
  Value additive;  // f32 [rows, length], 0 at tokens

  Value Weights(int64_t rows, int64_t columns) const {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 7) / 7 - 0.4f;
    }
    return graph.Constant(Tensor::Of<float>({rows, columns}, values));
  }
  Value Scalar(float value) const { return graph.Constant(Tensor::Scalar(value)); }
  Value MatMul(Value a, Value b, bool transpose_b = false) const {
    return graph.Add("MatMul", {a, b}, {{"transpose_b", transpose_b}});
  }
  Value SoftMax(Value scores, int64_t axis) const {
    return graph.Add("SoftMax", {scores}, {{"axis", axis}});
  }
  Value Unsqueeze(Value value, int64_t axis) const {
    return graph.Add("Unsqueeze", {value, graph.Ints({axis})});
  }
  Value Squeeze(Value value, int64_t axis) const {
    return graph.Add("Squeeze", {value, graph.Ints({axis})});
  }
  Value Transpose(Value value, std::vector<int64_t> order) const {
    return graph.Add("Transpose", {value, graph.Ints(std::move(order))});
  }
  Value Reshape(Value value, std::vector<int64_t> shape) const {
    return graph.Add("Reshape", {value, graph.Ints(std::move(shape))}, {{"special_zero", true}});
  }
  // scores [rows, 1, length]
  Value DotScores() const { return MatMul(Unsqueeze(h, 1), memory, true); }
  // weights [rows, 1, length] -> [rows, width]
  Value Read(Value weights) const { return Squeeze(MatMul(weights, memory), 1); }
};

Value Dot(const Context& c) { return c.Read(c.SoftMax(c.DotScores(), -1)); }

Value DotByColumns(const Context& c) {
  const Value weights = c.SoftMax(c.MatMul(c.memory, c.Unsqueeze(c.h, 2)), 1);  // [rows, length, 1]
  return c.Squeeze(c.graph.Add("MatMul", {weights, c.memory}, {{"transpose_a", true}}), 1);
}

Value DotByProductAndSum(const Context& c) {
  const Value products = c.graph.Add("Multiply", {c.memory, c.Unsqueeze(c.h, 1)});
  const Value scores =
      c.graph.Add("ReduceSum", {products, c.graph.Ints({2})}, {{"keep_dims", true}});
  const Value weighted = c.graph.Add("Multiply", {c.SoftMax(scores, 1), c.memory});
  return c.graph.Add("ReduceSum", {weighted, c.graph.Ints({1})}, {{"keep_dims", false}});
}

Value GeneralOnKeys(const Context& c) {
  const Value keys = c.MatMul(c.memory, c.Weights(kWidth, kWidth));
  return c.Read(c.SoftMax(c.MatMul(c.Unsqueeze(c.h, 1), keys, true), -1));
}

Value GeneralOnQuery(const Context& c) {
  const Value query = c.MatMul(c.h, c.Weights(kWidth, kWidth));
  return c.Read(c.SoftMax(c.MatMul(c.Unsqueeze(query, 1), c.memory, true), -1));
}

Value Scaled(const Context& c) {
  return c.Read(c.SoftMax(c.graph.Add("Divide", {c.DotScores(), c.Scalar(2)}), -1));
}

// The scale is computed from the width of the query, as PyTorch's own code does.
Value ScaledByShape(const Context& c) {
  const Value shape = c.graph.Add("ShapeOf", {c.h}, {{"output_type", std::string("i64")}});
  const Value width = c.graph.Add("Gather", {shape, c.graph.Int(1), c.graph.Int(0)});
  const Value real = c.graph.Add("Convert", {width}, {{"destination_type", std::string("f32")}});
  const Value scores = c.graph.Add("Divide", {c.DotScores(), c.graph.Add("Sqrt", {real})});
  return c.Read(c.SoftMax(scores, -1));
}

Value Additive(const Context& c) {
  const Value query = c.Unsqueeze(c.MatMul(c.h, c.Weights(kWidth, kWidth)), 1);
  const Value keys = c.MatMul(c.memory, c.Weights(kWidth, kWidth));
  const Value hidden = c.graph.Add("Tanh", {c.graph.Add("Add", {query, keys})});
  const Value weights = c.SoftMax(c.MatMul(hidden, c.Weights(kWidth, 1)), 1);  // [rows, length, 1]
  return c.Read(c.Transpose(weights, {0, 2, 1}));
}

Value AdditiveBySum(const Context& c) {
  const Value query = c.Unsqueeze(c.MatMul(c.h, c.Weights(kWidth, kWidth)), 1);
  const Value hidden = c.graph.Add("Tanh", {c.graph.Add("Add", {query, c.memory})});
  const Value products = c.graph.Add("Multiply", {hidden, c.Weights(1, kWidth)});
  const Value scores =
      c.graph.Add("ReduceSum", {products, c.graph.Ints({2})}, {{"keep_dims", false}});
  return c.Read(c.Unsqueeze(c.SoftMax(scores, 1), 1));
}

Value MultiHead(const Context& c) {
  const int64_t head = kWidth / kHeads;
  const Value query =
      c.Transpose(c.Reshape(c.Unsqueeze(c.h, 1), {0, 0, kHeads, head}), {0, 2, 1, 3});
  const Value keys = c.Transpose(c.Reshape(c.memory, {0, 0, kHeads, head}), {0, 2, 1, 3});
  const Value weights = c.SoftMax(c.MatMul(query, keys, true), -1);  // [rows, heads, 1, length]
  const Value read = c.Transpose(c.MatMul(weights, keys), {0, 2, 1, 3});
  return c.Reshape(read, {0, kWidth});
}

// view(-1, 1, heads, head)
Value MultiHeadByMinusOne(const Context& c) {
  const int64_t head = kWidth / kHeads;
  const Value query = c.Transpose(c.Reshape(c.h, {-1, 1, kHeads, head}), {0, 2, 1, 3});
  const Value keys = c.Transpose(c.Reshape(c.memory, {0, 0, kHeads, head}), {0, 2, 1, 3});
  const Value read = c.MatMul(c.SoftMax(c.MatMul(query, keys, true), -1), keys);
  return c.Reshape(c.Transpose(read, {0, 2, 1, 3}), {-1, kWidth});
}

// view(h.size(0), 1, heads, -1): the number of rows is read off a tensor.
Value MultiHeadByShape(const Context& c) {
  const int64_t head = kWidth / kHeads;
  const Value shape = c.graph.Add("ShapeOf", {c.h}, {{"output_type", std::string("i64")}});
  const Value rows = c.graph.Add("Gather", {shape, c.graph.Ints({0}), c.graph.Int(0)});
  const Value target =
      c.graph.Add("Concat", {rows, c.graph.Ints({1, kHeads, -1})}, {{"axis", int64_t{0}}});
  const Value query =
      c.Transpose(c.graph.Add("Reshape", {c.h, target}, {{"special_zero", false}}), {0, 2, 1, 3});
  const Value keys = c.Transpose(c.Reshape(c.memory, {0, 0, kHeads, head}), {0, 2, 1, 3});
  const Value read = c.MatMul(c.SoftMax(c.MatMul(query, keys, true), -1), keys);
  return c.Reshape(c.Transpose(read, {0, 2, 1, 3}), {0, kWidth});
}

// The same, of which the number of rows is the memory's, and the memory's own views are computed.
Value MultiHeadByMemoryShape(const Context& c) {
  const int64_t head = kWidth / kHeads;
  const Value shape = c.graph.Add("ShapeOf", {c.memory}, {{"output_type", std::string("i64")}});
  const auto extent = [&](int64_t axis) {
    const Value one = c.graph.Add("Gather", {shape, c.graph.Int(axis), c.graph.Int(0)});
    return c.Unsqueeze(one, 0);
  };
  const auto view = [&](Value data, std::vector<Value> target) {
    const Value list = c.graph.Add("Concat", std::move(target), {{"axis", int64_t{0}}});
    return c.graph.Add("Reshape", {data, list}, {{"special_zero", false}});
  };
  const Value heads = c.graph.Ints({kHeads, head});
  const Value query =
      c.Transpose(view(c.h, {extent(0), c.graph.Ints({1, kHeads, -1})}), {0, 2, 1, 3});
  const Value keys = c.Transpose(view(c.memory, {extent(0), extent(1), heads}), {0, 2, 1, 3});
  const Value read =
      c.Transpose(c.MatMul(c.SoftMax(c.MatMul(query, keys, true), -1), keys), {0, 2, 1, 3});
  return view(read, {extent(0), c.graph.Ints({kWidth})});
}

// torch.nn.MultiheadAttention: time before rows, heads joined with the rows.
Value MultiHeadTimeFirst(const Context& c) {
  const int64_t head = kWidth / kHeads;
  const Value memory = c.Transpose(c.memory, {1, 0, 2});  // [length, rows, width]
  const Value shape = c.graph.Add("ShapeOf", {memory}, {{"output_type", std::string("i64")}});
  const auto extent = [&](int64_t axis) {
    return c.graph.Add("Gather", {shape, c.graph.Int(axis), c.graph.Int(0)});
  };
  const auto view = [&](Value data, std::vector<Value> target) {
    const Value list = c.graph.Add("Concat", std::move(target), {{"axis", int64_t{0}}});
    return c.graph.Add("Reshape", {data, list}, {{"special_zero", true}});
  };
  const Value joined = c.Unsqueeze(c.graph.Add("Multiply", {extent(1), c.graph.Int(kHeads)}), 0);
  const Value heads = c.graph.Ints({head});
  const Value query =
      c.Transpose(view(c.Unsqueeze(c.h, 0), {c.graph.Ints({1}), joined, heads}), {1, 0, 2});
  const Value keys =
      c.Transpose(view(memory, {c.Unsqueeze(extent(0), 0), joined, heads}), {1, 0, 2});
  const Value weights = c.SoftMax(c.MatMul(query, c.Transpose(keys, {0, 2, 1})), -1);
  const Value read = c.Transpose(c.MatMul(weights, keys), {1, 0, 2});  // [1, rows * heads, head]
  return view(read, {c.Unsqueeze(extent(1), 0), c.graph.Ints({kWidth})});
}

// Scores [rows, 1, length] where the mask is false become `value`.
Value Masked(const Context& c, Value mask, float value) {
  return c.Read(
      c.SoftMax(c.graph.Add("Select", {c.Unsqueeze(mask, 1), c.DotScores(), c.Scalar(value)}), -1));
}

Value MaskByInfinity(const Context& c) {
  return Masked(c, c.mask, -std::numeric_limits<float>::infinity());
}

Value MaskByLargeNumber(const Context& c) {
  const Value real = c.graph.Add("Convert", {c.mask}, {{"destination_type", std::string("f32")}});
  const Value off = c.graph.Add("Subtract", {c.Scalar(1), real});
  const Value penalty = c.graph.Add("Multiply", {off, c.Scalar(-1e9f)});
  return c.Read(c.SoftMax(c.graph.Add("Add", {c.DotScores(), c.Unsqueeze(penalty, 1)}), -1));
}

Value MaskAdded(const Context& c) {
  return c.Read(c.SoftMax(c.graph.Add("Add", {c.DotScores(), c.Unsqueeze(c.additive, 1)}), -1));
}

// exp(score) times mask, divided by its sum.
Value MaskByMultiplication(const Context& c) {
  const Value real = c.graph.Add("Convert", {c.mask}, {{"destination_type", std::string("f32")}});
  const Value kept =
      c.graph.Add("Multiply", {c.graph.Add("Exp", {c.DotScores()}), c.Unsqueeze(real, 1)});
  const Value sum = c.graph.Add("ReduceSum", {kept, c.graph.Ints({2})}, {{"keep_dims", true}});
  return c.Read(c.graph.Add("Divide", {kept, sum}));
}

// arange(memory.size(1)) < lengths
Value MaskFromLengths(const Context& c) {
  const Value shape = c.graph.Add("ShapeOf", {c.memory}, {{"output_type", std::string("i64")}});
  const Value length = c.graph.Add("Gather", {shape, c.graph.Int(1), c.graph.Int(0)});
  const Value positions = c.graph.Add("Range", {c.graph.Int(0), length, c.graph.Int(1)},
                                      {{"output_type", std::string("i64")}});
  const Value mask = c.graph.Add("Less", {positions, c.Unsqueeze(c.lengths, 1)});
  return Masked(c, mask, -1e9f);
}

// A mask [rows, 1, 1, length], broadcast to all heads before it is used.
Value MaskedMultiHead(const Context& c) {
  const int64_t head = kWidth / kHeads;
  const Value query = c.Transpose(c.Reshape(c.h, {-1, 1, kHeads, head}), {0, 2, 1, 3});
  const Value keys = c.Transpose(c.Reshape(c.memory, {0, 0, kHeads, head}), {0, 2, 1, 3});
  const Value mask = c.graph.Add(
      "Broadcast",
      {c.graph.Add("Unsqueeze", {c.mask, c.graph.Ints({1, 2})}), c.graph.Ints({1, kHeads, 1, 1})},
      {{"mode", std::string("bidirectional")}});
  const Value scores = c.graph.Add("Select", {mask, c.MatMul(query, keys, true), c.Scalar(-1e9f)});
  const Value read = c.MatMul(c.SoftMax(scores, -1), keys);
  return c.Reshape(c.Transpose(read, {0, 2, 1, 3}), {0, kWidth});
}

// Scores are biased by their position, a value of the request that has no rows.
Value BiasByPosition(const Context& c) {
  const Value shape = c.graph.Add("ShapeOf", {c.memory}, {{"output_type", std::string("i64")}});
  const Value length = c.graph.Add("Gather", {shape, c.graph.Int(1), c.graph.Int(0)});
  const Value positions = c.graph.Add("Range", {c.graph.Int(0), length, c.graph.Int(1)},
                                      {{"output_type", std::string("f32")}});
  return c.Read(c.SoftMax(c.graph.Add("Subtract", {c.DotScores(), positions}), -1));
}

struct Spelling {
  const char* name;
  Value (*attend)(const Context& context);
  int per_request;         // instructions that run request by request
  const char* row_by_row;  // part of the reason, or nullptr: rows run together
};

void PrintTo(const Spelling& spelling, std::ostream* out) { *out << spelling.name; }

class AttentionSpelling : public ::testing::TestWithParam<Spelling> {};

Graph Decoder(Value (*attend)(const Context& context)) {
  GraphBuilder body;
  const Value token = body.Parameter("token", DType::kI64, {-1, 1});
  const Value h = body.Parameter("h", DType::kF32, {-1, kWidth});
  Context context{body,
                  h,
                  body.Parameter("memory", DType::kF32, {-1, -1, kWidth}),
                  body.Parameter("lengths", DType::kI64, {-1}),
                  body.Parameter("mask", DType::kBool, {-1, -1}),
                  body.Parameter("additive_mask", DType::kF32, {-1, -1})};
  const Value id = context.Squeeze(token, 1);
  const Value x = body.Add("Gather", {context.Weights(kTokens, kWidth), id, body.Int(0)});
  const Value sum = body.Add("Add", {body.Add("Add", {x, h}), attend(context)});
  const Value next = body.Add("Tanh", {context.MatMul(sum, context.Weights(kWidth, kWidth))});
  body.Result("h_next", next);
  body.Result("step_logits",
              context.Unsqueeze(context.MatMul(next, context.Weights(kWidth, kTokens)), 1));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 0)};
  for (int i = 2; i < 6; ++i) {
    loop.inputs.push_back(testing_support::Invariant(i, i));
  }
  loop.outputs = {testing_support::Joined(0, 1, 1)};
  GraphBuilder graph;
  const std::vector<Value> inputs = {graph.Parameter("tokens", DType::kI64, {-1, -1}),
                                     graph.Parameter("h", DType::kF32, {-1, kWidth}),
                                     graph.Parameter("memory", DType::kF32, {-1, -1, kWidth}),
                                     graph.Parameter("lengths", DType::kI64, {-1}),
                                     graph.Parameter("mask", DType::kBool, {-1, -1}),
                                     graph.Parameter("additive_mask", DType::kF32, {-1, -1})};
  graph.Result("logits", graph.Loop(inputs, std::move(loop), 1));
  return graph.Build();
}

TEST_P(AttentionSpelling, IsLoadedAndJudged) {
  const Spelling& spelling = GetParam();
  const GraphFindings findings = CheckGraph(Decoder(spelling.attend));
  EXPECT_TRUE(findings.ok()) << findings.status;
  ASSERT_TRUE(findings.step.has_value()) << findings.no_step;
  const StepFinding& step = *findings.step;
  if (spelling.row_by_row != nullptr) {
    EXPECT_THAT(step.row_by_row, HasSubstr(spelling.row_by_row));
    EXPECT_THAT(CheckText(findings, 0), HasSubstr("one at a time, because "));
    return;
  }
  EXPECT_EQ(step.row_by_row, "");
  EXPECT_EQ(step.per_request.size(), static_cast<size_t>(spelling.per_request))
      << CheckText(findings, 0);
  EXPECT_GT(step.instructions, spelling.per_request);
  EXPECT_THAT(CheckText(findings, 0), HasSubstr("the rows of all requests together"));
}

Tensor Ramp(Shape shape, int seed) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 5) % 13) / 13 - 0.5f;
  }
  return Tensor::Of<float>(std::move(shape), values);
}

// What a request brings whose source has `length` tokens, the last one masked: memory, lengths,
// mask and additive mask.
std::vector<Tensor> Invariants(int64_t length) {
  Tensor mask(DType::kBool, {1, length});
  Tensor additive = Tensor::Zeros(DType::kF32, {1, length});
  for (int64_t i = 0; i < length; ++i) {
    mask.mutable_data<bool>()[i] = i + 1 < length;
  }
  additive.mutable_data<float>()[length - 1] = -1e9f;
  return {Ramp({1, length, kWidth}, static_cast<int>(length)),
          Tensor::Of<int64_t>({1}, std::vector<int64_t>{length - 1}), mask, additive};
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
}

// Three requests with sources of different lengths and several rows each, stepped together as
// planned, against every row alone in the body as it was written.
TEST_P(AttentionSpelling, RowsTogetherGiveWhatEachGivesAlone) {
  const auto body_of = [](const Graph& graph, const GraphInfo& info) {
    const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                 [](const Node& node) { return node.loop != nullptr; });
    return *LoopBody::Compile(
        at->loop, *info.bodies[static_cast<size_t>(at - graph.nodes.begin())][0], Operators());
  };
  Graph graph = Decoder(GetParam().attend);
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const std::unique_ptr<LoopBody> written = body_of(graph, *info);
  const absl::Status folded =
      FoldShapes(graph, *info, {Operators(), DecoderRowAxes(graph, 0, 0)}).status();
  ASSERT_TRUE(folded.ok()) << folded;
  const std::unique_ptr<LoopBody> planned = body_of(graph, *info);

  const std::vector<int64_t> lengths = {3, 6, 4};
  const std::vector<int> counts = {2, 1, 3};
  std::vector<LoopBody::RequestValues> values(lengths.size());
  std::vector<LoopBody::RequestValues*> requests;
  std::vector<size_t> owners;
  for (size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_TRUE(planned->Bind({}, Invariants(lengths[i]), values[i]).ok());
    requests.push_back(&values[i]);
    owners.insert(owners.end(), static_cast<size_t>(counts[i]), i);
  }
  const Tensor old = Ramp({4, kWidth}, 1);
  const std::vector<int32_t> parents = {1, 0, 3, 2, 2, 0};
  const Tensor tokens = Tensor::Of<int64_t>({6, 1}, std::vector<int64_t>{0, 5, 2, 3, 1, 4});
  std::vector<Tensor> states = {old};
  std::vector<Tensor> results;
  LoopBody::RowScratch scratch;
  const absl::Status status =
      planned->StepRows({}, {requests, counts, parents, {&tokens, 1}}, scratch, states, results);
  ASSERT_TRUE(status.ok()) << status;
  for (size_t row = 0; row < parents.size(); ++row) {
    const auto at = static_cast<int64_t>(row);
    LoopBody::RequestValues own;
    ASSERT_TRUE(written->Bind({}, Invariants(lengths[owners[row]]), own).ok());
    std::vector<Tensor> alone = {old.Rows(parents[row], parents[row] + 1)};
    std::vector<Tensor> alone_results;
    const Tensor token = tokens.Rows(at, at + 1);
    ASSERT_TRUE(written->StepWhole({}, {&token, 1}, 0, own, alone, alone_results).ok());
    EXPECT_TRUE(SameBits(alone[0], states[0].Rows(at, at + 1))) << row;
    EXPECT_TRUE(SameBits(alone_results[1], results[1].Rows(at, at + 1))) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionSpelling,
    ::testing::Values(Spelling{"Dot", Dot, 3, nullptr},
                      Spelling{"DotByColumns", DotByColumns, 3, nullptr},
                      Spelling{"DotByProductAndSum", DotByProductAndSum, 5, nullptr},
                      Spelling{"GeneralOnKeys", GeneralOnKeys, 3, nullptr},
                      Spelling{"GeneralOnQuery", GeneralOnQuery, 3, nullptr},
                      Spelling{"Scaled", Scaled, 4, nullptr},
                      Spelling{"ScaledByShape", ScaledByShape, 4, nullptr},
                      Spelling{"Additive", Additive, 6, nullptr},
                      Spelling{"AdditiveBySum", AdditiveBySum, 7, nullptr},
                      Spelling{"MultiHead", MultiHead, 3, nullptr},
                      Spelling{"MultiHeadByMinusOne", MultiHeadByMinusOne, 3, nullptr},
                      Spelling{"MultiHeadByShape", MultiHeadByShape, 3, nullptr},
                      Spelling{"MultiHeadByMemoryShape", MultiHeadByMemoryShape, 3, nullptr},
                      Spelling{"MultiHeadTimeFirst", MultiHeadTimeFirst, 3, nullptr},
                      Spelling{"MaskByInfinity", MaskByInfinity, 4, nullptr},
                      Spelling{"MaskByLargeNumber", MaskByLargeNumber, 4, nullptr},
                      Spelling{"MaskAdded", MaskAdded, 4, nullptr},
                      Spelling{"MaskByMultiplication", MaskByMultiplication, 6, nullptr},
                      Spelling{"MaskFromLengths", MaskFromLengths, 4, nullptr},
                      Spelling{"MaskedMultiHead", MaskedMultiHead, 4, nullptr},
                      Spelling{"BiasByPosition", BiasByPosition, 4, nullptr}),
    [](const ::testing::TestParamInfo<Spelling>& tested) {
      return std::string(tested.param.name);
    });

// What can't be separated is named, and what it costs is said.
TEST(Check, SaysWhyRowsRunAlone) {
  const Graph graph = Decoder([](const Context& c) {
    const Value mean =
        c.graph.Add("ReduceMean", {c.h, c.graph.Ints({0})}, {{"keep_dims", true}}, "mean_of_rows");
    return c.graph.Add("Subtract", {c.h, mean});
  });
  const GraphFindings findings = CheckGraph(graph);
  EXPECT_TRUE(findings.ok());
  ASSERT_TRUE(findings.step.has_value()) << findings.no_step;
  EXPECT_THAT(findings.step->row_by_row, HasSubstr("ReduceMean 'mean_of_rows'"));
  EXPECT_THAT(CheckText(findings, 2), HasSubstr("run R times a step"));
}

// The search reorders states itself, so an input for that is not a choice of the tokens.
TEST(Check, SeesThroughBeamIndices) {
  GraphBuilder graph;
  const Value token = graph.Parameter("token", DType::kI64, {-1});
  const Value h = graph.Parameter("h", DType::kF32, {-1, kTokens});
  const Value index = graph.Parameter("beam_idx", DType::kI32, {-1});
  const Value table =
      graph.Constant(Tensor::Of<float>({2, kTokens}, std::vector<float>(2 * kTokens, 0.5f)));
  const Value chosen = graph.Add("Gather", {h, index, graph.Int(0)});
  const Value sum = graph.Add("Add", {chosen, graph.Add("Gather", {table, token, graph.Int(0)})});
  graph.Result("h_next", graph.Add("Tanh", {sum}));
  graph.Result("logits", sum);
  const GraphFindings findings = CheckGraph(graph.Build());
  ASSERT_TRUE(findings.step.has_value()) << findings.no_step;
  EXPECT_THAT(findings.step->what, HasSubstr("token 'token' and states 'h'"));
  EXPECT_EQ(findings.step->row_by_row, "");
}

TEST(Check, ListsEveryMissingOperatorAtOnce) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1});
  const Value a = graph.Add("Fancy", {x}, {}, "one");
  graph.Result("y", graph.Add("Fancier", {a}, {}, "two\nlines"));
  const GraphFindings findings = CheckGraph(graph.Build());
  EXPECT_FALSE(findings.ok());
  EXPECT_THAT(CheckText(findings, 0),
              ::testing::AllOf(HasSubstr("can't be loaded"),
                               HasSubstr("operator not supported: Fancy 'one'\n"),
                               HasSubstr("operator not supported: Fancier 'two\\nlines'\n")));
}

}  // namespace
}  // namespace beamwright::ops
