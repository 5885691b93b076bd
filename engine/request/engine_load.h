// What an engine has to do at the moment.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_ENGINE_LOAD_H_
#define BEAMWRIGHT_ENGINE_REQUEST_ENGINE_LOAD_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"
#include "engine/request/tenant.h"

namespace beamwright::engine {

struct EngineLoad {
  int waiting = 0;
  std::array<int, kLowestPriority> waiting_by_priority{};  // the highest first
  int running = 0;
  int rows = 0;
  int max_rows = 0;
  // Bytes that running requests are reckoned to hold (EngineOptions::max_bytes).
  int64_t bytes = 0;
  int64_t max_bytes = 0;
  // Of EngineOptions::prefix_cache_bytes: in use. Tokens of target prefixes so far that could have
  // been kept, and those of them that were.
  int64_t prefix_cache_bytes = 0;
  int64_t prefix_tokens = 0;
  int64_t cached_prefix_tokens = 0;
  int num_threads = 0;
  int num_streams = 0;
  // How long the first in the queue has waited; zero if the queue is empty.
  absl::Duration oldest_wait;
  // How long the engine's present turn takes: what was admitted is encoded and every model makes
  // a step. Zero while there is no work.
  absl::Duration turn;
  // For how long no stream has begun a turn or waited for work: the engine's sign of life. A
  // stream that hangs while others do not leaves it small.
  absl::Duration stalled;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_ENGINE_LOAD_H_
