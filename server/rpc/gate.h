// Gate: whether a gRPC call may be made, by its metadata and its connection's certificate. Every
// handler asks it first.
#ifndef BEAMWRIGHT_SERVER_RPC_GATE_H_
#define BEAMWRIGHT_SERVER_RPC_GATE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/message.h"
#include "server/access/access.h"
#include "server/rpc/call_counts.h"
#include "server/serving/core.h"

namespace beamwright::rpc {

// UnsentAnswers: the calls whose answer was handed to gRPC and is not sent yet. A client that does
// not read leaves answers in the server's memory for as long as it likes.

// Thread-safe.
class UnsentAnswers {
 public:
  // The call of this context has its answer.
  void Add(grpc::CallbackServerContext& context);
  // The call ends, whether it was added or not; its context is valid until this returns.
  void Remove(grpc::CallbackServerContext& context);
  // Cancels the calls whose answer was handed over before `time`. Returns the peers
  // (grpc::ServerContext::peer) that the calls are of.
  absl::flat_hash_set<std::string> CancelOlderThan(std::chrono::steady_clock::time_point time);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<grpc::CallbackServerContext*, std::chrono::steady_clock::time_point> calls_
      ABSL_GUARDED_BY(mutex_);
};

// A method with the roles that it needs.
struct GuardedMethod {
  // full_name: "/package.Service/Method".
  explicit GuardedMethod(absl::string_view full_name)
      : name(full_name), roles(access::RolesForMethod(full_name)) {}
  std::string name;
  access::Roles roles;
};

// Thread-safe. Access and core must outlive it.
class Gate {
 public:
  // max_message_bytes: of a request, unpacked.
  Gate(const access::Access& access, serving::Core& core, int64_t max_message_bytes)
      : access_(access), core_(core), max_message_bytes_(max_message_bytes) {}

  // Errors as Access::Admit's; Unavailable while models load, but for calls that are open to
  // everybody: they describe the server. Takes the call from the backlog.
  absl::StatusOr<access::Identity> Admit(grpc::CallbackServerContext& context,
                                         const GuardedMethod& method) const;
  // Takes the call from the backlog: of a call that asks for nothing that is guarded.
  void Enter(grpc::CallbackServerContext& context) const {
    backlog_.Leave(context, connections_.Find(context.peer()));
  }
  CallBacklog& backlog() const { return backlog_; }
  // The call waits for its one request from now on. Before StartRead.
  void Expect(IncomingCall& call) const {
    incoming_.Add(call);
    ++num_reading_;
  }
  // The read of such a call has ended, with a request if `ok`. True: go on with the request. False:
  // the call was refused meanwhile, or it is now, since its client has gone.
  bool Arrived(IncomingCall& call, bool ok) const {
    --num_reading_;
    return incoming_.Arrived(call, ok);
  }
  // The calls that were admitted and whose request has not come whole.
  IncomingCalls& incoming() const { return incoming_; }
  // The calls whose answer is not sent.
  UnsentAnswers& unsent() const { return unsent_; }
  serving::ServingState& state() const { return core_.state(); }
  int64_t max_message_bytes() const { return max_message_bytes_; }
  // A larger request is handled by `reader`: parsing, and looking at many sources, takes long; and
  // few callers wait on all others' thread.
  static constexpr size_t kAtOnceBytes = 1 << 10;
  // Reads requests that would hold gRPC's threads, which all calls share, for too long.
  serving::TurnThread& reader() const { return reader_; }
  // What callers hold, over whichever listener.
  int64_t held_bytes() const { return core_.memory().held_bytes(); }
  // A hold of no bytes yet.
  serving::MemoryAccount::Hold MakeHold() const { return core_.memory().MakeHold(); }
  // Makes a hold `bytes`. ResourceExhausted if there is no room: then calls whose clients do not
  // read their answers are cancelled, so that there is room for the next call.
  absl::Status Resize(serving::MemoryAccount::Hold& hold, int64_t bytes) const;
  // Cancels those calls.
  void CancelUnread() const;
  // What calls come of each connection.
  ConnectionCalls& connections() const { return connections_; }
  // How many messages are waited for or on their way. The reader counts them.
  std::atomic<int64_t>& num_reading() const { return num_reading_; }
  // A message that the handler of the call is given.
  void CountArrival(grpc::CallbackServerContext& context, const grpc::ByteBuffer& message) const;
  // What messages that arrived so far took or may have taken, with their calls, bytes.
  int64_t arrived_bytes() const { return arrived_bytes_; }
  // Counts and logs a call that does not decode and is refused before it is understood.
  void CountRefusal(const grpc::ServerContextBase& context, const absl::Status& why) const;

 private:
  absl::StatusOr<access::Identity> IfLoaded(absl::StatusOr<access::Identity> identity,
                                            const GuardedMethod& method) const;

  const access::Access& access_;
  serving::Core& core_;
  const int64_t max_message_bytes_;
  mutable ConnectionCalls connections_;
  mutable CallBacklog backlog_;
  mutable IncomingCalls incoming_;
  mutable UnsentAnswers unsent_;
  mutable std::atomic<int64_t> num_reading_{0};
  mutable std::atomic<int64_t> arrived_bytes_{0};
  static constexpr int kMostLarge = 1 << 14;
  mutable serving::TurnThread reader_{"bw-requests", kMostLarge};
};

// UnsentMessage: the message of a stream that gRPC sends. It counts as memory of callers until its
// client has read it, and makes room as other unread answers do. For one thread at a time.
class UnsentMessage {
 public:
  // Both must outlive the last write.
  UnsentMessage(const Gate& gate, grpc::CallbackServerContext& context)
      : gate_(gate), context_(context), hold_(gate.MakeHold()) {}

  // Before StartWrite: `bytes` is the message. ResourceExhausted if it is too large, or if there is
  // no room for it.
  absl::Status Begin(const google::protobuf::Message& message, grpc::ByteBuffer& bytes);
  // The same for a message whose memory is held already.
  void Begin() { gate_.unsent().Add(context_); }
  // The write has ended.
  void End();

 private:
  const Gate& gate_;
  grpc::CallbackServerContext& context_;
  serving::MemoryAccount::Hold hold_;
};

// As in serving::Caller. 0 for a Unix socket, whose clients all have one name.
uint32_t ConnectionOf(const grpc::ServerContextBase& context);

// What the call's metadata says of it.
serving::CallContext ContextOf(const grpc::ServerContextBase& context);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_GATE_H_
