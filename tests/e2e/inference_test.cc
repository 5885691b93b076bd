// The Open Inference Protocol over gRPC, held against beamwright.v1.DecodeService: tensors, errors,
// streams, statistics. tests/stock_clients does the same with clients that others wrote.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>

#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelInferRequest InferRequest(const std::vector<std::string>& words) {
  ModelInferRequest request;
  request.set_model_name("g2p-en");
  request.set_id("id 1");
  auto& input = *request.add_inputs();
  input.set_name("source_text");
  input.set_datatype("BYTES");
  input.add_shape(static_cast<int64_t>(words.size()));
  input.add_shape(1);
  for (const std::string& word : words) {
    input.mutable_contents()->add_bytes_contents(word);
  }
  return request;
}

// The same with its elements raw.
ModelInferRequest Raw(ModelInferRequest request) {
  std::string raw;
  for (const std::string& text : request.inputs(0).contents().bytes_contents()) {
    const auto size = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&size), sizeof(size));
    raw += text;
  }
  request.mutable_inputs(0)->clear_contents();
  request.add_raw_input_contents(raw);
  return request;
}

template <typename T>
std::vector<T> Numbers(const std::string& raw) {
  std::vector<T> numbers(raw.size() / sizeof(T));
  std::memcpy(numbers.data(), raw.data(), raw.size());
  return numbers;
}

std::vector<std::string> Texts(std::string raw) {
  std::vector<std::string> texts;
  while (raw.size() >= 4) {
    uint32_t size = 0;
    std::memcpy(&size, raw.data(), 4);
    texts.push_back(raw.substr(4, size));
    raw = raw.substr(4 + size);
  }
  return texts;
}

