// The client in three kinds of call, all made over the channels of client/channels.h in turn
// (NextStubs):
//
// 1. Unary calls that block (Decode, Score, Align, Translate, ...): a ClientContext with deadline
//    and credentials (Prepare), the stub's call, and gRPC's status as absl::Status
//    (FromGrpcStatus). gRPC retries them itself by the channel's settings.
// 2. Streams that block (StreamDecode, StreamTranslate): ReadStream reads until the end. gRPC's
//    retries do not know whether a stream has begun, so ReadStream tries again by itself, only
//    while no message has come. Recognize has a second thread that sends while this one reads.
// 3. Calls with callbacks (DecodeAsync, StreamDecodeAsync, StartRecognize): objects on a completion
//    queue (client/async_calls.h), which owns their threads.
//
// Errors carry details: google.rpc.Status in the trailing metadata becomes payloads of
// absl::Status, by type. RetryAfter and SourceErrorsOf read them back; ErrorsOfSources expands
// ranges of sources into one error each.
#include "include/beamwright/client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "beamwright/v1/decode.grpc.pb.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "beamwright/v1/translate.grpc.pb.h"
#include "client/async_calls.h"
#include "client/channels.h"
#include "google/rpc/error_details.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "ops/base/status.h"

namespace beamwright::client {

namespace {

// Waits between the tries of a stream, as gRPC's between tries of unary calls (channels.cc).
constexpr absl::Duration kFirstWait = absl::Milliseconds(50);
constexpr absl::Duration kLongestWait = absl::Seconds(1);

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
        recognize(v1::RecognizeService::NewStub(channel)),
        translate(v1::TranslateService::NewStub(channel)),
        model(v1::ModelService::NewStub(channel)),
        health(grpc::health::v1::Health::NewStub(channel)) {}

  std::unique_ptr<v1::DecodeService::Stub> decode;
  std::unique_ptr<v1::RecognizeService::Stub> recognize;
  std::unique_ptr<v1::TranslateService::Stub> translate;
  std::unique_ptr<v1::ModelService::Stub> model;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

using DecodeCall = UnaryCall<v1::DecodeRequest, v1::DecodeResponse>;

// A StreamDecode call on a completion queue: reads to the end and reports each message. A callback
// that returns false cancels the call, whose end is still read.
class StreamCall final : public AsyncCalls::Call {
 public:
  v1::StreamDecodeRequest request;
  v1::DecodeService::Stub* stub = nullptr;
  StreamCallback on_message;
  std::function<void(absl::Status)> on_end;

 private:
  enum class Step { kBegin, kRead, kFinish };

  void Begin(grpc::CompletionQueue& queue, void* tag) override {
    reader_ = stub->PrepareAsyncStreamDecode(&context, request, &queue);
    reader_->StartCall(tag);
  }
  bool Continue(bool ok, void* tag) override {
    if (step_ == Step::kFinish) {
      on_end(FromGrpcStatus(status_));
      return false;
    }
    if (step_ == Step::kRead && ok && !on_message(message_)) {
      context.TryCancel();
    }
    step_ = ok ? Step::kRead : Step::kFinish;
    if (ok) {
      reader_->Read(&message_, tag);
    } else {
      reader_->Finish(&status_, tag);
    }
    return true;
  }

  Step step_ = Step::kBegin;
  v1::StreamDecodeResponse message_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::StreamDecodeResponse>> reader_;
};

}  // namespace

struct Client::Impl {
  Stubs& NextStubs() {
    return stubs[next_stubs.fetch_add(1, std::memory_order_relaxed) % stubs.size()];
  }

  void Prepare(absl::Time deadline, const CallSettings& settings, grpc::ClientContext& context) {
    client::Prepare(deadline, authorization, context);
    if (settings.priority != 0) {
      context.AddMetadata("beamwright-priority", absl::StrCat(settings.priority));
    }
    if (!settings.tenant.empty()) {
      context.AddMetadata("beamwright-tenant", settings.tenant);
    }
  }

