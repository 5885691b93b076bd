#include "server/rpc/decode_service.h"

#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/stream_decode_call.h"
#include "server/serving/scorer.h"

namespace beamwright::rpc {
namespace {

template <typename Request>
absl::StatusOr<Request> Read(const grpc::ByteBuffer& bytes) {
  Request request;
  if (absl::Status status = ParseRequest(bytes, request); !status.ok()) {
    return status;
  }
  return request;
}

}  // namespace

grpc::ServerUnaryReactor* DecodeService::Decode(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  static const GuardedMethod kMethod("/beamwright.v1.DecodeService/Decode");
  auto* call = new DecodeCall(decoder_, *context, *response);
  gate_.CountArrival(*request);
  const absl::StatusOr<access::Identity> identity = gate_.Admit(*context, kMethod);
  if (!identity.ok()) {
    decoder_.Refuse(identity.status(), call->AsCaller(serving::Method::kDecode));
    call->Refuse(identity.status());
    return call;
  }
  auto read = Read<v1::DecodeRequest>(*request);
  decoder_.Decode(
      read.ok() ? decoder_.MakeJob(*std::move(read)) : absl::StatusOr<serving::Job>(read.status()),
      call->AsCaller(serving::Method::kDecode, *identity),
      [call](const absl::StatusOr<v1::DecodeResponse>& decoded) { call->Answer(decoded); });
  return call;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* DecodeService::StreamDecode(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  static const GuardedMethod kMethod("/beamwright.v1.DecodeService/StreamDecode");
  gate_.CountArrival(*request);
  return StreamDecodeCall::Start(decoder_, *context, *request, gate_.Admit(*context, kMethod));
}

grpc::ServerUnaryReactor* DecodeService::Score(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  static const GuardedMethod kMethod("/beamwright.v1.DecodeService/Score");
  auto* call = new DecodeCall(decoder_, *context, *response);
  gate_.CountArrival(*request);
  const absl::StatusOr<access::Identity> identity = gate_.Admit(*context, kMethod);
  if (!identity.ok()) {
    decoder_.Refuse(identity.status(), call->AsCaller(serving::Method::kScore));
    call->Refuse(identity.status());
    return call;
  }
  serving::Score(decoder_, Read<v1::ScoreRequest>(*request),
                 call->AsCaller(serving::Method::kScore, *identity),
                 [call](const absl::StatusOr<v1::ScoreResponse>& scored) { call->Answer(scored); });
  return call;
}

grpc::ServerUnaryReactor* DecodeService::Align(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  static const GuardedMethod kMethod("/beamwright.v1.DecodeService/Align");
  auto* call = new DecodeCall(decoder_, *context, *response);
  gate_.CountArrival(*request);
  const absl::StatusOr<access::Identity> identity = gate_.Admit(*context, kMethod);
  if (!identity.ok()) {
    decoder_.Refuse(identity.status(), call->AsCaller(serving::Method::kAlign));
    call->Refuse(identity.status());
    return call;
  }
  serving::Align(
      decoder_, Read<v1::AlignRequest>(*request),
      call->AsCaller(serving::Method::kAlign, *identity),
      [call](const absl::StatusOr<v1::AlignResponse>& aligned) { call->Answer(aligned); });
  return call;
}

}  // namespace beamwright::rpc