class InferenceTest : public E2eTest {
 protected:
  void SetUp() override {
    E2eTest::SetUp();
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  grpc::Status Infer(const ModelInferRequest& request) {
    grpc::ClientContext context;
    answer_.Clear();
    return stub_->ModelInfer(&context, request, &answer_);
  }

  const std::string& Output(const std::string& name) const {
    for (int i = 0; i < answer_.outputs_size(); ++i) {
      if (answer_.outputs(i).name() == name) {
        return answer_.raw_output_contents(i);
      }
    }
    static const std::string none = "no such output";
    return none;
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  ModelInferResponse answer_;
};

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

// Every way to get a request wrong, its code and what the message has to name.
TEST_F(InferenceTest, FaultsHaveTheirCodeAndAreNamed) {
  struct Fault {
    const char* what;
    std::function<void(ModelInferRequest&)> spoil;
    grpc::StatusCode code;
    const char* message;
  };
  const auto parameter = [](ModelInferRequest & request, const char* name) -> auto& {
    return (*request.mutable_parameters())[name];
  };
  const std::vector<Fault> faults = {
      {"unknown model", [](auto& r) { r.set_model_name("x"); }, grpc::StatusCode::NOT_FOUND,
       "Request for unknown model: 'x' is not found"},
      {"no model", [](auto& r) { r.clear_model_name(); }, grpc::StatusCode::NOT_FOUND, "''"},
      {"unknown version", [](auto& r) { r.set_model_version("7"); }, grpc::StatusCode::NOT_FOUND,
       "'7'"},
      {"no label of its", [](auto& r) { r.set_model_version("latest"); },
       grpc::StatusCode::NOT_FOUND, "'latest'"},
      {"neither number nor label", [](auto& r) { r.set_model_version("-1"); },
       grpc::StatusCode::INVALID_ARGUMENT, "'-1' is no whole number from 1 on, and no label"},
      {"no input", [](auto& r) { r.clear_inputs(); }, grpc::StatusCode::INVALID_ARGUMENT, "inputs"},
      {"unknown input", [](auto& r) { r.mutable_inputs(0)->set_name("text"); },
       grpc::StatusCode::INVALID_ARGUMENT, "it takes 'source_text'"},
      {"two inputs", [](auto& r) { *r.add_inputs() = r.inputs(0); },
       grpc::StatusCode::INVALID_ARGUMENT, "'source_text' is given twice"},
      {"datatype", [](auto& r) { r.mutable_inputs(0)->set_datatype("STRING"); },
       grpc::StatusCode::INVALID_ARGUMENT, "'STRING' is not one of BOOL"},
      {"wrong datatype",
       [](auto& r) {
         r.mutable_inputs(0)->set_datatype("INT32");
         r.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "takes BYTES, not INT32"},
      {"shape", [](auto& r) { r.mutable_inputs(0)->set_shape(0, 2); },
       grpc::StatusCode::INVALID_ARGUMENT, "takes 2 elements; got 1"},
      {"negative shape", [](auto& r) { r.mutable_inputs(0)->set_shape(0, -1); },
       grpc::StatusCode::INVALID_ARGUMENT, "source_text"},
      {"huge shape",
       [](auto& r) {
         r.mutable_inputs(0)->set_shape(0, int64_t{1} << 40);
         r.mutable_inputs(0)->set_shape(1, int64_t{1} << 40);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "source_text"},
      {"no source", [](auto& r) { r.mutable_inputs(0)->set_shape(0, 0); },
       grpc::StatusCode::INVALID_ARGUMENT, "holds no source"},
      {"wide shape",
       [](auto& r) {
         r.mutable_inputs(0)->set_shape(1, 2);
         r.mutable_inputs(0)->mutable_contents()->add_bytes_contents("b");
       },
       grpc::StatusCode::INVALID_ARGUMENT, "[1,2]"},
      {"raw and typed", [](auto& r) { r.add_raw_input_contents("x"); },
       grpc::StatusCode::INVALID_ARGUMENT, "send either"},
      {"raw cut short",
       [](auto& r) {
         r = Raw(r);
         r.mutable_raw_input_contents(0)->pop_back();
       },
       grpc::StatusCode::INVALID_ARGUMENT, "element 0"},
      {"raw length cut",
       [](auto& r) {
         r = Raw(r);
         r.mutable_raw_input_contents(0)->resize(3);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "length of element 0"},
      {"not UTF-8",
       [](auto& r) {
         r.mutable_inputs(0)->mutable_contents()->set_bytes_contents(0, std::string("\xFF"));
       },
       grpc::StatusCode::INVALID_ARGUMENT, "source"},
      {"empty source",
       [](auto& r) { r.mutable_inputs(0)->mutable_contents()->set_bytes_contents(0, ""); },
       grpc::StatusCode::INVALID_ARGUMENT, "source 0"},
      {"unknown parameter", [&](auto& r) { parameter(r, "beams").set_int64_param(1); },
       grpc::StatusCode::INVALID_ARGUMENT,
       "parameters['beams']: is not known; known are beam_size"},
      {"parameter of the wrong type",
       [&](auto& r) { parameter(r, "beam_size").set_bool_param(true); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['beam_size']: takes a whole number"},
      {"parameter out of range", [&](auto& r) { parameter(r, "beam_size").set_int64_param(0); },
       grpc::StatusCode::INVALID_ARGUMENT, "options.beam_size: 0 is outside [1, 256]"},
      {"parameter beyond int32",
       [&](auto& r) { parameter(r, "beam_size").set_int64_param(int64_t{1} << 32); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['beam_size']"},
      {"enum", [&](auto& r) { parameter(r, "stop").set_string_param("soon"); },
       grpc::StatusCode::INVALID_ARGUMENT, "one of safe, first, count, never"},
      {"timeout", [&](auto& r) { parameter(r, "timeout").set_string_param("1s"); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['timeout']"},
      {"priority", [&](auto& r) { parameter(r, "priority").set_string_param("high"); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['priority']"},
      {"unknown output", [](auto& r) { r.add_outputs()->set_name("TEXT"); },
       grpc::StatusCode::INVALID_ARGUMENT, "unexpected inference output 'TEXT'"},
      {"shared memory",
       [](auto& r) {
         (*r.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("x");
       },
       grpc::StatusCode::UNIMPLEMENTED, "shared memory"},
      {"more than the model allows",
       [&](auto& r) { parameter(r, "beam_size").set_int64_param(65); },
       grpc::StatusCode::INVALID_ARGUMENT, "limit of 64"},
      {"too late", [&](auto& r) { parameter(r, "timeout").set_int64_param(1); },
       grpc::StatusCode::DEADLINE_EXCEEDED, "deadline passed"},
  };
  for (const Fault& fault : faults) {
    ModelInferRequest request = InferRequest({"cat"});
    fault.spoil(request);
    const grpc::Status status = Infer(request);
    EXPECT_EQ(status.error_code(), fault.code) << fault.what << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(fault.message)) << fault.what;
  }
  EXPECT_EQ(
      CallRaw(channel_, "/inference.GRPCInferenceService/ModelInfer", "\x0A\x7F").error_code(),
      grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CallRaw(channel_, "/inference.GRPCInferenceService/SystemSharedMemoryStatus", "")
                .error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
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

class StreamTest : public InferenceTest {
 protected:
  using Stream = grpc::ClientReaderWriter<ModelInferRequest, inference::ModelStreamInferResponse>;
};

TEST_F(StreamTest, AnswersInOrderAndGoesOnAfterAnError) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  constexpr int kRequests = 600;  // more than are read ahead
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      ModelInferRequest request = InferRequest({i % 2 == 0 ? "internationalisation" : "a"});
      request.set_id(std::to_string(i));
      if (i % 10 == 3) {
        request.set_model_name("x");
      }
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse answer;
  int count = 0;
  while (stream->Read(&answer)) {
    EXPECT_EQ(answer.infer_response().id(), std::to_string(count));
    EXPECT_TRUE(answer.infer_response().parameters().at("triton_final_response").bool_param());
    EXPECT_EQ(answer.error_message().empty(), count % 10 != 3) << answer.error_message();
    ++count;
  }
  writer.join();
  EXPECT_EQ(count, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamTest, TheFirstErrorEndsItWhereTheClientAskedForThat) {
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  const std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(InferRequest({"cat"})));
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  ModelInferRequest wrong = InferRequest({"cat"});
  wrong.set_model_name("x");
  ASSERT_TRUE(stream->Write(wrong));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StreamTest, AClientThatGoesAwayLeavesNothingRunning) {
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
    for (int k = 0; k < 30; ++k) {
      stream->Write(InferRequest({"incomprehensibilities"}));
    }
    context.TryCancel();
    inference::ModelStreamInferResponse answer;
    while (stream->Read(&answer)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // TearDown asks the server for a good answer.
}

}  // namespace
}  // namespace beamwright::e2e
