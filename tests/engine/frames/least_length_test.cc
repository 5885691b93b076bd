// Encoders that read no source that is shorter than the windows of their convolutions: the shortest
// is found at load, described, and asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/frames/frame_models.h"

namespace beamwright::engine {
namespace {

using engine_testing::Codec;
using engine_testing::Compiled;
using engine_testing::FaultOf;
using engine_testing::kColumns;
using engine_testing::ModelPtr;
using engine_testing::Started;
using ::testing::HasSubstr;
using testing_support::GraphBuilder;

using Ints = std::vector<int64_t>;

// [rows, channels, time] to scores [rows, frames, kColumns], by windows of `window` positions.
GraphBuilder::Value Scores(GraphBuilder& graph, GraphBuilder::Value x, int64_t channels,
                           int64_t window) {
  std::vector<float> kernel(static_cast<size_t>(kColumns * channels * window));
  for (size_t i = 0; i < kernel.size(); ++i) {
    kernel[i] = static_cast<float>(i % 5) * 0.01F;
  }
  const auto weight = graph.Constant(ops::Tensor::Of<float>({kColumns, channels, window}, kernel));
  const auto conv = graph.Add("Convolution", {x, weight},
                              {{"strides", Ints{std::max<int64_t>(window / 2, 1)}},
                               {"pads_begin", Ints{0}},
                               {"pads_end", Ints{0}},
                               {"dilations", Ints{1}}});
  return graph.Add("Transpose", {conv, graph.Ints({0, 2, 1})});
}

bundle::Bundle Bundle(ops::Graph encoder) {
  bundle::Bundle bundle;
  bundle.name = "windows";
  bundle.version = "1";
  v1::ModelConfig& config = bundle.config;
  config.set_format_version(1);
  config.mutable_ctc();
  config.mutable_encoder()->set_graph("encoder.onnx");
  config.mutable_target()->set_form(v1::TEXT_FORM_WHITESPACE);
  config.mutable_target()->set_vocabulary("tokens.txt");
  bundle.encoder = std::move(encoder);
  bundle.source = Codec(config.source());
  bundle.target = Codec(config.target(), "_\na\nb\nc\nd\n");
  return bundle;
}

// Raw sound [rows, samples], as wav2vec reads it.
bundle::Bundle OfSound(int64_t window) {
  GraphBuilder graph;
  const auto samples = graph.Parameter("samples", ops::DType::kF32, {-1, -1});
  graph.Result("scores",
               Scores(graph, graph.Add("Unsqueeze", {samples, graph.Ints({1})}), 1, window));
  return Bundle(graph.Build());
}

// Features [rows, frames, 3].
bundle::Bundle OfFeatures(int64_t window) {
  GraphBuilder graph;
  const auto frames = graph.Parameter("frames", ops::DType::kF32, {-1, -1, 3});
  graph.Result("scores",
               Scores(graph, graph.Add("Transpose", {frames, graph.Ints({0, 2, 1})}), 3, window));
  return Bundle(graph.Build());
}

v1::Source Source(std::vector<int64_t> shape) {
  v1::Source source;
  v1::Tensor& tensor = *source.mutable_features();
  tensor.set_dtype("f32");
  int64_t count = 1;
  for (const int64_t extent : shape) {
    tensor.add_shape(extent);
    count *= extent;
  }
  tensor.set_data(std::string(static_cast<size_t>(count) * sizeof(float), '\0'));
  return source;
}

TEST(LeastLengthTest, IsFoundAtLoadAndAskedFor) {
  struct Case {
    bundle::Bundle bundle;
    int64_t least;
    bool is_sound;
  };
  std::vector<Case> cases;
  cases.push_back({OfFeatures(7), 7, false});
  cases.push_back({OfFeatures(3), 3, false});
  cases.push_back({OfFeatures(300), 300, false});
  cases.push_back({OfSound(400), 400, true});
  cases.push_back({OfSound(9000), 9000, true});
  for (Case& each : cases) {
    const ModelPtr model = Compiled(std::move(each.bundle));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->Describe().config().limits().min_source_length(), each.least);
    const auto source = [&](int64_t length) {
      return Source(each.is_sound ? std::vector<int64_t>{length} : std::vector<int64_t>{length, 3});
    };
    EXPECT_THAT(FaultOf(model, source(each.least - 1)),
                HasSubstr(absl::StrCat("source has ", each.least - 1,
                                       " positions; the model reads sources of ", each.least,
                                       " at least")));
    EXPECT_TRUE(Started()->DecodeAndWait(model, source(each.least), {}).ok());
  }
}

// Features [rows, frames, 3] and what a table of `extent` positions gives them: gathered by
// position + `first`, or the front of it; as scores of windows.
// joined: positions that one of the table stands for.
bundle::Bundle OfPositions(int64_t extent, int64_t first, bool is_sliced, int64_t window = 1,
                           int64_t joined = 1) {
  GraphBuilder graph;
  const auto source = graph.Parameter("frames", ops::DType::kF32, {-1, -1, 3});
  const auto all = graph.Ints({std::numeric_limits<int64_t>::max()});
  const auto frames = joined == 1 ? source
                                  : graph.Add("Slice", {source, graph.Ints({0}), all,
                                                        graph.Ints({joined}), graph.Ints({1})});
  const auto shape = graph.Add("ShapeOf", {frames}, {{"output_type", std::string("i64")}});
  const auto length = graph.Add("Gather", {shape, graph.Int(1), graph.Int(0)});
  const auto table = graph.Constant(ops::Tensor::Of<float>(
      {extent, 3}, std::vector<float>(static_cast<size_t>(extent * 3), 0.5F)));
  GraphBuilder::Value positions;
  if (is_sliced) {
    const auto end = graph.Add("Unsqueeze", {length, graph.Ints({0})});
    positions = graph.Add("Slice", {table, graph.Ints({0}), end, graph.Ints({1}), graph.Ints({0})});
  } else {
    const auto numbers = graph.Add(
        "Range", {graph.Int(first), graph.Add("Add", {length, graph.Int(first)}), graph.Int(1)},
        {{"output_type", std::string("i64")}});
    positions = graph.Add("Gather", {table, numbers, graph.Int(0)});
  }
  const auto x = graph.Add("Add", {frames, positions});
  graph.Result("scores",
               Scores(graph, graph.Add("Transpose", {x, graph.Ints({0, 2, 1})}), 3, window));
  return Bundle(graph.Build());
}

TEST(LeastLengthTest, AWindowAndATableMayLeaveAFewLengths) {
  for (const int64_t joined : {1, 4}) {
    const ModelPtr model = Compiled(OfPositions(20, 0, false, 9, joined));
    ASSERT_NE(model, nullptr);
    const v1::LimitsConfig limits = model->Describe().config().limits();
    EXPECT_EQ(limits.min_source_length(), 8 * joined + 1);
    EXPECT_EQ(limits.max_source_length(), 20 * joined);
    for (const int64_t length : {8 * joined + 1, 12 * joined, 20 * joined}) {
      EXPECT_TRUE(Started()->DecodeAndWait(model, Source({length, 3}), {}).ok()) << length;
    }
  }
}

// Sources beyond a table of positions are the caller's fault, whose message has the longest.
TEST(LongestSourceTest, TablesOfPositionsAreFoundAtLoad) {
  struct {
    int64_t extent;
    int64_t first;
    bool is_sliced;
    int64_t longest;
  } const cases[] = {{40, 0, false, 40}, {514, 2, false, 512}, {77, 0, true, 77}};
  for (const auto& each : cases) {
    const ModelPtr model = Compiled(OfPositions(each.extent, each.first, each.is_sliced));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->Describe().config().limits().max_source_length(), each.longest);
    EXPECT_TRUE(Started()->DecodeAndWait(model, Source({each.longest, 3}), {}).ok());
    EXPECT_THAT(FaultOf(model, Source({each.longest + 1, 3})),
                HasSubstr(absl::StrCat("source has ", each.longest + 1, " tokens; at most ",
                                       each.longest, " are allowed")));
  }
  bundle::Bundle lower = OfPositions(40, 0, false);
  lower.config.mutable_limits()->set_max_source_length(30);
  EXPECT_EQ(Compiled(std::move(lower))->Describe().config().limits().max_source_length(), 30);
  EXPECT_EQ(Compiled(OfFeatures(1))->Describe().config().limits().max_source_length(), 0);
}

