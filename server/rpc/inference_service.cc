#include <type_traits>
#include <utility>

#include "engine/status/wire_status.h"
#include "server/rpc/decode_call.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/services.h"
#include "server/rpc/unknown_call.h"

namespace beamwright::rpc {

// ModelStreamInfer: a stream of requests and answers over one gRPC call. Answers come in the order
// of the requests, though several are decoded at once. The object is a gRPC reactor; its state
// changes under mutex_ in Advance, which starts the next write, read, or the end:
//
// 1. Read the next request unless kMaxOpenPerStream are open, or kMostUnread answers wait behind
//    one that the client does not read: an Entry in entries_, in order.
// 2. Take parses it and calls the service; large messages are parsed on another thread
//    (gate_.reader()), as parsing would hold up gRPC's thread.
// 3. Answered serialises the answer and marks the entry. The first entry is written once it is
//    answered.
// 4. The stream ends when the client has finished and all entries are written; with an error in an
//    answer if the client asked for that (triton_grpc_error); or when the server stops (End).
//
// The object deletes itself when gRPC is done with it (OnDone) and no decoding is under way
// (num_decoding_), whichever is later.

namespace {

constexpr char kErrorsEndStream[] = "triton_grpc_error";
constexpr char kFinalResponse[] = "triton_final_response";
// Of a stream: answers that may wait for the write under way while requests are read.
constexpr size_t kMostUnread = 16;
// What a request of a stream takes without its messages.
constexpr int64_t kEntryBytes = 4 << 10;

bool ErrorsEndIt(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kErrorsEndStream);
  return found != metadata.end() && found->second == "true";
}

}  // namespace

void OpenStreams::Add(InferenceStream* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.insert(stream);
  if (ending_) {
    stream->End();
  }
}

void OpenStreams::Remove(InferenceStream* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void OpenStreams::EndAll() {
  absl::MutexLock lock(&mutex_);
  ending_ = true;
  for (InferenceStream* stream : streams_) {
    stream->End();
  }
}

InferenceStream::InferenceStream(const Gate& gate, oip::Service& service, OpenStreams& streams,
                                 grpc::CallbackServerContext& context)
    : gate_(gate),
      service_(service),
      streams_(streams),
      call_(context),
      deadline_(DeadlineOf(context)),
      errors_end_it_(ErrorsEndIt(context)),
      context_(ContextOf(context)),
      connection_(ConnectionOf(context)),
      unsent_(gate, context) {}

InferenceStream* InferenceStream::Start(const Gate& gate, oip::Service& service,
                                        OpenStreams& streams, grpc::CallbackServerContext& context,
                                        const absl::StatusOr<access::Identity>& identity) {
  auto* stream = new InferenceStream(gate, service, streams, context);
  streams.Add(stream);
  if (!identity.ok()) {
    serving::Caller caller{serving::Method::kModelStreamInfer, stream->deadline_, nullptr};
    caller.context = stream->context_;
    service.core().calls().Refuse(identity.status(), caller);
    absl::MutexLock lock(&stream->mutex_);
    if (!stream->finished_) {
      stream->EndWith(EndOfCall(identity.status(), stream->call_));
    }
    return stream;
  }
  stream->identity_ = *identity;
  absl::MutexLock lock(&stream->mutex_);
  stream->Advance();
  return stream;
}

void InferenceStream::End() {
  absl::MutexLock lock(&mutex_);
  ending_ = true;
  Advance();
}

void InferenceStream::OnReadDone(bool ok) {
  --gate_.num_reading();
  if (!ok && call_.IsCancelled()) {
    cancelled_->Cancel();  // as OnCancel will: the client has gone, and not sent all
  }
  Entry* entry = nullptr;
  grpc::ByteBuffer bytes;
  bool is_large = false;
  absl::Status held;
  if (ok) {
    absl::MutexLock lock(&mutex_);
    if (!finished_) {
      bytes.Swap(&request_);
      entry =
          entries_.emplace_back(std::make_unique<Entry>(service_.core().state(), gate_.MakeHold()))
              .get();
      ++num_decoding_;
      is_large = bytes.Length() > Gate::kAtOnceBytes;
      num_decoding_ += is_large ? 1 : 0;  // until GoOn
    }
  }
  // Counts the request before the next one is read, which may be the next part of a sequence: gRPC
  // calls on another thread as soon as that has come.
  if (entry != nullptr) {
    gate_.CountArrival(call_, bytes);
    held = gate_.Resize(entry->hold, kEntryBytes + static_cast<int64_t>(bytes.Length()));
  }
  if (!held.ok()) {
    Answered(*entry, held);
  } else if (is_large) {
    const absl::Status posted = gate_.reader().Post(
        MakeCaller(), [this, entry, bytes](const absl::Status& outcome) mutable {
          outcome.ok() ? Take(entry, bytes) : Answered(*entry, outcome);
          GoOn(/*ok=*/true, /*was_large=*/true);
        });
    if (posted.ok()) {
      return;
    }
    Answered(*entry, posted);
  } else if (entry != nullptr) {
    Take(entry, bytes);
  }
  GoOn(ok, is_large);
}

void InferenceStream::GoOn(bool ok, bool was_large) {
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    at_end_ = at_end_ || !ok;
    num_decoding_ -= was_large ? 1 : 0;
    Advance();
    last = was_large && done_ && num_decoding_ == 0;
  }
  if (last) {
    delete this;
  }
}

