#include "server/rpc/gate.h"

#include <grpcpp/security/auth_context.h>

#include <memory>
#include <vector>

namespace beamwright::rpc {
namespace {

absl::string_view Header(const grpc::ServerContextBase& context, const char* name) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(name);
  return found == metadata.end() ? absl::string_view()
                                 : absl::string_view(found->second.data(), found->second.size());
}

}  // namespace

absl::StatusOr<access::Identity> Gate::Admit(const grpc::ServerContextBase& context,
                                             const GuardedMethod& method) const {
  access::Proof proof;
  proof.priority = Header(context, access::kPriorityHeader);
  if (access_.open()) {
    return access_.Admit(proof, method.roles, method.name);
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
  return access_.Admit(proof, method.roles, method.name);
}

void Gate::CountRefusal(const grpc::ServerContextBase& context, const absl::Status& why) const {
  serving::Caller caller{serving::Method::kGrpcOther};
  caller.context = ContextOf(context);
  decoder_.Refuse(why, caller);
}

serving::CallContext ContextOf(const grpc::ServerContextBase& context) {
  return {std::string(Header(context, "x-request-id")),
          std::string(Header(context, "traceparent"))};
}

}  // namespace beamwright::rpc
