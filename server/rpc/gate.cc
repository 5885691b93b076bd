// The gate that each gRPC call passes before its request is read: who calls (token, certificate,
// tenant and priority from the metadata), whether the role suffices for the method (Gate::Admit),
// and whether the models are loaded.
//
// It also counts: what arrived (CountArrival), refusals (CountRefusal), and memory that a call
// holds (Resize). When the memory runs short, answers that their clients have not read for a second
// are cancelled (UnsentAnswers), so that clients that do not read cannot hold all of it.
#include "server/rpc/gate.h"

#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "server/rpc/raw_message.h"

namespace beamwright::rpc {
namespace {

// A call takes 20 KB in gRPC, and what it asks for something more.
constexpr int64_t kCallBytes = 64 << 10;

// After so long without a read by its client an answer is dropped, if others need the memory.
constexpr std::chrono::seconds kUnread(1);

absl::string_view Header(const grpc::ServerContextBase& context, const char* name) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(name);
  return found == metadata.end() ? absl::string_view()
                                 : absl::string_view(found->second.data(), found->second.size());
}

}  // namespace

void UnsentAnswers::Add(grpc::CallbackServerContext& context) {
  absl::MutexLock lock(&mutex_);
  calls_.emplace(&context, std::chrono::steady_clock::now());
}

void UnsentAnswers::Remove(grpc::CallbackServerContext& context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(&context);
}

absl::flat_hash_set<std::string> UnsentAnswers::CancelOlderThan(
    std::chrono::steady_clock::time_point time) {
  absl::MutexLock lock(&mutex_);
  absl::flat_hash_set<std::string> peers;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second < time) {
      peers.insert(it->first->peer());
      it->first->TryCancel();
      calls_.erase(it++);
    } else {
      ++it;
    }
  }
  return peers;
}

absl::StatusOr<access::Identity> Gate::Admit(grpc::CallbackServerContext& context,
                                             const GuardedMethod& method) const {
  Enter(context);
  access::Proof proof;
  proof.priority = Header(context, access::kPriorityHeader);
  if (access_.open()) {
    return IfLoaded(access_.Admit(proof, method.roles, method.name), method);
  }
  proof.authorization = Header(context, access::kAuthorizationHeader);
  proof.tenant = Header(context, access::kTenantHeader);
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  std::vector<grpc::string_ref> names;
  if (peer != nullptr && peer->IsPeerAuthenticated()) {
    names = peer->GetPeerIdentity();
  }
  for (const grpc::string_ref& name : names) {
    proof.peers.emplace_back(name.data(), name.size());
  }
  return IfLoaded(access_.Admit(proof, method.roles, method.name), method);
}

absl::StatusOr<access::Identity> Gate::IfLoaded(absl::StatusOr<access::Identity> identity,
                                                const GuardedMethod& method) const {
  if (identity.ok() && method.roles != access::kOpen) {
    BW_RETURN_IF_ERROR(core_.state().CheckLoaded());
  }
  return identity;
}

void Gate::CountArrival(grpc::CallbackServerContext& context,
                        const grpc::ByteBuffer& message) const {
  backlog_.CountAsked(context);
  arrived_bytes_ += kCallBytes + 2 * static_cast<int64_t>(message.Length());
}

absl::Status Gate::Resize(serving::MemoryAccount::Hold& hold, int64_t bytes) const {
  if (hold.Resize(bytes)) {
    return absl::OkStatus();
  }
  CancelUnread();
  return core_.memory().Refusal(bytes);
}

void Gate::CancelUnread() const {
  unsent_.CancelOlderThan(std::chrono::steady_clock::now() - kUnread);
}

void Gate::CountRefusal(const grpc::ServerContextBase& context, const absl::Status& why) const {
  serving::Caller caller{serving::Method::kGrpcOther};
  caller.context = ContextOf(context);
  core_.calls().Refuse(why, caller);
}

absl::Status UnsentMessage::Begin(const google::protobuf::Message& message,
                                  grpc::ByteBuffer& bytes) {
  BW_RETURN_IF_ERROR(SerializeReply(message, bytes));
  if (absl::Status status = gate_.Resize(hold_, static_cast<int64_t>(bytes.Length()));
      !status.ok()) {
    bytes.Clear();
    return status;
  }
  Begin();
  return absl::OkStatus();
}

void UnsentMessage::End() {
  gate_.unsent().Remove(context_);
  hold_.Release();
}

uint32_t ConnectionOf(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  const auto hash = static_cast<uint32_t>(std::hash<std::string>()(peer));
  return absl::StartsWith(peer, "ip") ? std::max<uint32_t>(1, hash) : 0;
}

serving::CallContext ContextOf(const grpc::ServerContextBase& context) {
  return {std::string(Header(context, "x-request-id")),
          std::string(Header(context, "traceparent"))};
}

}  // namespace beamwright::rpc
