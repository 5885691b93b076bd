#include "server/rpc/decode_service.h"

#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/stream_decode_call.h"
#include "server/serving/scorer.h"

namespace beamwright::rpc {

DecodeService::DecodeService(const Gate& gate, serving::Core& core) {
  Serve("Decode", DecodeCallsOf<v1::DecodeRequest>(
                      gate, core, serving::Method::kDecode,
                      [&core](absl::StatusOr<v1::DecodeRequest> request,
                              const serving::Caller& caller, auto answer) {
                        serving::Decode(core, std::move(request), caller, std::move(answer));
                      }));
  Serve("Score", DecodeCallsOf<v1::ScoreRequest>(
                     gate, core, serving::Method::kScore,
                     [&core](absl::StatusOr<v1::ScoreRequest> request,
                             const serving::Caller& caller, auto answer) {
                       serving::Score(core, std::move(request), caller, std::move(answer));
                     }));
  Serve("Align", DecodeCallsOf<v1::AlignRequest>(
                     gate, core, serving::Method::kAlign,
                     [&core](absl::StatusOr<v1::AlignRequest> request,
                             const serving::Caller& caller, auto answer) {
                       serving::Align(core, std::move(request), caller, std::move(answer));
                     }));
  Serve("StreamDecode",
        [&gate, &core](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return StreamDecodeCall::Start(gate, core, context, method);
        });
}

}  // namespace beamwright::rpc
