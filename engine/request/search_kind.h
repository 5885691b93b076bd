// SearchKind: how sources of a model are searched for: the requests that it makes of them, and the
// driver that advances these. The engine queues, admits, encodes and steps requests of any kind.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_SEARCH_KIND_H_
#define BEAMWRIGHT_ENGINE_REQUEST_SEARCH_KIND_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/request/engine_options.h"
#include "engine/request/request.h"

namespace beamwright::ops {

struct ExecutionContext;

}  // namespace beamwright::ops

namespace beamwright::engine {

// Driver: advances the running requests of one model. The engine asks it for a step at a time and
// knows nothing of what a step is: a token of every hypothesis (beam_driver.h), or whatever another
// kind of search advances by.

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

  // For an idle one that is kept for later: Suspend gives up the model, Resume,
  // before anything else is called, brings the same one back.
  virtual std::shared_ptr<const DecodeModel> Suspend() = 0;
  virtual void Resume(std::shared_ptr<const DecodeModel> model) = 0;
};

struct ResolvedOptions;

// Thread-safe. One for all models of the kind; it outlives them.
class SearchKind {
 public:
  virtual ~SearchKind() = default;

  // From what a caller asks to a Request that may be queued: options checked, its price known, its
  // search made. source: PrepareSource made it for the model. On the caller's thread. Errors:
  // InvalidArgument naming the fields that are wrong; ResourceExhausted, with what it asks, what
  // there is and what to lower, if the request alone would need more rows or bytes than `limits`
  // allow all that run together.
  virtual absl::StatusOr<std::unique_ptr<Request>> MakeRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model, PreparedSource source,
      const ResolvedOptions& options, const CallOptions& call) const = 0;
  // The same for a source that arrives while it is searched: its frames come by call.feed.
  // InvalidArgument: a search of this kind needs the whole source.
  virtual absl::StatusOr<std::unique_ptr<Request>> MakeStreamRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const ResolvedOptions& options, const CallOptions& call) const;
  // The same for targets that are given. Unimplemented: it can't score.
  virtual absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const v1::ScoreSource& source, const v1::ScoreOptions& options,
      const CallOptions& call) const = 0;
  virtual std::unique_ptr<Driver> MakeDriver(std::shared_ptr<const DecodeModel> model) const = 0;
};

// ParkedDrivers: a model's drivers that have nothing to do at the moment. A driver's buffers
// are as large as its steps; a model that gets one request at a time would buy them anew for each.
// They wait with the model, and go with it: a parked driver keeps no model alive, and no thread has
// to wake up to let go of it.

class Driver;
class DecodeModel;

// Thread-safe.
class ParkedDrivers {
 public:
  ParkedDrivers();
  ~ParkedDrivers();
  ParkedDrivers(const ParkedDrivers&) = delete;
  ParkedDrivers& operator=(const ParkedDrivers&) = delete;

  // One of those parked with `model`; null if missing.
  static std::unique_ptr<Driver> Take(std::shared_ptr<const DecodeModel> model);
  // Back to its model, from which it takes its hands; or, if its requests took more memory than
  // kMostParkedBytes at once or it failed, away with it. It must be idle.
  static void Park(std::unique_ptr<Driver> driver);

  int num_drivers() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(drivers_.size());
  }

  // Priced like requests (Request::price_bytes): a few full beams of a small model, or one of a
  // large one.
  static constexpr int64_t kMostParkedBytes = int64_t{16} << 20;

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Driver>> drivers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_SEARCH_KIND_H_
