// TransducerCandidates: what competes for the beam in one round of a transducer's search.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_CANDIDATES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_CANDIDATES_H_

#include <cstdint>
#include <vector>

#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/label_histories.h"

namespace beamwright::search {

// A hypothesis that waits, or one that a row of this round made: by the blank, or by a label.
struct TransducerCandidate {
  LabelKey key;
  int64_t frame = 0;  // that it reads next
  double mass = 0;    // of all alignments merged; with Recombine::kMax and kNone, of the best
  double best = 0;    // of the best alignment, to which the rest belongs
  double rank = 0;
  int32_t from = 0;          // place in the round's rows; of one that waits, among those that wait
  int32_t label = -1;        // that was emitted
  int32_t duration = 0;      // of it
  float label_log_prob = 0;  // of label and duration
  bool waits = false;
  int32_t number = 0;  // of the candidate, in the order of Add
};

// One thread at a time. Rounds allocate only while they have more candidates than ever before.
class TransducerCandidates {
 public:
  // Both outlive this.
  TransducerCandidates(const FrameOptions& options, const LabelHistories& histories)
      : options_(&options), histories_(&histories) {}

  void Clear() { list_.clear(); }
  void Add(TransducerCandidate candidate) {
    candidate.number = static_cast<int32_t>(list_.size());
    list_.push_back(candidate);
  }
  std::vector<TransducerCandidate>& list() { return list_; }

  // Makes one of those with equal labels at the same frame, as the options say: sums are taken
  // largest first.
  void Merge();
  // Keeps those above which fewer than beam_size others rank that are as far or further; best
  // first. Ranks are set. `frame`: of the round.
  void Prune(int64_t frame);

 private:
  // By rank, then labels (LabelHistories::OrderedBefore), then the later frame, then number.
  bool Better(const TransducerCandidate& a, const TransducerCandidate& b) const;
  bool SameGroup(const TransducerCandidate& a, const TransducerCandidate& b) const {
    return a.frame == b.frame && a.key == b.key;
  }

  const FrameOptions* options_;
  const LabelHistories* histories_;
  std::vector<TransducerCandidate> list_;
  std::vector<int> num_kept_;  // by frames ahead
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_CANDIDATES_H_
