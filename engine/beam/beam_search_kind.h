// BeamSearchKind: sources are decoded token by token with beam search, and given targets are scored
// in the same batches. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_BEAM_SEARCH_KIND_H_
#define BEAMWRIGHT_ENGINE_BEAM_BEAM_SEARCH_KIND_H_

#include <cstdint>
#include <memory>

#include "engine/model/parts.h"
#include "engine/request/request.h"
#include "engine/search/options.h"

namespace beamwright::engine {

// What a beam search takes of the memory that running requests share.

// Bytes that a request holds at most while it runs: states and history of its rows, values that its
// steps share.
int64_t PriceBytes(const DecodeModel& model, const search::SearchOptions& options,
                   int source_length, bool keeps_attention);

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