TEST(LeastLengthTest, AnEncoderOfAnyLengthHasNone) {
  const ModelPtr model = Compiled(OfFeatures(1));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->Describe().config().limits().min_source_length(), 0);
}

TEST(LeastLengthTest, ABundleMayAskForMore) {
  bundle::Bundle bundle = OfFeatures(3);
  bundle.config.mutable_limits()->set_min_source_length(5);
  const ModelPtr model = Compiled(std::move(bundle));
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(FaultOf(model, Source({4, 3})), HasSubstr("reads sources of 5 at least"));
}

TEST(LeastLengthTest, WhatNoLengthRunsIsRefused) {
  const auto model = DecodeModel::Compile(OfFeatures(2000), {});
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("it fails on random sources of 1000 positions and of 5"));
}

// The export left more open than the length: the bundle says what it is.
TEST(LeastLengthTest, ABundleSaysTheExtentsOfASource) {
  GraphBuilder graph;
  const auto frames = graph.Parameter("frames", ops::DType::kF32, {-1, -1, -1});
  graph.Result("scores",
               Scores(graph, graph.Add("Transpose", {frames, graph.Ints({0, 2, 1})}), 3, 2));
  bundle::Bundle bundle = Bundle(graph.Build());
  bundle::Bundle other = bundle;
  bundle.config.mutable_encoder()->mutable_shape()->Add(-1);
  bundle.config.mutable_encoder()->mutable_shape()->Add(3);
  const ModelPtr model = Compiled(std::move(bundle));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->Describe().encoder_input().shape(1), 3);
  EXPECT_THAT(FaultOf(model, Source({4, 4})), HasSubstr("source.features.shape: [4, 4]"));
  EXPECT_TRUE(Started()->DecodeAndWait(model, Source({4, 3}), {}).ok());
  other.config.mutable_encoder()->mutable_shape()->Add(3);
  EXPECT_THAT(std::string(DecodeModel::Compile(std::move(other), {}).status().message()),
              HasSubstr("encoder.shape: has 1 numbers"));
}

}  // namespace
}  // namespace beamwright::engine
