// The services of beamwright.v1 over gRPC's callback API. A handler parses and hands over to
// serving; no gRPC thread waits for a step. All are thread-safe; what they are made from must
// outlive them.
#ifndef BEAMWRIGHT_SERVER_RPC_SERVICES_H_
#define BEAMWRIGHT_SERVER_RPC_SERVICES_H_

#include "beamwright/v1/decode.grpc.pb.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "beamwright/v1/translate.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/core.h"
#include "server/serving/model_registry.h"
#include "server/translate/translate.h"

namespace beamwright::rpc {

class TranslateService final : public RawService<v1::TranslateService> {
 public:
  TranslateService(const Gate& gate, serving::Core& core);

 private:
  translate::Translator translator_;
};

// Which models are served.
class ModelService final : public RawService<v1::ModelService> {
 public:
  ModelService(const Gate& gate, const serving::ModelRegistry& models);
};

class DecodeService final : public RawService<v1::DecodeService> {
 public:
  DecodeService(const Gate& gate, serving::Core& core);
};

class RecognizeService final : public RawService<v1::RecognizeService> {
 public:
  RecognizeService(const Gate& gate, serving::Core& core);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_SERVICES_H_