  // Reads the stream that `open` makes to its end. A stream that fails as Unavailable before its
  // first message is tried again.
  template <typename Message>
  absl::Status ReadStream(
      absl::Time deadline,
      const std::function<std::unique_ptr<grpc::ClientReader<Message>>(grpc::ClientContext&)>& open,
      const std::function<bool(const Message&)>& on_message) {
    absl::Duration wait = kFirstWait;
    for (int attempt = 1;; ++attempt) {
      grpc::ClientContext context;
      client::Prepare(deadline, authorization, context);
      const auto reader = open(context);
      Message message;
      bool began = false;
      while (reader->Read(&message)) {
        began = true;
        if (!on_message(message)) {
          context.TryCancel();
        }
      }
      const absl::Status status = FromGrpcStatus(reader->Finish());
      const absl::Duration pause = RetryAfter(status).value_or(wait);
      if (began || !absl::IsUnavailable(status) || attempt >= max_attempts ||
          absl::Now() + pause >= deadline) {
        return status;
      }
      absl::SleepFor(pause);
      wait = std::min(2 * wait, kLongestWait);
    }
  }

  std::string address;
  std::string authorization;  // of every call; empty: none
  int max_attempts = 1;       // of a stream
  std::vector<Stubs> stubs;   // one for each channel
  std::atomic<uint64_t> next_stubs{0};
  AsyncCalls calls;  // last: its calls use the others
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  BW_ASSIGN_OR_RETURN(auto channels, MakeChannels(options));
  auto impl = std::make_unique<Impl>();
  BW_ASSIGN_OR_RETURN(impl->authorization, ReadAuthorization(options));
  impl->address = WithDefaultPort(options.address);
  impl->max_attempts = options.max_attempts;
  for (const auto& channel : channels) {
    impl->stubs.emplace_back(channel);
  }
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() = default;

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
                         const CallSettings& settings) {
  auto call = std::make_shared<DecodeCall>();
  impl_->Prepare(deadline, settings, call->context);
  call->request = std::move(request);
  call->callback = std::move(callback);
  call->prepare = [stub = impl_->NextStubs().decode.get()](grpc::ClientContext* context,
                                                           const v1::DecodeRequest& asked,
                                                           grpc::CompletionQueue* queue) {
    return stub->PrepareAsyncDecode(context, asked, queue);
  };
  impl_->calls.Start(std::move(call), settings.cancel_after);
}

void Client::StreamDecodeAsync(v1::StreamDecodeRequest request, absl::Time deadline,
                               StreamCallback on_message, StreamEndCallback on_end,
                               const CallSettings& settings) {
  auto call = std::make_shared<StreamCall>();
  impl_->Prepare(deadline, settings, call->context);
  call->request = std::move(request);
  call->stub = impl_->NextStubs().decode.get();
  call->on_message = std::move(on_message);
  call->on_end = std::move(on_end);
  impl_->calls.Start(std::move(call), settings.cancel_after);
}

void Client::CancelOutstanding() { impl_->calls.CancelOutstanding(); }

absl::Status Client::StreamDecode(const v1::StreamDecodeRequest& request, absl::Time deadline,
                                  const StreamCallback& on_message) {
  return impl_->ReadStream<v1::StreamDecodeResponse>(
      deadline,
      [&](grpc::ClientContext& context) {
        return impl_->NextStubs().decode->StreamDecode(&context, request);
      },
      on_message);
}

// The sender ends with the last piece, or when a write fails because the call is over; so it is
// joined before the call's end is read. A message that is not wanted any more cancels the call,
// which also ends the sender's write.
absl::Status Client::Recognize(const v1::RecognizeConfig& config, absl::Time deadline,
                               const std::function<bool(v1::RecognizeRequest& piece)>& next,
                               const RecognizeCallback& on_message) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  const auto stream = impl_->NextStubs().recognize->Recognize(&context);
  std::thread sender([&] {
    v1::RecognizeRequest request;
    *request.mutable_config() = config;
    while (stream->Write(request)) {
      request.Clear();
      if (!next(request)) {
        stream->WritesDone();
        return;
      }
    }
  });
  v1::RecognizeResponse message;
  while (stream->Read(&message)) {
    if (!on_message(message)) {
      context.TryCancel();
    }
  }
  sender.join();
  return FromGrpcStatus(stream->Finish());
}

