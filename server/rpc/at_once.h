// AnswerAtOnce: a unary call whose answer is at hand.
#ifndef BEAMWRIGHT_SERVER_RPC_AT_ONCE_H_
#define BEAMWRIGHT_SERVER_RPC_AT_ONCE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {

// Asks the gate and parses the request; a call that is refused is counted.
inline absl::Status AdmitAndParse(const Gate& gate, const GuardedMethod& method,
                                  grpc::CallbackServerContext& context,
                                  const grpc::ByteBuffer& bytes,
                                  google::protobuf::Message& request) {
  gate.CountArrival(bytes);
  absl::Status status = gate.Admit(context, method).status();
  if (status.ok()) {
    status = ParseRequest(bytes, request);
  }
  if (!status.ok()) {
    gate.CountRefusal(context, status);
  }
  return status;
}

// Does both, lets `handler` fill the response (its status ends the call)
// and serialises it.
template <typename Request, typename Response, typename Handler>
grpc::ServerUnaryReactor* AnswerAtOnce(const Gate& gate, const GuardedMethod& method,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer& request_bytes,
                                       grpc::ByteBuffer& response_bytes, const Handler& handler) {
  Request request;
  Response response;
  absl::Status status = AdmitAndParse(gate, method, *context, request_bytes, request);
  if (status.ok()) {
    status = handler(request, response);
  }
  if (status.ok()) {
    status = SerializeReply(response, response_bytes);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_AT_ONCE_H_
