// The transducer's internal language model (as in ILME): what predictor and joiner say without
// sound, which is subtracted when another language model is added.
//
// 1. List collects the label states of requests that ask for it.
// 2. Run calls the joiner for all of them in one batch, with a frame of zeros in the place of the
//    encoder's (MakeZeroFrame, once).
// 3. ToLabels removes the blank from the scores, and makes the others a distribution.
#include "engine/frames/internal_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/frames/slot_pool.h"
#include "ops/base/status.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::engine {

using ops::Tensor;

void InternalModel::List(TransducerRequest& request) {
  for (size_t i = 0; i < request.row_scorers.size(); ++i) {
    if (request.row_scorers[i].decoder >= 0 || request.is_scoring ||
        request.search->rows().empty()) {
      continue;
    }
    for (const search::LabelStep& step : request.search->label_steps()) {
      rows_.push_back({&request, i, step.slot, request.slots[static_cast<size_t>(step.slot)]});
    }
  }
}

absl::Status InternalModel::MakeZeroFrame(const ops::ExecutionContext& context) {
  const ops::Transducer& graphs = part_.graphs;
  ops::Shape shape = graphs.frame_shape;
  shape[0] = 1;
  const Tensor zeros = Tensor::Zeros(ops::DType::kF32, std::move(shape));
  if (graphs.frames == nullptr) {
    zero_frame_ = {zeros};
    return absl::OkStatus();
  }
  ops::RowGraph::Scratch scratch;
  std::vector<Tensor> results;
  BW_RETURN_IF_ERROR(graphs.frames->Run(context, {&zeros, 1}, {0}, scratch, none_, results));
  zero_frame_ = std::move(results);
  return absl::OkStatus();
}

absl::Status InternalModel::ToLabels(absl::Span<const float> scores, absl::Span<float> log_probs) {
  columns_.resize(scores.size());
  BW_RETURN_IF_ERROR(
      ops::ToLogProbs(scores, part_.graphs.joiner->score_kind(), absl::MakeSpan(columns_)));
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < columns_.size(); ++i) {
    largest = i == static_cast<size_t>(part_.blank) ? largest : std::max(largest, columns_[i]);
  }
  double sum = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    sum += i == static_cast<size_t>(part_.blank) ? 0 : std::exp(double{columns_[i]} - largest);
  }
  const double shift = largest + std::log(sum);
  for (size_t i = 0; i < log_probs.size(); ++i) {
    log_probs[i] = static_cast<float>(columns_[i] - shift);
  }
  return absl::OkStatus();
}

absl::Status InternalModel::Run(const ops::ExecutionContext& context, const SlotPool& pool) {
  if (rows_.empty()) {
    return absl::OkStatus();
  }
  if (zero_frame_.empty()) {
    BW_RETURN_IF_ERROR(MakeZeroFrame(context));
  }
  const ops::RowGraph& joiner = *part_.graphs.joiner;
  const auto count = static_cast<int64_t>(rows_.size());
  FillJoinerInputs(
      part_.graphs, pool, count,
      [this](int64_t /*row*/, int result) {
        return TensorRow{zero_frame_[static_cast<size_t>(result)], 0};
      },
      [this](int64_t row) { return rows_[static_cast<size_t>(row)].pool_slot; }, inputs_);
  CountRows(rows_.size(), own_rows_);
  BW_RETURN_IF_ERROR(joiner.Run(context, inputs_, own_rows_, scratch_, none_, results_));
  const float* scores = results_[0].data<float>();
  const int64_t columns = part_.graphs.num_columns;
  if (const ops::VocabularyProjection* const projection = joiner.projection();
      projection != nullptr) {
    scores_.resize(static_cast<size_t>(count * columns));
    projection->Scores(context, {scores, count, projection->depth(), projection->depth()},
                       {scores_.data(), count, columns, columns});
    scores = scores_.data();
  }
  for (int64_t i = 0; i < count; ++i) {
    const Row& row = rows_[static_cast<size_t>(i)];
    search::FusedRow& fused = row.request->label_rows[static_cast<size_t>(row.slot)];
    const auto tokens = static_cast<size_t>(row.request->model->parts().vocabulary_size());
    row.request->label_status.Update(
        Annotate(ToLabels({scores + i * columns, static_cast<size_t>(part_.num_columns)},
                          fused.Scores(row.scorer, tokens)),
                 "the joiner's scores for a frame of zeros"));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
