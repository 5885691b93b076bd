// ColumnStepper: steps of requests whose frames are columns of an encoder's output, CTC and
// taggers, side by side on the engine's threads. They share nothing but runs of the language models
// that some of them ask for. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_COLUMN_STEPPER_H_
#define BEAMWRIGHT_ENGINE_FRAMES_COLUMN_STEPPER_H_

#include "engine/frames/frame_stepper.h"
#include "engine/frames/row_scorers.h"

namespace beamwright::engine {

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

#endif  // BEAMWRIGHT_ENGINE_FRAMES_COLUMN_STEPPER_H_
