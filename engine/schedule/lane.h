// Lane: what one engine thread works on: requests that wait for their encoder, and those that are
// stepped, by model. The supervisor looks after lanes whose encoder run or step takes long.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_LANE_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_LANE_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/queue/admission.h"
#include "engine/queue/encode_queue.h"
#include "engine/request/driver.h"
#include "engine/request/quarantine.h"
#include "engine/request/underway.h"
#include "engine/schedule/encode.h"

namespace beamwright::engine {

// One thread's, but for Look.
class Lane {
 public:
  using Requests = std::vector<std::unique_ptr<Request>>;

  // `options` and `quarantine` must outlive it. interruption: as Underway's parent.
  Lane(const EngineOptions& options, Quarantine& quarantine, const Interruption* interruption);

  Reserved Running() const;
  // When there is something to do about it if nothing happens until then.
  absl::Time next_work() const;
  // What its thread's work must look at.
  const Interruption* interruption() { return &underway_.interruption(); }
  // From its next turn on; before, an equal part of all.
  void SetThreads(int threads) { context_.num_threads = threads; }
  int num_threads() const { return context_.num_threads; }
  // Takes in what was admitted, encodes some of what waits, and steps every model once. `end`: as
  // Admission::Take gave it.
  void Turn(Requests admitted, const absl::Status& end);

  // For any thread: looks at the run that is under way. If it takes long, requests of this lane
  // that are past their deadline or cancelled get their answer now, as all do when `end` is not OK.
  // A run without waiting requests is interrupted; so is, after slow_step, one that a request has
  // left, for the others to repeat it without them; and after step_timeout any. Calls `slow`, under
  // the lock, if it takes longer than slow_step, and `hung` if the model is out of service from now
  // on.
  void Look(absl::Time now, const absl::Status& end,
            absl::FunctionRef<void(const DecodeModel&)> slow,
            absl::FunctionRef<void(const DecodeModel&)> hung);
  // For `slow`: moves what is not of `model` to `rest`, which must be new.
  void MoveOthers(const DecodeModel& model, Lane& rest);

  // It has one model, and other lanes go on without it. Set by `slow`.
  bool is_apart = false;
  // For the stream, under its lock: of a lane that is apart, its model (null: it takes no more),
  // requests that were handed to it, and the load last reported to the admission; whether the
  // lane's thread has ended.
  const DecodeModel* apart_model = nullptr;
  EncodeQueue inbox;
  Reserved told;
  bool has_ended = false;

 private:
  // As much as may be encoded between two steps, and one source in any case.
  void EncodeSome();
  // The groups whose turn it is, of one model: one, or, where several threads can take one each,
  // those of at most `positions` source positions.
  std::vector<EncodeGroup> TakeGroups(int64_t positions);
  // Requests that it does not fail join the running ones.
  void EncodeGroups(absl::Span<EncodeGroup> groups);
  void Join(const std::shared_ptr<const DecodeModel>& model, Requests ready);
  Driver& DriverOf(std::shared_ptr<const DecodeModel> model);
  void Step(const DecodeModel& model, Driver& driver);
  void StepAll();
  // Ends all that was taken so far; what waits is taken in the next turns, and ended as well.
  void EndAll(const absl::Status& why);
  // Who is in a run: requests that have their answer, requests that have none.
  struct Left {
    bool gone = false;
    bool there = false;
  };
  // Answers requests of this lane while a run is under way.
  Left AnswerMeanwhile(const Underway::Work& work, absl::Time now, const absl::Status& end);

  const EngineOptions& options_;
  Quarantine& quarantine_;
  Underway underway_;
  ops::ExecutionContext context_;
  EncodeQueue to_encode_;
  Reserved encoding_;  // what is in the encoder runs under way
  std::map<const DecodeModel*, std::unique_ptr<Driver>> drivers_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_LANE_H_
