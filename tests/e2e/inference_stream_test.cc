// ModelStreamInfer of the Open Inference Protocol.
#include <string>
#include <thread>

#include "tests/e2e/inference_fixture.h"

namespace beamwright::e2e {
namespace {

using Stream = grpc::ClientReaderWriter<ModelInferRequest, inference::ModelStreamInferResponse>;

class StreamTest : public InferenceTest {};

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

// A refusal for want of room ends it with the time after which to try again; -1: never.
TEST(SmallServerTest, ARefusalThatEndsAStreamCarriesPushback) {
  ServerProcess server({"--model-path", DefaultModel(), "--max-state-bytes", "1"});
  const auto stub = inference::GRPCInferenceService::NewStub(Connect(server.address()));
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  const std::unique_ptr<Stream> stream = stub->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(InferRequest({"cat"})));
  inference::ModelStreamInferResponse answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_EQ(pushback->second, "-1");
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
