#include "server/rpc/recognize_service.h"

#include "server/rpc/recognize_call.h"

namespace beamwright::rpc {

RecognizeService::RecognizeService(const Gate& gate, serving::Core& core) {
  Serve("Recognize",
        [&gate, &core](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return RecognizeCall::Start(gate, core, context, gate.Admit(context, method));
        });
}

}  // namespace beamwright::rpc
