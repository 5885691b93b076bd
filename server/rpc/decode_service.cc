#include "server/rpc/decode_service.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {

// One call, from its bytes to its answer. gRPC owns it: it deletes itself when gRPC is done.
class DecodeCall final : public grpc::ServerUnaryReactor {
 public:
  DecodeCall(DecodeService& service, grpc::ByteBuffer& reply_bytes)
      : service_(service), reply_bytes_(reply_bytes) {}

  // Gives all sources to the engine, or ends the call.
  void Start(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request_bytes) {
    const absl::Status status = Admit(context, request_bytes);
    if (!status.ok()) {
      Finish(ToGrpcStatus(status));
    }
  }

  void OnCancel() override { cancelled_->store(true); }

  void OnDone() override {
    DecodeService& service = service_;
    delete this;
    service.CallEnded();
  }

 private:
  absl::Status Admit(const grpc::CallbackServerContext& context,
                     const grpc::ByteBuffer& request_bytes) {
    if (service_.refusing_) {
      return absl::UnavailableError("the server is shutting down");
    }
    v1::DecodeRequest request;
    BW_RETURN_IF_ERROR(ParseRequest(request_bytes, request));
    BW_ASSIGN_OR_RETURN(const ModelPtr model,
                        service_.models_.Lookup(request.model(), request.version()));
    if (request.sources().empty()) {
      return Invalid("sources: is empty; there is nothing to decode");
    }
    if (request.sources_size() > kMaxSources) {
      return Invalid("sources: has ", request.sources_size(), " entries; at most ", kMaxSources,
                     " are allowed in a call");
    }
    BW_RETURN_IF_ERROR(engine::CheckOptions(*model, request.options()));
    reply_.set_model(model->name());
    reply_.set_version(model->version());
    reply_.set_numerics(model->numerics());
    DecodeAll(context, model, request);
    return absl::OkStatus();
  }

  void DecodeAll(const grpc::CallbackServerContext& context, const ModelPtr& model,
                 v1::DecodeRequest& request) {
    engine::CallOptions options;
    options.cancelled = cancelled_;
    if (context.deadline() != std::chrono::system_clock::time_point::max()) {
      options.deadline = absl::FromChrono(context.deadline());
    }
    const int num_sources = request.sources_size();
    // All there before the first source is admitted: the engine's thread fills them as they come.
    for (int i = 0; i < num_sources; ++i) {
      reply_.add_results();
    }
    std::vector<v1::Result*> results;
    for (v1::Result& result : *reply_.mutable_results()) {
      results.push_back(&result);
    }
    // One more than sources, so that the call can't end while this loop still uses it.
    num_open_ = num_sources + 1;
    for (int i = 0; i < num_sources; ++i) {
      v1::Result* result = results[static_cast<size_t>(i)];
      service_.engine_.Decode(model, std::move(*request.mutable_sources(i)), request.options(),
                              options, [this, result](absl::StatusOr<v1::Decoded> decoded) {
                                Fill(std::move(decoded), *result);
                                Release();
                              });
    }
    Release();
  }

  void Fill(absl::StatusOr<v1::Decoded> decoded, v1::Result& result) {
    if (decoded.ok()) {
      *result.mutable_decoded() = *std::move(decoded);
    } else {
      num_unavailable_ += absl::IsUnavailable(decoded.status()) ? 1 : 0;
      *result.mutable_error() = ToRpcStatus(decoded.status());
    }
  }

  void Release() {
    if (--num_open_ == 0) {
      service_.replies_.Post([this] { Reply(); });
    }
  }

  void Reply() {
    if (*cancelled_) {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the call was cancelled"));
      return;
    }
    // Nothing was done for any source: as a failed call it is retried elsewhere by the client's
    // policy.
    if (num_unavailable_ == reply_.results_size()) {
      Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, reply_.results(0).error().message()));
      return;
    }
    Finish(ToGrpcStatus(SerializeReply(reply_, reply_bytes_)));
  }

  DecodeService& service_;
  grpc::ByteBuffer& reply_bytes_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  v1::DecodeResponse reply_;
  std::atomic<int> num_open_{0};
  std::atomic<int> num_unavailable_{0};
};

grpc::ServerUnaryReactor* DecodeService::Decode(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  {
    absl::MutexLock lock(&mutex_);
    ++num_calls_;
  }
  auto* call = new DecodeCall(*this, *response);
  call->Start(*context, *request);
  return call;
}

void DecodeService::CallEnded() {
  absl::MutexLock lock(&mutex_);
  --num_calls_;
}

bool DecodeService::WaitUntilAnswered(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &DecodeService::NoCalls), timeout);
}

}  // namespace beamwright::rpc
