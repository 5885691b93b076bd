// UnknownCall: a call of a method that there is not. gRPC's own answer to such a call passes no
// handler, so nothing counts it, bounds it or resets the connection that makes too many.
#ifndef BEAMWRIGHT_SERVER_RPC_UNKNOWN_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_UNKNOWN_CALL_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>

#include <string>

#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"

namespace beamwright::rpc {

// gRPC owns it: it deletes itself when gRPC is done.
class UnknownCall final : public RawReactor {
 public:
  // Ends the call with UNIMPLEMENTED, naming the method, and counts it as refused.
  static UnknownCall* Start(const Gate& gate, grpc::CallbackServerContext& context,
                            const std::string& method);
  void OnDone() override { delete this; }

 private:
  UnknownCall() = default;
};

// Answers the methods of which no service has the name. The gate must outlive it.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  explicit UnknownMethods(const Gate& gate) : gate_(gate) {}

 private:
  RawReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return UnknownCall::Start(gate_, *context, context->method());
  }

  const Gate& gate_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_UNKNOWN_CALL_H_
