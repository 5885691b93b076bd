#include "client/client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "beamwright/v1/decode.grpc.pb.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "client/channels.h"
#include "client/credentials.h"
#include "client/errors.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

// Deadline and credentials.
void Prepare(absl::Time deadline, const std::string& authorization, grpc::ClientContext& context) {
  if (deadline != absl::InfiniteFuture()) {
    context.set_deadline(absl::ToChronoTime(deadline));
  }
  if (!authorization.empty()) {
    context.AddMetadata("authorization", authorization);
  }
}

template <typename Result>
absl::Status StatusOf(const Result& result, bool has_answer) {
  if (has_answer) {
    return absl::OkStatus();
  }
  if (result.has_error()) {
    return absl::Status(static_cast<absl::StatusCode>(result.error().code()),
                        result.error().message());
  }
  return absl::InternalError("the server's result is neither an answer nor an error");
}

struct Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : decode(v1::DecodeService::NewStub(channel)),
        model(v1::ModelService::NewStub(channel)),
        health(grpc::health::v1::Health::NewStub(channel)) {}

  std::unique_ptr<v1::DecodeService::Stub> decode;
  std::unique_ptr<v1::ModelService::Stub> model;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

// What a call of DecodeAsync needs while it is in flight.
struct Call {
  grpc::ClientContext context;
  v1::DecodeRequest request;
  v1::DecodeResponse response;
  grpc::Status status;
  DecodeCallback callback;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::DecodeResponse>> reader;
};

}  // namespace

