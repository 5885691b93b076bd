// LogProbRow: one frame's log-probabilities over the vocabulary, as a search or a scorer reads
// them: checked, with the temperature and the blank's penalty. Values are computed where they are
// asked for, since a frame asks for few of them.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_PROB_ROW_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_PROB_ROW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"

namespace beamwright::search {

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

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_PROB_ROW_H_
