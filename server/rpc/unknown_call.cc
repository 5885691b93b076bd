#include "server/rpc/unknown_call.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/raw_message.h"

namespace beamwright::rpc {
namespace {

constexpr size_t kMostOfName = 200;

}  // namespace

UnknownCall* UnknownCall::Start(const Gate& gate, grpc::CallbackServerContext& context,
                                const std::string& method) {
  auto* call = new UnknownCall;
  gate.Enter(context);
  const absl::Status status = absl::UnimplementedError(
      absl::StrCat("this server has no method '", method.substr(0, kMostOfName), "'"));
  gate.CountRefusal(context, status);
  call->Finish(ToGrpcStatus(status));
  return call;
}

}  // namespace beamwright::rpc
