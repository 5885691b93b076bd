// FrameStepper: what a step of the frame driver computes, by what the model is. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_STEPPER_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_STEPPER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/label_models.h"

namespace beamwright::engine {

// One thread at a time.
class FrameStepper {
 public:
  virtual ~FrameStepper() = default;

  // Runs the model's graphs for what `requests` need next, and changes nothing of them, for others
  // may answer them meanwhile. A run that ended early, whatever came of it, can be made again with
  // some of the requests. Not OK: the graph failed, or was interrupted.
  virtual absl::Status RunModel(const ops::ExecutionContext& context,
                                absl::Span<FrameRequest* const> requests) = 0;

  // Advances those of them that have no answer yet. What became of each is its `status`.
  virtual void Advance(const ops::ExecutionContext& context,
                       absl::Span<FrameRequest* const> requests) = 0;

  // The request leaves: what it holds here is free again.
  virtual void Leave(FrameRequest& request) = 0;
};

// ColumnStepper: steps of requests whose frames are columns of an encoder's output, CTC and
// taggers, side by side on the engine's threads. They share nothing but runs of the language models
// that some of them ask for.

class ColumnStepper final : public FrameStepper {
 public:
  // parts: of a CTC model or a tagger; must outlive it.
  explicit ColumnStepper(const DecodeModel::Parts& parts) : scorers_(parts) {}

  absl::Status RunModel(const ops::ExecutionContext& context,
                        absl::Span<FrameRequest* const> requests) override;
  void Advance(const ops::ExecutionContext& context,
               absl::Span<FrameRequest* const> requests) override;
  void Leave(FrameRequest& request) override { scorers_.Leave(request); }

 private:
  RowScorers scorers_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_STEPPER_H_
