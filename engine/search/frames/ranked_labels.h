// RankedLabels: which labels a CTC search tries of each prefix in a frame
// (FrameOptions::expansion): the best that masks leave it, and those that go on with a hotword that
// has begun.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_RANKED_LABELS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_RANKED_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/log_prob_row.h"

namespace beamwright::search {

// One thread at a time. Frames allocate nothing once a frame has been ranked.
class RankedLabels {
 public:
  // plan: outlives this.
  explicit RankedLabels(const FramePlan& plan);

  // The frame's row, which must live as long as Tried is asked. most_bans: labels that a prefix
  // bars on its own at most. least: where all labels are tried, what has a lower log-probability is
  // left out all the same.
  void Rank(const LogProbRow& row, size_t most_bans, double least);
  // Whether all labels that masks leave are tried: what leads to a live prefix need not be asked
  // for.
  bool tries_all() const { return tries_all_; }
  // Labels to try behind `node`, which has a slot; none twice. View until the next call.
  absl::Span<const int32_t> Tried(const LabelHistories& histories, int32_t node);

 private:
  struct Ranked {
    double value = 0;
    int32_t label = 0;
  };
  static bool Better(const Ranked& a, const Ranked& b) {
    return a.value > b.value || (a.value == b.value && a.label < b.label);
  }
  bool IsOpen(int32_t label) const { return is_open_[static_cast<size_t>(label)]; }
  // The `count` best of `labels`, in no order; of all, those not below least_.
  void Select(absl::Span<const int32_t> labels, size_t count, std::vector<Ranked>& best);
  void TryMasked(const RuleBuffer& rules);
  void TryContinuations(absl::Span<const int32_t> labels, const RuleBuffer* rules);

  const FramePlan* plan_;
  const bool tries_all_;
  std::vector<bool> is_open_;
  double least_ = 0;
  const LogProbRow* row_ = nullptr;
  std::vector<Ranked> frame_;          // best first
  std::vector<int32_t> frame_labels_;  // the first of them, as many as are tried
  std::vector<Ranked> own_;
  std::vector<int32_t> allowed_;
  std::vector<int32_t> tried_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_RANKED_LABELS_H_
