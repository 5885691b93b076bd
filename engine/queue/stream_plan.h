// How compute threads are divided among streams: arithmetic alone, so that a test can look at every
// load and every machine (tests/engine/thread_plan_test.cc). Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_STREAM_PLAN_H_
#define BEAMWRIGHT_ENGINE_QUEUE_STREAM_PLAN_H_

#include <algorithm>
#include <cstdint>

namespace beamwright::engine {

// Each stream reads the weights once a step. With weights in a cache another stream pays from a
// block of a product on: many streams of few threads, which never wait for one another. Weights
// that no cache holds come from memory for each stream anew: another stream needs rows to compute
// for as long as memory takes, and is worth it only where the streams before it have as many
// threads as share a loop well.
inline constexpr int64_t kRowsOfAStream = 16;
inline constexpr int64_t kRowsOfALargeStream = 64;
inline constexpr int kThreadsOfALargeStream = 8;

// How many streams take work, at most `most_streams`. rows: hypotheses that run or wait. is_large:
// some of them are of a model whose weights no cache holds.
inline int StreamsForRows(int64_t rows, bool is_large, int num_threads, int most_streams) {
  int64_t streams = rows / (is_large ? kRowsOfALargeStream : kRowsOfAStream);
  if (is_large) {
    streams = std::min<int64_t>(streams, num_threads / kThreadsOfALargeStream);
  }
  return static_cast<int>(std::clamp<int64_t>(streams, 1, most_streams));
}

// The threads of a stream that shares num_threads with others: `sharing` streams in all, `before`
// of them with a lower number. The first ones have one more where division leaves a remainder.
inline int ThreadsOfStream(int num_threads, int sharing, int before) {
  return num_threads / sharing + (before < num_threads % sharing ? 1 : 0);
}

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_STREAM_PLAN_H_