serving::Caller InferenceStream::MakeCaller() const {
  serving::Caller caller{serving::Method::kModelStreamInfer, deadline_, cancelled_};
  caller.context = context_;
  caller.tenant = identity_.tenant;
  caller.connection = connection_;
  caller.priority = identity_.priority;
  return caller;
}

void InferenceStream::Take(Entry* entry, grpc::ByteBuffer& bytes) {
  const auto request = ParseRequest<inference::ModelInferRequest>(bytes, gate_.max_message_bytes());
  if (request.ok()) {
    entry->id = request->id();
    entry->model = request->model_name();
  }
  service_.Infer(request, MakeCaller(),
                 [this, entry](absl::StatusOr<inference::ModelInferResponse> answer) {
                   Answered(*entry, std::move(answer));
                 });
}

void InferenceStream::SetAnswer(Entry& entry,
                                absl::StatusOr<inference::ModelInferResponse> answer) const {
  inference::ModelStreamInferResponse message;
  inference::ModelInferResponse& response = *message.mutable_infer_response();
  if (answer.ok()) {
    response = *std::move(answer);
  } else {
    entry.status = answer.status();
    message.set_error_message(status::WireMessage(answer.status()));
    response.set_id(entry.id);
    response.set_model_name(entry.model);
  }
  (*response.mutable_parameters())[kFinalResponse].set_bool_param(true);
  if (absl::Status status = SerializeReply(message, entry.answer); !status.ok()) {
    entry.status = std::move(status);
  }
}

void InferenceStream::Answered(Entry& entry, absl::StatusOr<inference::ModelInferResponse> answer) {
  SetAnswer(entry, std::move(answer));
  const absl::Status held =
      gate_.Resize(entry.hold, kEntryBytes + static_cast<int64_t>(entry.answer.Length()));
  if (!held.ok()) {
    SetAnswer(entry, held);
  }
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    entry.answered = true;
    ++num_answered_;
    --num_decoding_;
    Advance();
    last = done_ && num_decoding_ == 0;
  }
  if (last) {
    delete this;
  }
}

void InferenceStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  unsent_.End();
  entries_.pop_front();
  --num_answered_;
  if (!ok) {
    cancelled_->Cancel();  // the client is gone
  }
  Advance();
}

