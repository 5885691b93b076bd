// A request inside the engine: what was asked, what it takes, and how it is answered. How it is
// searched for is known to its kind alone: SearchKind makes the requests of a model, and the Driver
// that advances them.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_REQUEST_H_
#define BEAMWRIGHT_ENGINE_REQUEST_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/request/call.h"
#include "engine/request/engine_options.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "ops/base/interruption.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// Reserved: what requests hold of what an engine has, as the admission counts it.

struct Reserved {
  int requests = 0;
  int rows = 0;
  int64_t bytes = 0;

  Reserved& operator+=(const Reserved& other) {
    requests += other.requests;
    rows += other.rows;
    bytes += other.bytes;
    return *this;
  }
  Reserved& operator-=(const Reserved& other) {
    requests -= other.requests;
    rows -= other.rows;
    bytes -= other.bytes;
    return *this;
  }
};

// Of all of them; `requests` holds pointers.
template <typename Requests>
Reserved ReservedFor(const Requests& requests) {
  Reserved sum;
  for (const auto& request : requests) {
    sum += request->reserved();
  }
  return sum;
}

// What sources that arrive while they are searched may hold of an engine's bytes. They hold them
// for as long as their callers send, so calls must not depend on their end.

// Of EngineOptions::max_bytes: most that streams may hold together; the rest is for calls.
inline int64_t MostStreamBytes(int64_t max_bytes) { return max_bytes / 4 * 3; }
// New streams begin only up to this while calls wait.
inline int64_t MostNewStreamBytes(int64_t max_bytes) { return max_bytes / 2; }

// What encoders computed of sources that were encoded together.
struct EncodedSources {
  int64_t num_sources = 0;
  // By member of an ensemble; empty for one that shares the model's own encoder, the first.
  std::vector<std::vector<ops::Tensor>> outputs;

  const std::vector<ops::Tensor>& of_member(int member) const {
    const std::vector<ops::Tensor>& own = outputs[static_cast<size_t>(member)];
    return own.empty() ? outputs[0] : own;
  }
};

struct Request {
  Request() = default;
  // One that goes without its answer was lost on the way to it, because memory ran out there, and
  // gets that error.
  virtual ~Request() {
    if (!is_answered) {
      Fail(status::OutOfMemory());
    }
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  std::shared_ptr<const DecodeModel> model;
  PreparedSource source;
  int beam_size = 0;  // most rows
  // Most steps, or how many it makes for certain.
  int max_steps = 0;
  bool knows_steps = false;
  // A step may take long, however few rows it has.
  bool has_long_steps = false;
  // Set when it is taken from the queue: its client has many sources, and other clients have one.
  bool is_of_crowd = false;
  // It takes its steps with requests like it, and not with those that others wait for (worker.h).
  bool is_wide = false;
  int64_t price_bytes = 0;
  // Of a stream that runs: reserves more bytes, or gives bytes back (negative). False: there is no
  // room for them. On the engine's thread; null: there is always room.
  std::function<bool(int64_t)> reserve;
  CallOptions call;
  // > 0: of hypotheses with one text the answer has the best, and at most this number in all.
  int most_texts = 0;
  bool wants_words = false;
  bool may_be_cut = false;  // the search may answer with what it has
  // When it is to; in the infinite future: never.
  absl::Time cut_at = absl::InfiniteFuture();
  std::variant<DecodeCallback, ScoreCallback> done;
  bool is_answered = false;
  int64_t row_steps = 0;  // SourceFacts
  // Of the step under way, or to be repeated: whether it takes part.
  bool takes_part = false;
  // Its encoder run was given up because of others in it.
  bool encodes_alone = false;
  absl::Time accepted;
  absl::Time started;

  // Its source arrives while it is searched.
  bool is_stream() const { return call.feed != nullptr; }
  // A stream holds no rows of the engine: most of the time it has none to step, and a step takes
  // some streams' rows and leaves the others' for the next (frame_driver.h).
  Reserved reserved() const { return {1, is_stream() ? 0 : beam_size, price_bytes}; }

  // When it is made: what the caller says.
  void Accept(const CallOptions& caller);
  // The search may be cut, and is to be in time for the answer to get there before the deadline.
  void MayBeCut();

  // Takes what it needs of its source, number `row` of those that were encoded: what its first step
  // starts from.
  virtual absl::Status Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                             int64_t row) = 0;
  // The same where the model has no encoder.
  virtual absl::Status StartAlone(const ops::ExecutionContext& context) = 0;
  // How many steps led to the answer: what forecasts for others are made from.
  virtual int CountSteps(const v1::Decoded& answer) const;

