// OneRequestCall: a call with one request, as gRPC sees it: admitted when its headers have come,
// handled when its request has.
#ifndef BEAMWRIGHT_SERVER_RPC_ONE_REQUEST_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_ONE_REQUEST_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/base/status.h"
#include "server/access/access.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/raw_service.h"
#include "server/serving/serving_state.h"

namespace beamwright::rpc {

class OneRequestCall : public RawReactor, private IncomingCall {
 public:
  // Asks the gate, and then reads the request or ends the call. Once, after it is made.
  void Begin(const GuardedMethod& method);

 protected:
  // Gate and context must outlive the call.
  OneRequestCall(const Gate& gate, grpc::CallbackServerContext& context)
      : gate_(gate), context_(context), hold_(gate.MakeHold()) {}
  ~OneRequestCall() override {
    if (is_answered_) {
      gate_.unsent().Remove(context_);
    }
  }

  // The request has come; `bytes` may be taken. Once, unless the call is refused. The call may be
  // gone as soon as it has ended: nothing of it is used after that.
  virtual void OnRequest(grpc::ByteBuffer& bytes) = 0;
  // The caller may not make this call, or its request did not come: ends it. Once.
  virtual void OnRefused(const absl::Status& status) = 0;

  // The request in parsed form, for which the call holds memory until its answer is made. Errors as
  // of ParseRequest; ResourceExhausted if there is no memory.
  template <typename Request>
  absl::StatusOr<Request> Parse(grpc::ByteBuffer& bytes) {
    // Where the form is small a look at all its parts would take longer than to read it.
    const bool is_small = bytes.Length() <= kSmallRequest;
    absl::StatusOr<Request> request = ParseRequest<Request>(bytes, gate_.max_message_bytes());
    if (request.ok() && !is_small) {
      BW_RETURN_IF_ERROR(gate_.Resize(hold_, static_cast<int64_t>(request->SpaceUsedLong())));
    }
    return request;
  }

  // Sends the one answer and ends the call with OK. An error, of the reply or because it can't be
  // sent, is returned, and the call goes on. Once.
  template <typename Message>
  absl::Status Send(const absl::StatusOr<Message>& reply) {
    BW_RETURN_IF_ERROR(reply.status());
    BW_RETURN_IF_ERROR(SerializeReply(*reply, reply_));
    // In the place of the request.
    if (absl::Status status =
            gate_.Resize(hold_, kCallBytes + static_cast<int64_t>(reply_.Length()));
        !status.ok()) {
      reply_.Clear();
      return status;
    }
    is_answered_ = true;
    gate_.unsent().Add(context_);
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
    return absl::OkStatus();
  }

  const Gate& gate() const { return gate_; }
  grpc::CallbackServerContext& context() const { return context_; }
  // Whose call it is; unknown before the gate admits it.
  const access::Identity& identity() const { return identity_; }

 private:
  // What a call takes without its messages.
  static constexpr int64_t kCallBytes = 16 << 10;
  static constexpr size_t kSmallRequest = 2 << 10;

  void OnReadDone(bool ok) final;
  void ReadLarge(const absl::Status& outcome);  // on the gate's thread for that
  void Refuse(const absl::Status& status) final;

  const Gate& gate_;
  grpc::CallbackServerContext& context_;
  access::Identity identity_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  serving::MemoryAccount::Hold hold_;  // of request or answer
  bool is_answered_ = false;
  // Who only sends a request is owed no answer yet.
  std::optional<serving::ServingState::OpenCall> open_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_ONE_REQUEST_CALL_H_
