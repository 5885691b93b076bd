// Timeline: when the engine did what for one source, for those who trace calls.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_TIMELINE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_TIMELINE_H_

#include <vector>

#include "absl/time/time.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// Times that have not come are in the infinite past.
struct Timeline {
  absl::Time accepted = absl::InfinitePast();  // by the queue
  absl::Time started = absl::InfinitePast();   // from here on it is encoded
  absl::Time encoded = absl::InfinitePast();   // from here on it is searched
  absl::Time searched = absl::InfinitePast();  // from here on the answer is written, text included
  absl::Time written = absl::InfinitePast();
  int beam_size = 0;
  int num_steps = 0;

  // Every kStepsPerMark-th step of the search, the first kMostMarks of them.
  struct Mark {
    absl::Time at;
    int steps = 0;  // that were made by then
  };
  static constexpr int kStepsPerMark = 8;
  static constexpr size_t kMostMarks = 64;
  std::vector<Mark> marks;

  // After each step.
  void Step() {
    if (++num_steps % kStepsPerMark == 0 && marks.size() < kMostMarks) {
      marks.push_back({SteadyNow(), num_steps});
    }
  }
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_TIMELINE_H_
