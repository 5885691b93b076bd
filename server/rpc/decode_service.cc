#include "server/rpc/decode_service.h"

#include "server/rpc/decode_call.h"
#include "server/rpc/stream_decode_call.h"
#include "server/serving/decode.h"
#include "server/serving/scorer.h"

namespace beamwright::rpc {

DecodeService::DecodeService(const Gate& gate, serving::Core& core) {
  using serving::Method;
  Serve("Decode", DecodeCallsOf<v1::DecodeRequest>(gate, core, Method::kDecode, serving::Decode));
  Serve("Score", DecodeCallsOf<v1::ScoreRequest>(gate, core, Method::kScore, serving::Score));
  Serve("Align", DecodeCallsOf<v1::AlignRequest>(gate, core, Method::kAlign, serving::Align));
  Serve("StreamDecode",
        [&gate, &core](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return StreamDecodeCall::Start(gate, core, context, method);
        });
}

}  // namespace beamwright::rpc
