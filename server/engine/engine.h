// Engine: decodes sources with beam search, many at once, on a thread team of its own. It needs no
// server: examples/decode_in_process.cc is the whole of it.
//
// A scheduler thread (or several: streams) admits requests, runs encoders in groups of equal source
// length and no more of them between two steps than max_encode_positions, and steps all running
// requests together, each at its own time step; rows of finished requests are free at the next
// step.
#ifndef BEAMWRIGHT_SERVER_ENGINE_ENGINE_H_
#define BEAMWRIGHT_SERVER_ENGINE_ENGINE_H_

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "ops/base/step_profile.h"
#include "server/engine/cancel_flag.h"
#include "server/engine/decode_model.h"
#include "server/engine/tenant.h"
#include "server/engine/timeline.h"
#include "server/search/stable_tokens.h"

namespace beamwright::engine {

// A step of all running requests of a model.
struct StepFacts {
  int num_rows = 0;          // that they hold
  absl::Duration took;       // the whole step
  absl::Duration selection;  // of that: finding the best tokens of each row
};

// A source that left the queue for the engine, at its end.
struct SourceFacts {
  absl::StatusCode code = absl::StatusCode::kOk;  // of its answer
  int priority = kNormalPriority;
  absl::Duration waited;  // from its acceptance to its first work, or to its end if there was none
  // Hypotheses that it advanced, each by one step. Of a code that is not OK: all for nothing.
  int64_t row_steps = 0;
};

// Told of the engine's work, on a thread of the engine: it must return at once.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // Sources of `model` have been encoded together; they have so many positions together.
  virtual void OnEncode(const DecodeModel& model, int num_sources, int64_t num_positions,
                        absl::Duration took) = 0;
  // All running requests of `model` have made a step.
  virtual void OnStep(const DecodeModel& model, const StepFacts& facts) = 0;
  // A running request of `model` was cancelled, and its rows are free `after` that. steps: how many
  // it has taken part in since then; 0 of one that had not begun, 1 where the step under way, or
  // none, was the last; 2 stands for more, and there are none.
  virtual void OnCancelled(const DecodeModel& /*model*/, int /*steps*/, absl::Duration /*after*/) {}
  // A source that had left the queue gets its answer next.
  virtual void OnEnd(const DecodeModel& /*model*/, const SourceFacts& /*facts*/) {}
};

struct EngineOptions {
  // Compute threads. 0: as many as the cgroup quota and the CPU affinity allow.
  int num_threads = 0;
  // Most rows (hypotheses) stepped together; a request takes beam_size of them. Requests beyond
  // wait.
  int max_rows = 1024;
  // Most requests waiting; one more is refused with ResourceExhausted.
  int max_queue = 4096;
  // Most rows that they may need once they run, and most bytes of their sources, together.
  int64_t max_queue_rows = int64_t{1} << 40;
  int64_t max_queue_bytes = int64_t{1} << 30;
  // Most bytes that running requests may hold together: states, history, what their steps share
  // (docs/operations.md, 'Memory'). One that needs more alone is refused with ResourceExhausted.
  int64_t max_bytes = int64_t{4} << 30;
  // Most source positions (tokens, frames) that are encoded between two steps of those that run; a
  // longer source is encoded alone. Small: running requests never wait long. Large: sources of
  // equal length are more often encoded together (docs/performance.md, 'How a step runs').
  int64_t max_encode_positions = 512;
  // Engine threads that step requests side by side, each with an equal part of num_threads
  // (docs/architecture.md, 'Streams'). In [1, num_threads].
  int num_streams = 1;
  // Refuse a request at once with ResourceExhausted if, by how long work took of late, its deadline
  // will have passed before it is decoded.
  bool forecast_deadlines = true;
  // A model whose encoder run or step takes longer is given the thread that runs it; all others go
  // on with a new one (docs/reliability.md, 'A step that does not end'). Positive.
  absl::Duration slow_step = absl::Seconds(1);
  // One that takes longer than this is interrupted: its sources end with Internal, and the model is
  // out of service for hang_pause, as it is after three runs in a row that were given up after
  // slow_step. Positive.
  absl::Duration step_timeout = absl::Minutes(1);
  // Zero: a model is never out of service.
  absl::Duration hang_pause = absl::Seconds(10);
  // Where the first stream's thread spends its time, for benchmarks; to be read when the engine is
  // gone. Not owned. Null: not measured.
  StepProfile* profile = nullptr;
  // Must outlive the engine; may be null.
  EngineObserver* observer = nullptr;
};

// What a stream is told after a step.
struct Progress {
  // Tokens that can no longer change, each piece going on where the one before it (of its sample)
  // ended (docs/decoding.md, 'Streaming').
  std::vector<search::StableTokens::Piece> stable;
  // If asked for: the best hypothesis as it stands.
  std::vector<int32_t> provisional;
  double provisional_score = 0;
};

