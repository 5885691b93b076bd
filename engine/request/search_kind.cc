#include "engine/request/search_kind.h"

#include "engine/status/fault.h"

namespace beamwright::engine {

absl::StatusOr<std::unique_ptr<Request>> SearchKind::MakeStreamRequest(
    const EngineOptions& /*limits*/, std::shared_ptr<const DecodeModel> /*model*/,
    const ResolvedOptions& /*options*/, const CallOptions& /*call*/) const {
  return status::InvalidField("model",
                              "decodes token by token, with the whole source before it; "
                              "models that are searched by frames take a source in pieces");
}

}  // namespace beamwright::engine
