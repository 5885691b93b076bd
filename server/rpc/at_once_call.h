// AtOnceCall: a call with one request and one answer that does not decode.
#ifndef BEAMWRIGHT_SERVER_RPC_AT_ONCE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_AT_ONCE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "server/rpc/one_request_call.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {

// gRPC owns it: it deletes itself when gRPC is done. `Handler` answers: handler(const Request&,
// answer), where `answer` is called once with an absl::StatusOr<Response>, on any thread.
template <typename Request, typename Response, typename Handler>
class AtOnceCall final : public OneRequestCall {
 public:
  AtOnceCall(const Gate& gate, grpc::CallbackServerContext& context, const Handler& handler)
      : OneRequestCall(gate, context), handler_(handler) {}

  void OnDone() override { delete this; }

 private:
  void OnRequest(grpc::ByteBuffer& bytes) override {
    const absl::StatusOr<Request> request = Parse<Request>(bytes);
    if (!request.ok()) {
      OnRefused(request.status());
      return;
    }
    handler_(*request, [this](const absl::StatusOr<Response>& response) { Answer(response); });
  }

  // Counted: it was refused before it was understood.
  void OnRefused(const absl::Status& status) override {
    gate().CountRefusal(context(), status);
    Finish(ToGrpcStatus(status));
  }

  void Answer(const absl::StatusOr<Response>& response) {
    if (const absl::Status status = Send(response); !status.ok()) {
      Finish(ToGrpcStatus(status));
    }
  }

  const Handler handler_;
};

// What makes such calls, for RawService::Serve.
template <typename Request, typename Response, typename Handler>
auto AtOnceCallsOf(const Gate& gate, const Handler& handler) {
  return [&gate, handler](const GuardedMethod& method, grpc::CallbackServerContext& context) {
    auto* call = new AtOnceCall<Request, Response, Handler>(gate, context, handler);
    call->Begin(method);
    return call;
  };
}

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_AT_ONCE_CALL_H_
