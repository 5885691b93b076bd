// DecodeCall: a call with one request and one answer that decodes, as gRPC sees it.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ops/base/steady_time.h"
#include "server/rpc/one_request_call.h"
#include "server/rpc/raw_message.h"
#include "server/serving/core.h"

namespace beamwright::rpc {

// When the client stops waiting, by SteadyNow. gRPC gives a time of the wall clock: ask when the
// call begins.
inline absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  return context.deadline() == std::chrono::system_clock::time_point::max()
             ? absl::InfiniteFuture()
             : ToSteady(absl::FromChrono(context.deadline()));
}

// The call as the engine and the records of calls know it.
inline serving::Caller CallerOf(const grpc::CallbackServerContext& context,
                                const access::Identity& identity, serving::Method method,
                                absl::Time deadline,
                                std::shared_ptr<const engine::CancelFlag> cancelled) {
  serving::Caller caller{method, deadline, std::move(cancelled)};
  caller.context = ContextOf(context);
  caller.tenant = identity.tenant;
  caller.connection = ConnectionOf(context);
  caller.priority = identity.priority;
  return caller;
}

// Before the call ends: how busy this server is, for those who balance by load.
inline void AddLoadReport(serving::Core& core, grpc::CallbackServerContext& context) {
  if (core.load_reporter().enabled()) {
    context.AddTrailingMetadata(serving::kLoadReportTrailer, core.load_reporter().Report());
  }
}

// gRPC owns it: it deletes itself when gRPC is done.
class DecodeCallBase : public OneRequestCall {
 public:
  void OnCancel() final { cancelled_->Cancel(); }
  void OnDone() final { delete this; }

 protected:
  DecodeCallBase(const Gate& gate, serving::Core& core, grpc::CallbackServerContext& context,
                 serving::Method method)
      : OneRequestCall(gate, context),
        core_(core),
        method_(method),
        deadline_(DeadlineOf(context)) {}

  serving::Core& core() const { return core_; }

  serving::Caller AsCaller() const {
    return CallerOf(context(), identity(), method_, deadline_, cancelled_);
  }

  // Ends the call; once.
  template <typename Message>
  void Answer(const absl::StatusOr<Message>& reply) {
    AddLoadReport(core_, context());
    if (const absl::Status status = Send(reply); !status.ok()) {
      Finish(EndOfCall(status, core_.call_refusals().OnWire(status), context()));
    }
  }

 private:
  void OnRefused(const absl::Status& status) final {
    core_.calls().Refuse(status, AsCaller());
    Finish(EndOfCall(status, context()));
  }

  serving::Core& core_;
  const serving::Method method_;
  const absl::Time deadline_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
};

// `Start` decodes: start(serving::Core&, absl::StatusOr<Request>, serving::Caller, answer), where
// `answer` is called once with an absl::StatusOr of the response, on any thread.
template <typename Request, typename Start>
class DecodeCall final : public DecodeCallBase {
 public:
  DecodeCall(const Gate& gate, serving::Core& core, grpc::CallbackServerContext& context,
             serving::Method method, Start start)
      : DecodeCallBase(gate, core, context, method), start_(std::move(start)) {}

 private:
  void OnRequest(grpc::ByteBuffer& bytes) override {
    start_(core(), Parse<Request>(bytes), AsCaller(),
           [this](const auto& response) { Answer(response); });
  }

  const Start start_;
};

// What makes such calls, for RawService::Serve.
template <typename Request, typename Start>
auto DecodeCallsOf(const Gate& gate, serving::Core& core, serving::Method method, Start start) {
  return [&gate, &core, method, start](const GuardedMethod& guarded,
                                       grpc::CallbackServerContext& context) {
    auto* call = new DecodeCall<Request, Start>(gate, core, context, method, start);
    call->Begin(guarded);
    return call;
  };
}

// AtOnceCall: a call with one request and one answer that does not decode.

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

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_CALL_H_