struct Client::Impl {
  Impl() = default;
  // When nothing is outstanding.
  ~Impl() {
    queue.Shutdown();
    if (answers.joinable()) {
      answers.join();
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Stubs& NextStubs() {
    return stubs[next_stubs.fetch_add(1, std::memory_order_relaxed) % stubs.size()];
  }

  // A thread of our own rather than gRPC's callbacks: two threads of gRPC's share those, and each
  // event wakes the other of them. It is there from the first such call on: while it waits it would
  // take the events of calls that are waited for elsewhere.
  void StartAnswers() {
    std::call_once(answers_started, [this] { answers = std::thread([this] { AwaitAnswers(); }); });
  }

  bool RunOne(absl::Time deadline) {
    void* tag = nullptr;
    bool unused = false;
    const auto until = absl::ToChronoTime(std::max(deadline, absl::UnixEpoch()));
    if (queue.AsyncNext(&tag, &unused, until) != grpc::CompletionQueue::GOT_EVENT) {
      return false;
    }
    Finish(static_cast<Call*>(tag));
    return true;
  }

  void AwaitAnswers() {
    void* tag = nullptr;
    bool unused = false;
    while (queue.Next(&tag, &unused)) {
      Finish(static_cast<Call*>(tag));
    }
  }

  // The order matters: `num_outstanding` of zero lets the destructor go on, and by then the call
  // must be gone.
  void Finish(Call* finished) {
    if (finished->status.ok()) {
      finished->callback(std::move(finished->response));
    } else {
      finished->callback(FromGrpcStatus(finished->status));
    }
    std::shared_ptr<Call> call;
    {
      absl::MutexLock lock(&mutex);
      const auto it = calls.find(finished);
      call = std::move(it->second);
      calls.erase(it);
    }
    call.reset();
    absl::MutexLock lock(&mutex);
    --num_outstanding;
  }

  void CancelOutstanding() {
    std::vector<std::shared_ptr<Call>> outstanding;
    {
      absl::MutexLock lock(&mutex);
      for (const auto& [key, call] : calls) {
        outstanding.push_back(call);
      }
    }
    // Without the lock: cancelling may run callbacks on this thread.
    for (const auto& call : outstanding) {
      call->context.TryCancel();
    }
  }

  std::string address;
  std::string authorization;  // of every call; empty: none
  std::vector<Stubs> stubs;   // one for each channel
  std::atomic<uint64_t> next_stubs{0};
  absl::Mutex mutex;
  // Shared with those who cancel only.
  absl::flat_hash_map<Call*, std::shared_ptr<Call>> calls ABSL_GUARDED_BY(mutex);
  // Counts a call until its callback has returned and its memory is freed.
  int64_t num_outstanding ABSL_GUARDED_BY(mutex) = 0;
  grpc::CompletionQueue queue;
  std::atomic<bool> has_loop{false};
  std::once_flag answers_started;
  std::thread answers;  // last: it uses the others
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  BW_ASSIGN_OR_RETURN(auto channels, MakeChannels(options));
  auto impl = std::make_unique<Impl>();
  BW_ASSIGN_OR_RETURN(impl->authorization, ReadAuthorization(options));
  impl->address = WithDefaultPort(options.address);
  for (const auto& channel : channels) {
    impl->stubs.emplace_back(channel);
  }
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  CancelOutstanding();
  absl::MutexLock lock(&impl_->mutex);
  impl_->mutex.Await(absl::Condition(
      +[](Impl* impl) ABSL_NO_THREAD_SAFETY_ANALYSIS { return impl->num_outstanding == 0; },
      impl_.get()));
}

const std::string& Client::address() const { return impl_->address; }

absl::StatusOr<v1::DecodeResponse> Client::Decode(const v1::DecodeRequest& request,
                                                  absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  v1::DecodeResponse response;
  BW_RETURN_IF_ERROR(
      FromGrpcStatus(impl_->NextStubs().decode->Decode(&context, request, &response)));
  return response;
}

void Client::DecodeAsync(v1::DecodeRequest request, absl::Time deadline, DecodeCallback callback,
                         int priority) {
  if (!impl_->has_loop) {
    impl_->StartAnswers();
  }
  auto owned = std::make_shared<Call>();
  Call* call = owned.get();
  Prepare(deadline, impl_->authorization, call->context);
  if (priority != 0) {
    call->context.AddMetadata("beamwright-priority", absl::StrCat(priority));
  }
  call->request = std::move(request);
  call->callback = std::move(callback);
  {
    absl::MutexLock lock(&impl_->mutex);
    impl_->calls.emplace(call, std::move(owned));
    ++impl_->num_outstanding;
  }
  call->reader =
      impl_->NextStubs().decode->PrepareAsyncDecode(&call->context, call->request, &impl_->queue);
  call->reader->StartCall();
  call->reader->Finish(&call->response, &call->status, call);
}

void Client::CancelOutstanding() { impl_->CancelOutstanding(); }

absl::Status Client::StreamDecode(const v1::StreamDecodeRequest& request, absl::Time deadline,
                                  const StreamCallback& on_message) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  const auto reader = impl_->NextStubs().decode->StreamDecode(&context, request);
  v1::StreamDecodeResponse message;
  while (reader->Read(&message)) {
    if (!on_message(message)) {
      context.TryCancel();
    }
  }
  return FromGrpcStatus(reader->Finish());
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  v1::ScoreResponse response;
  BW_RETURN_IF_ERROR(
      FromGrpcStatus(impl_->NextStubs().decode->Score(&context, request, &response)));
  return response;
}

absl::StatusOr<v1::AlignResponse> Client::Align(const v1::AlignRequest& request,
                                                absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  v1::AlignResponse response;
  BW_RETURN_IF_ERROR(
      FromGrpcStatus(impl_->NextStubs().decode->Align(&context, request, &response)));
  return response;
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  v1::ListModelsResponse response;
  BW_RETURN_IF_ERROR(FromGrpcStatus(
      impl_->NextStubs().model->ListModels(&context, v1::ListModelsRequest(), &response)));
  return response;
}

absl::StatusOr<v1::ModelDescription> Client::DescribeModel(absl::string_view model,
                                                           absl::string_view version,
                                                           absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  v1::DescribeModelRequest request;
  request.set_model(std::string(model));
  request.set_version(std::string(version));
  v1::ModelDescription response;
  BW_RETURN_IF_ERROR(
      FromGrpcStatus(impl_->NextStubs().model->DescribeModel(&context, request, &response)));
  return response;
}

absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> Client::Health(
    absl::string_view service, absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(service));
  grpc::health::v1::HealthCheckResponse response;
  BW_RETURN_IF_ERROR(
      FromGrpcStatus(impl_->NextStubs().health->Check(&context, request, &response)));
  return response.status();
}

CallbackLoop::CallbackLoop(Client& client) : client_(client) { client.impl_->has_loop = true; }

CallbackLoop::~CallbackLoop() {
  client_.impl_->has_loop = false;
  client_.impl_->StartAnswers();
}

bool CallbackLoop::RunOne(absl::Time deadline) { return client_.impl_->RunOne(deadline); }

absl::Status ResultStatus(const v1::Result& result) {
  return StatusOf(result, result.has_decoded());
}

absl::Status ResultStatus(const v1::ScoreResult& result) {
  return StatusOf(result, result.has_scored());
}

absl::Status ResultStatus(const v1::AlignResult& result) {
  return StatusOf(result, result.has_alignment());
}

bool FailsEveryCall(const absl::Status& status) {
  // A server that is about to leave tells its sources so too.
  if (!absl::IsUnavailable(status) && SourceErrorsOf(status).has_value()) {
    return false;
  }
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

}  // namespace beamwright::client
