// One answer of a search over frames.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_HYPOTHESIS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_HYPOTHESIS_H_

#include <cstdint>
#include <vector>

namespace beamwright::search {

// The place of a label on the hypothesis' best path.
struct LabelTime {
  int64_t first_frame = 0;
  // CTC: frames in a row that emit it. Token and duration: what the model said (at its cap of
  // symbols at least 1). Other transducers: 1.
  int32_t duration = 0;
  // What it adds to the best path: CTC: the sum over its frames; token and duration: of token and
  // duration.
  float log_prob = 0;
  friend bool operator==(const LabelTime&, const LabelTime&) = default;
};

struct FrameHypothesis {
  std::vector<int32_t> labels;   // without blanks
  std::vector<LabelTime> times;  // one per label
  double log_prob = 0;           // of the best path (one alignment), blanks included
  // What alignments the search merged add up to, at least log_prob: a lower bound of the
  // log-probability of the labels, which CtcScorer and TransducerScorer find. With Recombine::kMax
  // and kNone: log_prob.
  double merged_log_prob = 0;
  double reward = 0;                // of hotwords
  std::vector<double> scorer_sums;  // of FrameOptions::scorers, then label_scorers; unweighted
  // merged_log_prob + reward + weighted scorers' sums + word_reward x labels, over LengthNorm.
  double score = 0;
  friend bool operator==(const FrameHypothesis&, const FrameHypothesis&) = default;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_HYPOTHESIS_H_
