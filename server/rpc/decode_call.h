// DecodeCall: a unary call that decodes, as gRPC sees it.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/access.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"
#include "server/serving/decoder.h"

namespace beamwright::rpc {

// When the client stops waiting.
inline absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  return context.deadline() == std::chrono::system_clock::time_point::max()
             ? absl::InfiniteFuture()
             : absl::FromChrono(context.deadline());
}

// Before the call ends: how busy this server is, for those who balance by load.
inline void AddLoadReport(serving::Decoder& decoder, grpc::CallbackServerContext& context) {
  if (decoder.load_reporter().enabled()) {
    context.AddTrailingMetadata(serving::kLoadReportTrailer, decoder.load_reporter().Report());
  }
}

// gRPC owns it: it deletes itself when gRPC is done. Counts as open until its answer is written.
class DecodeCall final : public grpc::ServerUnaryReactor {
 public:
  DecodeCall(serving::Decoder& decoder, grpc::CallbackServerContext& context,
             grpc::ByteBuffer& reply_bytes)
      : decoder_(decoder), open_(decoder.state()), context_(context), reply_bytes_(reply_bytes) {}

  serving::Caller AsCaller(serving::Method method, const access::Identity& identity = {}) const {
    serving::Caller caller{method, DeadlineOf(context_), cancelled_};
    caller.context = ContextOf(context_);
    caller.tenant = identity.tenant;
    caller.priority = identity.priority;
    return caller;
  }

  // Ends the call; once.
  template <typename Message>
  void Answer(const absl::StatusOr<Message>& reply) {
    const absl::Status status = reply.ok() ? SerializeReply(*reply, reply_bytes_) : reply.status();
    AddLoadReport(decoder_, context_);
    Finish(status.ok() ? grpc::Status::OK
                       : EndOfCall(status, decoder_.CallOnWire(status), context_));
  }

  // Ends the call with an error; once.
  void Refuse(const absl::Status& status) { Finish(EndOfCall(status, context_)); }

  void OnCancel() override { cancelled_->Cancel(); }
  void OnDone() override { delete this; }
  // Both on the thread at hand. Otherwise gRPC 1.51 wakes a thread of its own for OnDone of every
  // call: a sixth of what a refused call costs. Its comment reserves this for reactors whose
  // reactions are trivial, as these are.
  bool InternalInlineable() override { return true; }

 private:
  serving::Decoder& decoder_;
  const serving::ServingState::OpenCall open_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& reply_bytes_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_CALL_H_
