// A stream of inference requests without a transport: the test is gRPC, and brings messages as
// early as gRPC's threads may.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/base/fault_point.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/services.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

namespace beamwright::rpc {
namespace {

using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;

// A call whose messages come one by one, each as soon as it is asked for.
class BroughtCall final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  BroughtCall(InferenceStream& stream, const std::vector<ModelInferRequest>& requests)
      : stream_(stream), requests_(requests.begin(), requests.end()) {
    BindReactor(&stream);
  }

  // The next message, if it is waited for and there is one.
  bool Bring() {
    {
      absl::MutexLock lock(&mutex_);
      if (place_ == nullptr || requests_.empty()) {
        return false;
      }
      EXPECT_TRUE(SerializeReply(requests_.front(), *std::exchange(place_, nullptr)).ok());
      requests_.pop_front();
    }
    stream_.OnReadDone(true);
    return true;
  }
  // Waits until the next message is waited for.
  void WaitForRead() {
    const absl::MutexLock lock(&mutex_);
    const auto is_read = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return place_ != nullptr; };
    mutex_.Await(absl::Condition(&is_read));
  }
  // Waits for the next answer, and lets the one behind it come.
  ModelStreamInferResponse TakeAnswer() {
    grpc::ByteBuffer bytes;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_answer_));
      has_answer_ = false;
      bytes.Swap(&answer_);
    }
    const auto answer = ParseRequest<ModelStreamInferResponse>(bytes, 1 << 20);
    EXPECT_TRUE(answer.ok()) << answer.status();
    stream_.OnWriteDone(true);
    return answer.ok() ? *answer : ModelStreamInferResponse();
  }
  bool is_finished() {
    absl::MutexLock lock(&mutex_);
    return is_finished_;
  }

 private:
  grpc::internal::ServerReactor* reactor() override { return &stream_; }
  void CallOnDone() override {}
  void SendInitialMetadata() override {}
  void Read(grpc::ByteBuffer* place) override {
    absl::MutexLock lock(&mutex_);
    place_ = place;
  }
  void Write(const grpc::ByteBuffer* answer, grpc::WriteOptions /*options*/) override {
    absl::MutexLock lock(&mutex_);
    answer_ = *answer;
    has_answer_ = true;
  }
  void WriteAndFinish(const grpc::ByteBuffer* /*answer*/, grpc::WriteOptions /*options*/,
                      grpc::Status /*status*/) override {}
  void Finish(grpc::Status /*status*/) override {
    absl::MutexLock lock(&mutex_);
    is_finished_ = true;
  }

  InferenceStream& stream_;
  absl::Mutex mutex_;
  std::deque<ModelInferRequest> requests_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer* place_ ABSL_GUARDED_BY(mutex_) = nullptr;  // where the next one is waited for
  grpc::ByteBuffer answer_ ABSL_GUARDED_BY(mutex_);
  bool has_answer_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

ModelInferRequest PartOfSequence(bool is_start, bool is_end) {
  const std::string sound = sound::AsF32(sound::Tones({5}));
  ModelInferRequest request;
  request.set_model_name("tones");
  auto& input = *request.add_inputs();
  input.set_name(oip::kSourceAudio);
  input.set_datatype("FP32");
  input.add_shape(1);
  input.add_shape(static_cast<int64_t>(sound.size() / sizeof(float)));
  request.add_raw_input_contents(sound);
  (*request.mutable_parameters())["sequence_id"].set_int64_param(7);
  (*request.mutable_parameters())["sequence_start"].set_bool_param(is_start);
  (*request.mutable_parameters())["sequence_end"].set_bool_param(is_end);
  return request;
}

std::atomic<BroughtCall*> call_of_hook = nullptr;

class InferenceStreamTest : public ::testing::Test {
 protected:
  InferenceStreamTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    serving::ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    models_ = *serving::ModelRegistry::Load(paths);
    core_.emplace(state_, *models_, *engine_, metrics_);
    state_.Enter(serving::Phase::kServing);
    service_.emplace(*core_);
    gate_.emplace(access_, *core_, /*max_message_bytes=*/1 << 20);
  }
  InferenceStream* Start() {
    return InferenceStream::Start(*gate_, *service_, streams_, context_, access::Identity());
  }

 private:
  bundle::TempFolder temp_;
  std::unique_ptr<serving::ModelRegistry> models_;
  const std::unique_ptr<engine::Engine> engine_ = *engine::Engine::Start({1, 64, 100});
  serving::ServingState state_;
  serving::Metrics metrics_;
  std::optional<serving::Core> core_;
  std::optional<oip::Service> service_;
  const access::Access access_;
  std::optional<Gate> gate_;
  OpenStreams streams_;
  grpc::CallbackServerContext context_;
};

// While the first part of a sequence is being taken, as early as it may, the second one comes on
// another of gRPC's threads.
TEST_F(InferenceStreamTest, PartsOfASequenceAreTakenInTheirOrder) {
  InferenceStream* const stream = Start();
  BroughtCall call(*stream, {PartOfSequence(true, false), PartOfSequence(false, true)});
  call_of_hook = &call;
  fault_hook = [](const char* point) {
    if (point == absl::string_view("call.admit")) {
      std::thread([] { call_of_hook.load()->Bring(); }).join();
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(call.Bring());
  call.WaitForRead();
  fault_hook = nullptr;
  call.Bring();  // unless it has come
  for (int part = 0; part < 2; ++part) {
    EXPECT_EQ(call.TakeAnswer().error_message(), "") << part;
  }
  call.WaitForRead();
  stream->End();
  EXPECT_TRUE(call.is_finished());
  stream->OnDone();
}

// A client sends on and reads no answer: few answers wait for it, and then no request is read.
TEST_F(InferenceStreamTest, AnswersThatAreNotReadHoldUpRequests) {
  InferenceStream* const stream = Start();
  ModelInferRequest request;
  request.set_model_name("no such model");  // it is answered at once
  const std::vector<ModelInferRequest> requests(100, request);
  BroughtCall call(*stream, requests);
  size_t num_read = 0;
  while (call.Bring()) {
    ++num_read;
  }
  EXPECT_EQ(num_read, 17U);
  for (size_t taken = 0; taken < requests.size(); ++taken) {
    EXPECT_NE(call.TakeAnswer().error_message(), "");
    num_read += call.Bring() ? 1 : 0;
  }
  EXPECT_EQ(num_read, requests.size());
  stream->End();
  EXPECT_TRUE(call.is_finished());
  stream->OnDone();
}

}  // namespace
}  // namespace beamwright::rpc
