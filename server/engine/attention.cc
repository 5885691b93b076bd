#include "server/engine/attention.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/base/check.h"

namespace beamwright::engine {

absl::Status AttentionRows::Read(int64_t row, std::vector<float>& weights) {
  while (part_ < parts_.size() && parts_[part_].rank() > 0 &&
         row >= first_row_ + parts_[part_].dim(0)) {
    first_row_ += parts_[part_++].dim(0);
  }
  if (part_ >= parts_.size()) {
    return absl::InternalError("the step gave no attention for some of its rows");
  }
  const ops::Tensor& part = parts_[part_];
  if (!part.has_value() || part.dtype() != ops::DType::kF32 || part.rank() <= axis_ ||
      part.num_elements() == 0) {
    return absl::InternalError(absl::StrCat("the step gave attention ", ops::ToString(part.shape()),
                                            ", which has no source positions"));
  }
  const int64_t positions = part.dim(axis_);
  const int64_t per_row = part.num_elements() / part.dim(0);
  const int64_t heads = per_row / positions;
  const float* const from = part.data<float>() + (row - first_row_) * per_row;
  for (int64_t i = 0; i < positions; ++i) {
    float sum = from[i];
    for (int64_t head = 1; head < heads; ++head) {
      sum += from[head * positions + i];
    }
    const float weight = heads == 1 ? sum : sum / static_cast<float>(heads);
    if (!std::isfinite(weight)) {
      return absl::InternalError(
          absl::StrCat("the model's attention to source position ", i, " is not a finite number"));
    }
    weights.push_back(weight);
  }
  return absl::OkStatus();
}

absl::Status AttentionHistory::AddStep(AttentionRows& rows, int64_t first, int count) {
  if (!keep_all_) {
    weights_.clear();
    starts_.clear();
  }
  starts_.push_back(weights_.size());
  for (int row = 0; row < count; ++row) {
    const size_t before = weights_.size();
    if (absl::Status status = rows.Read(first + row, weights_); !status.ok()) {
      return status;
    }
    const int positions = static_cast<int>(weights_.size() - before);
    if (num_positions_ != 0 && positions != num_positions_) {
      return absl::InternalError(absl::StrCat("the model's attention is over ", positions,
                                              " source positions, before it was over ",
                                              num_positions_));
    }
    num_positions_ = positions;
  }
  return absl::OkStatus();
}

absl::Span<const float> AttentionHistory::row(int step, int row) const {
  const auto width = static_cast<size_t>(num_positions_);
  const size_t begin = starts_[static_cast<size_t>(step)] + static_cast<size_t>(row) * width;
  BW_DCHECK(begin + width <= weights_.size());
  return absl::MakeConstSpan(weights_).subspan(begin, width);
}

void AttentionHistory::Describe(const search::Hypothesis& hypothesis, bool soft,
                                v1::Hypothesis& out) const {
  for (size_t step = 0; step < hypothesis.rows.size(); ++step) {
    const absl::Span<const float> weights = row(static_cast<int>(step), hypothesis.rows[step]);
    out.add_alignment(
        static_cast<int32_t>(std::max_element(weights.begin(), weights.end()) - weights.begin()));
    if (soft) {
      out.mutable_attention()->mutable_values()->Add(weights.begin(), weights.end());
    }
  }
  if (soft) {
    out.mutable_attention()->set_rows(static_cast<int32_t>(hypothesis.rows.size()));
    out.mutable_attention()->set_columns(num_positions_);
  }
}

}  // namespace beamwright::engine
