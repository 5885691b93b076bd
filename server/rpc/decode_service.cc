#include "server/rpc/decode_service.h"

#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/stream_decode_call.h"
#include "server/serving/scorer.h"

namespace beamwright::rpc {

DecodeService::DecodeService(const Gate& gate, serving::Decoder& decoder) {
  Serve("Decode", DecodeCallsOf<v1::DecodeRequest>(
                      gate, decoder, serving::Method::kDecode,
                      [&decoder](absl::StatusOr<v1::DecodeRequest> request,
                                 const serving::Caller& caller, auto answer) {
                        decoder.Decode(request.ok()
                                           ? decoder.MakeJob(*std::move(request))
                                           : absl::StatusOr<serving::Job>(request.status()),
                                       caller, std::move(answer));
                      }));
  Serve("Score", DecodeCallsOf<v1::ScoreRequest>(
                     gate, decoder, serving::Method::kScore,
                     [&decoder](absl::StatusOr<v1::ScoreRequest> request,
                                const serving::Caller& caller, auto answer) {
                       serving::Score(decoder, std::move(request), caller, std::move(answer));
                     }));
  Serve("Align", DecodeCallsOf<v1::AlignRequest>(
                     gate, decoder, serving::Method::kAlign,
                     [&decoder](absl::StatusOr<v1::AlignRequest> request,
                                const serving::Caller& caller, auto answer) {
                       serving::Align(decoder, std::move(request), caller, std::move(answer));
                     }));
  Serve("StreamDecode",
        [&gate, &decoder](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return StreamDecodeCall::Start(gate, decoder, context, method);
        });
}

}  // namespace beamwright::rpc
