// Runs a TransducerSearch as an engine does: histories by slot, rows scanned under their rules.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_TRANSDUCER_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_TRANSDUCER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/search/frames/transducer_search.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search::frames_testing {

class TransducerRun {
 public:
  // scorers: one for each of the options'.
  TransducerRun(const FrameOptions& options, Joiner joiner, RowScorers scorers = {});

  TransducerSearch& search() { return search_; }
  // Runs all rounds that the frames allow; asserts what slots promise.
  void Run();
  // Adds frames in these pieces, running between them, and finishes.
  void Feed(const std::vector<int64_t>& pieces);
  // Of the last round; after an error no further one is run.
  const absl::Status& status() const { return status_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t num_steps() const { return num_steps_; }

 private:
  void TakeSteps();
  void Round();

  FrameOptions options_;
  Joiner joiner_;
  RowScorers scorers_;
  TransducerSearch search_;
  std::vector<Labels> histories_;  // by slot
  absl::Status status_;
  int64_t num_rows_ = 0;
  int64_t num_steps_ = 0;
};

// The answer of a search over num_frames frames that come at once; none where nothing is left.
std::vector<FrameHypothesis> RunTransducer(const FrameOptions& options, const Joiner& joiner,
                                           int64_t num_frames, const RowScorers& scorers = {});

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_TRANSDUCER_H_