void InferenceStream::Advance() {
  if (finished_) {
    return;
  }
  if (!writing_ && !entries_.empty() && entries_.front()->answered) {
    Entry& first = *entries_.front();
    if (errors_end_it_ && !first.status.ok()) {
      cancelled_->Cancel();  // the requests behind it
      EndWith(EndOfCall(first.status, call_));
      return;
    }
    writing_ = true;
    unsent_.Begin();
    StartWrite(&first.answer);
  }
  const bool is_unread = writing_ && num_answered_ > kMostUnread;
  if (!reading_ && !at_end_ && !ending_ && !is_unread && entries_.size() < kMaxOpenPerStream) {
    reading_ = true;
    ++gate_.num_reading();
    StartRead(&request_);
  }
  if ((at_end_ || ending_) && entries_.empty()) {
    EndWith(at_end_ ? grpc::Status::OK : ToGrpcStatus(serving::ShuttingDown()));
  }
}

void InferenceStream::EndWith(const grpc::Status& status) {
  finished_ = true;
  AddLoadReport(service_.core(), call_);
  Finish(status);
}

void InferenceStream::OnDone() {
  streams_.Remove(this);
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    done_ = true;
    last = num_decoding_ == 0;
  }
  if (last) {
    delete this;
  }
}

InferenceService::InferenceService(const Gate& gate, oip::Service& service)
    : gate_(gate), service_(service) {
  Serve("ModelInfer",
        DecodeCallsOf<inference::ModelInferRequest>(
            gate, service.core(), serving::Method::kModelInfer,
            [&service](serving::Core&, const absl::StatusOr<inference::ModelInferRequest>& request,
                       const serving::Caller& caller,
                       const auto& answer) { service.Infer(request, caller, answer); }));
  Serve("ModelStreamInfer", [this](const GuardedMethod& method,
                                   grpc::CallbackServerContext& context) {
    return InferenceStream::Start(gate_, service_, streams_, context, gate_.Admit(context, method));
  });
  ServeAnswer<inference::ServerLiveRequest, inference::ServerLiveResponse>("ServerLive");
  ServeAnswer<inference::ServerReadyRequest, inference::ServerReadyResponse>("ServerReady");
  ServeAnswer<inference::ModelReadyRequest, inference::ModelReadyResponse>("ModelReady");
  ServeAnswer<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "ServerMetadata");
  ServeAnswer<inference::ModelMetadataRequest, inference::ModelMetadataResponse>("ModelMetadata");
  ServeAnswer<inference::ModelConfigRequest, inference::ModelConfigResponse>("ModelConfig");
  ServeAnswer<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      "ModelStatistics");
  ServeAnswer<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      "RepositoryIndex");
  ServeAnswer<inference::LogSettingsRequest, inference::LogSettingsResponse>("LogSettings");
  ServeControl<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      "RepositoryModelLoad");
  ServeControl<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload");
  ServeRest([this](const GuardedMethod& method, grpc::CallbackServerContext& context) {
    return UnknownCall::Start(gate_, context, method.name);
  });
}

template <typename Request, typename Response>
void InferenceService::ServeAnswer(const std::string& name) {
  Serve(name,
        AtOnceCallsOf<Request, Response>(gate_, [this](const Request& request, const auto& answer) {
          const auto reply = [this, request, answer](const absl::Status& ready) {
            Response response;
            const absl::Status status = ready.ok() ? service_.Answer(request, response) : ready;
            if (status.ok()) {
              answer(response);
            } else {
              answer(status);
            }
          };
          // These read what the model's graphs say, so it has to be in memory.
          if constexpr (std::is_same_v<Request, inference::ModelMetadataRequest> ||
                        std::is_same_v<Request, inference::ModelConfigRequest>) {
            service_.core().models().Await(request.name(), request.version(),
                                           absl::InfiniteFuture(), reply);
          } else {
            reply(absl::OkStatus());
          }
        }));
}

template <typename Request, typename Response>
void InferenceService::ServeControl(const std::string& name) {
  Serve(name,
        AtOnceCallsOf<Request, Response>(gate_, [this](const Request& request, const auto& answer) {
          service_.Control(request, [answer](const absl::Status& status) {
            if (status.ok()) {
              answer(Response());
            } else {
              answer(status);
            }
          });
        }));
}

}  // namespace beamwright::rpc