std::shared_ptr<RecognizeStream> Client::StartRecognize(
    const v1::RecognizeConfig& config, absl::Time deadline,
    std::pair<std::function<void(const v1::RecognizeResponse&)>, StreamEndCallback> callbacks) {
  const auto stream = std::make_shared<RecognizeStreamCall>(
      RecognizeStreamCall::Callbacks{std::move(callbacks.first), std::move(callbacks.second)});
  Prepare(deadline, impl_->authorization, stream->context());
  v1::RecognizeRequest first;
  *first.mutable_config() = config;
  stream->Begin(stream, *impl_->NextStubs().recognize, std::move(first));
  return stream;
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

absl::StatusOr<v1::TranslateResponse> Client::Translate(const v1::TranslateRequest& request,
                                                        absl::Time deadline) {
  grpc::ClientContext context;
  Prepare(deadline, impl_->authorization, context);
  v1::TranslateResponse response;
  BW_RETURN_IF_ERROR(
      FromGrpcStatus(impl_->NextStubs().translate->Translate(&context, request, &response)));
  return response;
}

absl::Status Client::StreamTranslate(const v1::TranslateRequest& request, absl::Time deadline,
                                     const TranslateCallback& on_message) {
  return impl_->ReadStream<v1::TranslateResponse>(
      deadline,
      [&](grpc::ClientContext& context) {
        return impl_->NextStubs().translate->StreamTranslate(&context, request);
      },
      on_message);
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

CallbackLoop::CallbackLoop(Client& client) : client_(client) { client.impl_->calls.SetLoop(true); }

CallbackLoop::~CallbackLoop() { client_.impl_->calls.SetLoop(false); }

bool CallbackLoop::RunOne(absl::Time deadline) { return client_.impl_->calls.RunOne(deadline); }

absl::Status ResultStatus(const v1::Result& result) {
  return StatusOf(result, result.has_decoded());
}

absl::Status ResultStatus(const v1::ScoreResult& result) {
  return StatusOf(result, result.has_scored());
}

absl::Status ResultStatus(const v1::AlignResult& result) {
  return StatusOf(result, result.has_alignment());
}

// Whether the next call would fail for the same reason, so that a bulk of calls may as well end.
// Errors of sources are those of one call.
bool FailsEveryCall(const absl::Status& status) {
  // A server that shuts down reports Unavailable for each source, too.
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

namespace {

template <typename T>
std::optional<T> DetailOf(const absl::Status& status) {
  const auto payload =
      status.GetPayload(absl::StrCat("type.googleapis.com/", T::descriptor()->full_name()));
  T detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  return detail;
}

// The call's status as the error of one source: with its details, except SourceErrors.
google::rpc::Status AsErrorOfSource(const absl::Status& status) {
  google::rpc::Status error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  const std::string of_sources =
      absl::StrCat("type.googleapis.com/", v1::SourceErrors::descriptor()->full_name());
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    if (type != of_sources) {
      google::protobuf::Any& detail = *error.add_details();
      detail.set_type_url(std::string(type));
      detail.set_value(std::string(payload));
    }
  });
  return error;
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  // The codes of gRPC and of Abseil are the same numbers.
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status whole;
  if (!status.ok() && whole.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : whole.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::RetryInfo>(status);
  if (!info.has_value()) {
    return std::nullopt;
  }
  return absl::Seconds(info->retry_delay().seconds()) +
         absl::Nanoseconds(info->retry_delay().nanos());
}

std::optional<v1::SourceErrors> SourceErrorsOf(const absl::Status& status) {
  return DetailOf<v1::SourceErrors>(status);
}

// An error for each source of the call. Ranges that the server names have their errors; sources
// that it does not name, and ranges without an error, have the call's.
std::vector<google::rpc::Status> ErrorsOfSources(const absl::Status& status, int num_sources) {
  const auto of_sources = SourceErrorsOf(status);
  if (!of_sources.has_value()) {
    return {};
  }
  const google::rpc::Status of_call = AsErrorOfSource(status);
  std::vector<google::rpc::Status> errors(static_cast<size_t>(num_sources), of_call);
  for (const v1::SourceError& error : of_sources->errors()) {
    for (const v1::SourceRange& range : error.sources()) {
      const int64_t end = std::min<int64_t>(int64_t{range.first()} + range.count(), num_sources);
      for (int64_t i = std::max(range.first(), 0); i < end; ++i) {
        errors[static_cast<size_t>(i)] = error.has_error() ? error.error() : of_call;
      }
    }
  }
  return errors;
}

}  // namespace beamwright::client
