// ModelInfer of the Open Inference Protocol, over gRPC.
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/async_calls.h"
#include "client/channels.h"
#include "client/credentials.h"
#include "client/load/infer_message.h"
#include "client/load/load.h"
#include "client/load/targets.h"
#include "inference/grpc_service.grpc.pb.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

class InferGrpcTarget final : public LoadTarget {
 public:
  InferGrpcTarget(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                  std::string authorization)
      : authorization_(std::move(authorization)) {
    for (const auto& channel : channels) {
      stubs_.push_back(GRPCInferenceService::NewStub(channel));
    }
  }

  void Send(LoadCall call, LoadDone done) override {
    auto request = call.infer == nullptr ? InferRequestOf(call.request) : *call.infer;
    if (!request.ok()) {
      done(request.status());
      return;
    }
    request->set_model_name(call.request.model());
    request->set_model_version(call.request.version());
    if (call.settings.priority != 0) {
      (*request->mutable_parameters())["priority"].set_uint64_param(
          static_cast<uint64_t>(call.settings.priority));
    }
    auto started = std::make_shared<UnaryCall<ModelInferRequest, ModelInferResponse>>();
    started->context.set_deadline(absl::ToChronoTime(absl::Now() + call.timeout));
    if (!authorization_.empty()) {
      started->context.AddMetadata("authorization", authorization_);
    }
    if (!call.settings.tenant.empty()) {
      started->context.AddMetadata("beamwright-tenant", call.settings.tenant);
    }
    started->request = *std::move(request);
    started->prepare = [stub = NextStub()](grpc::ClientContext* context,
                                           const ModelInferRequest& asked,
                                           grpc::CompletionQueue* queue) {
      return stub->PrepareAsyncModelInfer(context, asked, queue);
    };
    started->callback = [done = std::move(done)](absl::StatusOr<ModelInferResponse> response) {
      done(response.ok() ? absl::StatusOr<v1::DecodeResponse>(DecodeResponseOf(*response))
                         : response.status());
    };
    calls_.Start(std::move(started), call.settings.cancel_after);
  }

  void CancelOutstanding() override { calls_.CancelOutstanding(); }
  int most_in_flight() const override { return kMaxConcurrency; }
  bool SetLoop(bool has_loop) override {
    calls_.SetLoop(has_loop);
    return true;
  }
  bool RunOne(absl::Time deadline) override { return calls_.RunOne(deadline); }

 private:
  GRPCInferenceService::Stub* NextStub() {
    return stubs_[next_stub_.fetch_add(1, std::memory_order_relaxed) % stubs_.size()].get();
  }

  const std::string authorization_;
  std::vector<std::unique_ptr<GRPCInferenceService::Stub>> stubs_;
  std::atomic<uint64_t> next_stub_{0};
  AsyncCalls calls_;  // last: its calls use the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadTarget>> MakeInferGrpcTarget(const ClientOptions& options) {
  BW_ASSIGN_OR_RETURN(const auto channels, MakeChannels(options));
  BW_ASSIGN_OR_RETURN(std::string authorization, ReadAuthorization(options));
  return std::make_unique<InferGrpcTarget>(channels, std::move(authorization));
}

absl::StatusOr<std::unique_ptr<LoadTarget>> MakeTarget(Protocol protocol,
                                                       const ClientOptions& options) {
  switch (protocol) {
    case Protocol::kNative: {
      BW_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Connect(options));
      return MakeOwnedNativeTarget(std::move(client));
    }
    case Protocol::kInferGrpc:
      return MakeInferGrpcTarget(options);
    case Protocol::kRest:
    case Protocol::kInferHttp:
      return MakeHttpTarget(protocol, options);
  }
  return Invalid("there is no such protocol");
}

}  // namespace beamwright::client
