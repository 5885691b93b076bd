// TranslateService: beamwright.v1.TranslateService over gRPC's callback API.
#ifndef BEAMWRIGHT_SERVER_RPC_TRANSLATE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_TRANSLATE_SERVICE_H_

#include "beamwright/v1/translate.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/core.h"
#include "server/translate/translate.h"

namespace beamwright::rpc {

// Thread-safe. Gate and core must outlive it.
class TranslateService final : public RawService<v1::TranslateService> {
 public:
  TranslateService(const Gate& gate, serving::Core& core);

 private:
  translate::Translator translator_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_TRANSLATE_SERVICE_H_
