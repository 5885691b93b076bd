#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/load_model.h"
#include "engine/request/request.h"
#include "include/beamwright/engine.h"
#include "tests/engine/fused_bundle.h"
#include "tests/engine/recurrent_bundle.h"
#include "tests/engine/table_bundle.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const DecodeModel> Table(bool with_encoder) {
  engine_testing::TableOptions options;
  options.with_encoder = with_encoder;
  auto model =
      DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(3), options));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(WarmUpTest, RequestsOfTheBundleAreDecoded) {
  const auto model = Table(true);
  const std::string good = R"({"source": {"ids": {"ids": [4]}}, "options": {}})";
  EXPECT_TRUE(WarmUp(model, "", {}).ok());
  EXPECT_TRUE(WarmUp(model, good + "\n\n" + good + "\n", {}).ok());
  for (const auto& [bad, complaint] :
       {std::pair(R"({"source": {"ids": {"ids": [99999]}}, "options": {}})", "source.ids[0]"),
        {R"({"source": {"ids": {"ids": [1]}}, "options": {"beam_size": 0}})", "beam_size"},
        {R"({"source": {"ids": {"ids": [1]}}, "options": {"wrong": 0}})", "wrong"},
        {"nonsense", "is not a JSON object"}}) {
    const absl::Status status = WarmUp(model, good + "\n" + bad, {});
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("warmup.jsonl: line 2: ")) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(complaint)) << status;
  }
}

// Sources are made up that each kind of model takes: what the model is asked for the first time
// afterwards finds the buffers of its steps there.
TEST(WarmUpTest, SourcesAreMadeUp) {
  const auto fused =
      DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
  ASSERT_TRUE(fused.ok()) << fused.status();
  for (const auto& model : {Table(true), Table(false), *fused}) {
    EXPECT_EQ(model->parked_drivers().num_drivers(), 0);
    EXPECT_TRUE(WarmUp(model, "", {/*max_rows=*/0}).ok());
    EXPECT_EQ(model->parked_drivers().num_drivers(), 0);
    EXPECT_TRUE(WarmUp(model, "", {/*max_rows=*/8}).ok());
    EXPECT_EQ(model->parked_drivers().num_drivers(), 1) << "nothing was decoded";
  }
}

// One that can't decode even a made-up source is not served: here the state's width is not what the
// encoder gives.
TEST(WarmUpTest, AModelThatCannotDecodeFails) {
  bundle::Bundle bundle = engine_testing::RecurrentBundle({}).Build();
  EXPECT_TRUE(WarmUp(*DecodeModel::Compile(bundle), "", {/*max_rows=*/2}).ok());
  ops::Graph graph = std::move(*bundle.encoder);
  const int result = *std::find_if(graph.results.begin(), graph.results.end(), [&](int node) {
    return ops::PortName(graph, node) == "memory";
  });
  const ops::ValueId memory = graph.node(result).inputs[0];
  testing_support::GraphBuilder wider(std::move(graph));
  wider.Result("flat",
               wider.Add("Reshape", {memory, wider.Ints({0, -1})}, {{"special_zero", true}}));
  bundle.encoder = wider.Build();
  bundle.config.mutable_decoder()->mutable_states(0)->set_encoder_output("flat");
  const auto model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  const absl::Status status = WarmUp(*model, "", {/*max_rows=*/2});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a made-up source can't be decoded: "));
}

// The length of an export's example may be that of a made-up source: every other one would fail
// later, request by request.
TEST(WarmUpTest, AModelOfOneLengthAloneFails) {
  bundle::Bundle bundle = engine_testing::TableBundle(engine_testing::RandomTable(3), {});
  testing_support::GraphBuilder encoder;
  const auto source = encoder.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto fixed = encoder.Add("Add", {source, encoder.Ints({0, 0, 0, 0, 0})});
  const auto sum = encoder.Add("ReduceSum", {fixed, encoder.Ints({1})}, {{"keep_dims", false}});
  encoder.Result("first_state", sum);
  bundle.encoder = encoder.Build();
  const auto model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  const absl::Status status = WarmUp(*model, "", {/*max_rows=*/2});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a made-up source of 5 positions is decoded, and none of 6, 7 and 10 is"));
}

// An encoder that shortens what it reads fails on a source of few positions: here the tenth is
// where the decoder starts from.
TEST(WarmUpTest, AnEncoderMayNeedALongSource) {
  constexpr int64_t kWidth = 50;
  bundle::Bundle bundle = engine_testing::RecurrentBundle({.width = kWidth}).Build();
  testing_support::GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto table =
      ops::Tensor::Of<float>({50, kWidth}, std::vector<float>(static_cast<size_t>(50 * kWidth)));
  const auto memory = graph.Add("Gather", {graph.Constant(table), source, graph.Int(0)});
  graph.Result("memory", memory);
  graph.Result("first_h", graph.Add("Gather", {memory, graph.Int(9), graph.Int(1)}));
  bundle.encoder = graph.Build();
  const auto model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(WarmUp(*model, "", {/*max_rows=*/2}), absl::OkStatus());
}

// Sources and answers are made to the model's measure.
TEST(WarmUpTest, LimitsAndDefaultsAreKept) {
  bundle::Bundle bundle = engine_testing::RecurrentBundle({}).Build();
  bundle.config.mutable_limits()->set_max_source_length(2);
  bundle.config.mutable_default_options()->set_min_length(7);
  const auto model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(WarmUp(*model, "", {/*max_rows=*/2}).ok());
}

}  // namespace
}  // namespace beamwright::engine
