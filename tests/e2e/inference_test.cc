// The Open Inference Protocol over gRPC, held against beamwright.v1.DecodeService: tensors,
// statistics, descriptions of models. tests/stock_clients does the same with clients that others
// wrote.
#include <gmock/gmock.h>

#include <limits>

#include "tests/e2e/inference_fixture.h"

namespace beamwright::e2e {
namespace {

using ::testing::ElementsAre;

TEST_F(InferenceTest, TensorsHoldWhatDecodeAnswers) {
  v1::DecodeRequest plain = Request({"recurrent", "a"});
  plain.mutable_options()->set_beam_size(4);
  plain.mutable_options()->set_n_best(3);
  ASSERT_TRUE(Call(plain).ok());
  for (const bool raw : {false, true}) {
    ModelInferRequest request = InferRequest({"recurrent", "a"});
    (*request.mutable_parameters())["beam_size"].set_int64_param(4);
    (*request.mutable_parameters())["n_best"].set_int64_param(3);
    const grpc::Status status = Infer(raw ? Raw(request) : request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(answer_.id(), "id 1");
    EXPECT_EQ(answer_.model_version(), "1");
    const std::vector<std::string> texts = Texts(Output("text"));
    const std::vector<double> scores = Numbers<double>(Output("scores"));
    const std::vector<int32_t> lengths = Numbers<int32_t>(Output("lengths"));
    const std::vector<int32_t> ids = Numbers<int32_t>(Output("ids"));
    ASSERT_EQ(texts.size(), 6u);
    ASSERT_EQ(scores.size(), 6u);
    const size_t width = ids.size() / 6;
    size_t longest = 0;
    for (size_t i = 0; i < 6; ++i) {
      const v1::Hypothesis& expected =
          response_.results(static_cast<int>(i / 3)).decoded().hypotheses(static_cast<int>(i % 3));
      EXPECT_EQ(texts[i], expected.text());
      EXPECT_EQ(scores[i], expected.score());
      EXPECT_EQ(lengths[i], expected.tokens_size());
      longest = std::max(longest, static_cast<size_t>(expected.tokens_size()));
      for (size_t t = 0; t < width; ++t) {
        const auto at = static_cast<int>(t);
        EXPECT_EQ(ids[i * width + t], at < expected.tokens_size() ? expected.tokens(at) : -1);
      }
    }
    EXPECT_EQ(width, longest);
    EXPECT_THAT(Numbers<int32_t>(Output("num_hypotheses")), ElementsAre(3, 3));
  }
}

TEST_F(InferenceTest, MissingHypothesesArePadded) {
  ModelInferRequest request = InferRequest({"a"});
  (*request.mutable_parameters())["beam_size"].set_int64_param(8);
  (*request.mutable_parameters())["n_best"].set_int64_param(8);
  // One token can't be more than the end token or one other: far fewer than eight... of length 1.
  (*request.mutable_parameters())["max_length"].set_int64_param(1);
  (*request.mutable_parameters())["stop"].set_string_param("first");
  ASSERT_TRUE(Infer(request).ok());
  const int32_t found = Numbers<int32_t>(Output("num_hypotheses"))[0];
  ASSERT_EQ(answer_.outputs(0).shape(1), 8);
  const std::vector<double> scores = Numbers<double>(Output("scores"));
  const std::vector<int32_t> ids = Numbers<int32_t>(Output("ids"));
  for (size_t i = static_cast<size_t>(found); i < 8; ++i) {
    EXPECT_EQ(scores[i], -std::numeric_limits<double>::infinity());
    EXPECT_EQ(Texts(Output("text"))[i], "");
    EXPECT_EQ(ids[i], -1);
  }
}

TEST_F(InferenceTest, OnlyTheOutputsThatAreAskedForAreAnsweredInTheirOrder) {
  ModelInferRequest request = InferRequest({"cat"});
  for (const char* name : {"lengths", "text", "lengths"}) {
    request.add_outputs()->set_name(name);
  }
  ASSERT_TRUE(Infer(request).ok());
  ASSERT_EQ(answer_.outputs_size(), 2);
  EXPECT_EQ(answer_.outputs(0).name(), "lengths");
  EXPECT_EQ(answer_.outputs(1).name(), "text");
  EXPECT_EQ(answer_.raw_output_contents_size(), 2);
}

// Sources of different lengths: rows of tokens and of positions are padded.
TEST_F(InferenceTest, AttentionComesAsTensorsWhereItIsNamed) {
  v1::DecodeRequest plain = Request({"recurrent", "cat"});
  plain.mutable_options()->set_beam_size(2);
  plain.mutable_options()->set_n_best(2);
  plain.mutable_options()->set_attention(v1::ATTENTION_SOFT);
  ASSERT_TRUE(Call(plain).ok());
  ModelInferRequest request = InferRequest({"recurrent", "cat"});
  (*request.mutable_parameters())["beam_size"].set_int64_param(2);
  (*request.mutable_parameters())["n_best"].set_int64_param(2);
  for (const char* name : {"alignment", "attention", "token_log_probs"}) {
    request.add_outputs()->set_name(name);
  }
  const grpc::Status status = Infer(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answer_.outputs(1).datatype(), "FP32");
  ASSERT_EQ(answer_.outputs(1).shape_size(), 4);
  const auto longest = static_cast<size_t>(answer_.outputs(1).shape(2));
  const auto positions = static_cast<size_t>(answer_.outputs(1).shape(3));
  EXPECT_EQ(positions, 9u) << "letters of 'recurrent'";
  const std::vector<int32_t> alignment = Numbers<int32_t>(Output("alignment"));
  const std::vector<float> attention = Numbers<float>(Output("attention"));
  const std::vector<float> log_probs = Numbers<float>(Output("token_log_probs"));
  ASSERT_EQ(alignment.size(), 4 * longest);
  ASSERT_EQ(log_probs.size(), 4 * longest);
  ASSERT_EQ(attention.size(), 4 * longest * positions);
  for (size_t i = 0; i < 4 * longest * positions; ++i) {
    const size_t row = i / positions;  // of a token
    const auto token = static_cast<int>(row % longest);
    const auto position = static_cast<int>(i % positions);
    const v1::Hypothesis& expected = response_.results(static_cast<int>(row / longest / 2))
                                         .decoded()
                                         .hypotheses(static_cast<int>(row / longest % 2));
    const bool given = token < expected.tokens_size();
    EXPECT_EQ(alignment[row], given ? expected.alignment(token) : -1);
    EXPECT_EQ(log_probs[row], given ? expected.token_log_probs(token) : 0);
    const int columns = expected.attention().columns();
    EXPECT_EQ(attention[i], given && position < columns
                                ? expected.attention().values(token * columns + position)
                                : 0);
  }
}

TEST_F(InferenceTest, WhereNothingIsNamedThereIsNoAttention) {
  ASSERT_TRUE(Infer(InferRequest({"cat"})).ok());
  EXPECT_EQ(answer_.outputs_size(), 6);
}

TEST_F(InferenceTest, IdsDecodeLikeTheTextThatTheyStandFor) {
  v1::DecodeRequest plain;
  plain.add_sources()->mutable_ids()->add_ids(5);
  plain.mutable_sources(0)->mutable_ids()->add_ids(6);
  ASSERT_TRUE(Call(plain).ok());
  ModelInferRequest request = InferRequest({});
  auto& input = *request.mutable_inputs(0);
  input.set_name("source_ids");
  input.set_datatype("INT64");
  input.clear_shape();
  input.add_shape(1);
  input.add_shape(4);
  for (const int64_t id : {5, 6, -1, -1}) {
    input.mutable_contents()->add_int64_contents(id);
  }
  const grpc::Status status = Infer(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Texts(Output("text"))[0], response_.results(0).decoded().hypotheses(0).text());
}

TEST_F(InferenceTest, WhatClientsSetForOtherServersIsPassedOver) {
  ModelInferRequest request = InferRequest({"cat"});
  auto& parameters = *request.mutable_parameters();
  parameters["sequence_id"].set_int64_param(3);
  parameters["sequence_start"].set_bool_param(true);
  parameters["priority"].set_uint64_param(1);
  parameters["timeout"].set_int64_param(60'000'000);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["length_penalty"].set_string_param("pow");
  parameters["length_penalty_alpha"].set_double_param(0.5);
  parameters["beam_size"].set_double_param(4);
  parameters["n_best"].set_string_param("2");
  const grpc::Status status = Infer(request);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(InferenceTest, TheModelDescribesItselfConsistently) {
  grpc::ClientContext metadata_context;
  inference::ModelMetadataRequest asked;
  asked.set_name("g2p-en");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(stub_->ModelMetadata(&metadata_context, asked, &metadata).ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  grpc::ClientContext config_context;
  inference::ModelConfigRequest config_asked;
  config_asked.set_name("g2p-en");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(stub_->ModelConfig(&config_context, config_asked, &config).ok());
  ASSERT_EQ(config.config().input_size(), metadata.inputs_size());
  EXPECT_EQ(config.config().input(0).name(), "source_text");
  EXPECT_EQ(config.config().input(0).data_type(), inference::TYPE_STRING);
  ASSERT_EQ(config.config().output_size(), metadata.outputs_size());
  ASSERT_TRUE(Infer(InferRequest({"cat", "dog"})).ok());
  ASSERT_EQ(answer_.outputs_size(), metadata.outputs_size());
  for (int i = 0; i < answer_.outputs_size(); ++i) {
    const auto& told = metadata.outputs(i);
    const auto& given = answer_.outputs(i);
    EXPECT_EQ(given.name(), told.name());
    EXPECT_EQ(given.datatype(), told.datatype());
    ASSERT_EQ(given.shape_size(), told.shape_size()) << told.name();
    for (int axis = 0; axis < told.shape_size(); ++axis) {
      EXPECT_TRUE(told.shape(axis) == -1 || told.shape(axis) == given.shape(axis)) << told.name();
    }
    // Batched as max_batch_size > 0 says.
    EXPECT_EQ(config.config().output(i).dims_size(), told.shape_size() - 1);
  }
}

TEST_F(InferenceTest, StatisticsCountWhatWasDone) {
  const auto statistics = [this] {
    grpc::ClientContext context;
    inference::ModelStatisticsRequest request;
    request.set_name("g2p-en");
    inference::ModelStatisticsResponse response;
    EXPECT_TRUE(stub_->ModelStatistics(&context, request, &response).ok());
    return response.model_stats(0);
  };
  const inference::ModelStatistics before = statistics();
  ASSERT_TRUE(Infer(InferRequest({"cat", "dog"})).ok());
  ModelInferRequest wrong = InferRequest({"cat"});
  (*wrong.mutable_parameters())["timeout"].set_int64_param(1);
  ASSERT_FALSE(Infer(wrong).ok());
  const inference::ModelStatistics after = statistics();
  EXPECT_EQ(after.inference_count() - before.inference_count(), 2u);
  EXPECT_GT(after.execution_count(), before.execution_count());
  EXPECT_GT(after.last_inference(), 1'500'000'000'000u);
  EXPECT_GT(after.inference_stats().compute_infer().ns(),
            before.inference_stats().compute_infer().ns());
  EXPECT_EQ(after.inference_stats().queue().count() - before.inference_stats().queue().count(), 2u);
}

TEST_F(InferenceTest, ServerAndModelsTellTheirState) {
  grpc::ClientContext contexts[6];
  inference::ServerLiveResponse live;
  ASSERT_TRUE(stub_->ServerLive(&contexts[0], {}, &live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(&contexts[1], {}, &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&contexts[2], {}, &index).ok());
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).state(), "READY");
  inference::ModelReadyRequest request;
  inference::ModelReadyResponse model_ready;
  request.set_name("g2p-en");
  ASSERT_TRUE(stub_->ModelReady(&contexts[3], request, &model_ready).ok());
  EXPECT_TRUE(model_ready.ready());
  request.set_name("x");
  ASSERT_TRUE(stub_->ModelReady(&contexts[4], request, &model_ready).ok());
  EXPECT_FALSE(model_ready.ready());
  request.set_version("0");
  EXPECT_EQ(stub_->ModelReady(&contexts[5], request, &model_ready).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace beamwright::e2e
