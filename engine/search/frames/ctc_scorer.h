// CtcScorer: the log-probability of given labels over the frames of a CTC model (frame_score.h).
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_SCORER_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_SCORER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_score.h"

namespace beamwright::search {

// Movable. One thread at a time. 6 bytes for each frame and label, for the best alignment.
class CtcScorer {
 public:
  // Of the options vocabulary, blank, temperature and blank penalty count. InvalidArgument as
  // CheckScoredLabels.
  static absl::StatusOr<CtcScorer> Create(const FrameOptions& options, std::vector<int32_t> labels);

  // The next frame, as for CtcSearch::Advance.
  absl::Status Advance(absl::Span<const float> log_probs);
  // Of the frames so far.
  FrameScore Result() const;

 private:
  // States 0 to 2 x labels: blank, label 0, blank, label 1, ... blank.
  struct State {
    double sum;   // of all alignments that end in it
    double best;  // of the best
  };

  CtcScorer(const FrameOptions& options, std::vector<int32_t> labels);
  std::vector<LabelTime> TraceBack(size_t state) const;

  FrameOptions options_;
  std::vector<int32_t> labels_;
  std::vector<State> states_;
  std::vector<State> next_states_;
  std::vector<uint8_t> steps_;    // [frames, states]: by how many states the best path moved on
  std::vector<float> log_probs_;  // [frames, labels]
  int64_t num_frames_ = 0;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_SCORER_H_
