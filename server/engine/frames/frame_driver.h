// The frame driver: advances the requests of a model that is searched by frames. Each step runs the
// model for what all their searches need next, and advances them; requests may stand at different
// frames, wait for frames, join before any step and leave after any. The beam driver beside it
// (server/engine/beam) does the same by tokens; neither knows the other. Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_FRAMES_FRAME_DRIVER_H_
#define BEAMWRIGHT_SERVER_ENGINE_FRAMES_FRAME_DRIVER_H_

#include <memory>
#include <vector>

#include "server/engine/frames/frame_request.h"
#include "server/engine/frames/frame_stepper.h"
#include "server/engine/request/driver.h"
#include "server/engine/request/underway.h"

namespace beamwright::engine {

class FrameDriver : public Driver {
 public:
  FrameDriver(std::shared_ptr<const DecodeModel> model, std::unique_ptr<FrameStepper> stepper)
      : model_(std::move(model)), stepper_(std::move(stepper)) {}

  using Driver::Step;
  void Join(std::unique_ptr<Request> request) override;
  absl::Duration Step(const ops::ExecutionContext& context, EngineObserver* observer,
                      Underway* underway) override;
  void AnswerMeanwhile(absl::Time now, const absl::Status& end, EngineObserver* observer) override;
  void FailAll(const absl::Status& why) override;
  void End(const absl::Status& why) override;
  Reserved reserved() const override { return ReservedFor(requests_); }
  int64_t most_bytes() const override { return most_bytes_; }
  int64_t num_done() const override { return num_done_; }
  bool has_failed() const override { return has_failed_; }
  std::shared_ptr<const DecodeModel> Suspend() override { return std::move(model_); }
  void Resume(std::shared_ptr<const DecodeModel> model) override { model_ = std::move(model); }

 private:
  using Requests = std::vector<std::unique_ptr<FrameRequest>>;

  // Answers searches that `which` picks with what they have.
  template <typename Which>
  void CutSearches(v1::FinishReason reason, Which which);
  void FailDead(absl::Time now, EngineObserver* observer);
  void TellCancelled(FrameRequest& request, absl::Time now, EngineObserver& observer) const;
  // Those that have their answer leave.
  void DropAnswered();
  absl::Status RunModel(const ops::ExecutionContext& context, Underway* underway);
  // What follows when RunModel fails.
  void EndStep(const absl::Status& status, const Underway* underway);
  void AdvanceAll(const ops::ExecutionContext& context);
  static void TellProgress(FrameRequest& request);
  // Answers a request that is done.
  static void Finish(FrameRequest& request);

  std::shared_ptr<const DecodeModel> model_;
  const std::unique_ptr<FrameStepper> stepper_;
  int64_t most_bytes_ = 0;
  int64_t num_done_ = 0;
  bool has_failed_ = false;
  // The last step was interrupted, and those who took part in it make it again; the others wait.
  bool repeats_ = false;
  absl::Time looked_ = absl::InfinitePast();  // when the last step looked for the dead
  Requests requests_;
  std::vector<FrameRequest*> stepped_;  // those who take part in the step
  std::vector<Request*> under_way_;     // all of them, for Underway
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_FRAMES_FRAME_DRIVER_H_
