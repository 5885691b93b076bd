// CtcStepper: steps of CTC requests, side by side on the engine's threads. They share nothing.
// Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_FRAMES_CTC_STEPPER_H_
#define BEAMWRIGHT_SERVER_ENGINE_FRAMES_CTC_STEPPER_H_

#include "server/engine/frames/frame_stepper.h"

namespace beamwright::engine {

class CtcStepper final : public FrameStepper {
 public:
  absl::Status RunModel(const ops::ExecutionContext& context,
                        absl::Span<FrameRequest* const> requests) override;
  void Advance(const ops::ExecutionContext& context,
               absl::Span<FrameRequest* const> requests) override;
  void Leave(FrameRequest& /*request*/) override {}
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_FRAMES_CTC_STEPPER_H_