  // OK, or why the request must end now.
  absl::Status CheckAlive(absl::Time now) const;
  // Answers it, unless it has its answer.
  void Fail(const absl::Status& status) {
    if (is_answered) {
      return;
    }
    is_answered = true;
    std::visit(
        [&](const auto& callback) {
          if (callback != nullptr) {
            callback(status);
          }
        },
        done);
  }
  // Answers it; it must not have an answer.
  template <typename Answer>
  void Give(Answer answer) {
    is_answered = true;
    std::get<std::function<void(absl::StatusOr<Answer>)>>(done)(std::move(answer));
  }
};

// ResourceExhausted: a request asks for `asked` of something, "rows", of which there is `budget`.
absl::Status TooLarge(const char* unit, int64_t asked, int64_t budget, const std::string& lower);

// Driver: advances the running requests of one model. The engine asks it for a step at a time and
// knows nothing of what a step is: a token of every hypothesis (beam_driver.h), or whatever another
// kind of search advances by.

class Underway;

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

// SearchKind: how sources of a model are searched for: the requests that it makes of them, and the
// driver that advances these. The engine queues, admits, encodes and steps requests of any kind.
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

// Underway: what an engine's thread computes with a model at the moment, an encoder run or a step,
// and whose requests are in it. It may not come to an end, so another thread, the engine's
// supervisor, can look at it, answer those requests and interrupt it.

class Underway {
 public:
  // `parent`: whatever else interrupts the work; may be null.
  explicit Underway(const Interruption* parent) : interruption_(parent) {}

  // While it lives the thread that made it leaves `requests`, which must live as long (but for what
  // the model computes of them), to the thread that holds the mutex, and so all else that its
  // worker has. `underway` may be null: no watchdog. driver: whose step it is; null: an encoder
  // run.
  class Scope {
   public:
    Scope(Underway* underway, const DecodeModel& model, absl::Span<Request* const> requests,
          Driver* driver)
        : underway_(underway) {
      if (underway_ != nullptr) {
        absl::MutexLock lock(&underway_->mutex_);
        underway_->was_interrupted_ = false;
        underway_->work_ = {&model, requests, driver, SteadyNow()};
      }
    }
    ~Scope() {
      if (underway_ != nullptr) {
        absl::MutexLock lock(&underway_->mutex_);
        // What the thread runs next, in no scope perhaps, is others' and not to be interrupted.
        underway_->was_interrupted_ = underway_->interruption_.raised_here();
        underway_->interruption_.Reset();
        underway_->work_ = {};
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Underway* const underway_;
  };

  struct Work {
    const DecodeModel* model = nullptr;  // null: nothing is under way
    absl::Span<Request* const> requests;
    Driver* driver = nullptr;
    absl::Time since;
  };

  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  const Work& work() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return work_; }
  // For the thread that works: whether its last run was interrupted because of who was in it.
  bool was_interrupted() const { return was_interrupted_; }
  // What the work's ExecutionContext names; raised with the mutex held, while something is under
  // way, so that it does not hit what comes behind.
  Interruption& interruption() { return interruption_; }

 private:
  mutable absl::Mutex mutex_;
  Work work_ ABSL_GUARDED_BY(mutex_);
  bool was_interrupted_ = false;  // the working thread's
  Interruption interruption_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_REQUEST_H_
