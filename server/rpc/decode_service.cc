#include "server/rpc/decode_service.h"

#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/raw_message.h"

namespace beamwright::rpc {
namespace {

absl::StatusOr<serving::Job> ReadJob(const serving::Decoder& decoder,
                                     const grpc::ByteBuffer& bytes) {
  v1::DecodeRequest request;
  if (absl::Status status = ParseRequest(bytes, request); !status.ok()) {
    return status;
  }
  return decoder.MakeJob(std::move(request));
}

}  // namespace

grpc::ServerUnaryReactor* DecodeService::Decode(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  static const GuardedMethod kMethod("/beamwright.v1.DecodeService/Decode");
  auto* call = new DecodeCall(decoder_.state(), *context, *response);
  const absl::StatusOr<access::Identity> identity = gate_.Admit(*context, kMethod);
  if (!identity.ok()) {
    decoder_.Refuse(identity.status(), serving::Method::kDecode);
    call->Refuse(identity.status());
    return call;
  }
  decoder_.Decode(
      ReadJob(decoder_, *request), call->AsCaller(serving::Method::kDecode, *identity),
      [call](const absl::StatusOr<v1::DecodeResponse>& decoded) { call->Answer(decoded); });
  return call;
}

}  // namespace beamwright::rpc
