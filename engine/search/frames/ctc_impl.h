// The inside of CtcSearch: the live prefixes, and the steps of a frame in their order.
// ctc_search.cc has the API over it.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_IMPL_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_IMPL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/ctc_search.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/label_times.h"
#include "engine/search/frames/log_add.h"
#include "engine/search/frames/log_prob_row.h"
#include "engine/search/frames/ranked_labels.h"
#include "engine/search/fusion.h"

namespace beamwright::search {

// Alignments of one prefix that end alike. The best one's times: of all labels but the last as a
// chain, of the last, which may still grow, here.
struct CtcPath {
  double sum = kLogZero;   // of all alignments; with Recombine::kMax, of the best
  double best = kLogZero;  // of the best
  int32_t before = LabelTimes::kNone;
  LabelTime last;  // nothing for the prefix without labels
};

struct CtcPrefix {
  int32_t node = LabelHistories::kRoot;
  CtcPath blank;  // that end in the blank
  CtcPath label;  // that end in the last label
  double mass = kLogZero;
};

// A live prefix one frame later; where its best paths come from.
struct CtcStay {
  double blank_sum = kLogZero;
  double blank_best = kLogZero;
  double label_sum = kLogZero;
  double label_best = kLogZero;
  bool blank_from_label = false;
  int32_t label_parent = -1;  // a live prefix that this one continues; -1: the label goes on
};

// What competes for the beam: a live prefix, or a live prefix and a label.
struct CtcCandidate {
  double rank = kLogZero;
  double sum = kLogZero;  // of a new one
  int32_t prefix = 0;
  int32_t label = -1;  // -1: the prefix itself
};

struct CtcSearch::Impl {
  Impl(std::shared_ptr<const FramePlan> the_plan, const CtcBegin& the_begin)
      : plan(std::move(the_plan)),
        options(plan->options()),
        begin(the_begin),
        histories(*plan),
        ranked(*plan) {
    CtcPrefix& root = live.emplace_back();
    root.blank.sum = root.blank.best = begin.blank;
    root.label.sum = root.label.best = begin.label >= 0 ? begin.continued : kLogZero;
    root.mass = Combine(root.blank.sum, root.label.sum);
    histories.Keep(root.node);
    histories.TakeSlot(root.node);
  }

  double Combine(double a, double b) const {
    return options.recombine == Recombine::kMax ? std::max(a, b) : LogAdd(a, b);
  }
  LabelKey KeyOf(const CtcCandidate& candidate) const {
    return {live[static_cast<size_t>(candidate.prefix)].node, candidate.label};
  }
  bool Better(const CtcCandidate& a, const CtcCandidate& b) const {
    return a.rank > b.rank || (a.rank == b.rank && histories.OrderedBefore(KeyOf(a), KeyOf(b)));
  }
  bool IsLive(int32_t node) const {
    return static_cast<size_t>(node) < live_of.size() && live_of[static_cast<size_t>(node)] >= 0;
  }
  // The label that a prefix's frames may go on to emit; -1: none.
  int32_t LastLabel(int32_t node) const {
    return node == LabelHistories::kRoot ? begin.label : histories.label(node);
  }
  // Of the paths that label `label` may follow, the better one.
  const CtcPath& BestBefore(const CtcPrefix& prefix, int32_t label) const {
    return LastLabel(prefix.node) != label && prefix.label.best > prefix.blank.best ? prefix.label
                                                                                    : prefix.blank;
  }
  const FusedRow* Fused(absl::Span<const FusedRow* const> fused, size_t prefix) const {
    return fused.empty() ? nullptr : fused[prefix];
  }

  absl::Status CheckFrame(absl::Span<const float> log_probs,
                          absl::Span<const FusedRow* const> fused) const;
  void IndexLive();
  void Stay(const LogProbRow& row);
  void Extend(const LogProbRow& row, absl::Span<const FusedRow* const> fused);
  void Join(size_t index, int32_t label, double log_prob, double sum, int32_t child);
  void JoinAll(const LogProbRow& row);
  void FindLeastRank();
  // index: of a live prefix, like all numbers of prefixes.
  void ExtendPrefix(size_t index, const LogProbRow& row, const FusedRow* fused);
  bool Choose();
  void Commit(const LogProbRow& row, absl::Span<const FusedRow* const> fused);
  CtcPrefix Kept(size_t prefix, const LogProbRow& row);
  CtcPrefix New(const CtcCandidate& candidate, const LogProbRow& row, const FusedRow* fused);
  // The chain of all labels of a path; the caller holds it once.
  int32_t Frozen(const CtcPrefix& prefix, const CtcPath& path);
  void ListRows();
  FrameHypothesis Answer(const CtcPrefix& prefix) const;

  std::shared_ptr<const FramePlan> plan;
  const FrameOptions& options;
  const CtcBegin begin;
  LabelHistories histories;
  LabelTimes times;
  RankedLabels ranked;
  int64_t num_added = 0;
  int64_t num_read = 0;
  bool finished = false;

  std::vector<CtcPrefix> live;  // best first
  std::vector<CtcPrefix> next_live;
  std::vector<int32_t> live_of;      // by node: its place in `live`, or -1
  std::vector<char> has_live_child;  // by live prefix
  std::vector<CtcStay> stays;        // by live prefix
  std::vector<CtcCandidate> candidates;
  double least_rank = kLogZero;  // whatever ranks lower can't enter the beam
  std::vector<double> ranks;     // scratch
  std::vector<FrameRow> rows;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_IMPL_H_
