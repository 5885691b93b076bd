// Attention of a decoder to source positions, as alignments of answers.
//
// AttentionRows::Read takes the weights of one row of a step from the output of the model, whose
// layout is given: which axis has the rows, with how many heads each, and which has the positions.
// It averages over heads and all other axes. Steps may be computed in parts, so that it also finds
// the part that has the row.
//
// AttentionHistory keeps the weights of all rows of all steps (or of the last step only), and
// Describe writes those on the path of one hypothesis: for each token the position with the largest
// weight, and all weights if the request asks for them.
#include "engine/beam/attention.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/base/check.h"

namespace beamwright::engine {

int64_t AttentionRows::NumRows(const ops::Tensor& part) const {
  if (layout_.heads_in_row == 0) {
    return 1;
  }
  return part.rank() > layout_.row_axis ? part.dim(layout_.row_axis) / layout_.heads_in_row : 0;
}

absl::Status AttentionRows::Read(int64_t row, std::vector<float>& weights) {
  while (part_ < parts_.size() && parts_[part_].has_value() &&
         row >= first_row_ + NumRows(parts_[part_])) {
    first_row_ += NumRows(parts_[part_++]);
  }
  if (part_ >= parts_.size()) {
    return absl::InternalError("the step gave no attention for some of its rows");
  }
  const ops::Tensor& part = parts_[part_];
  if (!part.has_value() || part.dtype() != ops::DType::kF32 ||
      part.rank() <= layout_.position_axis || part.num_elements() == 0) {
    return absl::InternalError(absl::StrCat("the step gave attention ", ops::ToString(part.shape()),
                                            ", which has no source positions"));
  }
  // [before, axis, between, other axis, after]: rows and positions, whichever comes first.
  int64_t before = 1, between = 1, after = 1;
  const int first = std::min(layout_.row_axis, layout_.position_axis);
  const int second = std::max(layout_.row_axis, layout_.position_axis);
  for (int axis = 0; axis < part.rank(); ++axis) {
    (axis < first    ? before
     : axis < second ? between
                     : after) *= axis == first || axis == second ? 1 : part.dim(axis);
  }
  const int64_t positions = part.dim(layout_.position_axis);
  const int64_t second_stride = after;
  const int64_t between_stride = part.dim(second) * after;
  const int64_t first_stride = between * between_stride;
  const bool rows_first = layout_.row_axis < layout_.position_axis;
  const int64_t row_stride = rows_first ? first_stride : second_stride;
  const int64_t position_stride = rows_first ? second_stride : first_stride;
  const int64_t heads_in_row =
      layout_.heads_in_row == 0 ? part.dim(layout_.row_axis) : layout_.heads_in_row;
  const int64_t first_head = (row - first_row_) * heads_in_row;
  const auto heads = static_cast<float>(before * between * after * heads_in_row);
  for (int64_t i = 0; i < positions; ++i) {
    float sum = 0;
    for (int64_t b = 0; b < before; ++b) {
      for (int64_t h = first_head; h < first_head + heads_in_row; ++h) {
        for (int64_t m = 0; m < between; ++m) {
          for (int64_t a = 0; a < after; ++a) {
            sum += part.data<float>()[b * part.dim(first) * first_stride + h * row_stride +
                                      m * between_stride + i * position_stride + a];
          }
        }
      }
    }
    const float weight = sum / heads;
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
