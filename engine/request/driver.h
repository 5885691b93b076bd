// Driver: advances the running requests of one model. The engine asks it for a step at a time and
// knows nothing of what a step is: a token of every hypothesis (beam_driver.h), or whatever another
// kind of search advances by. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_DRIVER_H_
#define BEAMWRIGHT_ENGINE_REQUEST_DRIVER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/request/reserved.h"

namespace beamwright::ops {
struct ExecutionContext;
}  // namespace beamwright::ops

namespace beamwright::engine {

class DecodeModel;
class EngineObserver;
class Underway;
struct Request;

// One thread at a time, but for AnswerMeanwhile.
class Driver {
 public:
  virtual ~Driver() = default;

  // A request of the driver's model that was encoded; it takes part from the next step on.
  virtual void Join(std::unique_ptr<Request> request) = 0;

  // One step of every request. Those that finish, fail or are given up get their answer and leave;
  // `observer` (may be null) is notified of the latter. underway: through whom others may answer
  // them while the model's graph runs; may be null. The time that the selection took, if there is
  // an observer.
  virtual absl::Duration Step(const ops::ExecutionContext& context, EngineObserver* observer,
                              Underway* underway) = 0;
  absl::Duration Step(const ops::ExecutionContext& context) {
    return Step(context, nullptr, nullptr);
  }

  // For any thread while the one that steps is in an Underway::Scope: answers requests that are
  // past their deadline or cancelled, or, if `end` is not OK, all of them, as End does. They leave
  // at the next step.
  virtual void AnswerMeanwhile(absl::Time now, const absl::Status& end,
                               EngineObserver* observer) = 0;

  // All requests fail with `why`, after a step that may have been broken off in the middle.
  virtual void FailAll(const absl::Status& why) = 0;
  // Searches that may be cut answer what they have; all other requests fail with `why`.
  virtual void End(const absl::Status& why) = 0;

  // For the requests that have not left.
  virtual Reserved reserved() const = 0;
  bool idle() const { return reserved().requests == 0; }
  // Most rows of its next step.
  virtual int num_rows() const { return reserved().rows; }
  // When it is to make its next step if nothing happens until then; in the past: at once. Of one
  // that is not idle.
  virtual absl::Time next_work() const { return absl::InfinitePast(); }

  // The most bytes that were reserved in a step so far.
  virtual int64_t most_bytes() const = 0;
  // Requests whose search came to its end.
  virtual int64_t num_done() const = 0;
  // A step of the model itself went wrong, and all requests with it.
  virtual bool has_failed() const = 0;

  // For an idle one that is kept for later (parked_drivers.h): Suspend gives up the model, Resume,
  // before anything else is called, brings the same one back.
  virtual std::shared_ptr<const DecodeModel> Suspend() = 0;
  virtual void Resume(std::shared_ptr<const DecodeModel> model) = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_DRIVER_H_
