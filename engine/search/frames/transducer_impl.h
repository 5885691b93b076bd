// The inside of TransducerSearch: the hypotheses, and the steps of a round in their order.
// transducer_search.cc has the API over it.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_IMPL_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/transducer_search.h"
#include "engine/search/options.h"

namespace beamwright::search {

// TransducerCandidates: what competes for the beam in one round of a transducer's search.

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

// A hypothesis that has read all frames before `frame`.
struct TransducerHypothesis {
  int32_t node = LabelHistories::kRoot;
  int32_t times = LabelTimes::kNone;  // of all its labels
  int64_t frame = 0;
  double mass = 0;  // as TransducerCandidate's
  double best = 0;
  double rank = 0;
};

struct TransducerSearch::Impl {
  Impl(std::shared_ptr<const FramePlan> the_plan, int64_t first_frame);

  // Of a round.
  absl::Status Check(absl::Span<const FrameCandidates> found);
  absl::Status CheckRow(size_t row, const FrameCandidates& found);
  absl::Status CheckLogProb(size_t row, absl::string_view what, int32_t label, float value) const;
  void TakeRow(size_t row, const FrameCandidates& found);
  void TakeLabel(size_t row, int32_t label, double log_prob, const FrameCandidates& found);
  void Add(size_t row, int32_t label, int64_t frames, double log_prob);
  void AddWaiting();
  void Rank(absl::Span<const FrameCandidates> found);
  void Commit(absl::Span<const FrameCandidates> found);
  TransducerHypothesis Taken(const TransducerCandidate& candidate, const FusedRow* fused);

  // Between rounds.
  void Drop(const TransducerHypothesis& hypothesis);
  void EndFrame();
  void StartFrame();
  void MoveSlots();
  void ListRows();
  bool IsOver(const TransducerHypothesis& hypothesis) const {
    return finished && hypothesis.frame >= num_added;
  }
  bool IsDone() const;
  const TransducerHypothesis& Leading() const;
  std::vector<const TransducerHypothesis*> Live() const;
  FrameHypothesis Answer(const TransducerHypothesis& best, double mass) const;

  std::shared_ptr<const FramePlan> plan;
  const FrameOptions& options;
  const bool synchronous;
  // Whether all frames behind the last one are the same. Greedy search takes the best duration, as
  // NeMo's does.
  const bool merges_at_end;
  LabelHistories histories;
  LabelTimes times;
  TransducerCandidates candidates;
  int64_t num_added = 0;
  bool finished = false;

  int64_t frame = 0;  // of the round; synchronous: not used
  int round = 0;      // labels that every active hypothesis has emitted in this frame
  std::vector<TransducerHypothesis> active;      // that the next round reads, best first
  std::vector<TransducerHypothesis> waiting;     // for later frames, or for the end; best first
  std::vector<TransducerHypothesis> old_active;  // scratch, like the next three
  std::vector<TransducerHypothesis> old_waiting;
  std::vector<int32_t> tried_by;  // by label: the last row that tried it
  std::vector<bool> is_live;      // by node

  std::vector<FrameRow> rows;
  std::vector<RowRules> rules;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_IMPL_H_
