// Of which graphs it is proven that sequences of unequal length may stand side by side, that these
// then give each row what it gives alone, bit for bit, and what is said of others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <ostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "ops/compile/row_follower.h"
#include "ops/decoder/self_check.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/recurrent_encoder.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Iteration;
using testing_support::Last;
using testing_support::RecurrentEncoder;
using testing_support::Scanned;
using testing_support::Stacked;

constexpr int64_t kIds = 40;
constexpr RowInputs kInputs{0, -1, -1, 1};

// Indices [begin, begin + count) of an axis.
Tensor Part(const Tensor& tensor, int axis, int64_t begin, int64_t count) {
  Shape shape = tensor.shape();
  shape[static_cast<size_t>(axis)] = count;
  Tensor part(tensor.dtype(), shape);
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) {
    outer *= tensor.dim(i);
  }
  const int64_t bytes = part.num_bytes() / outer;
  for (int64_t i = 0; i < outer; ++i) {
    std::memcpy(part.mutable_bytes() + i * bytes,
                tensor.bytes() + (i * tensor.dim(axis) + begin) * (bytes / count),
                static_cast<size_t>(bytes));
  }
  return part;
}

std::unique_ptr<Model> Compile(Graph graph, Precision precision, RowProof& proof,
                               const RowInputs& inputs = kInputs) {
  auto model = Model::Compile(std::move(graph), precision, inputs, proof);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

LengthProof Prove(Graph graph, const RowInputs& inputs = kInputs) {
  RowProof proof;
  Compile(std::move(graph), Precision::kF32, proof, inputs);
  EXPECT_TRUE(proof.separable) << proof.reason;
  return proof.lengths;
}

std::vector<Tensor> RunModel(const Model& model, const std::vector<Tensor>& inputs,
                             int threads = 1) {
  ExecutionContext context;
  context.num_threads = threads;
  std::vector<Tensor> outputs;
  const absl::Status status = model.Run(context, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs;
}

// What `row` of sources with `lengths` gets, and what it gets as a single source, by a model
// that knows of no lengths.
void ExpectRowAsAlone(const RowProof& proof, const std::vector<Tensor>& together,
                      const std::vector<Tensor>& alone, int64_t row, int64_t length) {
  for (size_t i = 0; i < alone.size(); ++i) {
    Tensor own = together[i];
    if (proof.result_axes[i] >= 0) {
      own = Part(own, proof.result_axes[i], row, 1);
    }
    if (proof.lengths.result_axes[i] >= 0) {
      own = Part(own, proof.lengths.result_axes[i], 0, length * proof.lengths.result_factors[i]);
    }
    ASSERT_TRUE(SameBits(own, alone[i])) << "output " << i;
  }
}

void ExpectRowsAsAlone(const Graph& graph, int64_t num_ids, Precision precision,
                       std::mt19937& random) {
  RowProof proof;
  const auto model = Compile(graph, precision, proof);
  const auto plain = Model::Compile(graph, precision);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(proof.lengths.holds) << proof.reason << proof.lengths.reason;
  ASSERT_EQ(proof.lengths.parameter, 1);
  for (int mix = 0; mix < 4; ++mix) {
    const auto rows = static_cast<int64_t>(1 + random() % 7);
    std::vector<int64_t> lengths;
    for (int64_t row = 0; row < rows; ++row) {
      lengths.push_back(static_cast<int64_t>(1 + random() % 9));
    }
    // As the engine has them; in any order it must be right, too, and slower.
    if (mix != 3) {
      std::sort(lengths.rbegin(), lengths.rend());
    }
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    Tensor ids(DType::kI64, {rows, longest});
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      ids.mutable_data<int64_t>()[i] = static_cast<int64_t>(random() % num_ids);
    }
    SCOPED_TRACE(::testing::PrintToString(lengths));
    const auto together =
        RunModel(*model, {ids, Tensor::Of<int64_t>({rows}, lengths)}, mix == 2 ? 2 : 1);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t length = lengths[static_cast<size_t>(row)];
      const auto alone = RunModel(**plain, {Part(ids.Rows(row, row + 1), 1, 0, length)});
      ExpectRowAsAlone(proof, together, alone, row, length);
      // The model that knows lengths, of one source.
      const auto one = RunModel(*model, {Part(ids.Rows(row, row + 1), 1, 0, length),
                                         Tensor::Of<int64_t>({1}, std::vector<int64_t>{length})});
      for (size_t i = 0; i < alone.size(); ++i) {
        ASSERT_TRUE(SameBits(one[i], alone[i])) << "output " << i;
      }
    }
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

// Two layers of attention with two heads, in between ReLU of a product; positions are counted and
// added. keys_last: keys are transposed before their product.
Graph AttentionEncoder(std::mt19937& random, bool keys_last) {
  constexpr int64_t kWidth = 8;
  GraphBuilder graph;
  const auto weights = [&](Shape shape) {
    Tensor tensor(DType::kF32, std::move(shape));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.mutable_data<float>()[i] = static_cast<float>(random() % 2001) / 1000.0F - 1;
    }
    return graph.Constant(tensor);
  };
  const auto heads = [&](ValueId x, std::vector<int64_t> order) {
    const ValueId product = graph.Add("MatMul", {x, weights({kWidth, kWidth})});
    const ValueId split = graph.Add("Reshape", {product, graph.Ints({0, 0, 2, kWidth / 2})},
                                    {{"special_zero", true}});
    return graph.Add("Transpose", {split, graph.Ints(std::move(order))});
  };
  const ValueId ids = graph.Parameter("ids", DType::kI64, {-1, -1});
  ValueId x = graph.Add("Gather", {weights({kIds, kWidth}), ids, graph.Int(0)});
  const ValueId length =
      graph.Add("Gather", {graph.Add("ShapeOf", {ids}), graph.Int(1), graph.Int(0)});
  const ValueId counted = graph.Add("Range", {graph.Int(0), length, graph.Int(1)},
                                    {{"output_type", std::string("i64")}});
  const ValueId number =
      graph.Add("Convert", {counted}, {{"destination_type", std::string("f32")}});
  const ValueId angles =
      graph.Add("Multiply", {graph.Add("Unsqueeze", {number, graph.Ints({1})}), weights({kWidth})});
  x = graph.Add("Add", {x, graph.Add("Sin", {angles})});
  for (int layer = 0; layer < 2; ++layer) {
    const ValueId queries = heads(x, {0, 2, 1, 3});
    const ValueId keys =
        heads(x, keys_last ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
    const ValueId scores =
        graph.Add("MatMul", {queries, keys}, {{"transpose_b", !keys_last}}, "scores");
    const ValueId scaled = graph.Add("Multiply", {scores, graph.Constant(Tensor::Scalar(0.5F))});
    const ValueId shares = graph.Add("SoftMax", {scaled}, {{"axis", int64_t{3}}});
    const ValueId sums = graph.Add("MatMul", {shares, heads(x, {0, 2, 1, 3})});
    const ValueId joined = graph.Add(
        "Reshape",
        {graph.Add("Transpose", {sums, graph.Ints({0, 2, 1, 3})}), graph.Ints({0, 0, kWidth})},
        {{"special_zero", true}});
    x = graph.Add("Add", {x, graph.Add("MatMul", {joined, weights({kWidth, kWidth})})});
    const ValueId inner = graph.Add(
        "Add", {graph.Add("MatMul", {x, weights({kWidth, 3 * kWidth})}), weights({3 * kWidth})});
    x = graph.Add(
        "Add",
        {x, graph.Add("MatMul", {graph.Add("ReLU", {inner}), weights({3 * kWidth, kWidth})})});
  }
  graph.Result("memory", x);
  return graph.Build();
}

class OwnLengths : public ::testing::TestWithParam<Precision> {};

TEST_P(OwnLengths, AttentionLooksAtItsOwnSource) {
  std::mt19937 random(2413);
  for (int seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ExpectRowsAsAlone(AttentionEncoder(random, seed % 2 == 1), kIds, GetParam(), random);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(OwnLengths, EachSourceGetsWhatItGetsAlone) {
  std::mt19937 random(2411);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    // No multiple of any vector or strip; every other time wide enough for tiles.
    const int64_t width = seed % 2 == 0 ? 6 : 37;
    ExpectRowsAsAlone(RecurrentEncoder(seed, kIds, width).Build(), kIds, GetParam(), random);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(OwnLengths, TheModelsThatComeWithItTakeThem) {
  std::mt19937 random(2412);
  for (const char* const file : {"g2p-en/1/encoder.xml", "p2g-en/1/encoder.xml",
                                 "g2p-en-ctc/1/encoder.onnx", "g2p-en-transducer/1/encoder.onnx"}) {
    SCOPED_TRACE(file);
    const auto graph = ReadGraph(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/", file));
    ASSERT_TRUE(graph.ok()) << graph.status();
    ExpectRowsAsAlone(*graph, /*num_ids=*/30, GetParam(), random);
    ASSERT_FALSE(HasFatalFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, OwnLengths,
                         ::testing::Values(Precision::kF32, Precision::kBf16, Precision::kInt8),
                         [](const auto& tested) { return std::string(Name(tested.param)); });

// x [rows, length, 4] -> ...
struct Tried {
  const char* name;
  std::function<ValueId(GraphBuilder&, ValueId x)> middle;
  const char* reason;  // empty: it is proven

  friend void PrintTo(const Tried& tried, std::ostream* out) { *out << tried.name; }
};

Graph BuildTried(const Tried& tried) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  graph.Result("y", graph.Add("Tanh", {tried.middle(graph, x)}));
  return graph.Build();
}

ValueId Reduced(GraphBuilder& graph, const char* op, ValueId x, int64_t axis) {
  return graph.Add(op, {x, graph.Ints({axis})}, {{"keep_dims", false}}, "reduced");
}

// A running sum over x, in one direction, its output put together in one or the other, on an axis.
ValueId RunningSum(GraphBuilder& graph, ValueId x, bool is_backward, bool is_reversed,
                   bool counts = false, bool sees_all = false, int64_t axis = 1) {
  GraphBuilder body;
  const ValueId slice = body.Parameter("x", DType::kF32, {-1, 4});
  const ValueId sum = body.Parameter("sum", DType::kF32, {-1, 4});
  ValueId next = body.Add("Add", {slice, sum});
  Loop loop;
  loop.inputs = {Scanned(0, 0, 1, is_backward), Carried(1, 1, 0)};
  if (counts) {
    const ValueId number = body.Add("Convert", {body.Parameter("i", DType::kI64, {})},
                                    {{"destination_type", std::string("f32")}});
    next = body.Add("Add", {next, number});
    loop.inputs.push_back(Iteration(2));
  }
  if (sees_all) {
    next = body.Add("Add", {next, Reduced(body, "ReduceSum",
                                          body.Parameter("all", DType::kF32, {-1, -1, 4}), 1)});
    loop.inputs.push_back(Invariant(0, 2));
  }
  body.Result("next", next);
  loop.body = body.Build();
  loop.outputs = {Stacked(0, 0, axis, is_reversed)};
  const ValueId start = graph.Add(
      "Broadcast",
      {graph.Constant(Tensor::Scalar(0.0f)),
       graph.Add("Concat",
                 {graph.Add("Gather", {graph.Add("ShapeOf", {x}), graph.Ints({0}), graph.Int(0)}),
                  graph.Ints({4})},
                 {{"axis", int64_t{0}}})});
  return graph.Loop({x, start}, std::move(loop), 1);
}

class Trial : public ::testing::TestWithParam<Tried> {};

TEST_P(Trial, IsProvenIfItIsSo) {
  const LengthProof proof = Prove(BuildTried(GetParam()));
  const std::string reason = GetParam().reason;
  EXPECT_EQ(proof.holds, reason.empty()) << proof.reason;
  EXPECT_THAT(proof.reason, HasSubstr(reason));
}

std::vector<Tried> AllTried() {
  using Ints = std::vector<int64_t>;
  return {
      {"EachPosition", [](auto& g, ValueId x) { return g.Add("Exp", {x}); }, ""},
      {"RunningSum", [](auto& g, ValueId x) { return RunningSum(g, x, false, false); }, ""},
      {"FromTheEnd", [](auto& g, ValueId x) { return RunningSum(g, x, true, true); }, ""},
      {"Counting", [](auto& g, ValueId x) { return RunningSum(g, x, false, false, true); }, ""},
      {"CountingFromTheEnd", [](auto& g, ValueId x) { return RunningSum(g, x, true, true, true); },
       "Loop 'loop' counts positions from their end"},
      {"TurnedRound", [](auto& g, ValueId x) { return RunningSum(g, x, false, true); },
       "an output of Loop 'loop' is not in the order of the positions"},
      {"TurnedBack", [](auto& g, ValueId x) { return RunningSum(g, x, true, false); },
       "an output of Loop 'loop' is not in the order of the positions"},
      {"SeesAll", [](auto& g, ValueId x) { return RunningSum(g, x, false, false, false, true); },
       "each iteration of Loop 'loop' sees all positions"},
      {"Mean", [](auto& g, ValueId x) { return Reduced(g, "ReduceMean", x, 1); },
       "positions of ReduceMean 'reduced' cannot be separated"},
      {"Max", [](auto& g, ValueId x) { return Reduced(g, "ReduceMax", x, 1); },
       "positions of ReduceMax 'reduced' cannot be separated"},
      {"Last",
       [](auto& g, ValueId x) {
         return g.Add("Gather", {x, g.Int(-1), g.Int(1)}, {}, "last");
       },
       "positions of Gather 'last' cannot be separated"},
      {"LastByASlice",
       [](auto& g, ValueId x) {
         return g.Add("Slice", {x, g.Ints({-1}), g.Ints({1000}), g.Ints({1}), g.Ints({1})}, {},
                      "last");
       },
       "positions of Slice 'last' cannot be separated"},
      {"SoftMax",
       [](auto& g, ValueId x) {
         return g.Add("SoftMax", {x}, {{"axis", int64_t{1}}}, "weights");
       },
       "positions of SoftMax 'weights' cannot be separated"},
      {"Attention",
       [](auto& g, ValueId x) {
         const ValueId scores = g.Add("MatMul", {x, x}, {{"transpose_b", true}}, "scores");
         return g.Add("MatMul", {g.Add("SoftMax", {scores}, {{"axis", int64_t{2}}}), x});
       },
       ""},
      {"AttentionWhoseSharesAreRead",
       [](auto& g, ValueId x) {
         const ValueId scores = g.Add("MatMul", {x, x}, {{"transpose_b", true}}, "scores");
         const ValueId shares = g.Add("SoftMax", {scores}, {{"axis", int64_t{2}}});
         return g.Add("Add",
                      {g.Add("MatMul", {shares, x}), g.Add("MatMul", {shares, g.Add("Exp", {x})})});
       },
       "positions of MatMul 'scores' cannot be separated"},
      {"AttentionToWhatIsReversed",
       [](auto& g, ValueId x) {
         const ValueId turned =
             g.Add("Reverse", {x, g.Ints({1})}, {{"mode", std::string("index")}}, "reversed");
         const ValueId scores = g.Add("MatMul", {x, turned}, {{"transpose_b", true}}, "scores");
         return g.Add("MatMul", {g.Add("SoftMax", {scores}, {{"axis", int64_t{2}}}), x});
       },
       "positions of Reverse 'reversed' cannot be separated"},
      {"CountedPositions",
       [](auto& g, ValueId x) {
         const ValueId length =
             g.Add("Gather", {g.Add("ShapeOf", {x}), g.Int(1), g.Int(0)}, {}, "length");
         const ValueId numbers = g.Add("Range", {g.Int(0), length, g.Int(1)},
                                       {{"output_type", std::string("f32")}}, "numbers");
         return g.Add("Add", {x, g.Add("Unsqueeze", {numbers, g.Ints({1})})});
       },
       ""},
      {"CountedFromTheEnd",
       [](auto& g, ValueId x) {
         const ValueId length =
             g.Add("Gather", {g.Add("ShapeOf", {x}), g.Int(1), g.Int(0)}, {}, "length");
         const ValueId numbers = g.Add("Range", {length, g.Int(0), g.Int(-1)},
                                       {{"output_type", std::string("f32")}}, "numbers");
         return g.Add("Add", {x, g.Add("Unsqueeze", {numbers, g.Ints({1})})}, {}, "sum");
       },
       "positions of"},
      {"Convolution",
       [](auto& g, ValueId x) {
         const ValueId filter =
             g.Constant(Tensor::Of<float>({4, 4, 3}, std::vector<float>(48, 0.5f)));
         return g.Add("Convolution", {g.Add("Transpose", {x, g.Ints({0, 2, 1})}), filter},
                      {{"strides", Ints{1}},
                       {"dilations", Ints{1}},
                       {"pads_begin", Ints{1}},
                       {"pads_end", Ints{1}}},
                      "over time");
       },
       "positions of Convolution 'over time' cannot be separated"},
      {"RunningSumByOperator",
       [](auto& g, ValueId x) {
         return g.Add("CumSum", {x, g.Int(1)}, {}, "sums");
       },
       "positions of CumSum 'sums' cannot be separated"},
      {"Reversed",
       [](auto& g, ValueId x) {
         return g.Add("Reverse", {x, g.Ints({1})}, {{"mode", std::string("index")}}, "reversed");
       },
       "positions of Reverse 'reversed' cannot be separated"},
      {"DividedByTheLength",
       [](auto& g, ValueId x) {
         const ValueId length =
             g.Add("Gather", {g.Add("ShapeOf", {x}), g.Int(1), g.Int(0)}, {}, "length");
         const ValueId factor = g.Add("Convert", {length}, {{"destination_type", "f32"}});
         return g.Add("Divide", {x, factor}, {}, "share");
       },
       "positions of Divide 'share' cannot be separated"},
      {"ScaledAsAWhole",
       [](auto& g, ValueId x) {
         const ValueId bytes = g.Add("DynamicQuantizeLinear", {x}, {}, "bytes", 3);
         return g.Add("Convert", {bytes}, {{"destination_type", "f32"}});
       },
       "positions of DynamicQuantizeLinear 'bytes' cannot be separated"},
  };
}

INSTANTIATE_TEST_SUITE_P(Graphs, Trial, ::testing::ValuesIn(AllTried()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(OwnLengthsProof, TellsWhichAxesCountPositions) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  graph.Result("same", graph.Add("Tanh", {x}));
  graph.Result("time_first", graph.Add("Transpose", {x, graph.Ints({1, 0, 2})}));
  graph.Result("rows",
               graph.Add("Gather", {graph.Add("ShapeOf", {x}), graph.Ints({2}), graph.Int(0)}));
  const LengthProof proof = Prove(graph.Build());
  EXPECT_TRUE(proof.holds) << proof.reason;
  EXPECT_THAT(proof.result_axes, ElementsAre(1, 0, -1));
}

// Frames that are two for each position, as recognisers of short words have them.
TEST(OwnLengthsProof, APositionMayHaveSeveralElements) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 8});
  const ValueId frames =
      graph.Add("Reshape", {x, graph.Ints({0, -1, 4})}, {{"special_zero", true}});
  graph.Result("y", RunningSum(graph, frames, true, true));
  RowProof proof;
  const auto model = Compile(graph.Build(), Precision::kF32, proof);
  ASSERT_TRUE(proof.lengths.holds) << proof.lengths.reason;
  EXPECT_THAT(proof.lengths.result_axes, ElementsAre(1));
  EXPECT_THAT(proof.lengths.result_factors, ElementsAre(2));
  const Tensor ones = Tensor::Of<float>({2, 2, 8}, std::vector<float>(32, 1));
  const auto y = RunModel(*model, {ones, Tensor::Of<int64_t>({2}, std::vector<int64_t>{2, 1})});
  const Tensor first = Part(y[0], 2, 0, 1);  // of four elements, which are alike
  EXPECT_THAT(first.span<float>(), ElementsAre(4, 3, 2, 1, 2, 1, 0, 0));
}

TEST(OwnLengthsProof, AResultThatIsALengthIsNone) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  graph.Result("y", graph.Add("Tanh", {x}));
  graph.Result("length",
               graph.Add("Gather", {graph.Add("ShapeOf", {x}), graph.Int(1), graph.Int(0)}));
  const LengthProof proof = Prove(graph.Build());
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(proof.reason, "output 'length' follows from the number of positions");
}

TEST(OwnLengthsProof, IsFoundOnlyWhereItIsAskedFor) {
  GraphBuilder graph;
  graph.Result("y", graph.Add("Tanh", {graph.Parameter("x", DType::kF32, {-1, -1, 4})}));
  RowProof proof;
  const auto model = Compile(graph.Build(), Precision::kF32, proof, {0, -1});
  EXPECT_TRUE(proof.separable);
  EXPECT_FALSE(proof.lengths.holds);
  EXPECT_EQ(model->graph().parameters.size(), 1u);
}

TEST(OwnLengthsProof, AFixedLengthIsNone) {
  GraphBuilder graph;
  graph.Result("y", graph.Add("Tanh", {graph.Parameter("x", DType::kF32, {-1, 5, 4})}));
  EXPECT_EQ(Prove(graph.Build()).reason, "no axis of the source is open");
}

// Rows and positions are on the axes where a layer has them, of an output by time as well.
TEST(OwnLengthsProof, LengthsMoveNoAxis) {
  for (const int64_t axis : {0, 1}) {
    GraphBuilder builder;
    const ValueId x = builder.Parameter("x", DType::kF32, {-1, -1, 4});
    builder.Result("y", RunningSum(builder, x, false, false, false, false, axis));
    Graph graph = builder.Build();
    auto info = InferGraph(graph, Operators());
    ASSERT_TRUE(info.ok()) << info.status();
    const RowProof apart = ProveRowsApart(graph, *info, Operators(), {0, -1});
    ASSERT_TRUE(apart.separable) << apart.reason;
    RowProof rows = apart;
    EncoderRows encoder{kInputs, rows};
    PassContext context{Operators()};
    context.encoder = &encoder;
    ASSERT_TRUE(GiveRowsLengths(graph, *info, context).value());
    const LengthProof& proof = rows.lengths;
    EXPECT_TRUE(proof.holds) << proof.reason;
    EXPECT_THAT(proof.result_axes, ElementsAre(static_cast<int>(axis)));
    const RowProof own = ProveRowsApart(graph, *info, Operators(), {0, -1});
    EXPECT_THAT(own.result_axes, ElementsAre(axis == 0 ? 1 : 0));
    EXPECT_EQ(own.result_axes, apart.result_axes);
  }
}

TEST(OwnLengthsProof, AMaskOfAFixedLengthIsNone) {
  GraphBuilder graph;
  graph.Result("y", graph.Add("Tanh", {graph.Parameter("x", DType::kF32, {-1, -1, 4})}));
  graph.Result("seen", graph.Add("Tanh", {graph.Parameter("mask", DType::kF32, {-1, 5})}));
  const LengthProof proof = Prove(graph.Build(), {0, -1, 1, 1});
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(proof.reason, "the mask declares its length");
}

// x [rows, length, 4] and lengths [rows] -> the sum of x's first `lengths`, or the first of another
// input of lengths.
Graph SumUnderLengths(bool has_others = false) {
  GraphBuilder body;
  const ValueId slice = body.Parameter("x", DType::kF32, {-1, 4});
  const ValueId sum = body.Parameter("sum", DType::kF32, {-1, 4});
  body.Result("next", body.Add("Add", {slice, sum}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Scanned(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {Last(0, 0)};
  loop.items = Loop::Items::kHeld;
  loop.lengths_input = 2;
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  const ValueId lengths = graph.Parameter("lengths", DType::kI32, {-1});
  const ValueId shape = graph.Add("Concat", {graph.Add("ShapeOf", {lengths}), graph.Ints({4})},
                                  {{"axis", int64_t{0}}});
  const ValueId zeros = graph.Add("Broadcast", {graph.Constant(Tensor::Scalar(0.0f)), shape});
  const ValueId read = has_others ? graph.Parameter("others", DType::kI32, {-1}) : lengths;
  graph.Result("y", graph.Loop({x, zeros, read}, std::move(loop), 1));
  return graph.Build();
}

// Only the lengths of the source are known to be the whole axis.
TEST(OwnLengthsProof, LayersUnderOtherLengthsKeepThem) {
  const LengthProof proof = Prove(SumUnderLengths(/*has_others=*/true), {0, 1, -1, 1});
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(proof.reason, "Loop 'loop' has lengths of its own");
}

TEST(OwnLengthsProof, LayersUnderTheFilesOwnLengthsRunOverThose) {
  RowProof proof;
  const auto model = Compile(SumUnderLengths(), Precision::kF32, proof, {0, 1, -1, 1});
  ASSERT_TRUE(proof.lengths.holds) << proof.lengths.reason;
  const Tensor x = Tensor::Of<float>({2, 3, 4}, std::vector<float>(24, 1));
  const auto outputs = RunModel(*model, {x, Tensor::Of<int32_t>({2}, std::vector<int32_t>{3, 1}),
                                         Tensor::Of<int64_t>({2}, std::vector<int64_t>{3, 1})});
  EXPECT_THAT(outputs[0].span<float>(), ElementsAre(3, 3, 3, 3, 1, 1, 1, 1));
}

// Rows stay apart while all of them are of one length, and no longer when they are not.
TEST(OwnLengthsProof, LengthsThatAreComparedWithThoseOfOthersAreNone) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  const ValueId lengths = graph.Parameter("lengths", DType::kI64, {-1});
  const ValueId longest =
      graph.Add("ReduceMax", {lengths, graph.Ints({0})}, {{"keep_dims", true}}, "longest");
  graph.Result("y", graph.Add("Add", {x, graph.Add("Convert", {longest},
                                                   {{"destination_type", std::string("f32")}})}));
  const LengthProof proof = Prove(graph.Build(), {0, 1, -1, 1});
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(proof.reason, "rows of ReduceMax 'longest' cannot be separated");
}

// A mask of ones stands for all positions, as for each source alone.
TEST(OwnLengthsProof, AMaskIsAsLongAsTheSource) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  const ValueId mask = graph.Parameter("mask", DType::kF32, {-1, -1});
  graph.Result("y", graph.Add("Multiply", {x, graph.Add("Unsqueeze", {mask, graph.Ints({2})})}));
  const LengthProof proof = Prove(graph.Build(), {0, -1, 1, 1});
  EXPECT_TRUE(proof.holds) << proof.reason;
}

TEST(OwnLengthsProof, LayersSeeNoRowThatHasEnded) {
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, 4});
  graph.Result("y", RunningSum(graph, x, false, false));
  RowProof proof;
  const auto model = Compile(graph.Build(), Precision::kF32, proof);
  ASSERT_TRUE(proof.lengths.holds) << proof.lengths.reason;
  int layers = 0;
  for (const Node& node : model->graph().nodes) {
    if (node.loop != nullptr) {
      ++layers;
      EXPECT_TRUE(*node.attributes.Bool(kItemsLeave, false));
      EXPECT_EQ(node.loop->items, Loop::Items::kHeld);
    }
  }
  EXPECT_EQ(layers, 1);
}

}  // namespace
}  // namespace beamwright::ops
