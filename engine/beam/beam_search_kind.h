// BeamSearchKind: sources are decoded token by token with beam search, and given targets are scored
// in the same batches. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_BEAM_SEARCH_KIND_H_
#define BEAMWRIGHT_ENGINE_BEAM_BEAM_SEARCH_KIND_H_

#include <memory>

#include "engine/request/search_kind.h"

namespace beamwright::engine {

class BeamSearchKind : public SearchKind {
 public:
  absl::StatusOr<std::unique_ptr<Request>> MakeRequest(const EngineOptions& limits,
                                                       std::shared_ptr<const DecodeModel> model,
                                                       PreparedSource source,
                                                       const ResolvedOptions& options,
                                                       const CallOptions& call) const override;
  absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const v1::ScoreSource& source, const v1::ScoreOptions& options,
      const CallOptions& call) const override;
  std::unique_ptr<Driver> MakeDriver(std::shared_ptr<const DecodeModel> model) const override;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_BEAM_SEARCH_KIND_H_