struct CallOptions {
  // When the answer is of no use any more: DeadlineExceeded at the next step, or within the one
  // under way if that takes longer than a tenth of a second. With deadline_result
  // best-so-far the search is cut a tenth of the time before it, at least 5 and at most 100 ms, so
  // that the answer still gets there.
  absl::Time deadline = absl::InfiniteFuture();
  // Of a caller that may give up: likewise Cancelled, or DeadlineExceeded where it gave up
  // because of the deadline. May be null.
  std::shared_ptr<const CancelFlag> cancelled;
  // Whose share the request takes; null: that of everybody without a name.
  TenantPtr tenant;
  int priority = kNormalPriority;
  // Sources of the same call (not 0) take turns with other calls as one, however many they are.
  uint64_t call = 0;
  // Called on the engine's thread after each step that has news, before the answer is given; it
  // must return at once. Null: nobody asks. Decoding only.
  std::function<void(Progress)> progress;
  bool wants_provisional = false;
  // Filled in until the answer is given, up to which it must live. Null: nobody asks.
  Timeline* timeline = nullptr;

  bool IsCancelled() const { return cancelled != nullptr && cancelled->cancelled(); }
};

// A request's options, merged with the model's and checked: what the sources of a call share.
// Immutable.
struct ResolvedOptions;

// InvalidArgument naming all wrong fields, and all fields that exclude each other.
absl::StatusOr<std::shared_ptr<const ResolvedOptions>> ResolveOptions(
    const DecodeModel& model, const v1::DecodeOptions& options);

// Thread-safe.
class Engine {
 public:
  using Callback = std::function<void(absl::StatusOr<v1::Decoded>)>;

  static absl::StatusOr<std::unique_ptr<Engine>> Start(EngineOptions options);
  // Finishes what was accepted.
  virtual ~Engine() = default;

  // Decodes one source. `done` is called exactly once: at once for what is refused (InvalidArgument
  // naming all wrong fields, ResourceExhausted when queue or tenant have no room or the deadline
  // would be missed, Unavailable while draining), else on the engine's thread; it must not block.
  void Decode(std::shared_ptr<const DecodeModel> model, v1::Source source,
              const v1::DecodeOptions& options, const CallOptions& call, Callback done);

  // The same with options that ResolveOptions made for this model: once for all sources of a call.
  virtual void DecodeResolved(std::shared_ptr<const DecodeModel> model, v1::Source source,
                              std::shared_ptr<const ResolvedOptions> options,
                              const CallOptions& call, Callback done) = 0;

  using ScoreCallback = std::function<void(absl::StatusOr<v1::Scored>)>;

  // Scores targets for one source, in the same batches as what is decoded. `done` as for Decode.
  virtual void Score(std::shared_ptr<const DecodeModel> model, v1::ScoreSource source,
                     const v1::ScoreOptions& options, const CallOptions& call,
                     ScoreCallback done) = 0;

  // The same, waiting for the answer.
  absl::StatusOr<v1::Decoded> DecodeAndWait(std::shared_ptr<const DecodeModel> model,
                                            v1::Source source, const v1::DecodeOptions& options,
                                            const CallOptions& call = {});
  absl::StatusOr<v1::Scored> ScoreAndWait(std::shared_ptr<const DecodeModel> model,
                                          v1::ScoreSource source, const v1::ScoreOptions& options,
                                          const CallOptions& call = {});

  // Refuses new requests from now on and returns when all accepted ones are answered.
  virtual void Drain() = 0;

  // There is no time left: answers all accepted requests now, without waiting for them. A search
  // whose deadline_result is best-so-far answers what it has; all else fails with `why`.
  virtual void End(absl::Status why) = 0;

  struct Load {
    int waiting = 0;
    std::array<int, kLowestPriority> waiting_by_priority{};  // the highest first
    int running = 0;
    int rows = 0;
    int max_rows = 0;
    // Bytes that running requests are reckoned to hold (EngineOptions::max_bytes).
    int64_t bytes = 0;
    int64_t max_bytes = 0;
    int num_threads = 0;
    int num_streams = 0;
    // How long the first in the queue has waited; zero if nobody waits.
    absl::Duration oldest_wait;
    // How long the engine's present turn takes: what was admitted is encoded and every model makes
    // a step. Zero while there is no work.
    absl::Duration turn;
    // For how long no stream has begun a turn or waited for work: the engine's sign of life. A
    // stream that hangs beside others that do not leaves it small.
    absl::Duration stalled;
  };
  virtual Load load() const = 0;
  // Whether all that was accepted is answered; within `done`, that one counts as answered. Takes no
  // lock.
  virtual bool idle() const = 0;
  // Tells `observer`, on a thread of the engine, of each model that goes out of service because its
  // graph does not come to an end (EngineOptions::step_timeout); null ends that. It must not block.
  virtual void ObserveHangs(std::function<void(const DecodeModel&)> /*observer*/) {}
  // Of all tenants that wait or run, by name.
  virtual std::vector<TenantLoad> Tenants() const = 0;
};

// What is wrong with a request's options for this model, whatever the source: InvalidArgument
// naming every wrong field. A server calls it to fail a call as a whole.
absl::Status CheckOptions(const DecodeModel& model, const v1::DecodeOptions& options);
absl::Status CheckScoreOptions(const DecodeModel& model, const v1::ScoreOptions& options);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_ENGINE_H_
