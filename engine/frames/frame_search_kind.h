// FrameSearchKind: sources are searched frame by frame, on a CTC output or with a transducer, and
// given targets are scored over all their alignments. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_SEARCH_KIND_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_SEARCH_KIND_H_

#include <memory>

#include "engine/request/request.h"

namespace beamwright::engine {

class FrameSearchKind : public SearchKind {
 public:
  absl::StatusOr<std::unique_ptr<Request>> MakeRequest(const EngineOptions& limits,
                                                       std::shared_ptr<const DecodeModel> model,
                                                       PreparedSource source,
                                                       const ResolvedOptions& options,
                                                       const CallOptions& call) const override;
  absl::StatusOr<std::unique_ptr<Request>> MakeStreamRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const ResolvedOptions& options, const CallOptions& call) const override;
  absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const v1::ScoreSource& source, const v1::ScoreOptions& options,
      const CallOptions& call) const override;
  std::unique_ptr<Driver> MakeDriver(std::shared_ptr<const DecodeModel> model) const override;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_SEARCH_KIND_H_
