// How an engine works, and which observer it notifies of its work.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_ENGINE_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_REQUEST_ENGINE_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/request/tenant.h"
#include "ops/base/interruption.h"
#include "ops/base/step_profile.h"

namespace beamwright::engine {

class DecodeModel;
class PrefixCache;

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

// Notified of the engine's work, on a thread of the engine: it must return at once.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // Sources of `model` have been encoded together; with their positions together.
  virtual void OnEncode(const DecodeModel& model, int num_sources, int64_t num_positions,
                        absl::Duration took) = 0;
  // All running requests of `model` have made a step.
  virtual void OnStep(const DecodeModel& model, const StepFacts& facts) = 0;
  // A running request of `model` was cancelled, and its rows are free `after` that. steps: how many
  // it has taken part in since then; 0 of one that had not begun, 1 where the step under way, or
  // none, was the last; 2 would mean more, which cannot happen.
  virtual void OnCancelled(const DecodeModel& /*model*/, int /*steps*/, absl::Duration /*after*/) {}
  // A source that had left the queue gets its answer next.
  virtual void OnEnd(const DecodeModel& /*model*/, const SourceFacts& /*facts*/) {}
};

// When a model goes out of service (engine/request/quarantine.h).
struct QuarantineOptions {
  // Sources of text in a row, with none decoded between them, that failed by fault of the model
  // (INTERNAL); 0: a model is never taken out, not even one that hangs.
  int failures = 32;
  // Until it may try again. One source that is decoded then ends it, one that fails renews it.
  absl::Duration pause = absl::Seconds(10);
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
  // equal or near length are more often encoded together (docs/performance.md).
  int64_t max_encode_positions = 512;
  // Most rows that a step runs more than there are hypotheses, to read several tokens of a target
  // prefix (a prompt) or of given targets at once, all requests together. 0: a token a step.
  int max_known_rows = 31;
  // Of max_bytes: what is kept of states behind target prefixes (prompts), for requests that begin
  // with the same tokens; the states used longest ago leave first. 0: none.
  int64_t prefix_cache_bytes = 0;
  // Set by the engine.
  std::shared_ptr<PrefixCache> prefix_cache;
  // What states that leave the engine are signed with; engines with one key take each other's.
  // Empty: the engine draws a key.
  std::string state_key;
  // Engine threads that step requests side by side, each with an equal part of num_threads
  // (docs/architecture.md, 'Streams'). At most num_threads. kStreamsAsWorkIs: as many as running
  // and waiting rows ask for, which are more for models whose weights do not stay in a cache.
  static constexpr int kStreamsAsWorkIs = 0;
  int num_streams = 1;
  // Most bytes of a model's weights that stay in a cache. 0: half of the machine's last cache.
  int64_t cached_bytes = 0;
  // Refuse a request at once with ResourceExhausted if, by how long work took of late, its deadline
  // will have passed before it is decoded.
  bool forecast_deadlines = true;
  // A model whose encoder run or step takes longer is given the thread that runs it; all others go
  // on with a new one (docs/reliability.md, 'A step that does not end'). Positive.
  absl::Duration slow_step = absl::Seconds(1);
  // One that takes longer than this is interrupted: its sources end with Internal, and the model is
  // in quarantine, as it is after three runs in a row that were given up after slow_step. Positive.
  absl::Duration step_timeout = absl::Minutes(1);
  QuarantineOptions quarantine;
  // Where the first stream's thread spends its time, for benchmarks; to be read when the engine is
  // gone. Not owned. Null: not measured.
  StepProfile* profile = nullptr;
  // Interrupts all that the engine computes. Must outlive the engine; may be null.
  const Interruption* interruption = nullptr;
  // Must outlive the engine; may be null.
  EngineObserver* observer = nullptr;

  // Engine threads that there are, once num_threads is known.
  int MostStreams() const {
    constexpr int kMost = 8;  // of those that come by themselves
    return num_streams == kStreamsAsWorkIs ? std::min(num_threads, kMost) : num_streams;
  }
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_ENGINE_OPTIONS_H_
