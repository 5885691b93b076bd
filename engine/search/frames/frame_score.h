// What given labels are worth over frames. Two classes find it: CtcScorer and TransducerScorer.
//
// They sum over all alignments of the model's lattice (the forward algorithm: Graves et al. 2006,
// section 4.1, for CTC; Graves 2012, section 2.4, for transducers), and find the best one, which
// dates each label. `Score` is that; a search's answers are scored so where their full
// sums are asked for. The lattices are those that searches run over, so that a search whose beam
// holds everything finds the same sums.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SCORE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SCORE_H_

#include <vector>

#include "absl/status/status.h"
#include "engine/search/frames/frame_hypothesis.h"
#include "engine/search/frames/frame_options.h"

namespace beamwright::search {

struct FrameScore {
  double full_log_prob = 0;      // over all alignments; -infinity without any
  double best_log_prob = 0;      // of the best alignment
  std::vector<LabelTime> times;  // on the best alignment; empty without one
};

// InvalidArgument naming the label that is outside the vocabulary, or the blank; more labels than
// kMaxLength.
absl::Status CheckScoredLabels(const FrameOptions& options, const std::vector<int32_t>& labels);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SCORE_H_
