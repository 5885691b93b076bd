#include "engine/search/frames/log_prob_row.h"

#include <cmath>
#include <limits>

#include "engine/search/frames/log_add.h"
#include "engine/search/row_search.h"
#include "ops/base/status.h"

namespace beamwright::search {

double BlankPenaltyShift(double blank_log_prob, double penalty) {
  if (penalty == 0) {
    return 0;
  }
  // log((1 - p) + p e^-penalty)
  return LogAdd(std::log(-std::expm1(blank_log_prob)), blank_log_prob - penalty);
}

absl::Status LogProbRow::Check(const FrameOptions& options, absl::Span<const float> values,
                               int64_t frame) {
  if (values.size() != static_cast<size_t>(options.vocabulary_size)) {
    return Invalid("frame ", frame, ": ", values.size(), " values, the vocabulary has ",
                   options.vocabulary_size);
  }
  const float most = options.temperature == 1 ? kRoundedUp : std::numeric_limits<float>::max();
  int num_bad = 0;
  for (const float value : values) {
    num_bad += value <= most ? 0 : 1;  // NaN is counted
  }
  for (size_t i = 0; num_bad > 0 && i < values.size(); ++i) {
    if (!(values[i] <= most)) {
      return Invalid("frame ", frame, ", token ", i, ": ", values[i],
                     options.temperature == 1 ? " is not a log-probability, which is at most 0"
                                              : " is not a number below infinity");
    }
  }
  return absl::OkStatus();
}

LogProbRow::LogProbRow(const FrameOptions& options, absl::Span<const float> values)
    : values_(values), temperature_(options.temperature), is_tempered_(options.temperature != 1) {
  if (is_tempered_) {
    const double largest = *std::max_element(values.begin(), values.end());
    if (largest > -std::numeric_limits<double>::infinity()) {
      double sum = 0;
      for (const float value : values) {
        sum += std::exp((value - largest) / temperature_);
      }
      log_sum_exp_ = largest / temperature_ + std::log(sum);
    }
  }
  const double blank = Tempered(options.blank);
  shift_ = BlankPenaltyShift(blank, options.blank_penalty);
  blank_ = blank - options.blank_penalty - shift_;
}

}  // namespace beamwright::search
