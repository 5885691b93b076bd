// Runs a CtcSearch as an engine does.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_CTC_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_CTC_H_

#include <vector>

#include "absl/status/status.h"
#include "engine/search/frames/ctc_search.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search::frames_testing {

class CtcRun {
 public:
  CtcRun(const FrameOptions& options, RowScorers scorers = {});

  CtcSearch& search() { return search_; }
  // Adds a frame and reads it.
  absl::Status Advance(const std::vector<float>& log_probs);

 private:
  void TakeSteps();

  RowScorers scorers_;
  CtcSearch search_;
  std::vector<Labels> histories_;  // by slot
};

// The answer over all frames; none where nothing is left.
std::vector<FrameHypothesis> RunCtc(const FrameOptions& options, const CtcTable& table,
                                    const RowScorers& scorers = {});

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_CTC_H_
