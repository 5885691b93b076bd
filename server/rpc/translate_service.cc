#include "server/rpc/translate_service.h"

#include <utility>

#include "server/rpc/decode_call.h"

namespace beamwright::rpc {

TranslateService::TranslateService(const Gate& gate, serving::Core& core) : translator_(core) {
  Serve("Translate",
        DecodeCallsOf<v1::TranslateRequest>(
            gate, core, serving::Method::kTranslate,
            [this](serving::Core& /*core*/, absl::StatusOr<v1::TranslateRequest> request,
                   const serving::Caller& caller, translate::TranslateDone done) {
              translator_.Translate(std::move(request), caller, std::move(done));
            }));
}

}  // namespace beamwright::rpc
