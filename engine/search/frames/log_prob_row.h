// One frame's log-probabilities: sums of probabilities by their logarithms, the row over the
// vocabulary, and the labels that a CTC search tries of it.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_PROB_ROW_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_PROB_ROW_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/label_histories.h"

namespace beamwright::search {

// Sums of probabilities by their logarithms, in double. One definition, so that a sum of alignments
// has the same bits wherever it is taken: terms are added in order, each sum with the larger first.

inline constexpr double kLogZero = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)); a and b below +infinity. Terms below e^-40 of the larger are below half a
// unit of the last place and are not computed.
inline double LogAdd(double a, double b) {
  if (a < b) {
    std::swap(a, b);
  }
  const double distance = b - a;  // NaN where both are -infinity
  return distance > -40 ? a + std::log1p(std::exp(distance)) : a;
}

// LogProbRow: one frame's log-probabilities over the vocabulary, as a search or a scorer reads
// them: checked, with the temperature and the blank's penalty. Values are computed where they are
// asked for, since a frame asks for few of them.

// What is taken off all log-probabilities of a row whose blank's logit was lowered by `penalty`, so
// that they are a distribution again; the blank's is lowered by the penalty as well.
double BlankPenaltyShift(double blank_log_prob, double penalty);

class LogProbRow {
 public:
  // values: [vocabulary_size], of frame `frame`; must live as long as this. InvalidArgument naming
  // frame and token: NaN, +infinity, or (without a temperature) above kRoundedUp; a wrong size.
  static absl::Status Check(const FrameOptions& options, absl::Span<const float> values,
                            int64_t frame);
  // Of values that passed.
  LogProbRow(const FrameOptions& options, absl::Span<const float> values);

  double label(int32_t label) const { return std::min(Tempered(label) - shift_, 0.0); }
  double blank() const { return blank_; }

 private:
  double Tempered(int32_t token) const {
    const double value = static_cast<double>(values_[static_cast<size_t>(token)]);
    return is_tempered_ ? value / temperature_ - log_sum_exp_ : std::min(value, 0.0);
  }

  absl::Span<const float> values_;
  double temperature_;
  bool is_tempered_;
  double log_sum_exp_ = 0;
  double shift_ = 0;
  double blank_ = 0;
};

// RankedLabels: which labels a CTC search tries of each prefix in a frame
// (FrameOptions::expansion): the best that masks leave it, and those that go on with a hotword that
// has begun.

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

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_PROB_ROW_H_
