// Searches by frames in tests: CTC and transducers over tables of scores, and what their answers
// have to be.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_SEARCHES_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_SEARCHES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "engine/search/frames/ctc_search.h"
#include "engine/search/frames/frame_search.h"
#include "engine/search/frames/transducer_search.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search::frames_testing {

// Comparison of an answer of a search whose beam holds everything with all that enumeration found.

// What options add to a labelling's log-probability; -infinity: it may not be answered.
using NaiveGain = std::function<double(const Labels&)>;

// `answers` has every labelling of `sums` that `gain` allows, best first, with its sum, best path,
// times and score. is_max: scores count the best path alone.
// close: how far numbers may be apart.
void ExpectAll(
    const std::vector<FrameHypothesis>& answers, const NaiveSums& sums, bool is_max,
    const NaiveGain& gain = [](const Labels&) { return 0.0; }, double close = 1e-6);

// Runs a CtcSearch as an engine does.

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

// Runs a TransducerSearch as an engine does: histories by slot, rows scanned under their rules.

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

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RUN_SEARCHES_H_
